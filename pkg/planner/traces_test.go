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
)

var _ = Describe("Traces of one member", func() {
	created := func(w *world) *world {
		w.run()
		w.trace, w.last = nil, ""

		return w
	}

	It("creates a member", func() {
		w := newWorld()
		w.run()
		w.expectGolden("create")
	})

	It("replaces the pod after the image changed", func() {
		w := created(newWorld(withStore))
		before := w.seen.Pods[0].UID
		w.event("the image becomes v2", func() { w.image = "v2" })
		w.run()
		w.expectGolden("image-changed")
		Expect(w.seen.Pods[0].UID).NotTo(Equal(before))
	})

	It("replaces a pod that never became ready, and waits for the one after it", func() {
		w := newWorld()
		w.brokenImages["v1"] = true
		w.brokenImages["v2"] = true
		w.run()
		w.event("the image becomes v2, which is broken as well", func() { w.image = "v2" })
		w.run()
		w.event("the image becomes v3, which works", func() { w.image = "v3" })
		w.run()
		w.expectGolden("broken-image-corrected")
	})

	It("leaves a serving member alone while its store is out of reach", func() {
		w := created(newWorld(withStore))
		w.event("the store goes down for two minutes", func() { w.storeDown = true; w.now = w.now.Add(2 * time.Minute) })
		w.event("the image becomes v2", func() { w.image = "v2" })
		w.run()
		Expect(w.seen.Pods[0].RevisionHash).To(Equal("rev-v1"))
		w.event("the store comes back", func() { w.storeDown = false; w.sidecar() })
		w.run()
		w.expectGolden("store-out-of-reach")
	})

	It("leaves a member alone that is not ready for a second while its store is unreachable", func() {
		w := created(newWorld(withStore))
		before := w.seen.Pods[0].UID
		w.event("the store goes down for two minutes", func() { w.storeDown = true; w.now = w.now.Add(2 * time.Minute) })
		w.event("the image becomes v2", func() { w.image = "v2" })
		w.run()
		w.event("the pod is not ready for a moment", func() { w.notReady(etcdcluster.ContainerRunning) })
		w.run()
		Expect(w.seen.Pods[0].UID).To(Equal(before))
		Expect(w.seen.Pods[0].Ready).To(BeTrue())
		w.event("the store comes back", func() { w.storeDown = false; w.sidecar() })
		w.run()
		w.expectGolden("store-unreachable-readiness-flap")
		Expect(w.seen.Pods[0].UID).NotTo(Equal(before))
	})

	It("replaces a member after two minutes that cannot start again without its store, so that a correction is rolled out", func() {
		w := created(newWorld(withStore))
		before := w.seen.Pods[0].UID
		w.event("the store goes down for two minutes", func() { w.storeDown = true; w.now = w.now.Add(2 * time.Minute) })
		w.event("the image becomes v2", func() { w.image = "v2" })
		w.run()
		w.event("etcd ends", func() { w.notReady(etcdcluster.ContainerTerminated) })
		w.run()
		w.event("almost two minutes pass", func() { w.now = w.seen.Pods[0].ReadyChangedAt.Add(119 * time.Second) })
		w.pass()
		Expect(w.seen.Pods[0]).To(And(HaveField("UID", before), HaveField("Deleting", false)))
		w.event("a second passes", func() { w.now = w.now.Add(time.Second) })
		w.run()
		w.event("the store comes back", func() { w.storeDown = false; w.sidecar() })
		w.run()
		w.expectGolden("store-unreachable-member-down")
		Expect(w.seen.Pods[0].UID).NotTo(Equal(before))
	})

	It("hibernates and wakes on the same data", func() {
		w := created(newWorld())
		w.event("spec.replicas becomes 0", func() { w.etcd.Spec.Replicas = 0 })
		w.run()
		Expect(w.seen.Pods).To(BeEmpty())
		w.event("spec.replicas becomes 1", func() { w.etcd.Spec.Replicas = 1 })
		w.run()
		w.expectGolden("hibernate-and-wake")
	})

	It("hibernates after a snapshot was verified", func() {
		w := created(newWorld(withStore))
		w.event("spec.replicas becomes 0", func() { w.etcd.Spec.Replicas = 0; w.respec() })
		w.run()
		Expect(w.seen.Pods).To(BeEmpty())
		w.expectGolden("hibernate-with-store")
	})

	It("hibernates after a snapshot that took longer than it is good for", func() {
		w := created(newWorld(withStore))
		w.snapshotTakes = 6 * time.Minute
		w.event("spec.replicas becomes 0", func() { w.etcd.Spec.Replicas = 0; w.respec() })
		w.run()
		Expect(w.seen.Pods).To(BeEmpty())
		Expect(w.seen.SnapshotCalls).To(And(HaveField("Late", 0), HaveField("Verified.Revision", BeEquivalentTo(42))))
	})

	It("hibernates without a snapshot after three attempts, since the volumes stay", func() {
		w := created(newWorld(withStore))
		w.event("the store goes down", func() { w.storeDown = true })
		w.event("spec.replicas becomes 0", func() { w.etcd.Spec.Replicas = 0; w.respec() })
		for range 20 { // it is at rest between the attempts
			w.run()
		}
		Expect(w.seen.Pods).To(BeEmpty())
		w.expectGolden("hibernate-with-store-down")
	})

	It("hibernates at once where an annotation skips the snapshot", func() {
		w := created(newWorld(withStore))
		w.event("the annotation is set, and spec.replicas becomes 0", func() {
			w.etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}
			w.etcd.Spec.Replicas = 0
			w.respec()
		})
		w.run()
		w.expectGolden("hibernate-skipping-the-snapshot")
	})

	It("starts nothing before its secrets exist", func() {
		w := newWorld()
		w.seen.Secrets = []etcdcluster.Secret{
			{Name: "ca", Uses: []helper.SecretUse{{Name: "ca", AnyOf: []string{"bundle.crt", "ca.crt"}, Field: "spec.etcd.clientUrlTls.tlsCASecretRef"}}},
			{Name: "server", Uses: []helper.SecretUse{{Name: "server", Keys: []string{"tls.crt", "tls.key"}, Field: "spec.etcd.clientUrlTls.serverTLSSecretRef"}}},
		}
		w.run()
		Expect(w.written).To(BeNil())
		w.event("Secret ca appears, Secret server too but without its key", func() {
			w.seen.Secrets[0].Exists, w.seen.Secrets[0].Keys = true, []string{"ca.crt"}
			w.seen.Secrets[1].Exists, w.seen.Secrets[1].Keys = true, []string{"tls.crt"}
		})
		w.run()
		w.event("Secret server gets its key", func() { w.seen.Secrets[1].Keys = []string{"tls.crt", "tls.key"} })
		w.run()
		w.expectGolden("secret-missing")
	})

	It("recreates the StatefulSet for what cannot be changed in place, and keeps the pod", func() {
		w := created(newWorld())
		before := w.seen.Pods[0].UID
		w.event("spec.storageCapacity becomes 32Gi", func() { w.etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi")) })
		w.run()
		w.expectGolden("immutable-changed")
		Expect(w.seen.Pods[0].UID).To(Equal(before))
	})

	It("refuses to wake a cluster of three with one member", func() {
		w := newWorld()
		w.seen.State.Size = 3
		w.run()
		w.expectGolden("smaller-than-before")
		Expect(w.written).To(BeNil())
	})
})
