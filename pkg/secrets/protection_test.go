// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The finalizer of a Secret", func() {
	var (
		plain     = secrets.ProtectedSecret{Name: "s"}
		protected = secrets.ProtectedSecret{Name: "s", HasFinalizer: true}
		deleted   = secrets.ProtectedSecret{Name: "s", HasFinalizer: true, Deleting: true}

		etcd       = secrets.SecretUser{Needed: []string{"s"}, Protects: true}
		other      = secrets.SecretUser{Needed: []string{"other"}, Protects: true}
		pod        = secrets.SecretUser{Mounted: []string{"s"}}
		notAllowed = secrets.SecretUser{Needed: []string{"s"}}
		druid      = secrets.SecretUser{Needed: []string{"s"}, Protects: true, EtcdDruid: true}
		otherDruid = secrets.SecretUser{Needed: []string{"other"}, Protects: true, EtcdDruid: true}
	)
	in := func(users ...secrets.SecretUser) secrets.SecretUsers { return secrets.SecretUsers{Users: users} }
	terminating := func(users ...secrets.SecretUser) secrets.SecretUsers {
		return secrets.SecretUsers{Users: users, Terminating: true}
	}
	disabled := func(users ...secrets.SecretUser) secrets.SecretUsers {
		return secrets.SecretUsers{Users: users, Disabled: true}
	}
	managed := func(secret secrets.ProtectedSecret) secrets.ProtectedSecret {
		secret.Managed = true

		return secret
	}

	DescribeTable("is decided", func(secret secrets.ProtectedSecret, users secrets.SecretUsers, want secrets.FinalizerAction) {
		Expect(secrets.DecideFinalizer(secret, users)).To(Equal(want))
	},
		Entry("the accepted generation of an Etcd needs the Secret: add", plain, in(other, etcd), secrets.AddFinalizer),
		Entry("it is there already: no write", protected, in(etcd), secrets.LeaveFinalizer),
		Entry("nothing needs the Secret: none of the operator's business", plain, in(other), secrets.LeaveFinalizer),
		Entry("only a pod mounts it, or only a spec names it: do not add", plain, in(pod), secrets.LeaveFinalizer),
		Entry("the Etcd has no finalizer, or is being deleted: do not add", plain, in(notAllowed), secrets.LeaveFinalizer),
		Entry("the Secret is being deleted already: the API server would reject the finalizer", secrets.ProtectedSecret{Name: "s", Deleting: true}, in(etcd), secrets.LeaveFinalizer),
		Entry("one of two Etcds ceases to need it: keep for the other one", protected, in(other, etcd), secrets.LeaveFinalizer),
		Entry("no accepted generation needs it, a pod still mounts it: keep, and check again", protected, in(other, pod), secrets.KeepFinalizer),
		Entry("an Etcd that is being deleted needs it: keep, and check again", protected, in(notAllowed), secrets.KeepFinalizer),
		Entry("a user deletes it while it is used: keep, and check again", deleted, in(etcd), secrets.KeepFinalizer),
		Entry("its last use has ended: remove", protected, in(other), secrets.RemoveFinalizer),
		Entry("its last use has ended after its deletion: remove", deleted, in(other), secrets.RemoveFinalizer),
		Entry("there is no Etcd at all: remove", protected, in(), secrets.RemoveFinalizer),
		Entry("the namespace is being deleted: remove, although it is used", deleted, terminating(etcd, pod), secrets.RemoveFinalizer),
		Entry("the namespace is being deleted: do not add", plain, terminating(etcd), secrets.LeaveFinalizer),
		Entry("the namespace is being deleted before etcd-druid's Etcd was adopted: remove", deleted, terminating(druid), secrets.RemoveFinalizer),
		Entry("the protection is disabled: remove, although it is used", protected, disabled(etcd, pod), secrets.RemoveFinalizer),
		Entry("the protection is disabled: do not add", plain, disabled(etcd), secrets.LeaveFinalizer),
		Entry("the protection is disabled, and only etcd-druid uses it: leave", protected, disabled(druid), secrets.LeaveFinalizer),
		Entry("a secrets manager or a BackupEntry owns it: do not add", managed(plain), in(etcd), secrets.LeaveFinalizer),
		Entry("a secrets manager or a BackupEntry owns it, and etcd-druid had added the finalizer: remove", managed(protected), in(etcd), secrets.RemoveFinalizer),
		Entry("the same before the Etcd is adopted: leave", managed(protected), in(druid), secrets.LeaveFinalizer),
		Entry("the same if only one of two Etcds is adopted: remove", managed(protected), in(druid, etcd), secrets.RemoveFinalizer),
		Entry("nothing uses it in a namespace of etcd-druid alone: leave", protected, in(otherDruid), secrets.LeaveFinalizer),
		Entry("nothing uses it after one Etcd of the namespace was adopted: remove", protected, in(otherDruid, other), secrets.RemoveFinalizer),
	)
})

var _ = Describe("NeededBy", func() {
	accepted := func(tc testCase, modes string) state.State {
		etcd := tc.etcd()
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{SecretRef: &corev1.SecretReference{Name: "store"}}
		if etcd.Spec.Backup.TLS != nil {
			etcd.Spec.Backup.TLS.ClientTLSSecretRef.Name = "unused"
		}
		recorded := state.State{Accepted: &state.Accepted{Generation: 1, Spec: &etcd.Spec}}
		if modes != "" {
			recorded.TLS = fixture.TLSModes(modes)
		}

		return recorded
	}

	DescribeTable("returns the Secrets that the accepted generation uses",
		func(recorded state.State, expected ...string) {
			names, known := secrets.NeededBy(recorded)
			Expect(known).To(BeTrue())
			Expect(names).To(HaveExactElements(expected))
		},
		Entry("none before a generation is accepted", state.State{}),
		Entry("each once, and none that no pod mounts", accepted(testCase{client: true, peer: true, sidecar: true}, "client=given,peer=given"),
			"given-ca", "given-client", "given-server", "store"),
		Entry("those of the spec while the modes are not known", accepted(testCase{client: true}, ""), "given-ca", "given-client", "given-server", "store"),
		Entry("no issued ones", accepted(testCase{}, "client=provisioned,peer=provisioned"), "store"),
		Entry("none for a connection without TLS that the spec only names", accepted(testCase{peer: true}, "client=plaintext,peer=plaintext"), "store"),
		Entry("none for TLS that stays disabled", accepted(testCase{client: true, peer: true}, "client=disabled,peer=disabled"), "store"),
	)

	It("does not know those of a spec that is too large for the record", func() {
		_, known := secrets.NeededBy(state.State{Accepted: &state.Accepted{Generation: 1}})
		Expect(known).To(BeFalse())
	})
})
