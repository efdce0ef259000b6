// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

var (
	// ErrEvictionRefused is the error of an eviction that the API server refuses, as it does because of the PodDisruptionBudget.
	ErrEvictionRefused = errors.New("the eviction is refused")
	// ErrQuotaExceeded is the error of a claim for whose expansion the quota has no room.
	ErrQuotaExceeded = errors.New("exceeded quota")
	// ErrConflict is the error of a step whose object does not exist, or has another UID.
	ErrConflict = errors.New("the precondition of the step does not hold")
)

// Execute executes a step and refreshes the observation. A step that fails changes nothing. The error is one of this package, or states why
// etcd or the API server refuses the step.
func (c *Cluster) Execute(step plan.Step) error {
	err := c.execute(step)
	c.Refresh()

	return err
}

func (c *Cluster) execute(step plan.Step) error {
	switch step := step.(type) {
	case plan.DeletePod, plan.EvictPod:
		_, isEviction := step.(plan.EvictPod)
		return c.stopPod(plan.MetaOf(step), isEviction)
	case plan.MoveLeader:
		return c.transferLeadership(step.To)
	case plan.PromoteMember, plan.RemoveMember:
		return c.changeMembership(step)
	case plan.SelectPod, plan.RefreshPod, plan.ExcludePod:
		return c.patchPod(step)
	case plan.UpdatePeerURLs:
		return c.updatePeerURLs(step.Member, step.URLs)
	case plan.ReplaceClaim, plan.DeleteClaim, plan.ResizeClaim:
		return c.changeClaim(step)
	case plan.VerifyRestore:
		c.Objects.RestoreVerification = etcdcluster.RestoreVerification{Exists: true, Name: step.Object, UID: c.uid("job"), OwnerUID: c.Etcd.UID, CreationTime: c.now}
	case plan.InspectClaim, plan.RecoverData, plan.ResumeJob:
		return c.startJob(step)
	case plan.DeleteRestoreJob:
		c.deleteRestoreJob(step.Meta)
	case plan.RetainVolume, plan.ReleaseVolume:
		return c.changeReclaimPolicy(step)
	case plan.ResetLease:
		c.resetLease(step.Meta)
	case plan.RecreateStatefulSet:
		return c.deleteStatefulSet(step)
	case plan.RequestReconcile:
		c.Objects.ManagedResource.ReconcileRequested = true
	case plan.TakeDeltaSnapshot, plan.CompactHistory, plan.DefragmentMember, plan.DisarmAlarm, plan.CountKeys, plan.RequestSnapshot:
		return c.freeSpace(step)
	case plan.TakeSnapshot:
		c.Objects.SnapshotAttempts.Running = true
	}

	return nil
}

// changeClaim resizes or deletes a claim.
func (c *Cluster) changeClaim(step plan.Step) error {
	if resize, is := step.(plan.ResizeClaim); is {
		return c.resizeClaim(resize)
	}

	return c.deleteClaim(plan.MetaOf(step))
}

// changeMembership promotes or removes a member.
func (c *Cluster) changeMembership(step plan.Step) error {
	if removal, is := step.(plan.RemoveMember); is {
		return c.removeMember(removal.Member)
	}

	return c.promote(step.(plan.PromoteMember).Member)
}

// stopPod deletes or evicts a pod.
func (c *Cluster) stopPod(meta plan.Meta, isEviction bool) error {
	index := slices.IndexFunc(c.Objects.Pods, func(pod etcdcluster.Pod) bool { return pod.Name == meta.Object && pod.UID == meta.UID })
	if index < 0 {
		return fmt.Errorf("pod %s: %w", meta.Object, ErrConflict)
	}
	pod := &c.Objects.Pods[index]
	if isEviction && (c.refusedEvictions > 0 || !c.IsEvictable(pod)) {
		c.refusedEvictions = max(0, c.refusedEvictions-1)

		return ErrEvictionRefused
	}
	c.terminate(pod)

	return nil
}

// patchPod changes the label or the annotation of a pod. The kubelet then has the configuration that is applied.
func (c *Cluster) patchPod(step plan.Step) error {
	meta := plan.MetaOf(step)
	for i := range c.Objects.Pods {
		pod := &c.Objects.Pods[i]
		if pod.Name != meta.Object || pod.UID != meta.UID {
			continue
		}
		switch step := step.(type) { //nolint:gochecksumtype // execute lists all steps
		case plan.RefreshPod:
			pod.Refreshed, c.Process(pod.UID).Advertised = step.Rendering, c.applied.Advertised
		case plan.SelectPod:
			pod.SelectedFor = strconv.Itoa(int(step.Remaining))
		case plan.ExcludePod:
			pod.Excluded = step.Excluded
		}

		return nil
	}

	return fmt.Errorf("pod %s: %w", meta.Object, ErrConflict)
}

