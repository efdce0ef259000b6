// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Traces of a restore", func() {
	created := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, change...)
		s.run()
		s.expectDone()
		s.Write(100)
		s.RenewLeases()
		s.resetTrace()

		return s
	}
	requestRestore := func(s *scenario) {
		s.Etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store"}
	}
	// requestRestoreOfDestroyed accepts the revision of the store: that of destroyed volumes is unknown.
	requestRestoreOfDestroyed := func(s *scenario) {
		requestRestore(s)
		s.Etcd.Annotations["druid.gardener.cloud/accept-revision"] = "101"
	}
	// restored expects that all data of the store exists, and that no phase of the restore is recorded.
	restored := func(s *scenario) {
		GinkgoHelper()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.Etcd.Annotations).To(BeEmpty())
	}

	It("restores three members whose volumes are all lost: one restores, and the others join", func() {
		s := created(3, withStore)
		s.inject("the data of all members is destroyed", func() { s.CorruptAllVolumes() })
		s.run()
		Expect(s.steps).To(Equal(map[string]int{"InspectClaim": 3}), "nothing is changed without a request")
		Expect(s.trace).To(ContainElement(MatchRegexp("the quorum of 2 cannot recover: etcd cannot use the data in the volume of claim main-main-0 .the database is corrupt.;.* waits for a manual recovery .no data is left., or a restore")))
		s.inject("a restore is requested", func() { requestRestoreOfDestroyed(s) })
		s.runUntil(func() bool { return s.steps["DeletePod"] > 0 })
		Expect(s.Objects.State.Restore).To(Equal(state.RestorePhase("join")), "the restore continues while the first member restarts with the size of the cluster")
		s.run()
		restored(s)
		s.expectGolden("three-restored")
	})

	It("restores a single member whose volume is gone with its node", func() {
		s := created(1, withStore)
		s.inject("node n1 is gone", func() { s.RemoveNode("n1") })
		s.run()
		s.inject("a restore is requested", func() { requestRestore(s) })
		s.run()
		restored(s)
		s.expectGolden("one-restored")
	})

	It("restores a cluster whose quorum is lost for good, and waits for the pod on the node that is cut off", func() {
		s := created(3, withStore)
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
		s.inject("a restore is requested", func() { requestRestore(s) })
		s.run()
		restored(s)
		s.expectGolden("three-restored-from-a-lost-quorum")
	})

	It("polls while claims are deleted, and not while pods are, which may take days and which a watch reports", func() {
		s := created(3, withStore)
		s.Objects.State.Restore = "discard"
		p := func() plan.Plan { return planner.For(s.Etcd, s.Objects, s.Now()) }
		Expect(p()).To(And(HaveField("WaitsFor", ContainSubstring("pod main-0")), HaveField("PollMembers", false)))
		s.Objects.Pods, s.Objects.Claims[0].Deleting = nil, true
		Expect(p()).To(And(HaveField("WaitsFor", "claim main-main-0 to be gone"), HaveField("PollMembers", true)))
	})

	It("begins again when it is requested again while the first member restores, and does not use incomplete data", func() {
		s := created(3, withStore)
		s.inject("the data of all members is destroyed", func() { s.CorruptAllVolumes() })
		s.run()
		s.inject("a restore is requested", func() { requestRestoreOfDestroyed(s) })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" })
		s.Store.Down = true
		s.runUntil(func() bool { return s.Objects.State.Restore == "start" && s.Objects.PodFor(0) != nil })
		first := s.Objects.ClaimFor(0).UID
		s.SetImageBroken("v1", true)
		s.run()
		s.inject("it is requested again", func() { requestRestoreOfDestroyed(s); s.Store.Down = false })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" })
		s.SetImageBroken("v1", false)
		s.run()
		restored(s)
		Expect(s.Objects.ClaimFor(0).UID).NotTo(Equal(first))
		s.expectGolden("three-restored-after-an-interruption")
	})

	It("deletes no data for a store that is empty, and restores when it is requested again after the snapshots are restored", func() {
		s := created(3, withStore)
		s.inject("nodes n2 and n3 are gone, and the bucket is empty", func() { s.RemoveNode("n2"); s.RemoveNode("n3"); s.Store.Empty() })
		s.run()
		s.inject("a restore is requested", func() { requestRestore(s) })
		s.run()
		Expect(s.Etcd.Annotations).To(BeEmpty(), "it does not come into force later")
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.Objects.PodFor(0)).NotTo(BeNil(), "no member is stopped")
		Expect(s.violations()).To(BeEmpty())
		s.inject("the snapshots are put back, and a restore is requested again", func() { s.Store.PutBack(); requestRestore(s) })
		s.run()
		restored(s)
		Expect(s.steps).To(HaveKeyWithValue("VerifyRestore", 2))
		s.expectGolden("three-restored-once-the-store-holds-snapshots")
	})

	It("skips the verification if the user requests that", func() {
		s := created(3, withStore)
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
		s.inject("a restore is requested", func() {
			s.Etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store-unverified"}
		})
		s.run()
		restored(s)
		Expect(s.steps).NotTo(HaveKey("VerifyRestore"))
	})

	DescribeTable("verifies the store again if the previous Job",
		func(change func(*etcdcluster.RestoreVerification), isVerifiedAgain bool) {
			s := created(3, withStore)
			s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
			s.run()
			requestRestore(s)
			s.Objects.TargetStore = "the store"
			s.Objects.RestoreVerification = etcdcluster.RestoreVerification{Exists: true, Name: "main-verify", UID: "job", OwnerUID: "etcd-uid", Store: "the store", CreationTime: s.Now(), Succeeded: true, Result: &etcdcluster.Inspection{Revision: 101, Keys: 100}}
			change(&s.Objects.RestoreVerification)
			p := planner.For(s.Etcd, s.Objects, s.Now())
			if !isVerifiedAgain {
				Expect(p.Restore).To(BeEquivalentTo("discard"))

				return
			}
			Expect(p.Restore).To(BeEmpty())
			Expect(p.Step).To(Equal(plan.DeleteRestoreJob{Meta: plan.Meta{Object: "main-verify", UID: "job"}}))
		},
		Entry("is of this Etcd and store: it does not", func(*etcdcluster.RestoreVerification) {}, false),
		Entry("verified another store", func(r *etcdcluster.RestoreVerification) { r.Store = "another" }, true),
		Entry("has no record of its store", func(r *etcdcluster.RestoreVerification) { r.Store = "" }, true),
		Entry("was created before a pod was last ready", func(r *etcdcluster.RestoreVerification) { r.CreationTime = r.CreationTime.Add(-24 * time.Hour) }, true),
		Entry("was already reported", func(r *etcdcluster.RestoreVerification) { r.Succeeded, r.Failed, r.Recorded = false, true, true }, true),
		Entry("was of an earlier Etcd of the name", func(r *etcdcluster.RestoreVerification) { r.OwnerUID = "other" }, true),
	)

	It("reports why the Job makes no progress, and the remedy", func() {
		s := created(3, withStore)
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
		requestRestore(s)
		s.Objects.TargetStore = "the store"
		s.Objects.RestoreVerification = etcdcluster.RestoreVerification{Exists: true, Name: "main-verify", UID: "job", OwnerUID: "etcd-uid", Store: "the store", CreationTime: s.Now(), Message: "pod main-verify-x has no node: 0/3 nodes"}
		p := planner.For(s.Etcd, s.Objects, s.Now())
		Expect(p.Render).To(BeFalse())
		Expect(p.WaitsFor).To(Equal("Job main-verify to restore from the store: pod main-verify-x has no node: 0/3 nodes (if you have checked the store yourself, or do not need that data, set druid.gardener.cloud/restore=from-store-unverified)"))
	})

	DescribeTable("renders the ServiceAccount of the Job until it was applied, also in a new process of the operator",
		func(managedResource etcdcluster.ManagedResource, renders bool) {
			s := created(3, withStore)
			s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
			s.run()
			requestRestore(s)
			s.Objects.ManagedResource = managedResource
			p := planner.For(s.Etcd, s.Objects, s.Now())
			Expect(p.Stage).To(Equal(plan.StageRestore))
			Expect(p.Render).To(Equal(renders))
		},
		Entry("there is no ManagedResource", etcdcluster.ManagedResource{}, true),
		Entry("the ManagedResource was written, and not applied", etcdcluster.ManagedResource{Exists: true}, true),
		Entry("the ManagedResource was applied", etcdcluster.ManagedResource{Exists: true, AppliesStatefulSet: true}, false),
	)

	It("continues a restore after the cluster was hibernated in the middle of it", func() {
		s := created(3, withStore)
		s.inject("the data of all members is destroyed", func() { s.CorruptAllVolumes() })
		s.run()
		s.inject("a restore is requested", func() { requestRestoreOfDestroyed(s) })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" && len(s.Objects.Pods) == 0 })
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		restored(s)
	})

	It("restores a cluster that is woken for it", func() {
		s := created(3, withStore)
		s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("keys are lost, a restore is requested, and spec.replicas becomes 3", func() { s.Data = s.Data.At(1); requestRestore(s); s.Etcd.Spec.Replicas = 3 })
		s.run()
		restored(s)
	})

	DescribeTable("does nothing, and says why, where",
		func(change func(*scenario), message string) {
			s := created(3, withStore)
			change(s)
			s.Refresh()
			if s.Etcd.Annotations == nil {
				requestRestore(s)
			}
			begins, ignored := planner.EvaluateRestore(s.Etcd, s.Objects, s.Now())
			Expect(begins).To(BeFalse())
			Expect(ignored).To(ContainSubstring(message))
			Expect(planner.For(s.Etcd, s.Objects, s.Now()).Restore).To(BeEmpty())
		},
		Entry("a member is healthy", func(*scenario) {}, "member main-0 is healthy"),
		Entry("there is no store", func(s *scenario) { s.Etcd.Spec.Backup.Store = nil }, "spec.backup.store is not set"),
		Entry("the value is another", func(s *scenario) { s.Etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "true"} }, `the only values are "from-store" and "from-store-unverified"`),
		Entry("the members are managed externally", func(s *scenario) { s.Etcd.Spec.ExternallyManagedMemberAddresses = []string{"a", "b", "c"} }, "managed externally"),
		Entry("members are only unreachable", func(s *scenario) {
			for _, node := range s.Nodes {
				s.PartitionNode(node.Name, true)
			}
			s.Tick()
		}, "is on unreachable node n1 and may be healthy"),
		Entry("no snapshot is known, and data is left", func(s *scenario) {
			s.Objects.FullSnapshotLease = etcdcluster.Lease{}
			s.CorruptAllVolumes()
			s.Tick()
			s.Tick()
			for i := range s.Objects.Pods {
				s.Objects.Pods[i].Ready, s.Objects.Pods[i].ContainersReady = false, false
			}
		}, "Lease main-full-snap records no full snapshot in this store, and claim main-main-0 still has data"),
		Entry("the recorded snapshots are in another store, and data is left", func(s *scenario) {
			s.Objects.FullSnapshotLease.Store, s.Objects.StoreLocation = "the store of before", "the new store"
			s.CorruptAllVolumes()
			s.Tick()
			s.Tick()
			for i := range s.Objects.Pods {
				s.Objects.Pods[i].Ready, s.Objects.Pods[i].ContainersReady = false, false
			}
		}, "Lease main-full-snap records no full snapshot in this store, and claim main-main-0 still has data"),
	)

	DescribeTable("waits, and discards nothing, while",
		func(replicas int32, happen func(*scenario), waitsFor string) {
			s := created(replicas, withStore)
			s.inject("something passing", func() { happen(s); s.Refresh() })
			requestRestore(s)
			p := planner.For(s.Etcd, s.Objects, s.Now())
			Expect(p.Restore).To(BeEmpty())
			Expect(p.WaitsFor).To(ContainSubstring(waitsFor))
			s.run()
			s.expectDone()
			Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
			Expect(s.Etcd.Annotations).To(BeEmpty(), "it is ignored when the members are healthy again")
		},
		Entry("a single pod is being deleted", int32(1), func(s *scenario) { s.DeletePod(0) }, "the requested restore waits for pod main-0 to be gone"),
		Entry("a single pod is being recreated", int32(1), func(s *scenario) { s.Objects.Pods = nil }, "the requested restore waits for pod main-0 to be created"),
		Entry("a single pod has just started", int32(1), func(s *scenario) { s.RestartPods() }, "the requested restore waits for pod main-0 to stay unready for 2m0s after its start"),
		Entry("all pods of three restart", int32(3), func(s *scenario) {
			s.Leader = 0
			s.RestartPods()
		}, "the requested restore waits for pod main-0 to stay unready for 2m0s after its start"),
	)

	DescribeTable("is evaluated again when the pods have been unready long enough, without an event",
		func(replicas int32, age, unready, after time.Duration) {
			s := created(replicas, withStore)
			s.inject("all pods restart", func() { s.Leader = 0; s.RestartPods(); s.Refresh() })
			requestRestore(s)
			now := s.Now()
			for i := range s.Objects.Pods {
				s.Objects.Pods[i].CreationTime, s.Objects.Pods[i].ReadyChangedAt = now.Add(-age), now.Add(-unready)
			}
			p := planner.For(s.Etcd, s.Objects, now)
			Expect(p.WaitsFor).To(ContainSubstring("the requested restore waits for pod main-0 to stay unready"))
			Expect(p.RequeueAfter).To(Equal(after))

			Expect(planner.For(s.Etcd, s.Objects, now.Add(after-time.Nanosecond)).RequeueAfter).To(Equal(time.Nanosecond))
			Expect(planner.For(s.Etcd, s.Objects, now.Add(after)).WaitsFor).NotTo(ContainSubstring("the requested restore waits"))
		},
		Entry("after the start of a single pod", int32(1), 30*time.Second, 30*time.Second, 90*time.Second),
		Entry("after a single pod was ready for the last time", int32(1), time.Hour, 20*time.Second, 40*time.Second),
		Entry("after the start of three pods", int32(3), 30*time.Second, 30*time.Second, 90*time.Second),
	)

	DescribeTable("does not start the members of a hibernated cluster before the request is decided, and its annotation is removed",
		func(change func(*scenario), waitsFor string) {
			s := created(1, withStore)
			s.inject("spec.replicas becomes 0", func() { s.Etcd.Spec.Replicas = 0 })
			s.run()
			s.Etcd.Spec.Replicas = 1
			requestRestore(s)
			change(s)
			p := planner.For(s.Etcd, s.Objects, s.Now())
			Expect(p.Render).To(BeFalse())
			Expect(p.Replicas).To(BeZero())
			Expect(p.WaitsFor).To(ContainSubstring(waitsFor))

			s.Objects.Failures = nil
			delete(s.Etcd.Annotations, "druid.gardener.cloud/restore")
			Expect(planner.For(s.Etcd, s.Objects, s.Now()).Stage).To(BeEquivalentTo("WakeUp"))
		},
		Entry("when it is refused", func(s *scenario) { s.Objects.FullSnapshotLease = etcdcluster.Lease{} }, "the annotation druid.gardener.cloud/restore to be removed: Lease main-full-snap records no full snapshot"),
		Entry("when the Jobs cannot be read", func(s *scenario) {
			s.Objects.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionRestoreVerification, Message: "forbidden"}}
		}, "reading Jobs: forbidden"),
		Entry("when the Leases cannot be read", func(s *scenario) {
			s.Objects.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionLeases, Message: "forbidden"}}
		}, "reading Leases: forbidden"),
	)

	It("decides nothing while it cannot read what would be discarded", func() {
		s := created(3, withStore)
		requestRestore(s)
		s.CorruptAllVolumes()
		s.Objects.Failures = []etcdcluster.ReadFailure{{Section: "PersistentVolumeClaims", Message: "forbidden"}}
		begins, ignored := planner.EvaluateRestore(s.Etcd, s.Objects, s.Now())
		Expect(begins).To(BeFalse())
		Expect(ignored).To(BeEmpty())
	})
})
