// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// AllMembersUpdated is True if the StatefulSet controller observed the latest spec and every pod has the latest template. The
// etcd controller writes it together with the observed generation.
func AllMembersUpdated(in Input) *druidv1alpha1.Condition {
	return in.unlessHibernated(allMembersUpdated(in))
}

func allMembersUpdated(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeAllMembersUpdated
	statefulSet := in.Observation.StatefulSet
	outdated := etcdcluster.OutdatedPods(in.Observation)
	for _, section := range []etcdcluster.Section{etcdcluster.SectionStatefulSet, etcdcluster.SectionPods} {
		if failure := in.Observation.Failure(section); failure != "" {
			return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchStatefulSet, string(section)+": "+failure)
		}
	}
	switch {
	case !statefulSet.Exists:
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonStatefulSetNotFound, "The StatefulSet does not exist")
	case in.Observation.State.Migration != nil:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNotAllMembersUpdated, MigrationProgress(in.Etcd, in.Observation))
	case etcdcluster.AreAllPodsUpdated(in.Observation) && !in.isSurging():
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonAllMembersUpdated, "All pods run the latest rendered manifests")
	case in.isSurging():
		surge := in.Observation.State.Surge

		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNotAllMembersUpdated,
			fmt.Sprintf("The only member is being replaced through a temporary second member, because %s; the phase is %s, since %s", surge.Cause, surge.Phase, stamp(surge.Since)))
	case in.Observation.State.Surge != nil && in.Observation.State.Surge.Error != "":
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNotAllMembersUpdated,
			"The last surge was aborted, and the member keeps running: "+in.Observation.State.Surge.Error)
	case len(outdated) > 0:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNotAllMembersUpdated,
			"Older manifests are run by "+strings.Join(outdated, ", "))
	default:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNotAllMembersUpdated,
			fmt.Sprintf("%d of %d pods exist, or the StatefulSet controller has not observed the latest rendered manifests yet", len(in.Observation.Pods), statefulSet.SpecReplicas))
	}
}

// MigrationProgress describes how far the recorded volume migration of a canonical Etcd is, how many members can fail, and how to pause it. Empty: no
// volume migration is recorded.
func MigrationProgress(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	migration, size := o.State.Migration, int(etcd.Spec.Replicas)
	if migration == nil {
		return ""
	}
	replaced := 0
	for _, claim := range o.Claims {
		if claim.Ordinal < size && claim.Exists && !claim.Deleting && !claim.CreationTime.Before(migration.Since) {
			replaced++
		}
	}
	progress := fmt.Sprintf("%d of %d volumes were replaced", replaced, size)
	switch migration.Phase {
	case state.MigrationRequested:
		progress = "Volumes are to be replaced, and no extra member has been added yet"
	case state.MigrationEnd:
		progress = "No more volumes are replaced, and the extra member is removed"
	}
	voters := VotersFor(etcd, o)

	return fmt.Sprintf("%s, because %s; %d members vote, of which %d can fail; the phase is %s, since %s; the annotation %s pauses it",
		progress, migration.Cause, voters, voters-etcdcluster.QuorumOf(voters), migration.Phase, stamp(migration.Since), druidv1alpha1.SuspendEtcdSpecReconcileAnnotation)
}
