// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// verifyEmptyStart decides before a first member starts without any volume although the cluster had data. Its sidecar would restore whatever
// the store has. The member starts when the store restores at least the highest known revision, or the revision that a user accepts. The
// second result is false if nothing has to be verified: the Etcd never had data, or has no store.
func verifyEmptyStart(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (plan.Plan, bool) {
	known := recordedRevisions(o)
	if !startsEmpty(etcd, o) {
		return plan.Plan{}, false
	}
	p := plan.Plan{
		Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, FinalSnapshot: o.State.FinalSnapshot,
		Reason: fmt.Sprintf("no volume is left, and %s: no member starts before a Job has verified what the store restores%s", sourcesOf(known), newestSnapshots(o)),
	}
	job := o.RestoreVerification
	switch {
	case unreadForRestore(o) != "":
		p.WaitsFor = "all facts about claims, volumes, Leases and Jobs"
	case !isFor(job, etcd, o) || !job.Failed && !job.Succeeded:
		return awaitVerification(p, etcd, o, volumeRevisions{}), true
	case job.Failed:
		p.WaitsFor = fmt.Sprintf("a store that can be restored from; Job %s failed: %s. The operator tries again when the Job is deleted, at the latest ten minutes after its end; %s", job.Name, job.Message, unverifiedHint())
	case job.Result == nil:
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	default:
		result := compare(etcd, o, volumeRevisions{known: known}, "", now)
		if result.verified == nil {
			p.Reason = "no volume is left, and no member starts without the data of the cluster"
			p.WaitsFor = "a store with this data: " + result.refused

			return p, true
		}
		p.Restore, p.Verified = state.RestoreDiscard, result.verified
		p.Reason = fmt.Sprintf("no volume is left; the first member restores from the store: %s", result.verified)
		p.WaitsFor = "its claims and Leases to be reset"
	}

	return p, true
}

// startsEmpty is true if no member runs and no volume is left although the cluster had data. There is a store from which the first member
// would restore.
func startsEmpty(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	isRunning := o.StatefulSet.Exists && o.StatefulSet.SpecReplicas > 0 || len(o.Pods) > 0
	if isRunning || o.State.Restore != state.RestoreNone || !helper.IsStoreConfigured(etcd) || !helper.ManagesPods(etcd) || helper.IsHibernated(etcd) || joinsExisting(etcd, o) {
		return false
	}

	hasVolume := slices.ContainsFunc(o.Claims, func(c etcdcluster.Claim) bool { return c.MayHaveData() && c.Volume != "" })

	return !hasVolume && highestOf(recordedRevisions(o)) > emptyRevision
}

// AwaitsVerification is true while a requested restore, or the start of a member without a volume, depends on the Job that verifies a restore. It
// is false as soon as the restore has begun: the next one verifies the store again.
func AwaitsVerification(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	_, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]

	return isRequested && o.State.Restore != state.RestoreDiscard || o.State.Restore == state.RestoreRecover || startsEmpty(etcd, o)
}

// DependsOnStore is true while a restore is requested or begins, and before a member starts without a volume. The plan then depends on the
// store from which the first member would restore.
func DependsOnStore(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return AwaitsVerification(etcd, o) || o.State.Restore == state.RestoreDiscard
}

// UsesAcceptedRevision is true while an accepted revision is not about a rollback. It is about a requested restore then, or about the start of
// a member without a volume.
func UsesAcceptedRevision(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	_, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]

	return isRequested || startsEmpty(etcd, o)
}
