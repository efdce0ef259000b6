// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ForClients returns only the Secrets for connections of clients.
func (m MountedTLS) ForClients() MountedTLS {
	return MountedTLS{ClientCA: m.ClientCA, Server: m.Server, Client: m.Client}
}

// ForPeers returns only the Secrets for connections between members.
func (m MountedTLS) ForPeers() MountedTLS { return MountedTLS{PeerCA: m.PeerCA, Peer: m.Peer} }

// ca is the Secret with the CA bundle of one kind of connection. Empty: plaintext.
func (m MountedTLS) ca() string { return cmp.Or(m.ClientCA, m.PeerCA) }

// CAStage says with which Secrets the next pod can be created, so that the pod and all others verify each other. It is about one kind of connection.
type CAStage struct {
	// Kept has the certificates of the pod, which other pods mount now. Nil: they are the wanted ones.
	Kept *MountedTLS
	// KeptCA is the Secret with the combined CA bundle of the pod. Pods mount it now. Empty: it is another one.
	KeptCA string
	// Trusted is the CA bundle of the pod: all CAs that pods trust now, and the wanted ones. Nil: it is KeptCA, or else the wanted CA bundle.
	Trusted []Certificate
	// Problem is why this cannot be decided, with the remedy. Empty: it is decided.
	Problem string
}

// IsLast is true if the pod has the wanted Secrets.
func (s CAStage) IsLast() bool { return s.Kept == nil && s.KeptCA == "" && s.Trusted == nil }

// ClientStage returns the stage in which the cluster of a canonical Etcd changes its Secrets for clients to the wanted ones.
func ClientStage(etcd *druidv1alpha1.Etcd, o Observation, wanted MountedTLS) CAStage {
	return o.caStage(etcd, MountedTLS.ForClients, wanted)
}

// PeerStage returns the same for connections between members.
func PeerStage(etcd *druidv1alpha1.Etcd, o Observation, wanted MountedTLS) CAStage {
	return o.caStage(etcd, MountedTLS.ForPeers, wanted)
}

// caStage compares the wanted Secrets with those of all pods that may run at the same time. A pod may present the wanted certificates if every other
// pod verifies them. It may trust only the wanted CAs if they verify the certificates of every other pod. If both do not hold, the change has
// three stages. Members verify only the client certificates of clients: while the wanted CAs verify these, clients need no stages. First, all pods trust the CAs of both. Then all present the wanted certificates. Then all trust only the wanted CAs. A stage ends when
// all members are healthy with its Secrets. The observation shows that, so that no stage is recorded.
func (o Observation) caStage(etcd *druidv1alpha1.Etcd, kind func(MountedTLS) MountedTLS, wanted MountedTLS) CAStage {
	wanted = kind(wanted)
	mounted := o.concurrentTLS(etcd, kind)
	if wanted.ca() == "" || len(mounted) == 0 {
		return CAStage{}
	}
	if template := kind(o.StatefulSet.TLS); o.isUnfinished(etcd, kind, template, wanted) {
		return CAStage{Kept: template.keptFor(wanted), KeptCA: template.ca()}
	}
	if !slices.ContainsFunc(o.Pods, func(pod Pod) bool { return !o.IsHealthy(pod) || kind(pod.TLS) != wanted }) {
		return CAStage{} // the next reconciliation restores the pod template
	}
	stage, isVerified, verifiesAll := CAStage{}, true, true
	for _, other := range mounted {
		if other == wanted {
			continue
		}
		if problem := o.unknownTLS(other); problem != "" && other.ca() != wanted.ca() {
			return CAStage{Problem: problem}
		}
		isVerified = isVerified && o.verifies(etcd, other.ca(), wanted)
		other.Server = "" // only its clients verify a server, and they have CA bundles of their own
		verifiesAll = verifiesAll && o.verifies(etcd, wanted.ca(), other)
	}
	if !isVerified && (!verifiesAll || wanted.Peer != "") {
		stage.Kept = o.mostVerified(etcd, kind, mounted, wanted)
	}
	if !verifiesAll {
		stage.Trusted = o.bundleOf(append(mounted, wanted))
	}

	return stage
}

