// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// RevisionConfirmed is False if a quorum has returned a lower revision than the one that a quorum returned before. The cluster has then lost
// acknowledged writes. A higher revision later does not change that: new writes use the revisions of lost ones again. Nil: no revision was
// recorded.
func RevisionConfirmed(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeRevisionConfirmed
	recorded := in.Observation.State.Evidence
	switch {
	case recorded == nil || recorded.HighestRevision == 0:
		return nil
	case evidence.IsRolledBack(in.Etcd, in.Observation):
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonRevisionRolledBack, rollback(*recorded)+
			fmt.Sprintf(". Follow the runbook of alert EtcdRevisionRolledBack, or set the annotation %s=%d to continue with this data. "+
				"Until then no full snapshot counts as the final one, and snapshots are not compacted", druidv1alpha1.AcceptRevisionAnnotation, recorded.RolledBack.Revision))
	case recorded.AcceptedRevision > 0:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonRevisionConfirmed, fmt.Sprintf(
			"No quorum has returned a lower revision since revision %d was accepted", recorded.AcceptedRevision))
	default:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonRevisionConfirmed, "No quorum has returned a lower revision than an earlier one")
	}
}

// rollback describes what was lost. The lost writes are those after the lower revision: how long ago the cluster had this revision is not
// known.
func rollback(recorded state.Evidence) string {
	found := recorded.RolledBack
	if found.Revision >= recorded.HighestRevision {
		return fmt.Sprintf("Cluster %s returned revision %d at %s, and not cluster %s, which had returned revision %d at %s: the data is of another cluster",
			found.ClusterID, found.Revision, stamp(found.At), recorded.ClusterID, recorded.HighestRevision, stamp(recorded.At))
	}

	return fmt.Sprintf("A quorum returned revision %d at %s, and had returned revision %d at %s: all writes after revision %d that etcd acknowledged before %s are lost, these are at least %d revisions",
		found.Revision, stamp(found.At), recorded.HighestRevision, stamp(recorded.At), found.Revision, stamp(found.At), recorded.HighestRevision-found.Revision)
}
