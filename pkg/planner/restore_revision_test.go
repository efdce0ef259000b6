// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Traces of a restore that is verified by its revision", func() {
	created := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, append(change, withStore)...)
		s.run()
		s.expectDone()
		s.Write(100)
		s.runFor(70) // longer than the period in which the evidence is recorded
		s.expectDone()
		s.resetTrace()

		return s
	}
	request := func(s *scenario, annotations ...string) {
		s.Etcd.Annotations = map[string]string{}
		for _, annotation := range annotations {
			key, value, _ := strings.Cut(annotation, "=")
			s.Etcd.Annotations["druid.gardener.cloud/"+key] = value
		}
	}
	loseAllVolumes := func(s *scenario) {
		for ordinal := range s.Objects.Pods {
			s.LoseVolume(ordinal)
		}
	}
	expectUntouched := func(s *scenario) {
		GinkgoHelper()
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.Etcd.Annotations).To(BeEmpty(), "the request does not take effect later")
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.violations()).To(BeEmpty())
	}

	It("refuses a bucket that was rolled back before the restore, names both numbers and the remedy, and restores when the loss is accepted", func() {
		s := created(3)
		s.inject("all volumes are lost, and the bucket is rolled back to revision 41", func() { loseAllVolumes(s); s.Store.RollBackTo(41) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.trace).To(ContainElement(And(ContainSubstring("it is ignored"), ContainSubstring("the store restores revision 41 with 40 keys, and the highest known revision is 101"), ContainSubstring("a quorum returned revision 101"), ContainSubstring("druid.gardener.cloud/accept-revision=41"))))
		s.inject("a restore is requested, and the revision is accepted", func() { request(s, "restore=from-store", "accept-revision=41") })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(41))
		Expect(s.Etcd.Annotations).To(BeEmpty())
		Expect(s.Objects.State.Evidence.HighestRevision).To(BeEquivalentTo(41))
		Expect(s.Objects.State.Evidence.RolledBack).To(BeNil(), "the loss was named")
		Expect(s.Objects.FullSnapshotLease.Holder).To(Equal("41"), "the Lease does not record lost snapshots any more")
		s.expectGolden("three-restored-from-a-bucket-that-was-rolled-back")
	})

	It("verifies each restore again, although the Job of the restore before still exists", func() {
		s := created(3)
		s.inject("all volumes are lost", func() { loseAllVolumes(s) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		s.expectDone()
		Expect(s.Objects.RestoreVerification.Exists).To(BeTrue(), "its pods keep their logs for ten minutes")
		s.resetTrace()
		s.inject("all volumes are lost, and the bucket is rolled back to revision 41", func() { loseAllVolumes(s); s.Store.RollBackTo(41) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.trace).To(ContainElement(And(ContainSubstring("it is ignored"), ContainSubstring("the store restores revision 41 with 40 keys"))))
	})

	It("verifies a restore again after the previous request was withdrawn", func() {
		s := created(3)
		s.inject("all volumes are lost", func() { loseAllVolumes(s) })
		s.run()
		s.inject("the Job of a request that was withdrawn has ended", func() {
			s.Objects.RestoreVerification = etcdcluster.RestoreVerification{
				Exists: true, Name: "main-verify", UID: "withdrawn", OwnerUID: s.Etcd.UID, Store: s.Objects.StoreLocation, Succeeded: true,
				Result: &etcdcluster.Inspection{Revision: 101, Keys: 100},
			}
		})
		s.run()
		s.inject("the bucket is rolled back to revision 41, and a restore is requested", func() { s.Store.RollBackTo(41); request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
	})

	It("does not become an empty cluster when the bucket is emptied and all volumes are lost", func() {
		s := created(3)
		s.inject("all volumes are lost, and the bucket is emptied", func() { loseAllVolumes(s); s.Store.Empty() })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.Leader).To(BeZero(), "no member is healthy")
		s.expectGolden("three-not-restored-from-an-emptied-bucket")
	})

	It("refuses a store that is older than a volume, which a Job inspects because its member does not run", func() {
		s := created(3)
		s.inject("all nodes restart, and one of three volumes is left, which is newer than the bucket", func() {
			s.LoseVolume(1)
			s.LoseVolume(2)
			s.SetImageBroken("v1", true)
			s.Store.RollBackTo(100)
			s.Objects.FullSnapshotLease.Holder, s.Objects.DeltaSnapshotLease.Holder = "90", "100"
			s.Objects.State.Evidence.HighestRevision = 100
		})
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.steps).To(HaveKeyWithValue("InspectClaim", 1))
		Expect(s.trace).To(ContainElement(And(ContainSubstring("it is ignored"), ContainSubstring("the volume of claim main-main-0 has revision 101"))))
		s.expectGolden("three-not-restored-since-a-volume-is-newer")
	})

	stopAll := func(s *scenario) {
		s.SetImageBroken("v1", true)
		for ordinal := range s.Objects.Pods {
			s.StopEtcd(ordinal)
		}
	}

	It("withdraws the restore when a quorum has confirmed a higher revision before the pods were stopped", func() {
		s := created(3)
		s.inject("all members stop", func() { stopAll(s) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" })
		s.inject("before the pods stop, the members form a quorum for a moment, which acknowledges and returns revision 150", func() {
			s.SetImageBroken("v1", false)
			s.Data = s.Data.At(150)
			s.Acknowledged.Acknowledge(s.Data)
			for _, volume := range s.Volumes {
				volume.Data = s.Data
			}
			confirmed := *s.Objects.State.Evidence
			confirmed.HighestRevision, confirmed.At = 150, s.Now()
			s.Objects.State.Evidence = &confirmed
		})
		s.run()
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.trace).To(ContainElement(And(ContainSubstring("the restore is withdrawn"), ContainSubstring("the store restores revision 101 with 100 keys, and the highest known revision is 150"), ContainSubstring("druid.gardener.cloud/accept-revision=101"))))
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(150))
		Expect(s.Objects.State.Evidence.HighestRevision).To(BeEquivalentTo(150))
	})

	It("continues the restore if the user has accepted the loss", func() {
		s := created(3)
		s.inject("all members stop, and the bucket is rolled back", func() { stopAll(s); s.Store.RollBackTo(41) })
		s.run()
		s.inject("a restore is requested, and the revision is accepted", func() { request(s, "restore=from-store", "accept-revision=41") })
		s.runUntil(func() bool { return s.Objects.State.Restore == "discard" })
		s.inject("a quorum returns a higher revision", func() {
			s.SetImageBroken("v1", false)
			confirmed := *s.Objects.State.Evidence
			confirmed.HighestRevision = 150
			s.Objects.State.Evidence = &confirmed
		})
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(41))
	})

	It("does not use the results of Jobs after members were ready in the meantime", func() {
		s := created(3)
		s.inject("all members stop", func() { stopAll(s) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.runUntil(func() bool { return s.steps["InspectClaim"] == 3 })
		s.inject("the operator is away. The members become ready, acknowledge revision 150, and stop before a delta snapshot", func() {
			s.SetImageBroken("v1", false)
			s.Store.Down = true
			for range 20 {
				s.tick()
			}
			Expect(s.Write(49)).To(BeTrue())
			stopAll(s)
			for range 30 {
				s.tick()
			}
			s.Store.Down = false
			Expect(s.Objects.RestoreVerification.Result.Revision).To(BeEquivalentTo(101))
		})
		s.run()
		expectUntouched(s)
		Expect(s.steps).To(HaveKeyWithValue("VerifyRestore", 2))
		Expect(s.steps).To(HaveKeyWithValue("InspectClaim", 6))
		Expect(s.trace).To(ContainElement(And(ContainSubstring("it is ignored"), ContainSubstring("the highest known revision is 150"), ContainSubstring("the volume of claim main-main-0 has revision 150"))))
	})

	It("uses the results of Jobs although the containers of a pod that is not ready restart again and again", func() {
		s := created(3)
		s.inject("all members stop", func() { stopAll(s) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.runUntil(func() bool { s.StopEtcd(0); return s.Objects.State.Restore == "discard" })
		Expect(s.steps).To(HaveKeyWithValue("VerifyRestore", 1))
		Expect(s.steps).To(HaveKeyWithValue("InspectClaim", 3))
	})

	It("keeps the volumes of the data that is given up until the restored cluster has a full snapshot", func() {
		s := created(3)
		s.inject("nodes n2 and n3 are gone, and the bucket is rolled back", func() { s.RemoveNode("n2"); s.RemoveNode("n3"); s.Store.RollBackTo(41) })
		s.run()
		s.inject("a restore is requested, and the revision is accepted", func() { request(s, "restore=from-store", "accept-revision=41") })
		s.runUntil(func() bool { return s.Objects.State.Restore == "start" })
		Expect(s.Released).To(ConsistOf(
			And(HaveField("Data.Revision", int64(101)), HaveField("RetainedFor", s.Etcd.UID)), HaveField("Data.Revision", int64(101)), HaveField("Data.Revision", int64(101))))
		Expect(s.Objects.State.Retained).To(HaveLen(3))
		s.run()
		s.expectDone()
		Expect(s.Released).To(HaveLen(3), "the condition BackupReady is not True yet")
		s.inject("the condition BackupReady becomes True", func() {
			s.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "BackupReady", Status: "True"}}
		})
		s.run()
		s.expectDone()
		Expect(s.Released).To(BeEmpty())
		Expect(s.Objects.State.Retained).To(BeEmpty())
		s.expectGolden("three-restored-with-retained-volumes")
	})

	It("leaves volumes alone that no provisioner has created", func() {
		s := created(3)
		for _, volume := range s.Volumes {
			volume.Static = true
		}
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
		request(s, "restore=from-store")
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("RetainVolume"))
		Expect(s.Objects.State.Retained).To(BeEmpty())
	})

	DescribeTable("needs consent if the volume of a voting member is empty", func(change func(*scenario)) {
		s := created(3)
		s.inject("the disk of the first member is not mounted, and the others have lost their volumes", func() {
			volume := s.Volumes["main-main-0"]
			volume.Member, volume.Data = 0, history.Position{}
			s.LoseVolume(1)
			s.LoseVolume(2)
			change(s)
		})
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.trace).To(ContainElement(ContainSubstring("the volume of claim main-main-0 is empty, although etcd ran on it as member main-0")))
	},
		Entry("as the record shows", func(*scenario) {}),
		Entry("as its heartbeats show to an operator without a record", func(s *scenario) { s.Objects.State.Evidence = nil }),
	)

	It("needs no consent for a volume without data, which a member got before the others lost theirs", func() {
		s := created(3)
		s.inject("the first member has a new volume, and the others have lost theirs", func() {
			volume := s.Volumes["main-main-0"]
			volume.Member, volume.Data = 0, history.Position{}
			s.Objects.ClaimFor(0).CreationTime = s.Now()
			s.LoseVolume(1)
			s.LoseVolume(2)
		})
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		Expect(s.steps).To(HaveKeyWithValue("InspectClaim", 2), "once for the options, and once for the restore")
	})

	It("needs consent if the revision of a volume cannot be read", func() {
		s := created(3)
		s.inject("the data of all members is destroyed", func() { s.CorruptAllVolumes() })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.trace).To(ContainElement(And(ContainSubstring("it is ignored"), ContainSubstring("the revision of claim main-main-0 is unknown: the database is corrupt"), ContainSubstring("druid.gardener.cloud/accept-revision=101"))))
		s.inject("the loss is accepted", func() { request(s, "restore=from-store", "accept-revision=101") })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
	})

	It("needs consent to restore writes that a user has given up", func() {
		s := created(3)
		s.inject("all volumes are lost, and the bucket is rolled back to revision 41", func() { loseAllVolumes(s); s.Store.RollBackTo(41) })
		s.run()
		s.inject("a restore is requested, and the loss is accepted", func() { request(s, "restore=from-store", "accept-revision=41") })
		s.run()
		s.expectDone()
		Expect(s.Objects.State.Evidence.LostRevision).To(BeZero(), "the restored store has no snapshots with the lost writes")
		s.inject("the record is that of a rollback of running members", func() {
			s.Objects.State.Evidence.LostRevision, s.Objects.State.Evidence.AcceptedRollbackAt = 101, s.Now()
		})
		s.Write(10)
		s.runFor(70)
		s.resetTrace()

		s.inject("the bucket has its newer snapshots again, and all volumes are lost", func() { s.Store.PutBack(); loseAllVolumes(s) })
		s.run()
		s.inject("a restore is requested", func() { request(s, "restore=from-store") })
		s.run()
		expectUntouched(s)
		Expect(s.trace).To(ContainElement(ContainSubstring("the store restores revision 101 with 100 keys, and may restore lost writes in place of newer ones: " +
			"a user accepted revision 41, and the lost writes had revisions up to 101. " +
			"To restore this revision, and give up newer writes that it replaces, set druid.gardener.cloud/accept-revision=101 together with druid.gardener.cloud/restore=from-store")))
		s.inject("the loss is accepted", func() { request(s, "restore=from-store", "accept-revision=101") })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		Expect(s.Objects.State.Evidence.LostRevision).To(BeZero())
	})

	It("does not start a single member on an empty volume before the store has the known revision", func() {
		s := created(1)
		s.inject("the member hibernates", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("its claim is deleted, and the bucket is rolled back", func() { s.DeleteClaim(0); s.Store.RollBackTo(41) })
		s.inject("spec.replicas becomes 1", func() { s.Etcd.Spec.Replicas = 1 })
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		Expect(s.Objects.State.FinalSnapshot).NotTo(BeNil(), "the members are still stopped with it")
		Expect(s.result.Description).To(And(ContainSubstring("the store restores revision 41 with 40 keys"), ContainSubstring("druid.gardener.cloud/accept-revision=41")))
		s.inject("the bucket is repaired", func() { s.Store.PutBack() })
		s.ExpireJobs()
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(101))
		Expect(s.Objects.State.Evidence.HighestRevision).To(BeEquivalentTo(101))
		s.expectGolden("one-woken-without-its-volume")
	})

	It("starts a single member on an empty volume when the loss is accepted", func() {
		s := created(1)
		s.Etcd.Spec.Replicas = 0
		s.IncrementGeneration()
		s.run()
		s.inject("its claim is deleted, and the bucket is rolled back", func() { s.DeleteClaim(0); s.Store.RollBackTo(41); s.Etcd.Spec.Replicas = 1 })
		s.run()
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("the revision is accepted", func() { request(s, "accept-revision=41") })
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(41))
		Expect(s.Etcd.Annotations).To(BeEmpty())
	})

	It("keeps the record of the final snapshot while a restore of a hibernated cluster is verified", func() {
		s := created(1)
		s.inject("the member hibernates", func() { s.Etcd.Spec.Replicas = 0 })
		s.run()
		s.inject("a restore is requested for the wake-up", func() { request(s, "restore=from-store"); s.Etcd.Spec.Replicas = 1 })
		s.Objects.ManagedResource.AppliesStatefulSet = false // the operator has restarted and renders
		p := planner.For(s.Etcd, s.Objects, s.Now())
		Expect(p.Render).To(BeTrue())
		Expect(p.FinalSnapshot).To(Equal(s.Objects.State.FinalSnapshot))
		Expect(p.FinalSnapshot).NotTo(BeNil())
	})

	It("creates an Etcd that never had data without any verification", func() {
		s := newScenario(1, withStore)
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("VerifyRestore"))
	})

	DescribeTable("changes the reclaim policy of a retained volume again only if",
		func(change func(*scenario, *etcdcluster.PersistentVolume), isReleased, isRecorded bool) {
			s := created(1)
			record := state.RetainedVolume{Name: "old", UID: "old-uid", Claim: "main-main-0", ClaimUID: "old-claim", ReclaimPolicy: "Delete", At: s.Now().Add(-time.Hour)}
			volume := etcdcluster.PersistentVolume{Name: "old", Exists: true, UID: "old-uid", ClaimUID: "old-claim", ReclaimPolicy: "Retain", Dynamic: true, RetainedFor: "etcd-uid"}
			s.Objects.State.Retained = []state.RetainedVolume{record}
			s.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "BackupReady", Status: "True"}}
			change(s, &volume)
			s.Objects.Volumes = []etcdcluster.PersistentVolume{volume}
			p := planner.For(s.Etcd, s.Objects, s.Now())
			if isReleased {
				Expect(p.Step).To(Equal(plan.ReleaseVolume{Meta: plan.Meta{Object: "old", UID: "old-uid"}, Record: record}))
			} else {
				Expect(p.Step).To(BeNil())
			}
			Expect(slices.Contains(p.Retained, record)).To(Equal(isRecorded))
		},
		Entry("nothing else has happened: it does", func(*scenario, *etcdcluster.PersistentVolume) {}, true, true),
		Entry("the condition is True", func(s *scenario, _ *etcdcluster.PersistentVolume) { s.Etcd.Status.Conditions[0].Status = "Unknown" }, false, true),
		Entry("the full snapshot is of the restored cluster", func(s *scenario, _ *etcdcluster.PersistentVolume) {
			s.Objects.FullSnapshotLease.RenewTime = s.Now().Add(-2 * time.Hour)
		}, false, true),
		Entry("the full snapshot is in this store", func(s *scenario, _ *etcdcluster.PersistentVolume) {
			s.Objects.FullSnapshotLease.Store, s.Objects.StoreLocation = "another", "this"
		}, false, true),
		Entry("the cluster was not rolled back", func(s *scenario, _ *etcdcluster.PersistentVolume) {
			s.Objects.State.Evidence.RolledBack = &state.RolledBack{Revision: 1}
		}, false, true),
		Entry("the volumes were read", func(s *scenario, v *etcdcluster.PersistentVolume) {
			s.Objects.Failures = []etcdcluster.ReadFailure{{Section: "PersistentVolumes and Nodes", Message: "forbidden"}}
			*v = etcdcluster.PersistentVolume{Name: "old"}
		}, false, true),
		Entry("it exists", func(_ *scenario, v *etcdcluster.PersistentVolume) { *v = etcdcluster.PersistentVolume{Name: "old"} }, false, false),
		Entry("it is the same volume", func(_ *scenario, v *etcdcluster.PersistentVolume) { v.UID = "new-uid" }, false, false),
		Entry("no user has changed its policy", func(_ *scenario, v *etcdcluster.PersistentVolume) { v.ReclaimPolicy = "Delete" }, false, false),
		Entry("no user has removed its labels", func(_ *scenario, v *etcdcluster.PersistentVolume) { v.RetainedFor = "" }, false, false),
		Entry("it is retained for this Etcd", func(_ *scenario, v *etcdcluster.PersistentVolume) { v.RetainedFor = "another-uid" }, false, false),
		Entry("no other claim uses it", func(_ *scenario, v *etcdcluster.PersistentVolume) { v.ClaimUID = "new-claim" }, false, false),
	)

	It("resets the snapshot Leases before a restore without a verification", func() {
		s := created(1)
		s.Objects.Pods, s.Objects.Claims, s.Objects.State.Restore = nil, nil, "discard"
		for i := range s.Objects.MemberLeases {
			s.Objects.MemberLeases[i].Holder = ""
		}
		Expect(planner.For(s.Etcd, s.Objects, s.Now()).Step).To(And(BeAssignableToTypeOf(plan.ResetLease{}), HaveField("Object", "main-full-snap")))
	})

	It("resets the snapshot Leases with revisions that were lost when a user has accepted a rollback, and no others", func() {
		s := created(3)
		s.inject("all members were rolled back, and a user has accepted it", func() {
			accepted := s.Objects.State.Evidence
			accepted.HighestRevision, accepted.AcceptedRevision, accepted.At, accepted.AcceptedRollbackAt = s.Data.Revision, s.Data.Revision, s.Now(), s.Now()
			s.Objects.FullSnapshotLease.Holder, s.Objects.FullSnapshotLease.RenewTime = "1000", s.Now().Add(-time.Hour)
			s.Objects.DeltaSnapshotLease.RenewTime = s.Now().Add(-time.Hour)
		})
		s.run()
		s.expectDone()
		Expect(s.steps).To(HaveKeyWithValue("ResetLease", 1))
		Expect(s.Objects.FullSnapshotLease.Holder).To(Equal("101"))
		Expect(s.trace).To(ContainElement(ContainSubstring("Lease main-full-snap records revision 1000, which was lost when the cluster was rolled back")))
	})

	It("does not reset a snapshot Lease repeatedly while the store still has snapshots with revisions that were lost", func() {
		s := created(3)
		s.Objects.State.Evidence.AcceptedRevision = 50
		s.Objects.State.Evidence.At, s.Objects.State.Evidence.AcceptedRollbackAt = s.Now().Add(-time.Second), s.Now().Add(-time.Hour)
		// The sidecar writes the highest revision of the store into an empty Lease.
		lease := &s.Objects.DeltaSnapshotLease
		lease.Holder, lease.RenewTime, lease.CreationTime = "1000", s.Now().Add(-15*time.Second), s.Now().Add(-time.Minute)
		Expect(planner.For(s.Etcd, s.Objects, s.Now()).Step).To(BeNil())
		lease.CreationTime = s.Now().Add(-2 * time.Hour)
		Expect(planner.For(s.Etcd, s.Objects, s.Now()).Step).To(BeAssignableToTypeOf(plan.ResetLease{}))
	})

	DescribeTable("resets no snapshot Lease of a cluster that runs",
		func(change func(*scenario)) {
			s := created(3)
			s.Objects.State.Evidence.AcceptedRevision = 50
			s.Objects.State.Evidence.At, s.Objects.State.Evidence.AcceptedRollbackAt = s.Now().Add(-5*time.Minute), s.Now().Add(-5*time.Minute)
			s.Objects.FullSnapshotLease.Holder, s.Objects.FullSnapshotLease.RenewTime = "1000", s.Now().Add(-time.Hour)
			Expect(planner.For(s.Etcd, s.Objects, s.Now()).Step).To(BeAssignableToTypeOf(plan.ResetLease{}))
			change(s)
			Expect(planner.For(s.Etcd, s.Objects, s.Now()).Step).To(BeNil())
		},
		Entry("if no user has accepted a rollback", func(s *scenario) { s.Objects.State.Evidence.AcceptedRevision = 0 }),
		Entry("if the cluster was rolled back again", func(s *scenario) { s.Objects.State.Evidence.RolledBack = &state.RolledBack{Revision: 1} }),
		Entry("if the sidecar has renewed it since the members were read", func(s *scenario) { s.Objects.FullSnapshotLease.RenewTime = s.Now() }),
		Entry("if a member has the revision", func(s *scenario) { s.Objects.Etcd.Members[0].QuorumRevision = 1000 }),
		Entry("if it records another store", func(s *scenario) { s.Objects.FullSnapshotLease.Store, s.Objects.StoreLocation = "another", "this" }),
	)

	It("does not change the volume of another claim that a user names in a claim", func() {
		s := created(3)
		s.Objects.Pods, s.Objects.State.Restore = nil, "discard"
		for i := range s.Objects.Volumes {
			s.Objects.Volumes[i].ClaimUID = "of-another-tenant"
		}
		p := planner.For(s.Etcd, s.Objects, s.Now())
		Expect(p.Step).NotTo(BeAssignableToTypeOf(plan.RetainVolume{}))
		Expect(p.Retained).To(BeEmpty())
		Expect(p.Reason).To(ContainSubstring("is not bound to it and is not changed"))
	})

	It("deletes no claim whose volume cannot be read", func() {
		s := created(3)
		s.Objects.Pods, s.Objects.State.Restore = nil, "discard"
		s.Objects.Volumes = nil
		s.Objects.Failures = []etcdcluster.ReadFailure{{Section: "PersistentVolumes and Nodes", Message: "forbidden"}}
		p := planner.For(s.Etcd, s.Objects, s.Now())
		Expect(p.Step).To(BeNil())
		Expect(p.WaitsFor).To(Equal("PersistentVolume pv-1 to be read: forbidden"))
	})

	It("records no volume twice, and does not change the time of a record", func() {
		s := created(3)
		s.inject("nodes n2 and n3 are gone", func() { s.RemoveNode("n2"); s.RemoveNode("n3") })
		s.run()
		request(s, "restore=from-store")
		s.runUntil(func() bool { return len(s.Objects.State.Retained) > 0 })
		first := s.Objects.State.Retained[0]
		s.Advance(time.Minute)
		s.runUntil(func() bool { return s.Objects.State.Restore == "start" })
		Expect(s.Objects.State.Retained[0]).To(Equal(first))
		Expect(s.Objects.State.Retained).To(HaveLen(3))
	})
})
