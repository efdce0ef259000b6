// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Certificate is an observed certificate.
type Certificate struct {
	// Key of the Secret's data.
	Key string
	// NotBefore and NotAfter are the times between which it is valid.
	NotBefore, NotAfter time.Time
	// DER is the encoded certificate, without its private key.
	DER []byte
}

// certificateBlock is the type of a certificate in PEM.
const certificateBlock = "CERTIFICATE"

// CertificatesIn finds the certificates in the data of a Secret, under all keys. It omits what it cannot parse.
func CertificatesIn(data map[string][]byte) []Certificate {
	var certificates []Certificate
	for _, key := range slices.Sorted(maps.Keys(data)) {
		for block, rest := pem.Decode(data[key]); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != certificateBlock {
				continue
			}
			if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
				certificates = append(certificates, Certificate{Key: key, NotBefore: certificate.NotBefore, NotAfter: certificate.NotAfter, DER: block.Bytes})
			}
		}
	}

	return certificates
}

// CertificateInUse is a certificate and its Secret.
type CertificateInUse struct {
	// SecretName and Key are the Secret and the key in it.
	SecretName, Key string
	// IsCA is true for a CA that verifies another certificate in use.
	IsCA bool
	// NotBefore and NotAfter are the start and the end of the validity.
	NotBefore, NotAfter time.Time
}

// String names the certificate in messages.
func (c CertificateInUse) String() string { return c.Key + " of Secret " + c.SecretName }

// CertificateUse is a certificate that members present, and the CA bundle with which the other side verifies it.
type CertificateUse struct {
	// Secret is the name of the Secret with the certificate. CA is that of the Secret with the CA bundle.
	Secret, CA string
	// Usages are the extended key usages that the connection needs.
	Usages []x509.ExtKeyUsage
	// Names are the DNS names that the other side verifies. Nil: none.
	Names []string
	// IsIdle is true if there is no other side: no member dials the peer URL of a single member.
	IsIdle bool
}

// TLSOf are the Secrets for TLS that a canonical Etcd names.
func TLSOf(etcd *druidv1alpha1.Etcd) MountedTLS {
	var m MountedTLS
	if tls := helper.ClientTLS(etcd); tls != nil {
		m.ClientCA, m.Server, m.Client = tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name
	}
	if tls := helper.PeerTLS(etcd); tls != nil {
		m.PeerCA, m.Peer = tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name
	}
	if tls := helper.BackupTLS(etcd); tls != nil {
		m.BackupCA, m.BackupServer = tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name
	}

	return m
}

// CertificateUses are the certificates that pods of the Etcd present with the mounted Secrets. Nil: they mount none.
func (m MountedTLS) CertificateUses(etcd *druidv1alpha1.Etcd) []CertificateUse {
	const server, client = x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	local := helper.LocalHostName(etcd)
	servers, peers := []string{local}, []string(nil)
	// Members that are managed externally are dialed at their addresses. The sidecar of a single member does not dial the client Service.
	if helper.ManagesPods(etcd) && etcd.Spec.Replicas > 1 {
		servers = append(servers, helper.ClientServiceName(etcd))
		for ordinal := range int(etcd.Spec.Replicas) {
			peers = append(peers, PeerHost(etcd, ordinal))
		}
	}
	uses := []CertificateUse{
		{Secret: m.Server, CA: m.ClientCA, Usages: []x509.ExtKeyUsage{server}, Names: servers},
		{Secret: m.Client, CA: m.ClientCA, Usages: []x509.ExtKeyUsage{client}},
		{Secret: m.Peer, CA: m.PeerCA, Usages: []x509.ExtKeyUsage{server, client}, Names: peers, IsIdle: etcd.Spec.Replicas == 1},
		{Secret: m.BackupServer, CA: m.BackupCA, Usages: []x509.ExtKeyUsage{server}, Names: []string{local}},
	}

	return slices.DeleteFunc(uses, func(use CertificateUse) bool { return use.Secret == "" })
}

// CertificatesProblem returns why a certificate that pods with these Secrets present does not verify, with the names of both Secrets and the remedy.
// Empty: all verify.
func CertificatesProblem(etcd *druidv1alpha1.Etcd, o Observation, tls MountedTLS, now time.Time) string {
	for _, use := range tls.CertificateUses(etcd) {
		if problem := o.certificateProblem(use, now); problem != "" {
			return problem
		}
	}

	return ""
}

