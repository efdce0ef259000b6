// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// QuorumRecoverable is the condition of a cluster whose quorum is lost forever. waits is why the operator does not choose an option yet. Empty: a
// user has to choose. The etcd controller writes the condition.
func QuorumRecoverable(policy druidv1alpha1.RecoveryPolicy, isUsable bool, waits, options string) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeQuorumRecoverable
	switch {
	case options == "":
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNothingToRecoverFrom, "No data is left, and there is no backup store")
	case !isUsable:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNothingToRecoverFrom, "The operator cannot recover the cluster. "+options)
	case policy == druidv1alpha1.RecoveryPolicyNever:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonRecoveryForbidden, "The recovery policy is Never. "+options)
	case waits != "":
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonRecoveryPending, fmt.Sprintf("The recovery policy is %s: %s. %s", policy, waits, options))
	default:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonChoiceRequired,
			fmt.Sprintf("Choose an option with the annotation %s=TOKEN. %s", druidv1alpha1.RecoverAnnotation, options))
	}
}

// QuorumRecovering is the condition while the operator recovers the cluster.
func QuorumRecovering(recovery string) *druidv1alpha1.Condition {
	return condition(druidv1alpha1.ConditionTypeQuorumRecoverable, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonRecovering, "All members are stopped: "+recovery)
}
