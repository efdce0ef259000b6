// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// CertificatesIn finds the certificates in the data of a Secret, under all keys. It omits what it cannot parse.
func CertificatesIn(data map[string][]byte) []Certificate {
	var certificates []Certificate
	for _, key := range slices.Sorted(maps.Keys(data)) {
		for block, rest := pem.Decode(data[key]); block != nil; block, rest = pem.Decode(rest) {
			if block.Type != "CERTIFICATE" {
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
}

// CertificateUses are the certificates that pods present with the mounted Secrets. Nil: they mount none.
func (m MountedTLS) CertificateUses() []CertificateUse {
	uses := []CertificateUse{
		{Secret: m.Server, CA: m.ClientCA},
		{Secret: m.Client, CA: m.ClientCA},
		{Secret: m.Peer, CA: m.PeerCA},
		{Secret: m.BackupServer, CA: m.BackupCA},
	}

	return slices.DeleteFunc(uses, func(use CertificateUse) bool { return use.Secret == "" })
}

// CertificatesInUse returns the certificates that the pods present, with the CAs that verify them, ordered by the names of their Secrets. The
// issued certificate of applications follows. Of one key, the certificate that expires first is the last. A CA of a bundle that verifies none of them is
// not in use.
func CertificatesInUse(o Observation) []CertificateInUse {
	var certificates []CertificateInUse
	for _, mounted := range o.mountedTLS() {
		for _, use := range mounted.CertificateUses() {
			certificates = append(certificates, o.chainFor(use)...)
		}
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
	if accepted := o.State.Accepted; accepted != nil && accepted.CADataKeys[name] != "" {
		return accepted.CADataKeys[name]
	}
	for _, key := range usualCAKeys {
		if slices.Contains(secret.Keys, key) {
			return key
		}
	}

	return ""
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
	// A chain that is ever valid is valid at the start of the validity of one of its certificates.
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
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
