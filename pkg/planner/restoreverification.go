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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// isFor is true for a Job whose result counts. It is of the store from which the first member would restore now, unused, and not outdated.
// The recorded store does not matter. Nothing is rendered while a restore is verified, so that the record may be outdated.
func isFor(r etcdcluster.RestoreVerification, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	isSameStore := o.TargetStore != "" && r.Store == o.TargetStore

	return r.Exists && !r.Deleting && !r.Recorded && r.OwnerUID == etcd.UID && isSameStore && !isOutdatedByPods(o, r.CreationTime)
}

// isOutdatedByPods is true if a pod was created, or was ready, since a Job was created. The members may have acknowledged writes since then that
// the Job has not read. A pod that stays unready does not outdate a Job, however often its containers restart. A Job is created only when no pod
// was ready for unreadyTime.
func isOutdatedByPods(o etcdcluster.Observation, created time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return pod.ReadinessSince().Add(evidence.MaxClockSkew).After(created) })
}

// survivingVolumes returns the revisions of the volumes, unless they hold only data from the backup store.
func survivingVolumes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) volumeRevisions {
	if isBeingRestored(o) {
		return volumeRevisions{}
	}

	return readVolumes(etcd, o)
}

// evaluateRestoreVerification evaluates the Jobs of a requested restore.
func evaluateRestoreVerification(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) restoreEvaluation {
	job, volumes := o.RestoreVerification, survivingVolumes(etcd, o)
	switch {
	case !isFor(job, etcd, o) || !job.Failed && !job.Succeeded:
		return restoreEvaluation{verifies: true}
	case job.Failed:
		return restoreEvaluation{ignored: fmt.Sprintf("Job %s could not restore from the store: %s. %s, so the operator deletes no data. Repair the store and request the restore again; %s",
			job.Name, job.Message, dataLeft(o), unverifiedHint())}
	case job.Result == nil:
		return restoreEvaluation{ignored: fmt.Sprintf("Job %s reports no revision of what it restored. Request the restore again; %s", job.Name, unverifiedHint())}
	case volumes.step != nil || volumes.waitsFor != "":
		return restoreEvaluation{verifies: true}
	}
	volumes.known = append(recordedRevisions(o), volumes.known...)
	result := compare(etcd, o, volumes, fmt.Sprintf(" together with %s=%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStore), now)

	return restoreEvaluation{begins: result.verified != nil, verified: result.verified, ignored: result.refused}
}

// dataLeft says which data the cluster has or had.
func dataLeft(o etcdcluster.Observation) string {
	if claim := intactClaim(o); claim != "" {
		return "Claim " + claim + " still has data"
	}

	return fmt.Sprintf("No volume is left, and revision %d is known", highestOf(recordedRevisions(o)))
}

func unverifiedHint() string {
	return fmt.Sprintf("if you have checked the store yourself, or do not need that data, set %s=%s", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStoreUnverified)
}

// planRestoreVerification creates the Jobs, and waits for them. It changes nothing else.
func planRestoreVerification(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	count := etcdcluster.RenderedReplicas(o)
	left := "no volume is left: no member starts"
	if claim := intactClaim(o); claim != "" {
		left = fmt.Sprintf("claim %s still has data: no data is deleted", claim)
	}
	p := plan.Plan{
		// The Job needs the ServiceAccount. The embedded resource manager applies it only after this process has rendered it.
		Stage: plan.StageRestore, Render: !o.ManagedResource.AppliesStatefulSet, Replicas: count, ClusterSize: max(o.State.Size, count),
		Restore: o.State.Restore,
		Reason:  fmt.Sprintf("a restore is requested, and %s before a Job has restored the newest snapshots next to it%s", left, newestSnapshots(o)),
	}

	if isStopped(o) {
		p.FinalSnapshot = o.State.FinalSnapshot // the members are still stopped with it
	}

	return awaitVerification(p, etcd, o, survivingVolumes(etcd, o))
}

// awaitVerification adds to a plan the next Job that reads a revision, or what the Jobs wait for.
func awaitVerification(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, volumes volumeRevisions) plan.Plan {
	switch job := o.RestoreVerification; {
	case !job.Exists && endedInspection(o) != nil: // of an earlier request: members may have written since
		inspection := endedInspection(o)
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: inspection.Name, UID: inspection.UID}}
	case !job.Exists:
		p.Step = plan.VerifyRestore{Meta: plan.Meta{Object: helper.RestoreVerificationJobName(etcd), UID: etcd.UID}}
	case job.Deleting:
		p.WaitsFor = fmt.Sprintf("Job %s, of an earlier restore, to be gone", job.Name)
	case o.TargetStore == "": // the step reports why
		p.Step = plan.VerifyRestore{Meta: plan.Meta{Object: job.Name, UID: etcd.UID}}
	case !isFor(job, etcd, o):
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	case volumes.step != nil:
		p.Step = volumes.step
	case job.Succeeded:
		p.WaitsFor = volumes.waitsFor
	default:
		p.WaitsFor = fmt.Sprintf("Job %s to restore from the store", job.Name)
		if job.Message != "" {
			p.WaitsFor += ": " + job.Message + " (" + unverifiedHint() + ")"
		}
	}

	return p
}