// MountedCertificatesProblem returns the same for all Secrets that pods mount, or will mount when they are recreated.
func MountedCertificatesProblem(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) string {
	for _, tls := range o.mountedTLS() {
		if problem := CertificatesProblem(etcd, o, tls, now); problem != "" {
			return problem
		}
	}

	return ""
}

// NewCertificatesProblem returns the same for the certificates that the spec of a canonical Etcd names and that no pod mounts yet.
func NewCertificatesProblem(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) string {
	mounted := o.mountedUses(etcd)
	for _, use := range TLSOf(etcd).CertificateUses(etcd) {
		if slices.ContainsFunc(mounted, func(m CertificateUse) bool { return m.Secret == use.Secret && m.CA == use.CA }) {
			continue
		}
		if problem := o.certificateProblem(use, now); problem != "" {
			return problem
		}
	}

	return ""
}

// CertificatesPreflight refuses to stop a healthy member whose next pod could not serve with the certificates of the user that it mounts. The
// rotation of the CAs ensures that issued certificates verify. It refuses a pod as well that would not reach another running member. replaced is the
// name of the pod that stops. Empty: a member is added.
func CertificatesPreflight(etcd *druidv1alpha1.Etcd, o Observation, replaced string, now time.Time) Preflight {
	named := TLSOf(etcd).Names()
	for _, use := range o.StatefulSet.TLS.CertificateUses(etcd) {
		if !slices.Contains(named, use.Secret) {
			use.Names = nil // until the last stage of a change to another CA, and before members with new names are added
		}
		isIssued := slices.ContainsFunc(o.Issued, func(s IssuedSecret) bool { return s.Name == use.Secret })
		if problem := o.certificateProblem(use, now); problem != "" && !isIssued {
			return Preflight{Refusal: problem}
		}
	}
	for _, pod := range o.Pods {
		if pod.Name == replaced || !pod.IsRunning() {
			continue
		}
		if problem := o.peerProblem(etcd, pod, o.StatefulSet.TLS); problem != "" {
			return Preflight{Refusal: problem}
		}
	}

	return Preflight{}
}

func (o Observation) mountedUses(etcd *druidv1alpha1.Etcd) []CertificateUse {
	var uses []CertificateUse
	for _, mounted := range o.mountedTLS() {
		uses = append(uses, mounted.CertificateUses(etcd)...)
	}

	return uses
}

// certificateProblem returns why a certificate does not verify. Empty: it does, or a Secret does not exist, see MissingSecrets.
func (o Observation) certificateProblem(use CertificateUse, now time.Time) string {
	secret, ca := o.secret(use.Secret), o.secret(use.CA)
	if use.IsIdle || secret == nil || ca == nil || !secret.Exists || !ca.Exists {
		return ""
	}
	presented, key := o.certificatesUnder(use.Secret, corev1.TLSCertKey), o.caKeyOf(use.CA)
	bundle := o.certificatesUnder(use.CA, key)
	switch {
	case len(presented) == 0:
		return fmt.Sprintf("Secret %s has no certificate under the key %s: add one that Secret %s verifies", use.Secret, corev1.TLSCertKey, use.CA)
	case len(bundle) == 0:
		return fmt.Sprintf("Secret %s has no certificate under the key %s: add the CA of Secret %s", use.CA, cmp.Or(key, "ca.crt"), use.Secret)
	case secret.HasOtherKey:
		return fmt.Sprintf("%s of Secret %s is not the private key of its certificate: replace both", corev1.TLSPrivateKeyKey, use.Secret)
	}
	if cause := chainProblem(presented, bundle, use, now); cause != "" {
		return fmt.Sprintf("%s of Secret %s does not verify with %s of Secret %s: %s", corev1.TLSCertKey, use.Secret, bundle[0].Key, use.CA, cause)
	}

	return ""
}

// issuerProblem returns why no chain verifies a certificate for its usages at any time, with the remedy. Empty: one does.
func issuerProblem(presented, bundle []Certificate, use CertificateUse) string {
	if len(bestChain(presented, bundle, x509.ExtKeyUsageAny)) == 0 {
		leaf, err := x509.ParseCertificate(presented[0].DER)
		if err != nil {
			return "it cannot be parsed: " + err.Error()
		}

		return fmt.Sprintf("the bundle has no CA that has signed it, and its issuer is %s: add this CA to the bundle, or replace the certificate", leaf.Issuer)
	}
	for _, usage := range use.Usages {
		if len(bestChain(presented, bundle, usage)) == 0 {
			return fmt.Sprintf("it has no extended key usage %s: replace it by one with this usage", usageNames[usage])
		}
	}

	return ""
}

