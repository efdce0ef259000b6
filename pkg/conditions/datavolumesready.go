// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// DataVolumesReady is False if a PersistentVolumeClaim of a member has warning events and no volume.
func DataVolumesReady(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeDataVolumesReady
	if failure := in.Observation.Failure(etcdcluster.SectionStatefulSet); failure != "" {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchStatefulSet, failure)
	}
	if !in.Observation.StatefulSet.Exists {
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonStatefulSetNotFound, "The StatefulSet does not exist")
	}
	for _, section := range []etcdcluster.Section{etcdcluster.SectionClaims, etcdcluster.SectionClaimEvents} {
		if failure := in.Observation.Failure(section); failure != "" {
			return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchWarningEventsForDataVolumes, failure)
		}
	}
	var warnings []string
	for _, claim := range in.Observation.Claims {
		if len(claim.Warnings) > 0 {
			warnings = append(warnings, claim.Name+": "+strings.Join(claim.Warnings, "; "))
		}
	}
	if len(warnings) > 0 {
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonFoundWarningsForDataVolumes, strings.Join(warnings, "; "))
	}

	return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonNoWarningsFoundForDataVolumes, "No volume claim has warnings")
}
