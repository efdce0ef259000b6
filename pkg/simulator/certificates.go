// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// issuedCertificates are a CA and a certificate of it, which stand for all that the operator issues instead of the certificates of the user.
var issuedCertificates = sync.OnceValues(func() (ca, leaf []byte) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	template := func(name string) *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
	}
	issuer := template("simulated CA")
	issuer.IsCA, issuer.BasicConstraintsValid, issuer.KeyUsage, issuer.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	sign := func(certificate *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(nil, certificate, issuer, key.Public(), key)
		if err != nil {
			panic(err) // the same template each time
		}

		return der
	}

	return sign(issuer), sign(template("simulated certificate"))
})

// issueFor adds the content of the Secrets that the operator issues, if pods mount Secrets of the user for the same connections. The content of other
// issued Secrets is not known, and their CAs are rotated in stages of their own.
func (o *Operator) issueFor(observed *etcdcluster.Observation, names secrets.Names) {
	ca, leaf := issuedCertificates()
	add := func(mode state.TLSMode, caName string, leaves ...string) {
		if mode != state.ModeUserProvided {
			return
		}
		o.addSecret(observed, caName, etcdcluster.Certificate{Key: etcdcluster.BundleKey, DER: ca})
		for _, name := range leaves {
			o.addSecret(observed, name, etcdcluster.Certificate{Key: corev1.TLSCertKey, DER: leaf})
			if issued := &o.Cluster.Objects.Issued; !slices.ContainsFunc(*issued, func(s etcdcluster.IssuedSecret) bool { return s.Name == name }) {
				*issued = append(slices.Clone(*issued), etcdcluster.IssuedSecret{Name: name, ConfigName: name})
			}
		}
	}
	add(o.firstModes.Client, names.ClientCA, names.Server, names.Client)
	add(o.firstModes.Peer, names.PeerCA, names.Peer)
}

// addSecret adds a Secret with certificates to the cluster and to an observation of it.
func (o *Operator) addSecret(observed *etcdcluster.Observation, name string, certificates ...etcdcluster.Certificate) {
	secret := etcdcluster.Secret{Name: name, Exists: true, Certificates: certificates, Keys: []string{certificates[0].Key}}
	for _, list := range []*[]etcdcluster.Secret{&o.Cluster.Objects.Secrets, &observed.Secrets} {
		if !slices.ContainsFunc(*list, func(s etcdcluster.Secret) bool { return s.Name == name }) {
			*list = append(slices.Clone(*list), secret)
		}
	}
}

// arePeersTrusted is true if the members of two pods verify each other.
func (c *Cluster) arePeersTrusted(a, b etcdcluster.MountedTLS) bool {
	pair := [2]etcdcluster.MountedTLS{a.ForPeers(), b.ForPeers()}
	if pair[0] == pair[1] || len(c.Objects.Secrets) == 0 {
		return true
	}
	known, found := c.trusted[pair]
	if !found {
		known = c.Objects.ArePeersTrusted(c.Etcd, a, b)
		c.trusted[pair] = known
	}

	return known
}
