// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// BootstrappedWithExistingCluster is True after all members joined the existing cluster in the spec, and stays True. Nil: the
// spec has no existing cluster, and the members joined none before.
func BootstrappedWithExistingCluster(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeBootstrappedWithExistingCluster
	if in.Etcd.Status.BootstrapWithExistingCluster != nil {
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBootstrapSucceeded, "All members have joined the existing cluster")
	}
	if in.Etcd.Spec.Etcd.BootstrapWithExistingCluster == nil {
		return nil
	}
	members := in.members()
	if in.size() > 0 && len(namesWith(members, druidv1alpha1.EtcdMemberStatusReady)) == int(in.size()) {
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonBootstrapSucceeded, "All members have joined the existing cluster")
	}

	return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonBootstrapInProgress, strings.Join(in.notReady(members), "; "))
}
