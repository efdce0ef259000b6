// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

var _ = Describe("The finalizer of a Secret", func() {
	var (
		plain     = secrets.ProtectedSecret{Name: "s"}
		protected = secrets.ProtectedSecret{Name: "s", HasFinalizer: true}
		deleted   = secrets.ProtectedSecret{Name: "s", HasFinalizer: true, Deleting: true}

		etcd       = secrets.SecretUser{References: []string{"s"}, Protects: true}
		other      = secrets.SecretUser{References: []string{"other"}, Protects: true}
		pod        = secrets.SecretUser{Mounted: []string{"s"}}
		notAllowed = secrets.SecretUser{References: []string{"s"}}
		druid      = secrets.SecretUser{References: []string{"s"}, Protects: true, EtcdDruid: true}
		otherDruid = secrets.SecretUser{References: []string{"other"}, Protects: true, EtcdDruid: true}
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
		Entry("an Etcd references the Secret: add", plain, in(other, etcd), secrets.AddFinalizer),
		Entry("it is there already: no write", protected, in(etcd), secrets.LeaveFinalizer),
		Entry("nothing references the Secret: none of the operator's business", plain, in(other), secrets.LeaveFinalizer),
		Entry("only a pod mounts it: too late to add", plain, in(pod), secrets.LeaveFinalizer),
		Entry("the Etcd was never admitted, or is being deleted: do not add", plain, in(notAllowed), secrets.LeaveFinalizer),
		Entry("the Secret is being deleted already: the API server would reject the finalizer", secrets.ProtectedSecret{Name: "s", Deleting: true}, in(etcd), secrets.LeaveFinalizer),
		Entry("one of two Etcds ceases to reference it: keep for the other one", protected, in(other, etcd), secrets.LeaveFinalizer),
		Entry("no spec references it, a pod still mounts it: keep, and check again", protected, in(other, pod), secrets.KeepFinalizer),
		Entry("an Etcd that was not admitted references it: keep, and check again", protected, in(notAllowed), secrets.KeepFinalizer),
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