// chainProblem returns the cause and the remedy. Empty: the certificate verifies.
func chainProblem(presented, bundle []Certificate, use CertificateUse, now time.Time) string {
	if problem := issuerProblem(presented, bundle, use); problem != "" {
		return problem
	}
	chain := bestChain(presented, bundle, x509.ExtKeyUsageAny)
	for _, name := range use.Names {
		if chain[0].VerifyHostname(name) != nil {
			return fmt.Sprintf("it is not valid for the name %s: replace it by one with this name", name)
		}
	}
	for _, link := range chain {
		switch {
		case now.After(link.NotAfter):
			return fmt.Sprintf("%s expired at %s: replace it", link.Subject, link.NotAfter.UTC().Format(time.RFC3339))
		case now.Before(link.NotBefore):
			return fmt.Sprintf("%s is not valid before %s", link.Subject, link.NotBefore.UTC().Format(time.RFC3339))
		}
	}

	return ""
}

// usageNames are the names of usages in RFC 5280.
var usageNames = map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "serverAuth", x509.ExtKeyUsageClientAuth: "clientAuth"}

// CertificatesInUse returns the certificates that the pods of a canonical Etcd present, with the CAs that verify them, ordered by the names of their Secrets. The
// issued certificate of applications follows. Of one key, the certificate that expires first is the last. A CA of a bundle that verifies none of them is
// not in use.
func CertificatesInUse(etcd *druidv1alpha1.Etcd, o Observation) []CertificateInUse {
	var certificates []CertificateInUse
	for _, use := range o.mountedUses(etcd) {
		certificates = append(certificates, o.chainFor(use)...)
	}
	slices.SortFunc(certificates, func(a, b CertificateInUse) int {
		return cmp.Or(cmp.Compare(a.SecretName, b.SecretName), cmp.Compare(a.Key, b.Key), b.NotAfter.Compare(a.NotAfter))
	})
	certificates = slices.Compact(certificates)
	if secret := o.ApplicationSecret(); secret != nil && !secret.NotAfter.IsZero() {
		certificates = append(certificates, CertificateInUse{SecretName: secret.Name, Key: corev1.TLSCertKey, NotBefore: secret.NotBefore, NotAfter: secret.NotAfter})
	}

	return certificates
}

// mountedTLS are the different sets of Secrets that pods mount, or will mount when they are recreated.
func (o Observation) mountedTLS() []MountedTLS {
	sets := []MountedTLS{o.StatefulSet.TLS}
	for _, pod := range o.Pods {
		if !slices.Contains(sets, pod.TLS) {
			sets = append(sets, pod.TLS)
		}
	}

	return sets
}

// chainFor returns the chain that verifies a certificate and is valid for the longest time, the certificate first. It is the certificate alone if
// no chain verifies it. Nil: there is no certificate.
func (o Observation) chainFor(use CertificateUse) []CertificateInUse {
	presented := o.certificatesUnder(use.Secret, corev1.TLSCertKey)
	if len(presented) == 0 {
		return nil
	}
	bundle := o.certificatesUnder(use.CA, o.caKeyOf(use.CA))
	chain := []CertificateInUse{inUse(use.Secret, presented[0], false)}
	for i, link := range bestChain(presented, bundle, x509.ExtKeyUsageAny) {
		is := func(c Certificate) bool { return bytes.Equal(c.DER, link.Raw) }
		switch inBundle := slices.IndexFunc(bundle, is); {
		case i == 0: // the certificate itself
		case inBundle >= 0:
			chain = append(chain, inUse(use.CA, bundle[inBundle], true))
		default:
			chain = append(chain, inUse(use.Secret, presented[slices.IndexFunc(presented, is)], true))
		}
	}

	return chain
}

func inUse(secret string, c Certificate, isCA bool) CertificateInUse {
	return CertificateInUse{SecretName: secret, Key: c.Key, IsCA: isCA, NotBefore: c.NotBefore, NotAfter: c.NotAfter}
}

