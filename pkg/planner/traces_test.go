// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Traces of one member", func() {
	created := func(w *scenario) *scenario {
		w.run()
		w.resetTrace()

		return w
	}

	It("creates a member", func() {
		w := newSingle()
		w.run()
		w.expectGolden("create")
	})

	It("replaces the pod after the image changed", func() {
		w := created(newSingle(withStore))
		before := w.Objects.Pods[0].UID
		w.inject("the image becomes v2", func() { w.image = "v2" })
		w.run()
		w.expectGolden("image-changed")
		Expect(w.Objects.Pods[0].UID).NotTo(Equal(before))
	})

	It("replaces a pod that never became ready, and waits for the one after it", func() {
		w := newSingle()
		w.SetImageBroken("v1", true)
		w.SetImageBroken("v2", true)
		w.run()
		w.inject("the image becomes v2, which is broken as well", func() { w.image = "v2" })
		w.run()
		w.inject("the image becomes v3, which works", func() { w.image = "v3" })
		w.run()
		w.expectGolden("broken-image-corrected")
	})

	It("leaves a serving member alone while its store is out of reach", func() {
		w := created(newSingle(withStore))
		w.inject("the store goes down for two minutes", func() { w.Store.Down = true; w.Advance(2 * time.Minute) })
		w.inject("the image becomes v2", func() { w.image = "v2" })
		w.run()
		Expect(w.Objects.Pods[0].RevisionHash).To(HavePrefix("rev-v1"))
		w.inject("the store recovers", func() { w.Store.Down = false; w.RenewLeases() })
		w.run()
		w.expectGolden("store-out-of-reach")
	})

	It("leaves a member alone that is not ready for a second while its store is unreachable", func() {
		w := created(newSingle(withStore))
		before := w.Objects.Pods[0].UID
		w.inject("the store goes down for two minutes", func() { w.Store.Down = true; w.Advance(2 * time.Minute) })
		w.inject("the image becomes v2", func() { w.image = "v2" })
		w.run()
		w.inject("the pod is not ready for a moment", func() { w.FailReadiness(0) })
		w.run()
		Expect(w.Objects.Pods[0].UID).To(Equal(before))
		Expect(w.Objects.Pods[0].Ready).To(BeTrue())
		w.inject("the store recovers", func() { w.Store.Down = false; w.RenewLeases() })
		w.run()
		w.expectGolden("store-unreachable-readiness-flap")
		Expect(w.Objects.Pods[0].UID).NotTo(Equal(before))
	})

	It("replaces a member after two minutes that cannot start again without its store, so that a correction is rolled out", func() {
		w := created(newSingle(withStore))
		before := w.Objects.Pods[0].UID
		w.inject("the store goes down for two minutes", func() { w.Store.Down = true; w.Advance(2 * time.Minute) })
		w.inject("the image becomes v2", func() { w.image = "v2" })
		w.run()
		w.inject("etcd ends", func() { w.StopEtcd(0) })
		w.run()
		w.inject("almost two minutes pass", func() { w.Advance(w.Objects.Pods[0].ReadyChangedAt.Add(119 * time.Second).Sub(w.Now())) })
		w.reconcile()
		Expect(w.Objects.Pods[0]).To(And(HaveField("UID", before), HaveField("Deleting", false)))
		w.inject("a second passes", func() { w.Advance(time.Second) })
		w.run()
		w.inject("the store recovers", func() { w.Store.Down = false; w.RenewLeases() })
		w.run()
		w.expectGolden("store-unreachable-member-down")
		Expect(w.Objects.Pods[0].UID).NotTo(Equal(before))
	})

	It("hibernates and wakes on the same data", func() {
		w := created(newSingle())
		w.inject("spec.replicas becomes 0", func() { w.Etcd.Spec.Replicas = 0 })
		w.run()
		Expect(w.Objects.Pods).To(BeEmpty())
		w.inject("spec.replicas becomes 1", func() { w.Etcd.Spec.Replicas = 1 })
		w.run()
		w.expectGolden("hibernate-and-wake")
	})

	It("hibernates after a snapshot was verified", func() {
		w := created(newSingle(withStore))
		w.inject("spec.replicas becomes 0", func() { w.Etcd.Spec.Replicas = 0 })
		w.run()
		Expect(w.Objects.Pods).To(BeEmpty())
		w.expectGolden("hibernate-with-store")
	})

	It("hibernates after a snapshot that took longer than it is good for", func() {
		w := created(newSingle(withStore))
		w.SnapshotDuration = 6 * time.Minute
		w.inject("spec.replicas becomes 0", func() { w.Etcd.Spec.Replicas = 0 })
		w.run()
		Expect(w.Objects.Pods).To(BeEmpty())
		Expect(w.Objects.SnapshotAttempts).To(And(HaveField("Expired", 0), HaveField("Verified.Revision", BeEquivalentTo(42))))
	})

	It("hibernates without a snapshot after three attempts, since the volumes stay", func() {
		w := created(newSingle(withStore))
		w.inject("the store goes down", func() { w.Store.Down = true })
		w.inject("spec.replicas becomes 0", func() { w.Etcd.Spec.Replicas = 0 })
		for range 20 { // it is at rest between the attempts
			w.run()
		}
		Expect(w.Objects.Pods).To(BeEmpty())
		w.expectGolden("hibernate-with-store-down")
	})

	It("hibernates at once where an annotation skips the snapshot", func() {
		w := created(newSingle(withStore))
		w.inject("the annotation is set, and spec.replicas becomes 0", func() {
			w.Etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}
			w.Etcd.Spec.Replicas = 0
		})
		w.run()
		w.expectGolden("hibernate-skipping-the-snapshot")
	})

	It("starts nothing before its secrets exist", func() {
		w := newSingle()
		w.Objects.Secrets = []etcdcluster.Secret{
			{Name: "ca", Uses: []helper.SecretUse{{Name: "ca", AnyOf: []string{"bundle.crt", "ca.crt"}, Field: "spec.etcd.clientUrlTls.tlsCASecretRef"}}},
			{Name: "server", Uses: []helper.SecretUse{{Name: "server", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.etcd.clientUrlTls.serverTLSSecretRef"}}},
		}
		w.run()
		Expect(w.Written()).To(BeNil())
		w.inject("Secret ca appears, Secret server too but without its key", func() {
			w.Objects.Secrets[0].Exists, w.Objects.Secrets[0].Keys = true, []string{"ca.crt"}
			w.Objects.Secrets[1].Exists, w.Objects.Secrets[1].Keys = true, []string{"tls.crt"}
			validity := fixture.Validity{NotBefore: w.Now().Add(-time.Hour), NotAfter: w.Now().Add(time.Hour)}
			ca := fixture.NewAuthority("ca", validity)
			w.Objects.Secrets[0].Certificates = etcdcluster.CertificatesIn(map[string][]byte{"ca.crt": ca.PEM()})
			w.Objects.Secrets[1].Certificates = etcdcluster.CertificatesIn(ca.Leaf(validity, helper.LocalHostName(w.Etcd)))
		})
		w.run()
		w.inject("Secret server gets its key", func() { w.Objects.Secrets[1].Keys = []string{"tls.crt", "tls.key"} })
		w.run()
		w.expectGolden("secret-missing")
	})

	It("recreates the StatefulSet for what cannot be changed in place, and keeps the pod", func() {
		w := created(newSingle())
		before := w.Objects.Pods[0].UID
		w.Objects.Claims[0].Requested, w.Volumes["main-main-0"].Size = 32<<30, 32<<30 // a user expanded the volume before
		w.Refresh()
		w.inject("spec.storageCapacity becomes 32Gi", func() { w.Etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi")) })
		w.run()
		w.expectGolden("immutable-changed")
		Expect(w.Objects.Pods[0].UID).To(Equal(before))
	})

	It("starts no member if no volume of a cluster of three is left, although the spec requests one member", func() {
		w := newSingle()
		w.Objects.State.Size = 3
		w.run()
		w.expectGolden("smaller-than-before")
		Expect(w.Written()).To(BeNil())
	})
})
