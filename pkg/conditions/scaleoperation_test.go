// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// voting adds voting members with the ordinals below count to the member list.
func voting(in *conditions.Input, count int) {
	for ordinal := range count {
		in.Observation.Etcd.MemberList = append(in.Observation.Etcd.MemberList, etcdcluster.ListedMember{ID: uint64(ordinal) + 1, Name: fmt.Sprintf("main-%d", ordinal)}) // #nosec G115 -- an ordinal
	}
}

// neverVoted requests members, and has Leases without a holder.
func neverVoted(in *conditions.Input, replicas int32) {
	in.Etcd.Spec.Replicas, in.Observation.MemberLeases = replicas, nil
	for ordinal := range replicas {
		in.Observation.MemberLeases = append(in.Observation.MemberLeases, etcdcluster.Lease{Name: fmt.Sprintf("main-%d", ordinal)})
	}
}

// joined records a joined cluster, which the spec does not name.
func joined(in *conditions.Input) {
	in.Etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{Members: []druidv1alpha1.BootstrapJoinedMember{{Name: "old-0"}}}
}

// scalingOut is the condition while members were added before.
func scalingOut(in *conditions.Input) {
	in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{
		Type: druidv1alpha1.ConditionTypeScaleOperationComplete, Status: druidv1alpha1.ConditionFalse, Reason: druidv1alpha1.ReasonScalingOut,
	}}
}

var _ = DescribeTable("ScaleOperationComplete",
	func(change func(*conditions.Input), reason string) {
		in := healthy(func(in *conditions.Input) {
			in.Observation.State = state.State{Replicas: new(int32(3)), Size: 3}
			change(in)
		})
		condition := conditions.ScaleOperationComplete(in)
		Expect(condition).To(HaveField("Reason", reason), condition.Message)
		status := druidv1alpha1.ConditionFalse
		if reason == druidv1alpha1.ReasonNoScaleOperation {
			status = druidv1alpha1.ConditionTrue
		}
		Expect(condition).To(HaveField("Status", status))
	},
	Entry("is True for a cluster with the size of its spec", func(*conditions.Input) {}, "NoScaleOperation"),
	Entry("is False before the first member is removed", func(in *conditions.Input) { in.Etcd.Spec.Replicas = 1 }, "RemovalPending"),
	Entry("is False while members are removed", func(in *conditions.Input) {
		in.Etcd.Spec.Replicas, in.Observation.State.ScaleIn = 1, &state.ScaleIn{To: 1}
	}, "ScalingIn"),
	Entry("is False before a further member is started", func(in *conditions.Input) { neverVoted(in, 5) }, "JoinPending"),
	Entry("is False while the first further member has not joined", func(in *conditions.Input) {
		neverVoted(in, 5)
		in.Observation.State = state.State{Replicas: new(int32(4)), Size: 5}
		voting(in, 3)
	}, "JoinPending"),
	Entry("is False while the last member has not joined", func(in *conditions.Input) { scalingOut(in); voting(in, 2); neverVoted(in, 3) }, "JoinPending"),
	Entry("is False while the member list is not known after the start of a further member", func(in *conditions.Input) {
		neverVoted(in, 5)
		in.Observation.State = state.State{Replicas: new(int32(4)), Size: 5}
	}, "ScalingOut"),
	Entry("is False while the last member is a learner", func(in *conditions.Input) {
		scalingOut(in)
		voting(in, 2)
		neverVoted(in, 3)
		in.Observation.Etcd.MemberList = append(in.Observation.Etcd.MemberList, etcdcluster.ListedMember{ID: 3, Learner: true})
	}, "ScalingOut"),
	Entry("is False while the member list is not known after a start of members", scalingOut, "ScalingOut"),
	Entry("is True when all members vote", func(in *conditions.Input) { scalingOut(in); voting(in, 3) }, "NoScaleOperation"),
	Entry("is True while a member joins again with a new volume", func(in *conditions.Input) { voting(in, 2) }, "NoScaleOperation"),
	Entry("stays while the extra member of a volume migration runs", func(in *conditions.Input) {
		in.Observation.State = state.State{Replicas: new(int32(4)), Size: 4, Migration: &state.Migration{Phase: state.MigrationReplace}}
		in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{
			Type: druidv1alpha1.ConditionTypeScaleOperationComplete, Status: druidv1alpha1.ConditionTrue, Reason: druidv1alpha1.ReasonNoScaleOperation,
		}}
	}, "NoScaleOperation"),
	Entry("is False while members are removed in the middle of a volume migration", func(in *conditions.Input) {
		in.Observation.State = state.State{Replicas: new(int32(6)), Size: 6, Migration: &state.Migration{Phase: state.MigrationEnd}, ScaleIn: &state.ScaleIn{To: 3}}
	}, "ScalingIn"),
	Entry("is False while members are started in the middle of a volume migration", func(in *conditions.Input) {
		neverVoted(in, 5)
		in.Observation.State = state.State{Replicas: new(int32(4)), Size: 6, Migration: &state.Migration{Phase: state.MigrationReplace}}
	}, "ScalingOut"),
	Entry("is False before a member of the joined cluster is removed", joined, "RemovalPending"),
	Entry("is False while members of the joined cluster are removed, also before a scale-in", func(in *conditions.Input) {
		joined(in)
		in.Etcd.Spec.Replicas, in.Observation.State.Existing = 1, &state.Existing{Voters: 6}
	}, "BootstrapMembersRemoval"),
	Entry("is True while the spec names the members of the joined cluster", func(in *conditions.Input) {
		joined(in)
		in.Etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{Members: []druidv1alpha1.BootstrapExistingMember{{Name: "old-0"}}}
	}, "NoScaleOperation"),
)

var _ = Describe("Members that a scale-in removes", func() {
	It("count until they are removed", func() {
		in := healthy(func(in *conditions.Input) {
			in.Etcd.Spec.Replicas = 1
			in.Observation.State = state.State{Replicas: new(int32(3)), Size: 3}
			in.Observation.Etcd.Members[2].Healthy = false
			voting(in, 3)
		})
		Expect(conditions.AllMembersReady(in)).To(And(HaveField("Status", druidv1alpha1.ConditionFalse), HaveField("Message", ContainSubstring("main-2"))))
		Expect(conditions.Ready(in)).To(And(HaveField("Status", druidv1alpha1.ConditionTrue), HaveField("Message", ContainSubstring("2 of 3 members are healthy"))))
		in.Observation.Etcd.MemberList = in.Observation.Etcd.MemberList[:1]
		Expect(conditions.AllMembersReady(in)).To(HaveField("Status", druidv1alpha1.ConditionTrue))
	})
})
