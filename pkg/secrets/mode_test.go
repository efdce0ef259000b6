// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// testCase is the input of an entry: references in the spec, enableTLS, and the modes of the running cluster.
type testCase struct {
	client, peer, sidecar bool
	enableTLS             *bool
	peerOff               bool
	running               string
	pinned                bool
}

// modes returns the modes of the running cluster.
func (tc testCase) modes() state.TLSModes {
	modes := fixture.TLSModes(tc.running)
	modes.PeerPinned = tc.pinned

	return modes
}

func (tc testCase) etcd() *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "garden"}}
	etcd.Spec.Etcd.EnableTLS = tc.enableTLS
	tls := druidv1alpha1.TLSConfig{}
	tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = "given-ca", "given-server", "given-client"
	if tc.client {
		etcd.Spec.Etcd.ClientUrlTLS = tls.DeepCopy()
	}
	if tc.peer {
		etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: tls}
	}
	if tc.sidecar {
		etcd.Spec.Backup.TLS = tls.DeepCopy()
	}
	if tc.peerOff {
		etcd.Annotations = map[string]string{"druid.gardener.cloud/peer-tls": "off"}
	}

	return etcd
}

var _ = Describe("Decide", func() {
	DescribeTable("decides who owns the PKI",
		func(tc testCase, expected string) {
			modes, errs := secrets.Decide(tc.etcd(), tc.modes(), nil)
			Expect(errs).To(BeEmpty())
			Expect(modes.String()).To(Equal(expected))
		},
		Entry("a new cluster without references gets all certificates", testCase{}, "client=provisioned,peer=provisioned"),
		Entry("a new cluster with all references uses them", testCase{client: true, peer: true, sidecar: true}, "client=given,peer=given"),
		Entry("a new cluster with references only for clients gets no other certificates, as from gardenlet", testCase{client: true, sidecar: true}, "client=given,peer=plaintext"),
		Entry("client TLS without the sidecar's makes the sidecar use the same Secrets", testCase{client: true}, "client=given,peer=plaintext"),
		Entry("a new cluster with references only for peers gets no other certificates", testCase{peer: true}, "client=plaintext,peer=given"),

		Entry("true manages everything", testCase{enableTLS: new(true)}, "client=provisioned,peer=provisioned"),
		Entry("true manages what is missing for peers", testCase{client: true, enableTLS: new(true)}, "client=given,peer=provisioned"),
		Entry("true manages what is missing for clients", testCase{peer: true, enableTLS: new(true)}, "client=provisioned,peer=given"),
		Entry("true completes the sidecar's TLS by TLS for clients", testCase{sidecar: true, enableTLS: new(true)}, "client=provisioned,peer=provisioned"),
		Entry("true enables TLS in a running cluster", testCase{enableTLS: new(true), running: "client=plaintext,peer=plaintext"}, "client=provisioned,peer=provisioned"),
		Entry("true replaces removed references", testCase{enableTLS: new(true), running: "client=given,peer=given"}, "client=provisioned,peer=provisioned"),
		Entry("true enables TLS after false", testCase{client: true, enableTLS: new(true), running: "client=disabled,peer=disabled"}, "client=given,peer=provisioned"),

		Entry("false is plaintext", testCase{enableTLS: new(false)}, "client=disabled,peer=disabled"),
		Entry("false is plaintext regardless of references", testCase{client: true, peer: true, sidecar: true, enableTLS: new(false)}, "client=disabled,peer=disabled"),
		Entry("false disables TLS in a running cluster", testCase{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, "client=disabled,peer=disabled"),

		Entry("a running cluster stays encrypted when true is pruned", testCase{running: "client=provisioned,peer=provisioned"}, "client=provisioned,peer=provisioned"),
		Entry("a running cluster stays plaintext when false is pruned", testCase{running: "client=disabled,peer=disabled"}, "client=disabled,peer=disabled"),
		Entry("a running cluster stays plaintext when false is pruned and references are set", testCase{client: true, peer: true, running: "client=disabled,peer=disabled"}, "client=disabled,peer=disabled"),
		Entry("a running cluster without TLS does not get TLS by default", testCase{running: "client=plaintext,peer=plaintext"}, "client=plaintext,peer=plaintext"),
		Entry("a running cluster keeps managed certificates when true is pruned", testCase{client: true, running: "client=given,peer=provisioned"}, "client=given,peer=provisioned"),
		Entry("references enable TLS in a running cluster", testCase{client: true, running: "client=plaintext,peer=plaintext"}, "client=given,peer=plaintext"),
		Entry("references replace managed certificates", testCase{client: true, peer: true, running: "client=provisioned,peer=provisioned"}, "client=given,peer=given"),
		Entry("TLS between members is added to a running cluster as gardenlet does", testCase{client: true, sidecar: true, peer: true, running: "client=given,peer=plaintext"}, "client=given,peer=given"),
		Entry("TLS between members is disabled in a running cluster by the annotation", testCase{client: true, peerOff: true, running: "client=given,peer=given"}, "client=given,peer=plaintext"),
		Entry("the annotation disables TLS between members that kept it with managed certificates", testCase{client: true, peerOff: true, running: "client=given,peer=provisioned", pinned: true}, "client=given,peer=plaintext"),
		Entry("the annotation disables TLS between members that kept it, with managed certificates for clients too", testCase{peerOff: true, running: "client=provisioned,peer=provisioned", pinned: true}, "client=provisioned,peer=plaintext"),
		Entry("an old annotation disables nothing when true is pruned", testCase{client: true, peerOff: true, running: "client=given,peer=provisioned"}, "client=given,peer=provisioned"),
		Entry("managed certificates ignore the annotation", testCase{peerOff: true, running: "client=provisioned,peer=provisioned"}, "client=provisioned,peer=provisioned"),
		Entry("certificates are issued for members regardless of the annotation, if the field enables TLS", testCase{client: true, peerOff: true, enableTLS: new(true), running: "client=given,peer=given"}, "client=given,peer=provisioned"),
		Entry("the field disables all TLS, with or without the annotation", testCase{client: true, peerOff: true, enableTLS: new(false), running: "client=given,peer=given"}, "client=disabled,peer=disabled"),
		Entry("references take precedence over the annotation", testCase{client: true, peer: true, peerOff: true, running: "client=given,peer=given"}, "client=given,peer=given"),
		Entry("a running cluster of etcd-druid with TLS only for the sidecar is unchanged", testCase{sidecar: true, running: "client=plaintext,peer=plaintext"}, "client=plaintext,peer=plaintext"),
	)

	DescribeTable("refuses invalid combinations, and states the remedy",
		func(tc testCase, field, hint string) {
			_, errs := secrets.Decide(tc.etcd(), tc.modes(), nil)
			Expect(errs).To(HaveLen(1))
			Expect(errs[0].Field).To(Equal(field))
			Expect(errs[0].Detail).To(ContainSubstring(hint))
		},
		Entry("the sidecar's TLS without that of etcd", testCase{sidecar: true}, "spec.etcd.clientUrlTls", "set spec.etcd.enableTLS to true to have them issued"),
		Entry("the sidecar's TLS and that between members without that of etcd", testCase{sidecar: true, peer: true}, "spec.etcd.clientUrlTls", "both serve with TLS, or neither"),
		Entry("Secrets for clients that are no longer referenced", testCase{peer: true, running: "client=given,peer=given"}, "spec.etcd.clientUrlTls", "name them again, or set spec.etcd.enableTLS to true"),
		Entry("Secrets for members that are no longer referenced", testCase{client: true, running: "client=given,peer=given"}, "spec.etcd.peerUrlTls", "where the annotation druid.gardener.cloud/peer-tls is off"),
	)
})

var _ = DescribeTable("Decide for members with pinned peer TLS",
	func(tc testCase, bound bool, expected string) {
		modes, errs := secrets.Decide(tc.etcd(), tc.modes(), &bound)
		Expect(errs).To(BeEmpty())
		Expect(modes.String()).To(Equal(expected))
	},
	Entry("keeps managed peer certificates, and disables TLS for clients", testCase{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, true, "client=disabled,peer=provisioned"),
	Entry("keeps referenced peer certificates", testCase{peer: true, enableTLS: new(false), running: "client=plaintext,peer=given"}, true, "client=disabled,peer=given"),
	Entry("manages peer certificates without references, since any shared certificates are sufficient", testCase{client: true, peerOff: true, running: "client=given,peer=given"}, true, "client=given,peer=provisioned"),
	Entry("returns to TLS if the change has only started", testCase{enableTLS: new(false), running: "client=disabled,peer=disabled"}, true, "client=disabled,peer=provisioned"),
	Entry("keeps plaintext between members", testCase{enableTLS: new(true), running: "client=disabled,peer=disabled"}, false, "client=provisioned,peer=disabled"),
	Entry("keeps plaintext between members without earlier references", testCase{client: true, peer: true, running: "client=given,peer=plaintext"}, false, "client=given,peer=plaintext"),
	Entry("returns to plaintext if the change has only started", testCase{client: true, peer: true, running: "client=given,peer=given"}, false, "client=given,peer=plaintext"),
	Entry("keeps matching modes", testCase{client: true, peer: true, running: "client=given,peer=given"}, true, "client=given,peer=given"),
)

var _ = DescribeTable("Decide records that peer TLS is only pinned",
	func(tc testCase, bound *bool, expected bool) {
		modes, errs := secrets.Decide(tc.etcd(), tc.modes(), bound)
		Expect(errs).To(BeEmpty())
		Expect(modes.PeerPinned).To(Equal(expected))
	},
	Entry("for certificates in place of those of a user", testCase{client: true, peerOff: true, running: "client=given,peer=given"}, new(true), true),
	Entry("for members that hibernated while peer TLS was being disabled", testCase{client: true, peerOff: true, running: "client=given,peer=plaintext"}, new(true), true),
	Entry("while it is pinned", testCase{client: true, peerOff: true, running: "client=given,peer=provisioned", pinned: true}, new(true), true),
	Entry("after it is not pinned any more, if nothing disables it", testCase{client: true, running: "client=given,peer=provisioned", pinned: true}, nil, true),
	Entry("not if the field enables TLS", testCase{client: true, enableTLS: new(true), running: "client=given,peer=given"}, new(true), false),
	Entry("not after it is disabled", testCase{client: true, peerOff: true, running: "client=given,peer=provisioned", pinned: true}, nil, false),
	Entry("not for Secrets of a user", testCase{client: true, peer: true, running: "client=given,peer=provisioned", pinned: true}, nil, false),
)

var _ = DescribeTable("IsPeerChangePending",
	func(tc testCase, bound *bool, expected bool) {
		Expect(secrets.IsPeerChangePending(tc.etcd(), tc.modes(), bound)).To(Equal(expected))
	},
	Entry("is true if TLS is disabled, and members keep it", testCase{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, new(true), true),
	Entry("is true if TLS is enabled, and members stay without it", testCase{enableTLS: new(true), running: "client=disabled,peer=disabled"}, new(false), true),
	Entry("is false if members keep what the spec requests", testCase{enableTLS: new(true), running: "client=provisioned,peer=provisioned"}, new(true), false),
	Entry("is false if peer TLS is not pinned", testCase{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, nil, false),
	Entry("is true if the annotation disables peer TLS, and members keep it with managed certificates", testCase{client: true, peerOff: true, running: "client=given,peer=provisioned", pinned: true}, new(true), true),
	Entry("is false if the spec is refused", testCase{client: true, running: "client=given,peer=given"}, new(true), false),
)

var _ = Describe("RunningModes", func() {
	DescribeTable("returns the modes of a running cluster",
		func(persisted string, exists bool, clientCA, peerCA, expected string) {
			modes := secrets.RunningModes("main", fixture.TLSModes(persisted), exists, clientCA, peerCA)
			Expect(modes.String()).To(Equal(expected))
			Expect(modes.IsKnown()).To(Equal(expected != "client=,peer="))
		},
		Entry("unknown without a cluster", "", false, "", "", "client=,peer="),
		Entry("from the record, regardless of the mounts", "client=disabled,peer=disabled", true, "ca-etcd", "", "client=disabled,peer=disabled"),
		Entry("from the mounts without a record", "", true, "ca-etcd", "", "client=given,peer=plaintext"),
		Entry("managed if the names are those of managed certificates", "", true, "main-client-ca-bundle-0a1b2c3d", "main-peer-ca-bundle-0a1b2c3d", "client=provisioned,peer=provisioned"),
	)
})

var _ = Describe("Effective", func() {
	names := secrets.Names{ClientCA: "a", Server: "b", Client: "c", PeerCA: "d", Peer: "e"}

	It("fills in managed Secrets, and lets the sidecar use the certificates of etcd", func() {
		etcd := testCase{}.etcd()
		effective := secrets.Effective(etcd, fixture.TLSModes("client=provisioned,peer=provisioned"), names)

		Expect(helper.ClientTLS(effective).TLSCASecretRef.Name).To(Equal("a"))
		Expect(*helper.ClientTLS(effective).TLSCASecretRef.DataKey).To(Equal("bundle.crt"))
		Expect(helper.ClientTLS(effective).ServerTLSSecretRef.Name).To(Equal("b"))
		Expect(helper.ClientTLS(effective).ClientTLSSecretRef.Name).To(Equal("c"))
		Expect(helper.PeerTLS(effective).TLSCASecretRef.Name).To(Equal("d"))
		Expect(helper.PeerTLS(effective).ServerTLSSecretRef.Name).To(Equal("e"))
		Expect(helper.BackupTLS(effective)).To(Equal(helper.ClientTLS(effective)))
		Expect(etcd.Spec.Etcd.ClientUrlTLS).To(BeNil(), "the Etcd itself is not changed")
	})

	It("keeps references of the user", func() {
		effective := secrets.Effective(testCase{client: true}.etcd(), fixture.TLSModes("client=given,peer=provisioned"), names)

		Expect(helper.ClientTLS(effective).TLSCASecretRef.Name).To(Equal("given-ca"))
		Expect(helper.PeerTLS(effective).TLSCASecretRef.Name).To(Equal("d"))
	})

	It("ignores references while TLS is disabled", func() {
		effective := secrets.Effective(testCase{client: true, peer: true}.etcd(), fixture.TLSModes("client=disabled,peer=disabled"), secrets.Names{})

		Expect(helper.ClientTLS(effective)).To(BeNil())
		Expect(helper.PeerTLS(effective)).To(BeNil())
		Expect(helper.BackupTLS(effective)).To(BeNil())
	})
})
