// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
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