// certificatesUnder returns the certificates under a key of a Secret, in their order. Under an empty key are those of all keys except tls.crt.
func (o Observation) certificatesUnder(secret, key string) []Certificate {
	observed := o.secret(secret)
	if observed == nil {
		return nil
	}
	var certificates []Certificate
	for _, certificate := range observed.Certificates {
		if certificate.Key == key || key == "" && certificate.Key != corev1.TLSCertKey {
			certificates = append(certificates, certificate)
		}
	}

	return certificates
}

func (o Observation) secret(name string) *Secret {
	if i := slices.IndexFunc(o.Secrets, func(s Secret) bool { return s.Name == name }); i >= 0 {
		return &o.Secrets[i]
	}

	return nil
}

// caKeyOf is the key of the CA bundle in a mounted Secret. It is the one that the spec names, else the recorded one, else the usual one that
// exists. Empty: it is not known.
func (o Observation) caKeyOf(name string) string {
	secret := o.secret(name)
	if secret == nil {
		return ""
	}
	for _, use := range secret.Uses {
		if len(use.Keys) == 1 {
			return use.Keys[0]
		}
	}
	if key := o.recordedCAKey(name); key != "" {
		return key
	}
	for _, key := range usualCAKeys {
		if slices.Contains(secret.Keys, key) {
			return key
		}
	}

	return ""
}

// recordedCAKey is the key of the CA bundle in a Secret according to the last accepted generation. Empty: it is not recorded.
func (o Observation) recordedCAKey(name string) string {
	accepted := o.State.Accepted
	if accepted == nil {
		return ""
	}
	if accepted.Spec != nil {
		for _, ref := range helper.CAReferences(&druidv1alpha1.Etcd{Spec: *accepted.Spec}) {
			if ref.Name == name && ptr.Deref(ref.DataKey, "") != "" {
				return *ref.DataKey
			}
		}
	}

	return accepted.CADataKeys[name]
}

// MountedCAKeys returns the recorded keys of the CA bundles in mounted Secrets, by the names of the Secrets. Nil: none is recorded.
func MountedCAKeys(o Observation) map[string]string {
	var keys map[string]string
	for _, mounted := range o.mountedTLS() {
		for _, name := range []string{mounted.ClientCA, mounted.PeerCA, mounted.BackupCA} {
			key := o.recordedCAKey(name)
			if name == "" || key == "" {
				continue
			}
			if keys == nil {
				keys = map[string]string{}
			}
			keys[name] = key
		}
	}

	return keys
}

// usualCAKeys are the keys of CA bundles whose reference names none, in the order of precedence.
var usualCAKeys = []string{"bundle.crt", "ca.crt"}

// maxChainTimes bounds how many times are tried at which a chain may be valid.
const maxChainTimes = 20

// bestChain returns the chain from the first of the presented certificates to a CA of the bundle that is valid for the longest time. It may have
// expired, or not be valid yet. Nil: no CA of the bundle verifies the certificate for the usage at any time.
func bestChain(presented, bundle []Certificate, usage x509.ExtKeyUsage) []*x509.Certificate {
	leaf, options := (*x509.Certificate)(nil), x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{usage}}
	var times []time.Time
	add := func(certificates []Certificate, to func(*x509.Certificate)) {
		for _, certificate := range certificates {
			if parsed, err := x509.ParseCertificate(certificate.DER); err == nil {
				to(parsed)
				times = append(times, parsed.NotBefore)
			}
		}
	}
	add(presented[:1], func(c *x509.Certificate) { leaf = c })
	add(presented[1:], options.Intermediates.AddCert)
	add(bundle, options.Roots.AddCert)
	if leaf == nil {
		return nil
	}
	// A chain that is ever valid is valid when the last of its certificates begins. Often, this is the first one. The CAs of a bundle may all be older.
	times = slices.DeleteFunc(times, func(begin time.Time) bool { return begin.Before(leaf.NotBefore) })
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)

	var best []*x509.Certificate
	for _, options.CurrentTime = range times[:min(len(times), maxChainTimes)] {
		chains, _ := leaf.Verify(options) // no chain at this time
		for _, chain := range chains {
			if best == nil || endOf(chain).After(endOf(best)) {
				best = chain
			}
		}
	}

	return best
}

// endOf is when the first certificate of a chain expires.
func endOf(chain []*x509.Certificate) time.Time {
	return slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) }).NotAfter
}
