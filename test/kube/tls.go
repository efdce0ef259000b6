// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"strings"
	"sync"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// endpoint is a TLS client or server with the PEM content of its Secrets. An empty value means that it has no such Secret.
type endpoint struct {
	name string
	// clientCA and peerCA are the CA bundles that the endpoint trusts.
	clientCA, peerCA string
	// server, client and peer are the certificates that the endpoint presents.
	server, client, peer string
	// hasIssued says of each content whether the operator has issued it.
	hasIssued map[string]bool
}

// isIssued returns true if the endpoint has only Secrets that the operator has issued.
func (e endpoint) isIssued() bool {
	return !slices.Contains(slices.Collect(maps.Values(e.hasIssued)), false)
}

// checkTLS verifies that all endpoints trust the certificates of each other. The endpoints are the running pods, the next
// pod, and an application. Until a rotation removes the old CA, the rendered Secrets contain every CA that a pod trusts.
func (k *Cluster) checkTLS() {
	if k.checkedTLS == k.api.version {
		return
	}
	k.checkedTLS = k.api.version
	var pods []endpoint
	for _, pod := range listOf[*corev1.Pod](k) {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, k.endpointOf(pod.Name, pod.Spec))
		}
	}
	endpoints := slices.Clone(pods)
	for _, mr := range listOf[*resourcesv1alpha1.ManagedResource](k) {
		for _, obj := range k.decoded(mr) {
			statefulSet, is := obj.(*appsv1.StatefulSet)
			if !is {
				continue
			}
			rendered := k.endpointOf("the next pod", statefulSet.Spec.Template.Spec)
			if *statefulSet.Spec.Replicas == 1 && replacesAlone(pods, rendered) {
				endpoints = nil
			}
			endpoints = append(endpoints, rendered)
			recorded, err := state.Decode(mr.Annotations)
			if err != nil || recorded.Rotation == nil || recorded.Rotation.Stage != state.StageCompleteBundle {
				k.checkRendered(rendered, pods)
			}
		}
	}
	endpoints = append(endpoints, k.applications(endpoints)...)
	for _, a := range endpoints {
		for _, b := range endpoints {
			k.checkHandshake(a, b, a.clientCA, b.server, "server")
			k.checkHandshake(a, b, a.clientCA, b.client, "client")
			k.checkHandshake(a, b, a.peerCA, b.peer, "peer")
		}
	}
}

// replacesAlone returns true if the next pod replaces the only one. Both need to verify each other only if the operator has issued all Secrets,
// because it rotates their CAs in stages.
func replacesAlone(pods []endpoint, next endpoint) bool {
	return len(pods) == 1 && (!next.isIssued() || !pods[0].isIssued())
}

// applications returns an application that uses the connection Secret. In the last stage of a change to certificates of the user, members reject
// its issued certificate.
func (k *Cluster) applications(members []endpoint) []endpoint {
	connection := getOrNil[*corev1.Secret](k, k.Etcd.Name+"-connection")
	if connection == nil {
		return nil
	}
	application := endpoint{name: "an application", clientCA: string(connection.Data["ca.crt"]), client: string(connection.Data["tls.crt"])}
	for _, member := range members {
		if member.clientCA != "" && !member.hasIssued[member.clientCA] && !isSigned(member.clientCA, application.client) {
			return nil
		}
	}
	return []endpoint{application}
}

func (k *Cluster) checkHandshake(a, b endpoint, bundle, certificate, kind string) {
	if bundle != "" && certificate != "" && !isSigned(bundle, certificate) {
		k.reportViolationOnce("%s does not trust the %s certificate of %s", a.name, kind, b.name)
	}
}

// checkRendered verifies that the issued Secrets that are rendered contain every CA that a pod with issued Secrets trusts.
func (k *Cluster) checkRendered(rendered endpoint, pods []endpoint) {
	for _, pod := range pods {
		for _, bundles := range [][2]string{{pod.clientCA, rendered.clientCA}, {pod.peerCA, rendered.peerCA}} {
			if !pod.hasIssued[bundles[0]] || !rendered.hasIssued[bundles[1]] {
				continue
			}
			for ca := range strings.SplitAfterSeq(bundles[0], "-----END CERTIFICATE-----\n") {
				if bundles[1] != "" && strings.TrimSpace(ca) != "" && !strings.Contains(bundles[1], strings.TrimSpace(ca)) {
					k.reportViolationOnce("a bundle is rendered without a CA that %s trusts", pod.name)
				}
			}
		}
	}
}

