// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// keepVolume is retainVolume for a volume with wrong data. It is evidence, and only a user deletes it.
func keepVolume(p plan.Plan, o etcdcluster.Observation, claim etcdcluster.Claim, now time.Time) (plan.Plan, string) {
	return retain(p, o, claim, state.RetainedVolume{At: now, Kept: true})
}

// retainVolume decides what happens to the volume of a claim before the claim is deleted: its reclaim policy becomes Retain. The original one
// is recorded first. Volumes that no provisioner has created keep their policy: the next claim may need the same volume. The plan has no step
// and waits for nothing if the claim may be deleted. The text continues a sentence about the claim.
func retainVolume(p plan.Plan, o etcdcluster.Observation, claim etcdcluster.Claim, now time.Time) (plan.Plan, string) {
	return retain(p, o, claim, state.RetainedVolume{At: now})
}

// retain is retainVolume with a record that lacks only the facts about the volume.
func retain(p plan.Plan, o etcdcluster.Observation, claim etcdcluster.Claim, added state.RetainedVolume) (plan.Plan, string) {
	if claim.Volume == "" || claim.Lost {
		return p, ", which has no volume"
	}
	volume := o.Volume(claim.Volume)
	switch {
	case volume == nil:
		p.WaitsFor = fmt.Sprintf("PersistentVolume %s to be read", claim.Volume)
		if failure := o.Failure(etcdcluster.SectionVolumes); failure != "" {
			p.WaitsFor += ": " + failure
		}

		return p, ""
	case !volume.Exists:
		return p, ", which has no volume"
	case volume.ClaimUID != claim.UID: // users choose the volume name of their claims
		return p, fmt.Sprintf("; PersistentVolume %s is not bound to it and is not changed", volume.Name)
	case !volume.Dynamic:
		return p, fmt.Sprintf("; no provisioner has created PersistentVolume %s, so that it keeps its reclaim policy %s", volume.Name, volume.ReclaimPolicy)
	}
	record := recordOf(o, *volume)
	switch {
	case record == nil && volume.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
		return p, fmt.Sprintf("; PersistentVolume %s keeps its data by its reclaim policy Retain", volume.Name)
	case record == nil:
		record = &added
		record.Name, record.UID, record.Claim, record.ClaimUID, record.ReclaimPolicy = volume.Name, volume.UID, claim.Name, claim.UID, volume.ReclaimPolicy
		p.Retained = append(slices.Clone(o.State.Retained), *record)
		slices.SortFunc(p.Retained, func(a, b state.RetainedVolume) int { return cmp.Compare(a.Name, b.Name) })
	}
	text := fmt.Sprintf("; PersistentVolume %s keeps its data until the restored cluster has a full snapshot", volume.Name)
	if record.Kept {
		text = fmt.Sprintf("; PersistentVolume %s keeps its data until a user deletes it", volume.Name)
	}
	if volume.ReclaimPolicy != corev1.PersistentVolumeReclaimRetain || volume.RetainedFor == "" {
		p.Step = plan.RetainVolume{Meta: plan.Meta{Object: volume.Name, UID: volume.UID}, Record: *record}
	}

	return p, text
}

// recordOf returns the record of a retained volume. Nil: there is none.
func recordOf(o etcdcluster.Observation, volume etcdcluster.PersistentVolume) *state.RetainedVolume {
	index := slices.IndexFunc(o.State.Retained, func(r state.RetainedVolume) bool { return r.Name == volume.Name && r.UID == volume.UID })
	if index < 0 {
		return nil
	}

	return &o.State.Retained[index]
}

// releaseVolumes adds to the plan of a cluster without any other work that a retained volume gets its original reclaim policy again. The
// cluster must have a full snapshot that was taken after the restore. A volume with wrong data gets it only if its claim was not deleted in the end. It
// deletes the records of volumes that are gone, that others use, or that stay until a user deletes them.
func releaseVolumes(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	if len(o.State.Retained) == 0 || p.Outcome() != plan.OutcomeDone || p.Stage != plan.StageDone {
		return p
	}
	p.Retained = []state.RetainedVolume{}
	for _, record := range o.State.Retained {
		volume := o.Volume(record.Name)
		isObserved := volume != nil && o.Failure(etcdcluster.SectionVolumes) == ""
		if isObserved && (!isStillRetained(etcd, *volume, record) || record.Kept && claimOf(o, record) == nil) {
			continue
		}
		p.Retained = append(p.Retained, record)
		if cause := releaseCause(etcd, o, record); isObserved && p.Step == nil && cause != "" {
			p.Reason += "; " + cause + " gets its reclaim policy " + string(record.ReclaimPolicy) + " again"
			p.Step = plan.ReleaseVolume{Meta: plan.Meta{Object: volume.Name, UID: volume.UID}, Record: record}
		}
	}

	return p
}

// releaseCause returns why a volume gets its original reclaim policy again, as a sentence that ends with the volume. Empty: it does not.
func releaseCause(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, record state.RetainedVolume) string {
	claim := claimOf(o, record)
	switch {
	case record.Kept && claim != nil && !claim.Deleting && o.State.Inconsistency == nil:
		return fmt.Sprintf("the members have the same data again, so that PersistentVolume %s of claim %s", record.Name, record.Claim)
	case !record.Kept && hasFullSnapshotSince(etcd, o, record.At):
		return fmt.Sprintf("a full snapshot was taken at %s with revision %s, so that PersistentVolume %s with the data before the restore",
			stamp(o.FullSnapshotLease.RenewTime), o.FullSnapshotLease.Holder, record.Name)
	default:
		return ""
	}
}

// claimOf returns the claim whose volume is recorded. Nil: it is deleted.
func claimOf(o etcdcluster.Observation, record state.RetainedVolume) *etcdcluster.Claim {
	index := slices.IndexFunc(o.Claims, func(c etcdcluster.Claim) bool { return c.Exists && c.UID == record.ClaimUID })
	if index < 0 {
		return nil
	}

	return &o.Claims[index]
}

// isStillRetained is false for a volume that is gone, or that has its policy again. It is also false for one that a user has taken: it has
// another policy, no label of the operator, or another claim. The label on the volume decides whose volume it is: users of the namespace
// cannot write it, in contrast to the record.
func isStillRetained(etcd *druidv1alpha1.Etcd, volume etcdcluster.PersistentVolume, record state.RetainedVolume) bool {
	isOurs := volume.Exists && volume.UID == record.UID && volume.RetainedFor == etcd.UID
	hasPolicy := record.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete || record.ReclaimPolicy == corev1.PersistentVolumeReclaimRecycle

	return isOurs && hasPolicy && volume.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain && (volume.ClaimUID == "" || volume.ClaimUID == record.ClaimUID)
}

// hasFullSnapshotSince is true if the condition BackupReady is True, and the newest full snapshot was taken after that time.
func hasFullSnapshotSince(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, since time.Time) bool {
	if !o.FullSnapshotLease.RenewTime.After(since) || o.IsElsewhere(o.FullSnapshotLease) || evidence.IsRolledBack(etcd, o) {
		return false
	}

	return slices.ContainsFunc(etcd.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return condition.Type == druidv1alpha1.ConditionTypeBackupReady && condition.Status == druidv1alpha1.ConditionTrue
	})
}
