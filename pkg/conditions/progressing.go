// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Progressing is True while the plan is not done, and says what is done now and what it waits for. It belongs to the etcd
// controller, which knows other reasons too: see ProgressingFor.
func Progressing(plan etcdcluster.Plan) *druidv1alpha1.Condition {
	message := string(plan.Stage) + ": " + plan.Reason
	switch plan.Outcome() {
	case etcdcluster.OutcomeRefused:
		return ProgressingFor(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonInvalidSpec, plan.Refusal.Error())
	case etcdcluster.OutcomeStep:
		return ProgressingFor(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonReconciling, message)
	case etcdcluster.OutcomeWaiting:
		return ProgressingFor(druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonWaiting, message+"; waiting for "+plan.WaitsFor)
	default:
		return ProgressingFor(druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonReconciled, message)
	}
}

// ProgressingFor is the condition for what no plan says: a suspended Etcd, a missing operation annotation, a rendering that
// the API server refuses.
func ProgressingFor(status druidv1alpha1.ConditionStatus, reason, message string) *druidv1alpha1.Condition {
	return condition(druidv1alpha1.ConditionTypeProgressing, status, reason, message)
}