// endpointOf returns the endpoint that runs with a pod spec.
func (k *Cluster) endpointOf(name string, spec corev1.PodSpec) endpoint {
	p := endpoint{name: name, hasIssued: map[string]bool{}}
	for volume, data := range map[string]*string{
		"etcd-ca": &p.clientCA, "etcd-peer-ca": &p.peerCA, "etcd-server-tls": &p.server, "etcd-client-tls": &p.client, "etcd-peer-server-tls": &p.peer,
	} {
		for _, mounted := range spec.Volumes {
			if mounted.Name != volume || mounted.Secret == nil {
				continue
			}
			secret := getOrNil[*corev1.Secret](k, mounted.Secret.SecretName)
			if secret == nil {
				continue
			}
			if *data = string(secret.Data["tls.crt"]); strings.HasSuffix(volume, "-ca") {
				*data = bundleIn(secret)
			}
			p.hasIssued[*data] = secret.Labels["managed-by"] == "secrets-manager"
		}
	}
	return p
}

// reachesQuorum returns false if so many running members and the one of the pod reject each other that it has no quorum.
func (k *Cluster) reachesQuorum(pod *corev1.Pod) bool {
	rejecting, all := 0, 0
	for _, member := range k.etcd.Members() {
		if member.Learner {
			continue
		}
		all++
		other := getOrNil[*corev1.Pod](k, member.Name)
		if !k.external[member.ID] && k.hasMember(other, &member) && !k.arePeers(pod, other) {
			rejecting++
		}
	}
	return rejecting == 0 || etcdcluster.IsQuorate(all-rejecting, all)
}

// arePeers returns true if the members of two pods verify each other, or if one of them has no peer TLS.
func (k *Cluster) arePeers(a, b *corev1.Pod) bool {
	if peerSecrets(a.Spec) == peerSecrets(b.Spec) {
		return true
	}
	one, other := k.endpointOf(a.Name, a.Spec), k.endpointOf(b.Name, b.Spec)
	return one.peerCA == "" || other.peerCA == "" || isSigned(one.peerCA, other.peer) && isSigned(other.peerCA, one.peer)
}

// peerSecrets are the names of the Secrets for connections between members.
func peerSecrets(spec corev1.PodSpec) [2]string {
	var names [2]string
	for _, volume := range spec.Volumes {
		switch {
		case volume.Secret == nil:
		case volume.Name == "etcd-peer-ca":
			names[0] = volume.Secret.SecretName
		case volume.Name == "etcd-peer-server-tls":
			names[1] = volume.Secret.SecretName
		}
	}
	return names
}

// bundleIn returns the CA bundle in a Secret, whatever its key is.
func bundleIn(secret *corev1.Secret) string {
	bundle := ""
	for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
		if !strings.HasPrefix(key, "tls.") {
			bundle += string(secret.Data[key])
		}
	}
	return bundle
}

// signatures caches verified signatures by bundle and certificate.
var signatures sync.Map

// isSigned returns true if a CA of the bundle has signed the certificate. It does not check the validity period.
func isSigned(bundle, certificate string) bool {
	known, found := signatures.Load(bundle + certificate)
	if found {
		return known.(bool)
	}
	presented := certificatesOf(certificate)
	signed := len(presented) > 0 && slices.ContainsFunc(certificatesOf(bundle), func(ca *x509.Certificate) bool { return presented[0].CheckSignatureFrom(ca) == nil })
	signatures.Store(bundle+certificate, signed)
	return signed
}

func certificatesOf(text string) []*x509.Certificate {
	var certificates []*x509.Certificate
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			panic(err)
		}
		certificates = append(certificates, certificate)
	}
	return certificates
}
