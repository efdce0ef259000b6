// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// ScaleOperationComplete is False while members are added to a cluster or removed from it. The operator writes ScalingIn or
// BootstrapMembersRemoval before it removes the first member. Before, the reason is RemovalPending: the API server still accepts the previous
// spec. While no learner has joined, the reason is JoinPending instead of ScalingOut, for the same purpose. A hibernation, a surge and a volume migration keep the condition. Nil: no member ran yet.
func ScaleOperationComplete(in Input) *druidv1alpha1.Condition {
	if in.isSurging() || ChangesOnlyExtraMember(in.Etcd, in.Observation) {
		return Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeScaleOperationComplete)
	}

	return scaleOperationComplete(in)
}

// ChangesOnlyExtraMember is true while a volume migration adds or removes its extra member, and spec.replicas has not changed meanwhile.
func ChangesOnlyExtraMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	size := etcd.Spec.Replicas

	return o.State.Migration.IsActive() && o.State.Size == size+1 && etcdcluster.RenderedReplicas(o) >= size && (o.State.ScaleIn == nil || o.State.ScaleIn.To == size)
}

func scaleOperationComplete(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeScaleOperationComplete
	running, size := etcdcluster.RenderedReplicas(in.Observation), in.Etcd.Spec.Replicas
	scaleIn, last := in.Observation.State.ScaleIn, sizeBefore(in.Observation.State)
	incomplete := func(reason, format string, args ...any) *druidv1alpha1.Condition {
		return condition(conditionType, druidv1alpha1.ConditionFalse, reason, fmt.Sprintf(format, args...))
	}
	leaving, existing := etcdcluster.LeavingExisting(in.Etcd), in.Observation.State.Existing
	switch {
	case running > 0 && len(leaving) > 0 && existing != nil && existing.Voters > 0:
		return incomplete(druidv1alpha1.ReasonBootstrapMembersRemoval, "%d members of the joined cluster are removed", len(leaving))
	case scaleIn != nil:
		return incomplete(druidv1alpha1.ReasonScalingIn, "The cluster is scaled in from %d to %d members", last, scaleIn.To)
	case running == 0 || in.isHibernated():
		return Find(in.Etcd.Status.Conditions, conditionType)
	case running <= size && size < last: // not all members were added, and no member has to be removed
		return incomplete(druidv1alpha1.ReasonScalingIn, "%d of %d members have been started, and the cluster is to have %d", running, last, size)
	case len(in.Etcd.Spec.ExternallyManagedMemberAddresses) > 0:
	case running < size:
		return incomplete(scalingOut(in), "%d of %d members have been started%s", running, size, wayBack(in))
	case running > size:
		return incomplete(druidv1alpha1.ReasonRemovalPending, "%d of %d members are to be removed, and no member was removed yet", running-size, running)
	case len(leaving) > 0:
		return incomplete(druidv1alpha1.ReasonRemovalPending, "%d members of the joined cluster are to be removed, and no member was removed yet", len(leaving))
	case isScalingOut(in) && listedVoters(in) < int(size):
		return incomplete(scalingOut(in), "%d of %d members vote%s", listedVoters(in), size, wayBack(in))
	}

	return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNoScaleOperation, "No member is added or removed")
}

// sizeBefore returns the last recorded size without the extra member of a volume migration.
func sizeBefore(s state.State) int32 {
	if s.Migration.AddsMember() {
		return s.Size - 1
	}

	return s.Size
}

// scalingOut returns the reason while members are added. The API server accepts a smaller size while it is JoinPending.
func scalingOut(in Input) string {
	if etcdcluster.SizeBefore(in.Etcd, in.Observation) > 0 {
		return druidv1alpha1.ReasonJoinPending
	}

	return druidv1alpha1.ReasonScalingOut
}

// wayBack names the size to which a scale-up can be taken back. Empty: it cannot be taken back.
func wayBack(in Input) string {
	if before := etcdcluster.SizeBefore(in.Etcd, in.Observation); before > 0 {
		return fmt.Sprintf(", and no learner has joined: spec.replicas can be %d again", before)
	}

	return ""
}

// isScalingOut is true if members were added and not all of them were voting members before. A member that joins again with a new volume does not
// begin a scale operation.
func isScalingOut(in Input) bool {
	before := Find(in.Etcd.Status.Conditions, druidv1alpha1.ConditionTypeScaleOperationComplete)

	return before != nil && (before.Reason == druidv1alpha1.ReasonScalingOut || before.Reason == druidv1alpha1.ReasonJoinPending)
}

// listedVoters returns the number of voting members of the Etcd in the member list. 0: there is no list.
func listedVoters(in Input) int {
	if len(in.Observation.Etcd.MemberList) == 0 {
		return 0
	}

	return VotersFor(in.Etcd, in.Observation)
}
