// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// ScaleOperationComplete is False while members are added to a cluster or removed from it. The operator writes False before it removes the
// first member. A hibernation keeps the condition. Nil: no member ran yet.
func ScaleOperationComplete(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeScaleOperationComplete
	running, size := etcdcluster.RenderedReplicas(in.Observation), in.Etcd.Spec.Replicas
	scaleIn, last := in.Observation.State.ScaleIn, in.Observation.State.Size
	leaving := etcdcluster.LeavingExisting(in.Etcd)
	switch {
	case len(leaving) > 0 && running > 0:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonBootstrapMembersRemoval, fmt.Sprintf("%d members of the joined cluster are removed", len(leaving)))
	case scaleIn != nil:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonScalingIn, fmt.Sprintf("The cluster is scaled in from %d to %d members", last, scaleIn.To))
	case running == 0 || in.isHibernated():
		return Find(in.Etcd.Status.Conditions, conditionType)
	case running <= size && size < last: // not all members were added, and no member has to be removed
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonScalingIn, fmt.Sprintf("%d of %d members have been started, and the cluster is to have %d", running, last, size))
	case running < size && len(in.Etcd.Spec.ExternallyManagedMemberAddresses) == 0:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonScalingOut, fmt.Sprintf("%d of %d members have been started", running, size))
	default:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNoScaleOperation, "No member is added or removed")
	}
}
