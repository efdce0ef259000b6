// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = Describe("The store of a restore that is verified", func() {
	useEndpoint := func(s *scenario, endpoint string) {
		s.Objects.StoreCredentials = etcdcluster.StoreCredentials{SecretName: "store", Public: map[string]string{"endpoint": endpoint}}
	}
	// created returns a cluster with the endpoint a.example.org in the Secret of its store, and 100 keys.
	created := func(replicas int32) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, withStore)
		useEndpoint(s, "a.example.org")
		s.run()
		s.expectDone()
		Expect(s.Objects.State.Store).To(HaveField("Endpoint", "a.example.org"))
		s.Write(100)
		s.runFor(70) // longer than the period in which the evidence is recorded
		s.expectDone()
		s.resetTrace()

		return s
	}
	request := func(s *scenario) {
		s.Etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store"}
	}
	loseQuorum := func(s *scenario) {
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
	}
	hibernateWithoutVolume := func(s *scenario) {
		s.inject("the member hibernates", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("its claim is deleted, and it is woken", func() { s.DeleteClaim(0); s.Etcd.Spec.Replicas = 1 })
	}
	correctSecret := func(s *scenario) { useEndpoint(s, "b.example.org") }
	changeContainer := func(s *scenario) {
		s.Objects.State.Store = nil // a user removes the annotation
		s.Etcd.Spec.Backup.Store.Container = new("other")
	}

	DescribeTable("is the store from which the first member restores: the result of a Job does not count for another one",
		func(replicas int32, prepare, begin, change func(*scenario)) {
			s := created(replicas)
			prepare(s)
			begin(s)
			s.runUntil(func() bool { return s.steps["VerifyRestore"] == 1 })
			s.inject("the Job has restored revision 101 from the first store, and then a user selects another store, which has revision 41", func() {
				s.Tick()
				s.Store.RollBackTo(41)
				change(s)
			})
			s.run()
			Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
			Expect(s.steps).To(HaveKeyWithValue("VerifyRestore", 2))
			Expect(s.Data.Revision).NotTo(BeEquivalentTo(41), "no member has restored from the other store")
			Expect(s.trace).To(ContainElement(ContainSubstring("the store restores revision 41 with 40 keys, and the highest known revision is 101")))
			Expect(s.violations()).To(BeEmpty())
		},
		Entry("with another endpoint in the Secret, while a volume is left", int32(3), loseQuorum, request, correctSecret),
		Entry("with another container, while a volume is left", int32(3), loseQuorum, request, changeContainer),
		Entry("with another endpoint in the Secret, before a member starts without a volume", int32(1), hibernateWithoutVolume, func(*scenario) {}, correctSecret),
		Entry("with another container, before a member starts without a volume", int32(1), hibernateWithoutVolume, func(*scenario) {}, changeContainer),
	)

	DescribeTable("is verified by one Job if it changes together with the request, before any reconciliation has recorded it",
		func(change func(*scenario)) {
			s := created(3)
			loseQuorum(s)
			s.inject("a user selects another endpoint, and requests a restore", func() { change(s); request(s) })
			s.run()
			Expect(s.steps).To(HaveKeyWithValue("VerifyRestore", 1))
			s.expectDone()
			Expect(s.Data.Revision).To(BeEquivalentTo(101))
			Expect(s.Objects.State.Store).To(HaveField("Endpoint", "b.example.org"))
		},
		Entry("in the spec", func(s *scenario) { s.Etcd.Spec.Backup.Store.EndpointOverride = new("https://b.example.org") }),
		Entry("in the Secret", correctSecret),
	)

	It("must not change before the claims are deleted: the restore is withdrawn", func() {
		s := created(3)
		loseQuorum(s)
		s.inject("a restore is requested", func() { request(s) })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" })
		s.inject("a user selects another endpoint, with revision 41", func() { correctSecret(s); s.Store.RollBackTo(41) })
		s.run()
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.Objects.State.Verified).To(BeNil())
		Expect(s.trace).To(ContainElement(And(ContainSubstring("the restore is withdrawn"), ContainSubstring(`endpoint "b.example.org"`))))
		s.inject("a restore is requested again", func() { request(s) })
		s.run()
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.trace).To(ContainElement(ContainSubstring("the store restores revision 41 with 40 keys, and the highest known revision is 101")))
	})

	It("is recorded with the facts of the restore", func() {
		s := created(3)
		loseQuorum(s)
		s.inject("a restore is requested", func() { request(s) })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" })
		Expect(s.Objects.State.Verified.Store).To(Equal(`S3 container "bucket" prefix "demo--main" endpoint "a.example.org"`))
	})

	It("keeps the Job while it cannot be resolved, and reports why", func() {
		s := created(3)
		loseQuorum(s)
		s.inject("a restore is requested", func() { request(s) })
		s.runUntil(func() bool { return s.steps["VerifyRestore"] == 1 })
		s.inject("the store of the spec is refused", func() {
			s.Etcd.Spec.Backup.Store.Container = new("other") // and the annotation is left
		})
		for range 5 {
			s.reconcile()
			s.tick()
		}
		Expect(s.steps).NotTo(HaveKey("DeleteRestoreJob"))
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.result.Description).To(ContainSubstring("snapshots went to"))
		s.inject("the spec is corrected", func() { s.Etcd.Spec.Backup.Store = nil; withStore(s.Etcd) })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
	})
})
