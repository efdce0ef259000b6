// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"sync"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// endpoint is a TLS client or server with the PEM content of its Secrets. An empty value means that it has no such Secret.
type endpoint struct {
	name string
	// clientCA and peerCA are the CA bundles that the endpoint trusts.
	clientCA, peerCA string
	// server, client and peer are the certificates that the endpoint presents.
	server, client, peer string
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
			endpoints = append(endpoints, rendered)
			recorded, err := state.Decode(mr.Annotations)
			if err != nil || recorded.Rotation == nil || recorded.Rotation.Stage != state.StageCompleteBundle {
				k.checkRendered(rendered, pods)
			}
		}
	}
	if connection := getOrNil[*corev1.Secret](k, k.Etcd.Name+"-connection"); connection != nil {
		endpoints = append(endpoints, endpoint{name: "an application", clientCA: string(connection.Data["ca.crt"]), client: string(connection.Data["tls.crt"])})
	}
	for _, a := range endpoints {
		for _, b := range endpoints {
			k.checkHandshake(a, b, a.clientCA, b.server, "server")
			k.checkHandshake(a, b, a.clientCA, b.client, "client")
			k.checkHandshake(a, b, a.peerCA, b.peer, "peer")
		}
	}
}

func (k *Cluster) checkHandshake(a, b endpoint, bundle, certificate, kind string) {
	if bundle != "" && certificate != "" && !isSigned(bundle, certificate) {
		k.reportViolationOnce("%s does not trust the %s certificate of %s", a.name, kind, b.name)
	}
}

// checkRendered verifies that the rendered Secrets contain every CA that a pod trusts.
func (k *Cluster) checkRendered(rendered endpoint, pods []endpoint) {
	for _, pod := range pods {
		for _, bundles := range [][2]string{{pod.clientCA, rendered.clientCA}, {pod.peerCA, rendered.peerCA}} {
			for ca := range strings.SplitAfterSeq(bundles[0], "-----END CERTIFICATE-----\n") {
				if bundles[1] != "" && strings.TrimSpace(ca) != "" && !strings.Contains(bundles[1], strings.TrimSpace(ca)) {
					k.reportViolationOnce("a bundle is rendered without a CA that %s trusts", pod.name)
				}
			}
		}
	}
}

// endpointOf returns the endpoint that runs with a pod spec. It ignores Secrets that the operator has not issued.
func (k *Cluster) endpointOf(name string, spec corev1.PodSpec) endpoint {
	p := endpoint{name: name}
	for volume, data := range map[string]*string{
		"etcd-ca": &p.clientCA, "etcd-peer-ca": &p.peerCA, "etcd-server-tls": &p.server, "etcd-client-tls": &p.client, "etcd-peer-server-tls": &p.peer,
	} {
		for _, mounted := range spec.Volumes {
			if mounted.Name != volume || mounted.Secret == nil {
				continue
			}
			if secret := getOrNil[*corev1.Secret](k, mounted.Secret.SecretName); secret != nil && secret.Labels["managed-by"] == "secrets-manager" {
				*data = string(secret.Data["bundle.crt"]) + string(secret.Data["tls.crt"])
			}
		}
	}
	return p
}

// signatures caches verified signatures by bundle and certificate.
var signatures sync.Map

// isSigned returns true if a CA of the bundle has signed the certificate. It does not check the validity period.
func isSigned(bundle, certificate string) bool {
	known, found := signatures.Load(bundle + certificate)
	if found {
		return known.(bool)
	}
	leaf := certificatesOf(certificate)[0]
	signed := slices.ContainsFunc(certificatesOf(bundle), func(ca *x509.Certificate) bool { return leaf.CheckSignatureFrom(ca) == nil })
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
