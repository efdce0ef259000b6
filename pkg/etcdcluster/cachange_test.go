// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The change to another CA", func() {
	var (
		now           = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		always        = fixture.Validity{}
		old, next     = fixture.NewAuthority("old", always), fixture.NewAuthority("next", always)
		third         = fixture.NewAuthority("third", always)
		names         = []string{"test-local", "test-client", "*.test-peer.test-ns.svc"}
		oldCA, nextCA = old.PEM(), next.PEM()
		secrets       = map[string]map[string][]byte{
			"ca-old": {"ca.crt": oldCA}, "ca-next": {"ca.crt": nextCA}, "ca-both": {"bundle.crt": slices.Concat(nextCA, oldCA)}, "ca-third": {"ca.crt": third.PEM()},
			"leaf-old": old.Leaf(always, names...), "leaf-next": next.Leaf(always, names...), "leaf-third": third.Leaf(always, names...),
			"leaf-renewed": old.Leaf(always, names...), "leaf-expired": old.Leaf(fixture.Validity{NotAfter: now.Add(-time.Hour)}, names...), "leaf-unnamed": next.Leaf(always),
			"leaf-servers": next.LeafFor([]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, always, names...), "ca-empty": {},
		}
	)
	// set returns the Secrets for peers in a text like old/next: the CA and the certificate.
	set := func(text string) etcdcluster.MountedTLS {
		ca, leaf, hasTLS := strings.Cut(strings.Replace(text, "combined/", "main-combined-1/", 1), "/")
		if !hasTLS {
			return etcdcluster.MountedTLS{}
		}

		return etcdcluster.MountedTLS{PeerCA: "ca-" + ca, Peer: "leaf-" + leaf}
	}
	// observe returns the cluster of a pod template and of pods with these Secrets. Pods with a leading ! are not healthy. The nodes of pods
	// with a leading ? are unreachable.
	observe := func(template string, pods ...string) etcdcluster.Observation {
		o := etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: template != "", TLS: set(template), SpecReplicas: int32(len(pods))}}
		for ordinal, pod := range pods {
			text, isUnhealthy := strings.CutPrefix(pod, "!")
			text, isUnreachable := strings.CutPrefix(text, "?")
			o.Pods = append(o.Pods, etcdcluster.Pod{
				Name: fmt.Sprintf("test-%d", ordinal), Ordinal: ordinal, TLS: set(text), Ready: !isUnhealthy && !isUnreachable, ContainersReady: !isUnhealthy,
				Containers: []etcdcluster.Container{{Name: "etcd", State: etcdcluster.ContainerRunning}},
			})
		}
		for name, data := range secrets {
			o.AddSecret(name, data)
		}
		o.AddSecret("ca-main-combined-1", map[string][]byte{"bundle.crt": slices.Concat(oldCA, nextCA)})

		o.Secrets = append(o.Secrets, etcdcluster.Secret{Name: "ca-gone"}, etcdcluster.Secret{Name: "leaf-gone"})

		return o
	}
	three := fixture.Etcd(fixture.WithTLS(), fixture.WithReplicas(3))
	trusted := func(stage etcdcluster.CAStage) string {
		var issuers []string
		for _, ca := range stage.Trusted {
			parsed, err := x509.ParseCertificate(ca.DER)
			Expect(err).NotTo(HaveOccurred())
			issuers = append(issuers, parsed.Subject.CommonName)
		}
		slices.Sort(issuers)

		return strings.Join(issuers, "+")
	}

	DescribeTable("of three members", func(o etcdcluster.Observation, wanted, kept, combined string) {
		stage := etcdcluster.PeerStage(three, o, set(wanted))
		Expect(stage.Problem).To(BeEmpty())
		Expect(cmp.Or(trusted(stage), stage.KeptCA)).To(Equal(combined))
		if kept == "" {
			Expect(stage.Kept).To(BeNil())
		} else {
			Expect(stage.Kept).To(HaveValue(HaveField("Peer", "leaf-"+kept)))
		}
	},
		Entry("is none if nothing runs", observe(""), "next/next", "", ""),
		Entry("is none without a change", observe("old/old", "old/old", "old/old", "old/old"), "old/old", "", ""),
		Entry("is none for a renewed certificate", observe("old/old", "old/old", "old/old", "old/old"), "old/renewed", "", ""),
		Entry("is none for another bundle with the same CA", observe("old/old", "old/old", "old/old", "old/old"), "both/old", "", ""),
		Entry("is none if all trust the CA already", observe("both/old", "both/old", "both/old", "both/old"), "both/next", "", ""),
		Entry("is none if all present certificates of the CA", observe("both/next", "both/next", "both/next", "both/next"), "next/next", "", ""),
		Entry("is none if TLS is enabled", observe("", "plaintext", "plaintext", "plaintext"), "next/next", "", ""),
		Entry("is none if TLS is disabled", observe("old/old", "old/old", "old/old", "old/old"), "plaintext", "", ""),
		Entry("is none if certificates expired", observe("old/expired", "old/expired", "old/expired", "old/expired"), "old/renewed", "", ""),
		Entry("is none if certificates lack the names of new members", observe("next/unnamed", "next/unnamed", "next/unnamed"), "next/next", "", ""),
		Entry("begins with the trust in both", observe("old/old", "old/old", "old/old", "old/old"), "next/next", "old", "next+old"),
		Entry("begins before the template has changed", observe("old/old", "old/old", "old/old", "old/old"), "both/next", "old", ""),
		Entry("continues the first stage", observe("combined/old", "old/old", "combined/old", "combined/old"), "next/next", "old", "next+old"),
		Entry("continues the first stage while a pod is missing", observe("combined/old", "old/old", "combined/old"), "next/next", "old", "next+old"),
		Entry("continues with the certificates", observe("combined/old", "combined/old", "combined/old", "combined/old"), "next/next", "", "next+old"),
		Entry("continues the second stage", observe("combined/next", "combined/old", "combined/next", "combined/old"), "next/next", "", "next+old"),
		Entry("returns to the first stage for a pod of an earlier template", observe("combined/next", "combined/old", "combined/next", "old/old"), "next/next", "old", "next+old"),
		Entry("ends with the trust in the new CA", observe("combined/next", "combined/next", "combined/next", "combined/next"), "next/next", "", ""),
		Entry("continues the third stage", observe("next/next", "combined/next", "next/next", "combined/next"), "next/next", "", ""),
		Entry("is withdrawn in the first stage", observe("combined/old", "combined/old", "combined/old", "old/old"), "old/old", "", ""),
		Entry("is withdrawn in the second stage", observe("combined/next", "combined/next", "combined/old", "combined/old"), "old/old", "", "next+old"),
		Entry("is withdrawn in the third stage", observe("next/next", "next/next", "combined/next", "combined/next"), "old/old", "next", "next+old"),
		Entry("is replaced by a third one", observe("combined/next", "combined/next", "combined/old", "combined/old"), "third/third", "next", "next+old+third"),
		Entry("does not end the first stage before all members are healthy", observe("combined/old", "combined/old", "combined/old", "!combined/old"), "next/next", "old", "ca-main-combined-1"),
		Entry("does not end the first stage before an unreachable member trusts both", observe("combined/old", "?old/old", "!combined/old"), "next/next", "old", "ca-main-combined-1"),
		Entry("does not end the first stage before members trust both whose etcd restarts", observe("combined/old", "!old/old", "!old/old"), "next/next", "old", "ca-main-combined-1"),
		Entry("does not end the second stage before all members are healthy", observe("combined/next", "combined/next", "combined/next", "!combined/next"), "next/next", "", "ca-main-combined-1"),
		Entry("is withdrawn if the new certificates do not start", observe("combined/next", "combined/old", "combined/old", "!combined/next"), "old/old", "", "next+old"),
		Entry("heals a member that was separated", observe("next/next", "old/old", "old/old", "!next/next"), "next/next", "old", "next+old"),
		Entry("is none for another bundle while a member is not healthy", observe("old/old", "old/old", "old/old", "!old/old"), "both/old", "", ""),
		Entry("is none for other names while a member is not healthy", observe("old/old", "old/old", "old/old", "!old/old"), "both/renewed", "", ""),
		Entry("is none if the Secrets of a pod that is not healthy are gone", observe("gone/gone", "old/old", "old/old", "!gone/gone"), "both/old", "", ""),
		Entry("is none if only another writer has changed the template", observe("third/third", "old/old", "old/old", "old/old"), "old/old", "", ""),
		Entry("lets a separated member return", observe("old/old", "old/old", "old/old", "!next/next"), "old/old", "", ""),
	)

	It("is none for a single member that restarts", func() {
		Expect(etcdcluster.PeerStage(fixture.Etcd(fixture.WithTLS()), observe("old/old", "old/old"), set("next/next"))).To(Equal(etcdcluster.CAStage{}))
	})

	It("has stages for a single member that a surge replaces", func() {
		etcd := fixture.Etcd(fixture.WithTLS(), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge) })
		Expect(etcdcluster.PeerStage(etcd, observe("old/old", "old/old"), set("next/next")).Trusted).NotTo(BeEmpty())
	})

	It("keeps the certificates for servers and clients together", func() {
		o := observe("old/old", "old/old", "old/old", "old/old")
		clients := func(ca, leaf string) etcdcluster.MountedTLS {
			return etcdcluster.MountedTLS{ClientCA: "ca-" + ca, Server: "leaf-" + leaf, Client: "leaf-" + leaf}
		}
		o.StatefulSet.TLS = clients("old", "old")
		for i := range o.Pods {
			o.Pods[i].TLS = o.StatefulSet.TLS
		}
		Expect(etcdcluster.ClientStage(three, o, clients("next", "next"))).To(HaveField("Kept", HaveValue(Equal(clients("old", "old")))))
		Expect(etcdcluster.ClientStage(three, o, clients("both", "next"))).To(Equal(etcdcluster.CAStage{}), "members accept the client certificates in use")
	})

	It("waits if a Secret that pods mount is gone", func() {
		o := observe("old/old", "old/old", "old/old", "old/old")
		o.Secrets = slices.DeleteFunc(o.Secrets, func(s etcdcluster.Secret) bool { return s.Name == "leaf-old" })
		o.Secrets = append(o.Secrets, etcdcluster.Secret{Name: "leaf-old"})
		Expect(etcdcluster.PeerStage(three, o, set("next/next")).Problem).To(HavePrefix("Secret leaf-old, which pods mount, does not exist"))
		Expect(etcdcluster.PeerStage(three, o, set("old/renewed"))).To(Equal(etcdcluster.CAStage{}), "the CA stays")
	})

	It("knows the key to which an earlier spec had a reference", func() {
		o := observe("old/old", "old/old", "old/old", "old/old")
		i := slices.IndexFunc(o.Secrets, func(s etcdcluster.Secret) bool { return s.Name == "ca-old" })
		o.Secrets[i].Certificates = etcdcluster.CertificatesIn(map[string][]byte{"own.crt": oldCA, "ca.crt": nextCA})
		Expect(trusted(etcdcluster.PeerStage(three, o, set("next/next")))).To(Equal("next"), "ca.crt is the usual key")
		o.State.Accepted = &state.Accepted{CADataKeys: map[string]string{"ca-old": "own.crt"}}
		Expect(trusted(etcdcluster.PeerStage(three, o, set("next/next")))).To(Equal("next+old"))
		Expect(etcdcluster.MountedCAKeys(o)).To(Equal(map[string]string{"ca-old": "own.crt"}))
	})

	DescribeTable("allows a pod only if all other running members verify it, and it verifies them", func(o etcdcluster.Observation, replaced, refusal string) {
		Expect(etcdcluster.CertificatesPreflight(three, o, replaced, now).Refusal).To(ContainSubstring(refusal))
		if refusal == "" {
			Expect(etcdcluster.CertificatesPreflight(three, o, replaced, now).Refusal).To(BeEmpty())
		}
	},
		Entry("in the first stage", observe("both/old", "old/old", "old/old", "old/old"), "test-0", ""),
		Entry("in the last stage", observe("next/next", "both/next", "both/next", "both/next"), "test-0", ""),
		Entry("not with another CA", observe("next/next", "old/old", "old/old", "old/old"), "test-0",
			"the next member and pod test-1 would reject each other: tls.crt of Secret leaf-old does not verify with ca.crt of Secret ca-next: the bundle has no CA that has signed it, and its issuer is CN=old"),
		Entry("not if the others do not trust it", observe("both/next", "old/old", "old/old", "old/old"), "test-0",
			"the next member and pod test-1 would reject each other: tls.crt of Secret leaf-next does not verify with ca.crt of Secret ca-old"),
		Entry("instead of the only one that rejects it", observe("next/next", "old/old", "both/next", "both/next"), "test-0", ""),
		Entry("not as an additional member", observe("next/next", "old/old", "both/next", "both/next"), "", "pod test-0 would reject"),
		Entry("next to members without TLS", observe("next/next", "plaintext", "plaintext"), "test-0", ""),
	)
})