// mayBecomeHealthy is true for a pod whose member serves. It is also true for a pod whose member may serve again without a new pod: its node is
// unreachable, or its etcd restarts. Only a pod whose certificates and those of the pod template verify each other can return from a restart.
func (o Observation) mayBecomeHealthy(etcd *druidv1alpha1.Etcd, kind func(MountedTLS) MountedTLS, pod Pod) bool {
	mounted, template := kind(pod.TLS), kind(o.StatefulSet.TLS)
	switch {
	case o.IsHealthy(pod):
		return true
	case pod.Deleting:
		return false
	case pod.IsNodeUnreachable():
		return true
	default:
		return o.unknownTLS(mounted) == "" && o.unknownTLS(template) == "" && o.verifies(etcd, mounted.ca(), template) && o.verifies(etcd, template.ca(), mounted)
	}
}

// concurrentTLS returns the Secrets with TLS of all members that may run together with the next one: those that are healthy or may become healthy. It
// returns those of the pod template as well if they exist. Other members are replaced first. Nil: the next pod runs alone.
func (o Observation) concurrentTLS(etcd *druidv1alpha1.Etcd, kind func(MountedTLS) MountedTLS) []MountedTLS {
	running := max(len(o.Pods), int(o.StatefulSet.SpecReplicas))
	if running == 0 || running == 1 && (!helper.UsesSurge(etcd) || etcd.Spec.Replicas > 1) {
		return nil
	}
	template, sets := kind(o.StatefulSet.TLS), []MountedTLS(nil)
	if o.unknownTLS(template) == "" {
		sets = append(sets, template)
	}
	for _, pod := range o.Pods {
		if mounted := kind(pod.TLS); o.mayBecomeHealthy(etcd, kind, pod) && !slices.Contains(sets, mounted) {
			sets = append(sets, mounted)
		}
	}

	return slices.DeleteFunc(sets, func(mounted MountedTLS) bool { return mounted.ca() == "" })
}

// mostVerified returns the mounted Secrets whose certificates most members verify that may run together with the next one. The pod template is preferred.
// Nil: they have the wanted certificates.
func (o Observation) mostVerified(etcd *druidv1alpha1.Etcd, kind func(MountedTLS) MountedTLS, mounted []MountedTLS, wanted MountedTLS) *MountedTLS {
	best, most := mounted[0], -1
	for _, candidate := range mounted {
		count := 0
		for _, pod := range o.Pods {
			if o.mayBecomeHealthy(etcd, kind, pod) && o.verifies(etcd, kind(pod.TLS).ca(), candidate) {
				count++
			}
		}
		if count > most {
			best, most = candidate, count
		}
	}

	return best.keptFor(wanted)
}

// keptFor returns the Secrets if they have other certificates than the wanted ones, or else nil.
func (m MountedTLS) keptFor(wanted MountedTLS) *MountedTLS {
	if m.Server == wanted.Server && m.Client == wanted.Client && m.Peer == wanted.Peer {
		return nil
	}

	return &m
}

// isUnfinished is true if the pod template has a combined CA bundle, and not all members are healthy with them. In the first stage, all members
// present the same certificates. In the second stage, the pod template has the wanted ones.
func (o Observation) isUnfinished(etcd *druidv1alpha1.Etcd, kind func(MountedTLS) MountedTLS, template, wanted MountedTLS) bool {
	if bundle := o.secret(template.ca()); !IsCombinedCA(template.ca()) || template.ca() == wanted.ca() || bundle == nil || !bundle.Exists {
		return false
	}
	mayServe := func(pod Pod) bool { return o.mayBecomeHealthy(etcd, kind, pod) }
	presentsOthers := func(pod Pod) bool { return mayServe(pod) && kind(pod.TLS).keptFor(template) != nil }
	isFirst := slices.ContainsFunc(o.Pods, mayServe) && !slices.ContainsFunc(o.Pods, presentsOthers) && o.verifies(etcd, template.ca(), wanted)
	if template.keptFor(wanted) != nil && !isFirst {
		return false
	}

	return o.State.Surge.IsActive() || len(o.Pods) < int(o.StatefulSet.SpecReplicas) || slices.ContainsFunc(o.Pods, func(pod Pod) bool { return !o.IsHealthy(pod) })
}

// bundleOf returns the CAs in all bundles, each once, in an order that depends only on their content.
func (o Observation) bundleOf(sets []MountedTLS) []Certificate {
	var bundle []Certificate
	for _, set := range sets {
		for _, ca := range o.certificatesUnder(set.ca(), o.caKeyOf(set.ca())) {
			bundle = append(bundle, Certificate{Key: BundleKey, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, DER: ca.DER})
		}
	}
	slices.SortFunc(bundle, func(a, b Certificate) int { return bytes.Compare(a.DER, b.DER) })

	return slices.CompactFunc(bundle, func(a, b Certificate) bool { return bytes.Equal(a.DER, b.DER) })
}