// IsEvictable is true if the PodDisruptionBudget allows the eviction of the pod: a quorum of the pods is ready without it.
func (c *Cluster) IsEvictable(pod *etcdcluster.Pod) bool {
	ready := 0
	for _, other := range c.Objects.Pods {
		if other.Ready && other.UID != pod.UID {
			ready++
		}
	}
	replicas := int(c.Objects.StatefulSet.SpecReplicas)

	return replicas <= 1 || etcdcluster.IsQuorate(ready, replicas)
}

func (c *Cluster) claimOf(meta plan.Meta) (*etcdcluster.Claim, error) {
	for i := range c.Objects.Claims {
		if claim := &c.Objects.Claims[i]; claim.Exists && claim.Name == meta.Object && claim.UID == meta.UID {
			return claim, nil
		}
	}

	return nil, fmt.Errorf("claim %s: %w", meta.Object, ErrConflict)
}

// deleteRestoreJob deletes a Job that verifies a restore or inspects a volume.
func (c *Cluster) deleteRestoreJob(meta plan.Meta) {
	if c.Objects.RestoreVerification.Name == meta.Object {
		c.Objects.RestoreVerification = etcdcluster.RestoreVerification{}
	}
	if c.Objects.RecoveryJob.Name == meta.Object {
		c.Objects.RecoveryJob = etcdcluster.RecoveryJob{}
	}
	c.Objects.Inspections = slices.DeleteFunc(c.Objects.Inspections, func(job etcdcluster.ClaimInspection) bool { return job.Name == meta.Object })
}

// resetLease deletes the Lease of a member or of snapshots.
func (c *Cluster) resetLease(meta plan.Meta) {
	for _, lease := range []*etcdcluster.Lease{&c.Objects.FullSnapshotLease, &c.Objects.DeltaSnapshotLease} {
		if lease.Name == meta.Object && lease.UID == meta.UID {
			*lease = etcdcluster.Lease{}
		}
	}
	c.Objects.MemberLeases = slices.DeleteFunc(c.Objects.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == meta.Object && l.UID == meta.UID })
}

// changeReclaimPolicy retains or releases a volume.
func (c *Cluster) changeReclaimPolicy(step plan.Step) error {
	if release, is := step.(plan.ReleaseVolume); is {
		return c.setPolicy(release.Meta, release.Record.ReclaimPolicy, "")
	}

	return c.setPolicy(plan.MetaOf(step), corev1.PersistentVolumeReclaimRetain, c.Etcd.UID)
}

// startJob creates a Job that uses the volume of a claim, or that stores data, or resumes it.
func (c *Cluster) startJob(step plan.Step) error {
	if recovery, is := step.(plan.RecoverData); is {
		return c.createRecoveryJob(recovery)
	}
	if resume, is := step.(plan.ResumeJob); is {
		return c.resumeRecoveryJob(resume.Meta)
	}

	return c.inspectClaim(plan.MetaOf(step))
}

// inspectClaim creates the Job that inspects the volume of a claim.
func (c *Cluster) inspectClaim(meta plan.Meta) error {
	claim, err := c.claimOf(meta)
	if err == nil {
		c.Objects.Inspections = append(c.Objects.Inspections, etcdcluster.ClaimInspection{
			Name: helper.InspectionJobName(c.Etcd, claim.Ordinal), UID: c.uid("job"), OwnerUID: c.Etcd.UID, CreationTime: c.now, Claim: claim.Name, ClaimUID: claim.UID,
		})
	}

	return err
}

func (c *Cluster) deleteClaim(meta plan.Meta) error {
	claim, err := c.claimOf(meta)
	if err == nil {
		claim.Deleting = true
	}

	return err
}

// resizeClaim requests a larger volume for a claim. The claim keeps a refusal of the quota for a minute.
func (c *Cluster) resizeClaim(step plan.ResizeClaim) error {
	claim, err := c.claimOf(step.Meta)
	switch {
	case err != nil:
		return err
	case c.FixedVolumes || !claim.Bound || step.Size <= claim.Requested:
		return fmt.Errorf("claim %s cannot be resized from %d to %d bytes", claim.Name, claim.Requested, step.Size)
	case c.quotaExhausted:
		c.refusedAt[claim.UID], claim.RefusedSize, claim.RefusedWhy = c.now, step.Size, ErrQuotaExceeded.Error()

		return fmt.Errorf("claim %s: %w", claim.Name, ErrQuotaExceeded)
	}
	claim.Requested = step.Size

	return nil
}

func (c *Cluster) deleteStatefulSet(step plan.RecreateStatefulSet) error {
	if step.UID != c.Objects.StatefulSet.UID {
		return fmt.Errorf("StatefulSet %s: %w", step.Object, ErrConflict)
	}
	c.Objects.ManagedResource.ReconcileRequested = true
	if c.SlowOrphaning {
		c.Objects.StatefulSet.Deleting = true

		return nil
	}
	c.Objects.StatefulSet = etcdcluster.StatefulSet{}

	return nil
}
