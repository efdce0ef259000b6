// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// After a rollback, the snapshot Leases record revisions that the cluster has lost. The sidecar leaves a Lease unchanged until its own
// snapshots have higher revisions. When a user has accepted the rollback, the operator resets these Leases once. If a Lease has such a revision
// afterwards, the store still has it. The condition BackupReady then requests to move these snapshots out of the store.

// resetLostSnapshots adds to the plan of a cluster without any other work that a snapshot Lease with a lost revision is reset. Afterwards the
// operator requests a full snapshot, see WantsSnapshotForLease.
func resetLostSnapshots(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	if p.Step != nil || p.Outcome() != plan.OutcomeDone || p.Stage != plan.StageDone || o.Failure(etcdcluster.SectionLeases) != "" {
		return p
	}
	for _, lease := range []etcdcluster.Lease{o.FullSnapshotLease, o.DeltaSnapshotLease} {
		isFirst := evidence.IsFromBeforeRollback(evidence.Effective(etcd, o), lease)
		if !lease.Exists || !isFirst || o.IsElsewhere(lease) || !recordsLostRevision(etcd, o, lease, now) {
			continue
		}
		p.Reason += fmt.Sprintf("; Lease %s records revision %s, which was lost when the cluster was rolled back", lease.Name, lease.Holder)
		p.Step = plan.ResetLease{Meta: plan.Meta{Object: lease.Name, UID: lease.UID}}

		return p
	}

	return p
}

// recordsLostRevision is true if a user has accepted a rollback, and the Lease records a higher revision than a quorum returned later.
func recordsLostRevision(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, lease etcdcluster.Lease, now time.Time) bool {
	accepted := evidence.Effective(etcd, o)
	if accepted == nil || accepted.AcceptedRevision == 0 || accepted.RolledBack != nil {
		return false
	}
	revision, at := accepted.HighestRevision, accepted.At
	for _, member := range o.Etcd.Members {
		if member.Healthy && !member.Learner && member.QuorumRevision > 0 {
			revision, at = max(revision, member.QuorumRevision), now
		}
	}

	return lease.Revision() > revision && lease.RenewTime.Before(at.Add(-evidence.MaxClockSkew))
}
