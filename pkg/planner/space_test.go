// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const mebibyte = 1 << 20

func withSmallQuota(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.Quota = resource.NewQuantity(64*mebibyte, resource.BinarySI)
}

var _ = Describe("A full database", func() {
	// full returns a cluster whose databases have just reached their quota.
	full := func(replicas int32, keys int64, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, append(change, withSmallQuota)...)
		s.run()
		s.expectDone()
		s.Write(5000)
		s.tick()
		s.reconcile()
		s.resetTrace()
		s.inject("all databases reach their quota of 64Mi", func() {
			s.FillDatabases(keys)
			Expect(s.Write(1)).To(BeFalse())
			s.Refresh()
		})

		return s
	}
	spaceCondition := func(s *scenario) *druidv1alpha1.Condition {
		return conditions.Find(s.Etcd.Status.Conditions, "DatabaseSpaceAvailable")
	}
	// expectSpace expects that clients can write again, without a pod that was replaced.
	expectSpace := func(s *scenario) {
		GinkgoHelper()
		s.expectDone()
		Expect(s.Alarms).To(BeEmpty())
		Expect(s.LargestDatabase()).To(BeNumerically("<", 64*mebibyte/10*8))
		Expect(s.Write(1)).To(BeTrue())
		Expect(s.steps).NotTo(Or(HaveKey("DeletePod"), HaveKey("EvictPod")))
	}

	DescribeTable("gets space, and its alarms are disarmed within two minutes",
		func(golden string, replicas int32, change ...func(*druidv1alpha1.Etcd)) {
			s := full(replicas, 10*mebibyte, change...)
			began := s.Now()
			s.runUntil(func() bool { return len(s.Alarms) == 0 })
			Expect(s.Now().Sub(began)).To(BeNumerically("<", spaceTimeout))
			s.run()
			expectSpace(s)
			s.expectGolden(golden)
			s.reconcile()
			Expect(spaceCondition(s)).To(HaveField("Reason", "SpaceAvailable"))
		},
		Entry("in a cluster of three members with a store", "nospace-three", int32(3), withStore),
		Entry("in a cluster of three members without a store", "nospace-three-without-store", int32(3)),
		Entry("in a single member with a store", "nospace-one", int32(1), withStore),
	)

	It("gets space although its members report too late what a compaction has freed", func() {
		s := full(3, 10*mebibyte, withStore)
		s.StaleSizes = true
		s.run()
		expectSpace(s)
		Expect(s.steps).To(And(HaveKeyWithValue("DefragmentMember", 3), Not(HaveKey("CountKeys"))))
		s.expectGolden("nospace-stale")
	})

	It("gets space although the store is unavailable", func() {
		s := full(3, 10*mebibyte, withStore)
		s.inject("the store is unavailable", func() { s.Store.Down = true })
		s.run()
		expectSpace(s)
		s.expectGolden("nospace-without-available-store")
	})

	It("is reported with the prefixes of the keys if these need too much, and gets space with a larger quota", func() {
		s := full(3, 60*mebibyte)
		s.runFor(60)
		Expect(s.Alarms).NotTo(BeEmpty())
		Expect(spaceCondition(s)).To(HaveField("Reason", "FreeingSpaceBlocked"))
		Expect(spaceCondition(s).Message).To(Equal("etcd rejects writes, because it has raised the alarm NOSPACE for member main-0 and member main-1 and member main-2. " +
			"The keys need 58Mi without their history, more than 80% of the quota of 64Mi. The prefixes with most keys: /registry/events/ has 5000. " +
			"Delete keys, or increase spec.etcd.quota"))
		Expect(s.steps).To(HaveKeyWithValue("DefragmentMember", 1), "it finds out how much the keys need once")
		s.runFor(180)
		Expect(s.steps).To(HaveKeyWithValue("DefragmentMember", 1), "nothing was written since")
		s.inject("spec.etcd.quota becomes 128Mi", func() { s.Etcd.Spec.Etcd.Quota = resource.NewQuantity(128*mebibyte, resource.BinarySI) })
		s.run()
		s.expectDone()
		Expect(s.Alarms).To(BeEmpty())
		s.expectGolden("nospace-blocked")
	})

	It("is disarmed also for a member that does not exist any more", func() {
		s := full(3, 10*mebibyte)
		s.RaiseAlarm(0xdead)
		s.run()
		expectSpace(s)
		Expect(s.steps).To(HaveKeyWithValue("DisarmAlarm", 4))
	})

	It("waits for a member that is not healthy, which recovers first", func() {
		s := full(3, 10*mebibyte)
		s.inject("the volume of main-2 is lost", func() {
			s.LoseVolume(2)
			s.DeletePod(2)
		})
		s.run()
		s.expectDone()
		Expect(s.Alarms).To(BeEmpty())
		Expect(s.trace).To(ContainElement(ContainSubstring("ReplaceClaim")))
	})

	It("stays as it is while the alarm CORRUPT is raised", func() {
		s := full(3, 10*mebibyte)
		corrupt := etcdcluster.Alarm{Type: etcdcluster.AlarmCorrupt}
		s.Alarms = append(s.Alarms, corrupt)
		s.Refresh()
		s.runFor(60)
		Expect(s.Alarms).To(ContainElement(corrupt))
		Expect(s.steps).To(BeEmpty())
		Expect(spaceCondition(s).Message).To(ContainSubstring("while the alarm CORRUPT is raised"))
	})

	It("is not defragmented on a volume without room for the copy", func() {
		s := full(3, 10*mebibyte, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity = resource.NewQuantity(70*mebibyte, resource.BinarySI)
		})
		s.runFor(60)
		Expect(s.steps).NotTo(HaveKey("DefragmentMember"))
		Expect(spaceCondition(s).Message).To(ContainSubstring("The volume of PersistentVolumeClaim main-main-0 has 70Mi"))
	})

	It("is reported if etcd raises the alarm again at once, because members run with a smaller quota", func() {
		s := full(3, 10*mebibyte)
		s.run()
		expectSpace(s)
		s.resetTrace()
		s.RaiseAlarm(s.Member(0).ID)
		s.Refresh()
		s.runFor(60)
		Expect(s.steps).To(BeEmpty())
		Expect(spaceCondition(s).Message).To(ContainSubstring("The quota of a member may be smaller until its pod is replaced"))
	})

	It("gets space at once although its members were stopped soon after the last end, and have not reported the sizes of their files yet", func() {
		s := full(3, 10*mebibyte)
		s.run()
		s.expectDone()
		s.inject("all databases reach their quota again, and spec.replicas becomes 0", func() {
			s.FillDatabases(10 * mebibyte)
			Expect(s.Write(1)).To(BeFalse())
			s.Etcd.Spec.Replicas = 0
		})
		s.runFor(10)
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		began := s.Now()
		s.runUntil(func() bool { return len(s.Alarms) == 0 })
		Expect(s.Now().Sub(began)).To(BeNumerically("<", spaceTimeout))
	})

	It("is left to the rollout of another quota also while members are added that do not run yet", func() {
		s := full(3, 10*mebibyte)
		s.run()
		s.expectDone()
		s.resetTrace()
		s.inject("members run with a smaller quota, another quota is requested, and spec.replicas becomes 5", func() {
			s.RaiseAlarm(s.Member(0).ID)
			s.Etcd.Spec.Etcd.Quota, s.image = resource.NewQuantity(128*mebibyte, resource.BinarySI), "v2"
			s.Etcd.Spec.Replicas = 5
		})
		s.Refresh()
		s.runFor(5)
		Expect(s.steps).To(And(HaveKey("EvictPod"), Not(HaveKey("CompactHistory"))))
	})

	It("continues after the operator has stopped at any time", func() {
		for tick := range 30 {
			s := full(3, 10*mebibyte, withStore)
			s.runFor(tick)
			s.inject("another operator starts", func() { s.Objects.SpaceCall = etcdcluster.SpaceCall{Running: s.Objects.SpaceCall.Running} })
			s.run()
			expectSpace(s)
		}
	})

	DescribeTable("is recorded from the results of calls",
		func(call etcdcluster.SpaceCall, expected string) {
			s := full(3, 10*mebibyte, withStore)
			s.Objects.State.Space = &state.Space{Since: s.Now()}
			call.Object, call.StartedAt, call.EndedAt = "main-0", s.Now(), s.Now()
			s.Objects.DeltaSnapshotLease.Holder = "4000"
			for range 2 { // the result stays observed
				s.Objects.SpaceCall = call
				p := planner.For(s.Etcd, s.Observe(), s.Now())
				space := p.Space
				Expect(fmt.Sprintf("stored %d, compacted %d, failures %d, %s", space.Stored, space.Compacted, space.Failures, space.Error)).To(Equal(expected))
				s.Objects.State.Space = space
			}
		},
		Entry("of a snapshot", etcdcluster.SpaceCall{Kind: "TakeDeltaSnapshot", Stored: 5001}, "stored 5001, compacted 0, failures 0, "),
		Entry("of a snapshot that failed", etcdcluster.SpaceCall{Kind: "TakeDeltaSnapshot", Err: errors.New("no")}, "stored 0, compacted 0, failures 1, no"),
		Entry("of a compaction", etcdcluster.SpaceCall{Kind: "CompactHistory", Compacted: 5001}, "stored 0, compacted 5001, failures 0, "),
		Entry("of a compaction that failed", etcdcluster.SpaceCall{Kind: "CompactHistory", Compacted: 5001, Err: errors.New("no")}, "stored 0, compacted 0, failures 1, no"),
		Entry("of a defragmentation that failed", etcdcluster.SpaceCall{Kind: "DefragmentMember", Err: errors.New("no")}, "stored 0, compacted 0, failures 1, no"),
		Entry("but not of one that runs", etcdcluster.SpaceCall{Kind: "CompactHistory", Compacted: 5001, Running: true}, "stored 0, compacted 0, failures 0, "),
	)

	It("waits longer after each call that failed", func() {
		s := full(3, 10*mebibyte)
		s.Objects.State.Space = &state.Space{Since: s.Now(), At: s.Now(), Failures: 3, Error: "no", Stored: 1}
		p := planner.For(s.Etcd, s.Observe(), s.Now())
		Expect(p.Step).To(BeNil())
		Expect(p.RequeueAfter).To(Equal(time.Minute))
		Expect(p.WaitsFor).To(Equal("the next attempt at " + s.Now().Add(time.Minute).UTC().Format(time.RFC3339) + ": no"))
	})

	DescribeTable("stays as it is while",
		func(change func(*etcdcluster.Observation), stage plan.Stage) {
			s := full(3, 10*mebibyte)
			o := s.Observe()
			change(&o)
			p := planner.For(s.Etcd, o, s.Now())
			Expect(p.Stage).To(Equal(stage))
			Expect(p.Step).To(BeNil())
			Expect(p.Space.IsActive()).To(BeTrue())
		},
		Entry("a task defragments the members", func(o *etcdcluster.Observation) { o.Defragmentation = "task" }, plan.StageFreeSpace),
		Entry("a call runs", func(o *etcdcluster.Observation) { o.SpaceCall.Running = true }, plan.StageFreeSpace),
		Entry("the operator rejects writes", func(o *etcdcluster.Observation) {
			o.Etcd.Alarms = append(slices.Clone(o.Etcd.Alarms), etcdcluster.WriteRejections...)
		}, plan.StageDone),
		Entry("a member is not healthy", func(o *etcdcluster.Observation) {
			o.Etcd.Members = slices.Clone(o.Etcd.Members)
			o.Etcd.Members[2].Healthy = false
		}, plan.StageWaitForMembers),
	)
})
