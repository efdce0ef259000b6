// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The conditions during a surge", func() {
	surging := func(listed ...etcdcluster.ListedMember) conditions.Input {
		return healthy(func(in *conditions.Input) {
			in.Etcd.Spec.Replicas = 1
			o := &in.Observation
			o.StatefulSet.SpecReplicas, o.Pods, o.Etcd.Members, o.Etcd.MemberList = 2, o.Pods[:2], o.Etcd.Members[:2], listed
			o.State.Surge = &state.Surge{Phase: state.SurgeReturn, Since: noon, Cause: "its pod template has changed"}
		})
	}

	It("are those of the voting members", func() {
		in := surging(etcdcluster.ListedMember{ID: 2, Name: "main-1"})
		in.Observation.Etcd.Members[0] = etcdcluster.EndpointStatus{Ordinal: 0}
		in.Observation.Pods[0].Ready = false
		Expect(statusAndReason(conditions.Ready(in))).To(Equal("True Quorate"))
		Expect(conditions.AllMembersReady(in)).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Message", ContainSubstring("because its pod template has changed"))))
		Expect(conditions.AllMembersUpdated(in)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("the phase is Return, since 2026-01-01T12:00:00Z"))))
		before := druidv1alpha1.Condition{Type: druidv1alpha1.ConditionTypeScaleOperationComplete, Status: druidv1alpha1.ConditionTrue, Reason: "before"}
		in.Etcd.Status.Conditions = []druidv1alpha1.Condition{before}
		Expect(conditions.ScaleOperationComplete(in)).To(HaveValue(Equal(before)), "a surge is no scale operation")
	})

	It("report that the temporary member has another cluster ID", func() {
		in := surging(etcdcluster.ListedMember{ID: 1, Name: "main-0"})
		in.Observation.Etcd.Members[1].ClusterID++
		Expect(statusAndReason(conditions.ClusterIDMismatch(in))).To(Equal("True MultipleClusterIDsDetected"))
	})

	It("report that one of two voting members is not healthy", func() {
		in := surging(etcdcluster.ListedMember{ID: 1, Name: "main-0"}, etcdcluster.ListedMember{ID: 2, Name: "main-1"})
		in.Observation.Etcd.Members[0].Healthy = false
		in.Observation.Etcd.Members[1].Healthy = false
		Expect(statusAndReason(conditions.Ready(in))).To(Equal("False QuorumLost"))
		Expect(statusAndReason(conditions.AllMembersReady(in))).To(Equal("False NotAllMembersReady"))
	})

	It("report an aborted surge", func() {
		in := surging()
		in.Observation.State.Surge = &state.Surge{Phase: state.SurgeAborted, Since: noon, Error: "container etcd of pod main-1 waits: ImagePullBackOff"}
		in.Observation.StatefulSet.UpdateRevision = "b"
		Expect(conditions.AllMembersUpdated(in)).To(HaveField("Message", "The last surge was aborted, and the member keeps running: container etcd of pod main-1 waits: ImagePullBackOff"))
	})
})

var _ = Describe("The conditions during a volume migration", func() {
	migrating := func(phase state.MigrationPhase, listed ...etcdcluster.ListedMember) conditions.Input {
		return healthy(func(in *conditions.Input) {
			o := &in.Observation
			o.State.Migration, o.Etcd.MemberList = &state.Migration{Phase: phase, Since: noon, Cause: "the volume of main-1 is too large"}, listed
			o.Claims = []etcdcluster.Claim{
				{Ordinal: 0, Exists: true, CreationTime: noon.Add(-time.Hour)}, {Ordinal: 1, Exists: true, CreationTime: noon.Add(time.Minute)},
				{Ordinal: 2, Exists: true, Deleting: true, CreationTime: noon.Add(time.Minute)}, {Ordinal: 3, Exists: true, CreationTime: noon.Add(time.Minute)},
			}
		})
	}
	four := []etcdcluster.ListedMember{{ID: 1, Name: "main-0"}, {ID: 2, Name: "main-1"}, {ID: 3, Name: "main-2"}, {ID: 4, Name: "main-3"}}

	DescribeTable("report its progress, how many members can fail, and how to pause it", func(phase state.MigrationPhase, progress string) {
		Expect(conditions.AllMembersUpdated(migrating(phase, four...))).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", And(
			HavePrefix(progress+", because the volume of main-1 is too large; 4 members vote, of which 1 can fail; "), HaveSuffix("; the annotation druid.gardener.cloud/suspend-etcd-spec-reconcile pauses it"),
		))))
	},
		Entry("before the extra member", state.MigrationRequested, "Volumes are to be replaced, and no extra member has been added yet"),
		Entry("while members are replaced", state.MigrationReplace, "1 of 3 volumes were replaced"),
		Entry("while the extra member is removed", state.MigrationEnd, "No more volumes are replaced, and the extra member is removed"),
	)

	It("are those of the voting members while a member joins again", func() {
		in := migrating(state.MigrationReplace, four[0], four[2], four[3])
		in.Observation.Etcd.Members[1] = etcdcluster.EndpointStatus{Ordinal: 1}
		in.Observation.Pods[1].Ready = false
		Expect(statusAndReason(conditions.Ready(in))).To(Equal("True Quorate"))
	})
})