// combinedCAInfix separates the name of a CA from the hash in the names of bundles that the operator combines. It differs from the infix of issued bundles,
// which determine the TLS mode of a cluster without a record.
const combinedCAInfix = "-combined-"

// CombinedCAName is the name of the Secret with a bundle of CAs from several Secrets. caName is the name of the config of the CA for the same
// connections. The same bundle always has the same name.
func CombinedCAName(caName string, bundle []byte) string {
	sum := sha256.Sum256(bundle)

	return caName + combinedCAInfix + hex.EncodeToString(sum[:4])
}

// IsCombinedCA is true for a name of CombinedCAName.
func IsCombinedCA(name string) bool { return strings.Contains(name, combinedCAInfix) }

// BundleKey is the key of a CA bundle in a Secret that the operator writes.
const BundleKey = "bundle.crt"

// EncodeBundle encodes a CA bundle in PEM.
func EncodeBundle(bundle []Certificate) []byte {
	var encoded []byte
	for _, ca := range bundle {
		encoded = append(encoded, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: ca.DER})...)
	}

	return encoded
}

// unknownTLS returns why the certificates in mounted Secrets are not known, with the remedy. Empty: they are.
func (o Observation) unknownTLS(mounted MountedTLS) string {
	for _, name := range mounted.Names() {
		secret := o.secret(name)
		if secret == nil || secret.Exists && len(secret.Certificates) > 0 {
			continue
		}
		what := "does not exist"
		if secret.Exists {
			what = "has no certificate"
		}

		return fmt.Sprintf("Secret %s, which pods mount, %s, and other members may not verify the new certificates: restore the Secret, delete the pods, or hibernate the cluster and wake it up with the new certificates", name, what)
	}

	return ""
}

// verifies is true if a CA bundle verifies the certificates of one kind of connection for their usages, at any time and for any name. It is true
// if a Secret was not observed, or does not exist.
func (o Observation) verifies(etcd *druidv1alpha1.Etcd, ca string, presented MountedTLS) bool {
	for _, use := range presented.CertificateUses(etcd) {
		use.CA = ca
		if o.trustProblem(use) != "" {
			return false
		}
	}

	return true
}

// trustProblem returns why the CA bundle of one pod does not verify a certificate of another pod, apart from names and validity. Empty: it does, or a Secret
// does not exist.
func (o Observation) trustProblem(use CertificateUse) string {
	presented, bundle := o.certificatesUnder(use.Secret, corev1.TLSCertKey), o.certificatesUnder(use.CA, o.caKeyOf(use.CA))
	if len(presented) == 0 || len(bundle) == 0 {
		return ""
	}
	if cause := issuerProblem(presented, bundle, use); cause != "" {
		return fmt.Sprintf("%s of Secret %s does not verify with %s of Secret %s: %s", corev1.TLSCertKey, use.Secret, bundle[0].Key, use.CA, cause)
	}

	return ""
}

// peerProblem returns why the member of a pod and one with other Secrets do not verify each other. Empty: they do, or one of them has no peer TLS.
func (o Observation) peerProblem(etcd *druidv1alpha1.Etcd, pod Pod, next MountedTLS) string {
	a, b := pod.TLS.ForPeers(), next.ForPeers()
	if a.ca() == "" || b.ca() == "" || a == b {
		return ""
	}
	for _, pair := range [][2]MountedTLS{{a, b}, {b, a}} {
		for _, use := range pair[0].CertificateUses(etcd) {
			use.CA = pair[1].ca()
			if problem := o.trustProblem(use); problem != "" {
				return fmt.Sprintf("the next member and pod %s would reject each other: %s", pod.Name, problem)
			}
		}
	}

	return ""
}

// ArePeersTrusted is true if members with these Secrets verify each other, or if one of them has no peer TLS.
func (o Observation) ArePeersTrusted(etcd *druidv1alpha1.Etcd, a, b MountedTLS) bool {
	return o.peerProblem(etcd, Pod{TLS: a}, b) == ""
}

// AddSecret adds a Secret that was written after the observation. A Secret that was observed stays as it is.
func (o *Observation) AddSecret(name string, data map[string][]byte) {
	if o.secret(name) != nil {
		return
	}
	added := Secret{Name: name, Exists: true, Certificates: CertificatesIn(data)}
	for key := range data {
		added.Keys = append(added.Keys, key)
	}
	slices.Sort(added.Keys)
	o.Secrets = append(slices.Clone(o.Secrets), added)
	slices.SortFunc(o.Secrets, func(a, b Secret) int { return cmp.Compare(a.Name, b.Name) })
}
