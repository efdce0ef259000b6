// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Traces of a restore", func() {
	created := func(replicas int32, change ...func(*druidv1alpha1.Etcd)) *seed {
		GinkgoHelper()
		s := newSeed(replicas, change...)
		s.run()
		s.expectDone()
		s.keys = 100
		s.snapshots()
		s.trace, s.last, s.steps = nil, "", map[string]int{}

		return s
	}
	ask := func(s *seed) {
		s.etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store"}
	}
	loseAll := func(s *seed) {
		for _, volume := range s.volumes {
			volume.member = 0
		}
	}
	// restored expects that everything of the store is there, and that nothing is remembered.
	restored := func(s *seed) {
		GinkgoHelper()
		s.expectDone()
		Expect(s.keys).To(Equal(100))
		Expect(s.seen.State.Restore).To(BeEmpty())
		Expect(s.etcd.Annotations).To(BeEmpty())
	}

	It("restores three members whose volumes are all lost: one restores, and the others join", func() {
		s := created(3, withStore)
		s.event("the data of all members is destroyed", func() { loseAll(s) })
		s.run()
		Expect(s.steps).To(BeEmpty(), "nothing is attempted without being asked")
		s.event("a restore is asked for", func() { ask(s) })
		s.runUntil(func() bool { return s.steps["DeletePod"] > 0 })
		Expect(s.seen.State.Restore).To(Equal(state.RestorePhase("join")), "the restore continues while the first member restarts with the size of the cluster")
		s.run()
		restored(s)
		s.expectGolden("three-restored")
	})

	It("restores a single member whose volume is gone with its node", func() {
		s := created(1, withStore)
		s.event("node n1 is gone", func() { s.nodes[0].gone = true })
		s.run()
		s.event("a restore is asked for", func() { ask(s) })
		s.run()
		restored(s)
		s.expectGolden("one-restored")
	})

	It("restores a cluster whose quorum is lost for good, and waits for the pod on the node that is cut off", func() {
		s := created(3, withStore)
		s.event("nodes n2 and n3 are gone", func() { s.nodes[1].gone, s.nodes[2].gone = true, true })
		s.run()
		s.event("a restore is asked for", func() { ask(s) })
		s.run()
		restored(s)
		s.expectGolden("three-restored-from-a-lost-quorum")
	})

	It("is looked at each second while claims go, and not while pods do, which may take days and of which a watch tells", func() {
		s := created(3, withStore)
		s.seen.State.Restore = "discard"
		p := func() plan.Plan { return planner.For(s.etcd, s.seen, s.now) }
		Expect(p()).To(And(HaveField("WaitsFor", ContainSubstring("pod main-0")), HaveField("Lively", false)))
		s.seen.Pods, s.seen.Claims[0].Deleting = nil, true
		Expect(p()).To(And(HaveField("WaitsFor", "claim main-main-0 to be gone"), HaveField("Lively", true)))
	})

	It("begins anew when it is asked for again while the first member restores, and takes no leftover for data", func() {
		s := created(3, withStore)
		s.event("the data of all members is destroyed", func() { loseAll(s) })
		s.run()
		s.event("a restore is asked for", func() { ask(s) })
		s.runUntil(func() bool { return s.seen.State.Restore == "discard" })
		s.storeDown = true
		s.runUntil(func() bool { return s.seen.State.Restore == "start" && s.seen.PodFor(0) != nil })
		first := s.seen.ClaimFor(0).UID
		s.brokenImages["v1"] = true
		s.run()
		s.event("it is asked for again", func() { ask(s); s.brokenImages["v1"], s.storeDown = false, false })
		s.run()
		restored(s)
		Expect(s.seen.ClaimFor(0).UID).NotTo(Equal(first))
		s.expectGolden("three-restored-after-an-interruption")
	})

	It("discards nothing for a store that turns out to be empty, and restores when it is asked again after the snapshots are back", func() {
		s := created(3, withStore)
		s.event("nodes n2 and n3 are gone, and somebody has emptied the bucket", func() { s.nodes[1].gone, s.nodes[2].gone, s.storeEmptied = true, true, true })
		s.run()
		s.event("a restore is asked for", func() { ask(s) })
		s.run()
		Expect(s.etcd.Annotations).To(BeEmpty(), "it does not come into force later")
		Expect(s.steps).NotTo(HaveKey("DiscardClaim"))
		Expect(s.seen.PodFor(0)).NotTo(BeNil(), "nobody is stopped")
		Expect(s.violations).To(BeEmpty())
		s.event("the snapshots are put back, and a restore is asked for again", func() { s.storeEmptied = false; ask(s) })
		s.run()
		restored(s)
		Expect(s.steps).To(HaveKeyWithValue("RehearseRestore", 2))
		s.expectGolden("three-restored-once-the-store-holds-snapshots")
	})

	It("takes whoever has looked into the store at their word", func() {
		s := created(3, withStore)
		s.event("nodes n2 and n3 are gone", func() { s.nodes[1].gone, s.nodes[2].gone = true, true })
		s.run()
		s.event("a restore is asked for", func() {
			s.etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "from-store-unverified"}
		})
		s.run()
		restored(s)
		Expect(s.steps).NotTo(HaveKey("RehearseRestore"))
	})

	DescribeTable("looks into the store anew where the Job that did",
		func(change func(*etcdcluster.Rehearsal), isLookedAtAnew bool) {
			s := created(3, withStore)
			s.event("nodes n2 and n3 are gone", func() { s.nodes[1].gone, s.nodes[2].gone = true, true })
			s.run()
			ask(s)
			s.seen.StoreLocation = "the store"
			s.seen.Rehearsal = etcdcluster.Rehearsal{Exists: true, Name: "main-rehearsal", UID: "job", OwnerUID: "etcd-uid", Store: "the store", Succeeded: true}
			change(&s.seen.Rehearsal)
			p := planner.For(s.etcd, s.seen, s.now)
			if !isLookedAtAnew {
				Expect(p.Restore).To(BeEquivalentTo("discard"))

				return
			}
			Expect(p.Restore).To(BeEmpty())
			Expect(p.Step).To(Equal(plan.DeleteRestoreJob{Meta: plan.Meta{Object: "main-rehearsal", UID: "job"}}))
		},
		Entry("is of this Etcd and store: it does not", func(*etcdcluster.Rehearsal) {}, false),
		Entry("looked into another store", func(r *etcdcluster.Rehearsal) { r.Store = "another" }, true),
		Entry("was told of already", func(r *etcdcluster.Rehearsal) { r.Succeeded, r.Failed, r.Recorded = false, true, true }, true),
		Entry("was of an earlier Etcd of the name", func(r *etcdcluster.Rehearsal) { r.OwnerUID = "other" }, true),
	)

	It("says what keeps the Job from looking into the store, and the way out", func() {
		s := created(3, withStore)
		s.event("nodes n2 and n3 are gone", func() { s.nodes[1].gone, s.nodes[2].gone = true, true })
		s.run()
		ask(s)
		s.seen.Rehearsal = etcdcluster.Rehearsal{Exists: true, Name: "main-rehearsal", UID: "job", OwnerUID: "etcd-uid", Message: "pod main-rehearsal-x has no node: 0/3 nodes"}
		p := planner.For(s.etcd, s.seen, s.now)
		Expect(p.Render).To(BeFalse())
		Expect(p.WaitsFor).To(Equal("Job main-rehearsal to restore from the store: pod main-rehearsal-x has no node: 0/3 nodes (if you have looked into the store yourself, or that data is worth nothing, ask with druid.gardener.cloud/restore=from-store-unverified)"))
	})

	It("goes on with a restore after the cluster was hibernated in the middle of it", func() {
		s := created(3, withStore)
		s.event("the data of all members is destroyed", func() { loseAll(s) })
		s.run()
		s.event("a restore is asked for", func() { ask(s) })
		s.runUntil(func() bool { return s.seen.State.Restore == "discard" && len(s.seen.Pods) == 0 })
		s.event("spec.replicas becomes 0", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		s.event("spec.replicas becomes 3", func() { s.etcd.Spec.Replicas = 3 })
		s.run()
		restored(s)
	})

	It("restores a cluster that is woken for it", func() {
		s := created(3, withStore)
		s.event("spec.replicas becomes 0", func() { s.etcd.Spec.Replicas = 0 })
		s.run()
		s.event("keys are lost, a restore is asked for, and spec.replicas becomes 3", func() { s.keys = 0; ask(s); s.etcd.Spec.Replicas = 3 })
		s.run()
		restored(s)
	})

	DescribeTable("does nothing, and says why, where",
		func(change func(*seed), message string) {
			s := created(3, withStore)
			change(s)
			s.see()
			if s.etcd.Annotations == nil {
				ask(s)
			}
			begins, ignored := planner.EvaluateRestore(s.etcd, s.seen, s.now)
			Expect(begins).To(BeFalse())
			Expect(ignored).To(ContainSubstring(message))
			Expect(planner.For(s.etcd, s.seen, s.now).Restore).To(BeEmpty())
		},
		Entry("a member serves", func(*seed) {}, "member main-0 serves"),
		Entry("there is no store", func(s *seed) { s.etcd.Spec.Backup.Store = nil }, "spec.backup.store is not set"),
		Entry("the value is another", func(s *seed) { s.etcd.Annotations = map[string]string{"druid.gardener.cloud/restore": "true"} }, `the only values are "from-store" and "from-store-unverified"`),
		Entry("somebody else runs the members", func(s *seed) { s.etcd.Spec.ExternallyManagedMemberAddresses = []string{"a", "b", "c"} }, "run by somebody else"),
		Entry("members are only out of sight", func(s *seed) {
			for _, node := range s.nodes {
				node.partitioned = true
			}
			s.kubelet()
		}, "is out of sight on node n1 and may serve"),
		Entry("no snapshot is known, and data is left", func(s *seed) {
			s.seen.FullSnapshotLease = etcdcluster.Lease{}
			loseAll(s)
			s.kubelet()
			s.kubelet()
			for i := range s.seen.Pods {
				s.seen.Pods[i].Ready, s.seen.Pods[i].ContainersReady = false, false
			}
		}, "no full snapshot is known of in lease main-full-snap, and claim main-main-0 still has data"),
		Entry("the snapshots that are known lie in another store, and data is left", func(s *seed) {
			s.seen.FullSnapshotLease.Store, s.seen.StoreLocation = "the store of before", "the new store"
			loseAll(s)
			s.kubelet()
			s.kubelet()
			for i := range s.seen.Pods {
				s.seen.Pods[i].Ready, s.seen.Pods[i].ContainersReady = false, false
			}
		}, "no full snapshot is known of in lease main-full-snap, and claim main-main-0 still has data"),
	)

	DescribeTable("waits, and discards nothing, while",
		func(replicas int32, happen func(*seed), waitsFor string) {
			s := created(replicas, withStore)
			s.event("something passing", func() { happen(s); s.see() })
			ask(s)
			p := planner.For(s.etcd, s.seen, s.now)
			Expect(p.Restore).To(BeEmpty())
			Expect(p.WaitsFor).To(ContainSubstring(waitsFor))
			s.run()
			s.expectDone()
			Expect(s.steps).NotTo(HaveKey("DiscardClaim"))
			Expect(s.etcd.Annotations).To(BeEmpty(), "it is ignored when the members serve again")
		},
		Entry("a single pod is on its way out", int32(1), func(s *seed) { s.terminate(s.seen.PodFor(0)) }, "the restore that is asked for waits for pod main-0 to be gone"),
		Entry("a single pod is being made anew", int32(1), func(s *seed) { s.seen.Pods = nil }, "the restore that is asked for waits for pod main-0 to be created"),
		Entry("a single pod has just started", int32(1), func(s *seed) {
			s.seen.Pods = nil
			s.statefulSetController()
		}, "the restore that is asked for waits for pod main-0 not to serve for 2m0s after its start"),
		Entry("all pods of three restart", int32(3), func(s *seed) {
			s.leader = 0
			s.seen.Pods = nil
			s.statefulSetController()
		}, "the restore that is asked for waits for pod main-0 not to serve for 2m0s after its start"),
	)

	It("decides nothing while it cannot read what would be discarded", func() {
		s := created(3, withStore)
		ask(s)
		loseAll(s)
		s.seen.Failures = []etcdcluster.ReadFailure{{Section: "PersistentVolumeClaims", Message: "forbidden"}}
		begins, ignored := planner.EvaluateRestore(s.etcd, s.seen, s.now)
		Expect(begins).To(BeFalse())
		Expect(ignored).To(BeEmpty())
	})
})

// runUntil lets the world go on until something holds.
func (s *seed) runUntil(holds func() bool) {
	GinkgoHelper()
	for range 200 {
		if holds() {
			return
		}
		s.runFor(1)
	}
	Fail("it never holds:\n" + strings.Join(s.trace, "\n"))
}
