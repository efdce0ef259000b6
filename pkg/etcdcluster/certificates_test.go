// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"crypto/x509"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Certificates", func() {
	const server, client = x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth
	var (
		now    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		always = fixture.Validity{}
		own    = fixture.NewAuthority("own", always)
		other  = fixture.NewAuthority("other", always)
		names  = []string{"test-local", "test-client", "*.test-peer.test-ns.svc"}
	)
	// observe returns a cluster whose pods mount the Secrets of fixture.WithTLS, of which some are changed.
	observe := func(change func(data map[string]map[string][]byte)) etcdcluster.Observation {
		leaf := own.Leaf(always, names...)
		data := map[string]map[string][]byte{
			"client-ca": {"ca.crt": own.PEM()}, "client-server": leaf, "client-client": own.LeafFor([]x509.ExtKeyUsage{client}, always),
			"peer-ca": {"ca.crt": own.PEM()}, "peer-server": leaf, "backup-ca": {"ca.crt": own.PEM()}, "backup-server": leaf,
		}
		change(data)
		o := etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true, TLS: etcdcluster.TLSOf(fixture.Etcd(fixture.WithTLS()))}}
		for name, content := range data {
			o.Secrets = append(o.Secrets, etcdcluster.Secret{Name: name, Exists: true, Keys: []string{"ca.crt"}, Certificates: etcdcluster.CertificatesIn(content)})
		}

		return o
	}

	DescribeTable("verify", func(change func(map[string]map[string][]byte), problem string) {
		etcd, o := fixture.Etcd(fixture.WithTLS(), fixture.WithReplicas(3)), observe(change)
		Expect(etcdcluster.MountedCertificatesProblem(etcd, o, now)).To(Equal(problem))
		Expect(etcdcluster.NewCertificatesProblem(etcd, o, now)).To(BeEmpty(), "the pods mount them already")
		o.StatefulSet.TLS = etcdcluster.MountedTLS{}
		Expect(etcdcluster.NewCertificatesProblem(etcd, o, now)).To(Equal(problem))
		Expect(etcdcluster.MountedCertificatesProblem(etcd, o, now)).To(BeEmpty())
	},
		Entry("if they belong together", func(map[string]map[string][]byte) {}, ""),
		Entry("not if another CA has the Secret", func(data map[string]map[string][]byte) { data["client-ca"]["ca.crt"] = other.PEM() },
			"tls.crt of Secret client-server does not verify with ca.crt of Secret client-ca: the bundle has no CA that has signed it, and its issuer is CN=own: add this CA to the bundle, or replace the certificate"),
		Entry("if the bundle has both CAs", func(data map[string]map[string][]byte) {
			data["client-ca"]["ca.crt"] = slices.Concat(other.PEM(), own.PEM())
		}, ""),
		Entry("through an intermediate CA in the file of the certificate", func(data map[string]map[string][]byte) {
			intermediate := other.Intermediate("intermediate", always)
			leaf := intermediate.Leaf(always, names...)
			leaf["tls.crt"] = slices.Concat(leaf["tls.crt"], intermediate.PEM())
			data["peer-ca"], data["peer-server"] = map[string][]byte{"ca.crt": other.PEM()}, leaf
		}, ""),
		Entry("not without a usage", func(data map[string]map[string][]byte) {
			data["peer-server"] = own.LeafFor([]x509.ExtKeyUsage{server}, always, names...)
		},
			"tls.crt of Secret peer-server does not verify with ca.crt of Secret peer-ca: it has no extended key usage clientAuth: replace it by one with this usage"),
		Entry("not without a name", func(data map[string]map[string][]byte) { data["client-server"] = own.Leaf(always, "test-local") },
			"tls.crt of Secret client-server does not verify with ca.crt of Secret client-ca: it is not valid for the name test-client: replace it by one with this name"),
		Entry("not after its end", func(data map[string]map[string][]byte) {
			data["backup-server"] = own.Leaf(fixture.Validity{NotAfter: now.Add(-time.Second)}, names...)
		}, "tls.crt of Secret backup-server does not verify with ca.crt of Secret backup-ca: CN=leaf expired at 2026-01-02T03:04:04Z: replace it"),
		Entry("not before its start", func(data map[string]map[string][]byte) {
			data["backup-server"] = own.Leaf(fixture.Validity{NotBefore: now.Add(time.Second)}, names...)
		}, "tls.crt of Secret backup-server does not verify with ca.crt of Secret backup-ca: CN=leaf is not valid before 2026-01-02T03:04:06Z"),
		Entry("not without a certificate", func(data map[string]map[string][]byte) { data["peer-server"] = nil },
			"Secret peer-server has no certificate under the key tls.crt: add one that Secret peer-ca verifies"),
		Entry("not without a CA", func(data map[string]map[string][]byte) { data["peer-ca"] = nil },
			"Secret peer-ca has no certificate under the key ca.crt: add the CA of Secret peer-server"),
	)

	It("of a single member need no names for peers", func() {
		o := observe(func(data map[string]map[string][]byte) { data["peer-server"] = own.Leaf(always) })
		Expect(etcdcluster.MountedCertificatesProblem(fixture.Etcd(fixture.WithTLS(), fixture.WithReplicas(1)), o, now)).To(BeEmpty())
	})

	It("are not judged while a Secret does not exist", func() {
		o := observe(func(data map[string]map[string][]byte) { data["client-ca"] = nil })
		for i := range o.Secrets {
			o.Secrets[i].Exists = o.Secrets[i].Name != "client-ca"
		}
		Expect(etcdcluster.MountedCertificatesProblem(fixture.Etcd(fixture.WithTLS()), o, now)).To(BeEmpty())
	})
})
