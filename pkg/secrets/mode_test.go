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
)

// question is a row: what the spec names, what it says about TLS as a whole, and how the cluster runs.
type question struct {
	client, peer, sidecar bool
	enableTLS             *bool
	peerOff               bool
	running               string
}

func (in question) etcd() *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "garden"}}
	etcd.Spec.Etcd.EnableTLS = in.enableTLS
	tls := druidv1alpha1.TLSConfig{}
	tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name, tls.ClientTLSSecretRef.Name = "given-ca", "given-server", "given-client"
	if in.client {
		etcd.Spec.Etcd.ClientUrlTLS = tls.DeepCopy()
	}
	if in.peer {
		etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{TLSConfig: tls}
	}
	if in.sidecar {
		etcd.Spec.Backup.TLS = tls.DeepCopy()
	}
	if in.peerOff {
		etcd.Annotations = map[string]string{"druid.gardener.cloud/peer-tls": "off"}
	}

	return etcd
}

var _ = Describe("Decide", func() {
	DescribeTable("decides who owns the PKI",
		func(in question, expected string) {
			modes, errs := secrets.Decide(in.etcd(), state.ParseTLSModes(in.running), nil)
			Expect(errs).To(BeEmpty())
			Expect(modes.String()).To(Equal(expected))
		},
		Entry("a new cluster that names nothing gets everything", question{}, "client=provisioned,peer=provisioned"),
		Entry("a new cluster that names all is taken at its word", question{client: true, peer: true, sidecar: true}, "client=given,peer=given"),
		Entry("a new cluster whose author names Secrets for clients alone gets nothing else, as from gardenlet", question{client: true, sidecar: true}, "client=given,peer=plaintext"),
		Entry("client TLS without the sidecar's is completed by the sidecar serving with the same Secrets", question{client: true}, "client=given,peer=plaintext"),
		Entry("a new cluster whose author names Secrets for members alone gets nothing else", question{peer: true}, "client=plaintext,peer=given"),

		Entry("true completes everything", question{enableTLS: new(true)}, "client=provisioned,peer=provisioned"),
		Entry("true completes what is missing between members", question{client: true, enableTLS: new(true)}, "client=given,peer=provisioned"),
		Entry("true completes what is missing for clients", question{peer: true, enableTLS: new(true)}, "client=provisioned,peer=given"),
		Entry("true completes the sidecar's TLS by TLS for clients", question{sidecar: true, enableTLS: new(true)}, "client=provisioned,peer=provisioned"),
		Entry("true switches a running cluster on", question{enableTLS: new(true), running: "client=plaintext,peer=plaintext"}, "client=provisioned,peer=provisioned"),
		Entry("true replaces Secrets that are named no longer", question{enableTLS: new(true), running: "client=given,peer=given"}, "client=provisioned,peer=provisioned"),
		Entry("true ends what false began", question{client: true, enableTLS: new(true), running: "client=disabled,peer=disabled"}, "client=given,peer=provisioned"),

		Entry("false is plaintext", question{enableTLS: new(false)}, "client=disabled,peer=disabled"),
		Entry("false is plaintext whatever is named", question{client: true, peer: true, sidecar: true, enableTLS: new(false)}, "client=disabled,peer=disabled"),
		Entry("false switches a running cluster off", question{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, "client=disabled,peer=disabled"),

		Entry("a running cluster stays encrypted when true is pruned", question{running: "client=provisioned,peer=provisioned"}, "client=provisioned,peer=provisioned"),
		Entry("a running cluster stays plaintext when false is pruned", question{running: "client=disabled,peer=disabled"}, "client=disabled,peer=disabled"),
		Entry("a running cluster stays plaintext when false is pruned and Secrets are named", question{client: true, peer: true, running: "client=disabled,peer=disabled"}, "client=disabled,peer=disabled"),
		Entry("a running cluster without TLS is not given any by itself", question{running: "client=plaintext,peer=plaintext"}, "client=plaintext,peer=plaintext"),
		Entry("a running cluster keeps what was completed when true is pruned", question{client: true, running: "client=given,peer=provisioned"}, "client=given,peer=provisioned"),
		Entry("naming Secrets is explicit enough to switch a running cluster on", question{client: true, running: "client=plaintext,peer=plaintext"}, "client=given,peer=plaintext"),
		Entry("naming Secrets ends what was provisioned", question{client: true, peer: true, running: "client=provisioned,peer=provisioned"}, "client=given,peer=given"),
		Entry("TLS between members is added to a running cluster as gardenlet does", question{client: true, sidecar: true, peer: true, running: "client=given,peer=plaintext"}, "client=given,peer=given"),
		Entry("TLS between members is taken from a running cluster where that is said", question{client: true, peerOff: true, running: "client=given,peer=given"}, "client=given,peer=plaintext"),
		Entry("certificates are issued for members whatever the annotation says, where the field demands TLS", question{client: true, peerOff: true, enableTLS: new(true), running: "client=given,peer=given"}, "client=given,peer=provisioned"),
		Entry("everything is switched off where the field says so, annotation or not", question{client: true, peerOff: true, enableTLS: new(false), running: "client=given,peer=given"}, "client=disabled,peer=disabled"),
		Entry("Secrets that are named count whatever is said", question{client: true, peer: true, peerOff: true, running: "client=given,peer=given"}, "client=given,peer=given"),
		Entry("a running cluster of a predecessor with the sidecar's TLS alone is left as it is", question{sidecar: true, running: "client=plaintext,peer=plaintext"}, "client=plaintext,peer=plaintext"),
	)

	DescribeTable("refuses what cannot work, with the way out",
		func(in question, field, hint string) {
			_, errs := secrets.Decide(in.etcd(), state.ParseTLSModes(in.running), nil)
			Expect(errs).To(HaveLen(1))
			Expect(errs[0].Field).To(Equal(field))
			Expect(errs[0].Detail).To(ContainSubstring(hint))
		},
		Entry("the sidecar's TLS without that of etcd", question{sidecar: true}, "spec.etcd.clientUrlTls", "set spec.etcd.enableTLS to true to have them issued"),
		Entry("the sidecar's TLS and that between members without that of etcd", question{sidecar: true, peer: true}, "spec.etcd.clientUrlTls", "both serve with TLS, or neither"),
		Entry("Secrets for clients that are named no longer", question{peer: true, running: "client=given,peer=given"}, "spec.etcd.clientUrlTls", "name them again, or set spec.etcd.enableTLS to true"),
		Entry("Secrets for members that are named no longer", question{client: true, running: "client=given,peer=given"}, "spec.etcd.peerUrlTls", "where the annotation druid.gardener.cloud/peer-tls is off"),
	)
})

var _ = DescribeTable("Decide about members that cannot be told of other peer URLs",
	func(in question, bound bool, expected string) {
		modes, errs := secrets.Decide(in.etcd(), state.ParseTLSModes(in.running), &bound)
		Expect(errs).To(BeEmpty())
		Expect(modes.String()).To(Equal(expected))
	},
	Entry("keeps what was issued for them, and switches off what is for clients", question{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, true, "client=disabled,peer=provisioned"),
	Entry("keeps what is named for them", question{peer: true, enableTLS: new(false), running: "client=plaintext,peer=given"}, true, "client=disabled,peer=given"),
	Entry("issues what is named no longer, since any certificates will do", question{client: true, peerOff: true, running: "client=given,peer=given"}, true, "client=given,peer=provisioned"),
	Entry("goes back to TLS where the change had only begun", question{enableTLS: new(false), running: "client=disabled,peer=disabled"}, true, "client=disabled,peer=provisioned"),
	Entry("keeps plaintext between them", question{enableTLS: new(true), running: "client=disabled,peer=disabled"}, false, "client=provisioned,peer=disabled"),
	Entry("keeps plaintext between them that named no Secrets before", question{client: true, peer: true, running: "client=given,peer=plaintext"}, false, "client=given,peer=plaintext"),
	Entry("goes back to plaintext where the change had only begun", question{client: true, peer: true, running: "client=given,peer=given"}, false, "client=given,peer=plaintext"),
	Entry("leaves alone what fits", question{client: true, peer: true, running: "client=given,peer=given"}, true, "client=given,peer=given"),
)

var _ = DescribeTable("IsPeerChangePending",
	func(in question, bound *bool, expected bool) {
		Expect(secrets.IsPeerChangePending(in.etcd(), state.ParseTLSModes(in.running), bound)).To(Equal(expected))
	},
	Entry("is true where TLS is switched off, and members keep it", question{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, new(true), true),
	Entry("is true where TLS is switched on, and members stay without", question{enableTLS: new(true), running: "client=disabled,peer=disabled"}, new(false), true),
	Entry("is false where members keep what the spec asks for", question{enableTLS: new(true), running: "client=provisioned,peer=provisioned"}, new(true), false),
	Entry("is false where members are free to change", question{enableTLS: new(false), running: "client=provisioned,peer=provisioned"}, nil, false),
	Entry("is false where the spec is refused", question{client: true, running: "client=given,peer=given"}, new(true), false),
)

var _ = Describe("RunningModes", func() {
	DescribeTable("finds out how a cluster runs",
		func(remembered string, exists bool, clientCA, peerCA, expected string) {
			modes := secrets.RunningModes("main", state.ParseTLSModes(remembered), exists, clientCA, peerCA)
			Expect(modes.String()).To(Equal(expected))
			Expect(modes.IsKnown()).To(Equal(expected != "client=,peer="))
		},
		Entry("not at all where there is none", "", false, "", "", "client=,peer="),
		Entry("by what is remembered, whatever is mounted", "client=disabled,peer=disabled", true, "ca-etcd", "", "client=disabled,peer=disabled"),
		Entry("by what is mounted where nothing is remembered", "", true, "ca-etcd", "", "client=given,peer=plaintext"),
		Entry("by what is mounted where what is remembered makes no sense", "yes", true, "", "", "client=plaintext,peer=plaintext"),
		Entry("knowing certificates of ours by their names", "", true, "main-client-ca-bundle-0a1b2c3d", "main-peer-ca-bundle-0a1b2c3d", "client=provisioned,peer=provisioned"),
	)
})

var _ = Describe("Effective", func() {
	names := secrets.Names{ClientCA: "a", Server: "b", Client: "c", PeerCA: "d", Peer: "e"}

	It("fills in what is provisioned, and lets the sidecar serve with the certificates of etcd", func() {
		etcd := question{}.etcd()
		effective := secrets.Effective(etcd, state.ParseTLSModes("client=provisioned,peer=provisioned"), names)

		Expect(helper.ClientTLS(effective).TLSCASecretRef.Name).To(Equal("a"))
		Expect(*helper.ClientTLS(effective).TLSCASecretRef.DataKey).To(Equal("bundle.crt"))
		Expect(helper.ClientTLS(effective).ServerTLSSecretRef.Name).To(Equal("b"))
		Expect(helper.ClientTLS(effective).ClientTLSSecretRef.Name).To(Equal("c"))
		Expect(helper.PeerTLS(effective).TLSCASecretRef.Name).To(Equal("d"))
		Expect(helper.PeerTLS(effective).ServerTLSSecretRef.Name).To(Equal("e"))
		Expect(helper.BackupTLS(effective)).To(Equal(helper.ClientTLS(effective)))
		Expect(etcd.Spec.Etcd.ClientUrlTLS).To(BeNil(), "the Etcd itself is not changed")
	})

	It("leaves what is given", func() {
		effective := secrets.Effective(question{client: true}.etcd(), state.ParseTLSModes("client=given,peer=provisioned"), names)

		Expect(helper.ClientTLS(effective).TLSCASecretRef.Name).To(Equal("given-ca"))
		Expect(helper.PeerTLS(effective).TLSCASecretRef.Name).To(Equal("d"))
	})

	It("ignores what is named while TLS is switched off", func() {
		effective := secrets.Effective(question{client: true, peer: true}.etcd(), state.ParseTLSModes("client=disabled,peer=disabled"), secrets.Names{})

		Expect(helper.ClientTLS(effective)).To(BeNil())
		Expect(helper.PeerTLS(effective)).To(BeNil())
		Expect(helper.BackupTLS(effective)).To(BeNil())
	})
})
