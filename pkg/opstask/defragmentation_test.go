// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("Defragmentation", func() {
	// members returns an observation of healthy members with the IDs 10, 11, ...
	members := func(count int, leader uint64) etcdcluster.Observation {
		var o etcdcluster.Observation
		for i := range count {
			o.Pods = append(o.Pods, etcdcluster.Pod{Name: fmt.Sprintf("test-%d", i), Ordinal: i, Ready: true})
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: i, Reachable: true, Healthy: true, MemberID: uint64(10 + i), LeaderID: leader})
		}

		return o
	}
	describe := func(step opstask.Defragmentation) string {
		switch {
		case step.WaitsFor != "":
			return "waits for " + step.WaitsFor
		case step.Member == nil:
			return "done"
		case step.MoveTo != 0:
			return fmt.Sprintf("%s transfers leadership to %d", step.Member.Name, step.MoveTo)
		default:
			return "defragments " + step.Member.Name
		}
	}

	It("should defragment the followers first, and the leader after it transferred leadership", func() {
		etcd, done, leader := fixture.Etcd(fixture.WithReplicas(3)), map[uint64]bool{}, uint64(10)
		var trace []string
		for range 5 {
			step := opstask.DefragmentationFor(etcd, members(3, leader), done, false)
			trace = append(trace, describe(step))
			switch {
			case step.MoveTo != 0:
				leader = step.MoveTo
			case step.Member != nil:
				done[step.Member.ID()] = true
			}
		}
		Expect(trace).To(Equal([]string{"defragments test-1", "defragments test-2", "test-0 transfers leadership to 11", "defragments test-0", "done"}))
	})

	It("should continue after a leader election", func() {
		Expect(describe(opstask.DefragmentationFor(fixture.Etcd(fixture.WithReplicas(3)), members(3, 12), map[uint64]bool{10: true}, false))).To(Equal("defragments test-1"))
	})

	It("should defragment a single member without a transfer of leadership", func() {
		Expect(describe(opstask.DefragmentationFor(fixture.Etcd(), members(1, 10), nil, false))).To(Equal("defragments test-0"))
		Expect(describe(opstask.DefragmentationFor(fixture.Etcd(), members(1, 10), map[uint64]bool{10: true}, false))).To(Equal("done"))
	})

	It("should skip members that gain little, if it is planned", func() {
		o := members(3, 10)
		for i := range o.Etcd.Members {
			o.Etcd.Members[i].DBSize, o.Etcd.Members[i].DBSizeInUse = 100, 91
		}
		next := func(isPlanned bool) string {
			return describe(opstask.DefragmentationFor(fixture.Etcd(fixture.WithReplicas(3)), o, nil, isPlanned))
		}
		Expect(next(true)).To(Equal("done"))
		Expect(next(false)).To(Equal("defragments test-1"))
		o.Etcd.Members[2].DBSizeInUse = 90
		Expect(next(true)).To(Equal("defragments test-2"))
		o.Etcd.Members[2].DBSizeInUse, o.Etcd.Members[0].DBSizeInUse = 91, 50
		Expect(next(true)).To(Equal("test-0 transfers leadership to 11"))
	})

	DescribeTable("should wait",
		func(change func(*etcdcluster.Observation), waits string) {
			o := members(3, 10)
			change(&o)
			Expect(describe(opstask.DefragmentationFor(fixture.Etcd(fixture.WithReplicas(3)), o, nil, false))).To(Equal("waits for " + waits))
		},
		Entry("for an unhealthy member", func(o *etcdcluster.Observation) { o.Etcd.Members[2].Healthy = false }, "member test-2 to be healthy"),
		Entry("for a learner", func(o *etcdcluster.Observation) { o.Etcd.Members[1].Learner = true }, "member test-1 to be healthy"),
		Entry("for a member without a status", func(o *etcdcluster.Observation) { o.Etcd.Members = o.Etcd.Members[:2] }, "member test-2 to be healthy"),
		Entry("for a pod that is being deleted", func(o *etcdcluster.Observation) { o.Pods[1].Deleting = true }, "member test-1 to be healthy"),
		Entry("for a leader", func(o *etcdcluster.Observation) {
			for i := range o.Etcd.Members {
				o.Etcd.Members[i].LeaderID = 0
			}
		}, "the members to agree on a leader"),
	)

	DescribeTable("should include members that vote, although the spec does not request them",
		func(replicas int32, recorded state.State, leader uint64, change func(*etcdcluster.Observation), expected string) {
			o := members(int(recorded.Size), leader)
			o.State = recorded
			change(&o)
			Expect(describe(opstask.DefragmentationFor(fixture.Etcd(fixture.WithReplicas(replicas)), o, nil, false))).To(Equal(expected))
		},
		Entry("a member that leaves and is not healthy", int32(3), state.State{Size: 5}, uint64(10), func(o *etcdcluster.Observation) { o.Etcd.Members[4].Healthy = false }, "waits for member test-4 to be healthy"),
		Entry("followers that leave", int32(1), state.State{Size: 3}, uint64(10), func(*etcdcluster.Observation) {}, "defragments test-1"),
	)

	DescribeTable("should be reported by the name of its task",
		func(change func(*druidv1alpha1.EtcdOpsTask), expected string) {
			task := druidv1alpha1.EtcdOpsTask{}
			task.Name = "shrink"
			task.Spec.EtcdName = new("test")
			task.Spec.Config.Defragmentation = &druidv1alpha1.DefragmentationConfig{}
			task.Status.State = new(druidv1alpha1.TaskState("InProgress"))
			task.Status.LastOperation = &druidv1alpha1.LastOperation{Description: opstask.AttemptMessage(1, 3)}
			change(&task)
			Expect(opstask.DefragmentationOf(fixture.Etcd(), []druidv1alpha1.EtcdOpsTask{{}, task})).To(Equal(expected))
		},
		Entry("while it is in progress", func(*druidv1alpha1.EtcdOpsTask) {}, "shrink"),
		Entry("not while it waits for the end of a surge, which would wait for the task", func(t *druidv1alpha1.EtcdOpsTask) {
			t.Status.LastOperation.Description = opstask.DefragmentationPrecondition(state.State{Surge: &state.Surge{Phase: state.SurgeJoin}}).Message
		}, ""),
		Entry("not before", func(t *druidv1alpha1.EtcdOpsTask) { t.Status.State = new(druidv1alpha1.TaskState("Pending")) }, ""),
		Entry("not after", func(t *druidv1alpha1.EtcdOpsTask) { t.Status.State = new(druidv1alpha1.TaskState("Succeeded")) }, ""),
		Entry("not before the controller reconciled it", func(t *druidv1alpha1.EtcdOpsTask) { t.Status.State = nil }, ""),
		Entry("not of another Etcd", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.EtcdName = new("other") }, ""),
		Entry("not of another kind", func(t *druidv1alpha1.EtcdOpsTask) {
			t.Spec.Config = druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: "full"}}
		}, ""),
	)

	DescribeTable("should wait for the end of a procedure",
		func(recorded state.State, waits string) {
			unmet := opstask.DefragmentationPrecondition(recorded)
			if waits == "" {
				Expect(unmet).To(BeNil())
			} else {
				Expect(unmet).To(HaveField("Message", "Waiting for "+waits+" to be complete"))
			}
		},
		Entry("a surge", state.State{Surge: &state.Surge{Phase: state.SurgeReplace}}, "the surge with two voting members"),
		Entry("a volume migration", state.State{Migration: &state.Migration{Phase: state.MigrationReplace}}, "the volume migration"),
		Entry("a scale-in", state.State{ScaleIn: &state.ScaleIn{To: 3}}, "the scale-in to 3 members"),
		Entry("a restore", state.State{Restore: state.RestoreJoin}, "the restore from the backup store"),
		Entry("a removal of joined members", state.State{Existing: &state.Existing{Voters: 2}}, "the removal of the members of the joined cluster"),
		Entry("a replacement of different data", state.State{Inconsistency: &state.Inconsistency{}}, "the replacement of members with different data"),
		Entry("none", state.State{Surge: &state.Surge{Phase: state.SurgeComplete}, Migration: &state.Migration{Phase: state.MigrationRequested}, Existing: &state.Existing{}}, ""),
	)

	It("should keep a single member from being replaced", func() {
		etcd, o := fixture.Etcd(), members(1, 10)
		o.StatefulSet = etcdcluster.StatefulSet{Exists: true, Name: "test", SpecReplicas: 1, UpdateRevision: "new"}
		Expect(planner.For(etcd, o, time.Now()).Step).NotTo(BeNil())
		o.Defragmentation = "shrink"
		Expect(planner.For(etcd, o, time.Now()).Step).To(BeNil())
		Expect(planner.For(etcd, o, time.Now()).WaitsFor).To(Equal("EtcdOpsTask shrink to end"))
	})

	It("should call the sidecar of the leader, or of any healthy member without a leader", func() {
		etcd := fixture.Etcd(fixture.WithReplicas(3))
		Expect(opstask.SnapshotMember(etcd, members(3, 11)).Name).To(Equal("test-1"))
		Expect(opstask.SnapshotMember(etcd, members(3, 0)).Name).To(Equal("test-0"))
		Expect(opstask.SnapshotMember(etcd, etcdcluster.Observation{})).To(BeNil())
	})

	It("should call the sidecar of the temporary member while the first member of a surge is removed", func() {
		o := members(2, 11)
		o.State.Surge = &state.Surge{Phase: state.SurgeDiscard}
		o.Etcd.MemberList = []etcdcluster.ListedMember{{ID: 11, Name: "test-1"}}
		Expect(opstask.SnapshotMember(fixture.Etcd(), o)).To(HaveField("Name", "test-1"))
		o.Etcd.Members[1].LeaderID = 0
		Expect(opstask.SnapshotMember(fixture.Etcd(), o)).To(HaveField("Name", "test-1"), "the removed member still responds")
	})
})
