// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// retentionLabels are the labels by which users find the retained volumes of an Etcd.
func retentionLabels(etcd *druidv1alpha1.Etcd) map[string]string {
	return map[string]string{
		druidv1alpha1.VolumeLabelNamespace: etcd.Namespace, druidv1alpha1.VolumeLabelName: etcd.Name, druidv1alpha1.VolumeLabelUID: string(etcd.UID),
	}
}

// retentionAnnotations are the annotations of a retained volume.
func retentionAnnotations(record state.RetainedVolume) map[string]string {
	return map[string]string{
		druidv1alpha1.VolumeAnnotationClaim:         record.Claim,
		druidv1alpha1.VolumeAnnotationReclaimPolicy: string(record.ReclaimPolicy),
		druidv1alpha1.VolumeAnnotationRetainedAt:    record.At.UTC().Format(time.RFC3339),
	}
}

// changeReclaimPolicy retains or releases a volume.
func (r *Reconciler) changeReclaimPolicy(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.Step, reason string) error {
	if release, is := step.(plan.ReleaseVolume); is {
		return r.releaseVolume(ctx, etcd, release, reason)
	}
	retain, is := step.(plan.RetainVolume)
	if !is {
		return fmt.Errorf("unknown step %T", step)
	}
	return r.retainVolume(ctx, etcd, retain, reason)
}

// retainVolume sets the reclaim policy of a volume to Retain. The original one is in the record of the operator before.
func (r *Reconciler) retainVolume(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.RetainVolume, reason string) error {
	changed, err := r.changeVolume(ctx, step.Meta, func(volume *corev1.PersistentVolume) bool {
		if claim := volume.Spec.ClaimRef; claim == nil || claim.UID != step.Record.ClaimUID {
			return false // it is not the volume of the claim any more
		}
		for key, value := range retentionLabels(etcd) {
			metav1.SetMetaDataLabel(&volume.ObjectMeta, key, value)
		}
		for key, value := range retentionAnnotations(step.Record) {
			metav1.SetMetaDataAnnotation(&volume.ObjectMeta, key, value)
		}
		volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain

		return true
	})
	if changed && step.Record.Kept {
		r.event(etcd, corev1.EventTypeWarning, "RetainingVolume", "PersistentVolume %s of claim %s keeps the data of a member with other data than a quorum. Delete it when you have inspected it: %s", step.Object, step.Record.Claim, reason)
	} else if changed {
		r.event(etcd, corev1.EventTypeNormal, "RetainingVolume", "PersistentVolume %s of claim %s keeps the data before the restore until the condition BackupReady of the restored cluster is True, then it has the reclaim policy %s again: %s",
			step.Object, step.Record.Claim, step.Record.ReclaimPolicy, reason)
	}
	return err
}

// releaseVolume sets the original reclaim policy of a retained volume again.
func (r *Reconciler) releaseVolume(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.ReleaseVolume, reason string) error {
	changed, err := r.changeVolume(ctx, step.Meta, func(volume *corev1.PersistentVolume) bool {
		if !isStillRetained(volume, etcd, step.Record) {
			return false
		}
		for key := range retentionLabels(etcd) {
			delete(volume.Labels, key)
		}
		for key := range retentionAnnotations(step.Record) {
			delete(volume.Annotations, key)
		}
		volume.Spec.PersistentVolumeReclaimPolicy = step.Record.ReclaimPolicy

		return true
	})
	if changed {
		r.event(etcd, corev1.EventTypeNormal, "ReleasedVolume", "PersistentVolume %s has the reclaim policy %s again: %s", step.Object, step.Record.ReclaimPolicy, reason)
	}
	return err
}

// isStillRetained is false if the volume is another one by now, or if a user keeps it. That user has removed the label, changed the policy or
// bound the volume since it was observed. It is also false if the record has no policy that the operator replaces: users may have written it.
func isStillRetained(volume *corev1.PersistentVolume, etcd *druidv1alpha1.Etcd, record state.RetainedVolume) bool {
	claim := volume.Spec.ClaimRef
	isRetained := volume.UID == record.UID && volume.Labels[druidv1alpha1.VolumeLabelUID] == string(etcd.UID) && volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain

	hasPolicy := record.ReclaimPolicy == corev1.PersistentVolumeReclaimDelete || record.ReclaimPolicy == corev1.PersistentVolumeReclaimRecycle

	return isRetained && hasPolicy && (claim == nil || claim.UID == record.ClaimUID)
}

// changeVolume changes a volume, and returns whether it did. change returns false if the volume must stay as it is. The step is planned again if
// the volume is another one by now, or has changed.
func (r *Reconciler) changeVolume(ctx context.Context, meta plan.Meta, change func(*corev1.PersistentVolume) bool) (bool, error) {
	volume := &corev1.PersistentVolume{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: meta.Object}, volume); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading PersistentVolume %s: %w", meta.Object, err)
	}
	if volume.UID != meta.UID {
		return false, nil
	}
	before := volume.DeepCopy()
	if !change(volume) {
		return false, nil
	}
	err := r.Client.Patch(ctx, volume, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("changing the reclaim policy of PersistentVolume %s: %w", meta.Object, err)
	}
	return true, nil
}

// releaseRetained releases the retained volumes of an Etcd that is being deleted with its volumes, if its final snapshot is verified.
// It does so before the record of these volumes is deleted with the ManagedResource. The final snapshot counts like a full snapshot of a
// running cluster. In all other cases, and with wrong data, the volumes stay, and reportRetained names them.
func (r *Reconciler) releaseRetained(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	if !releasesRetained(etcd) {
		return nil
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, client.IgnoreNotFound(err))
	}
	if mr.DeletionTimestamp != nil {
		return nil
	}
	recorded, err := recordOf(mr)
	if err != nil {
		return err
	}
	var pending []string
	for _, record := range recorded.Retained {
		volume := &corev1.PersistentVolume{}
		if err := r.Reader.Get(ctx, client.ObjectKey{Name: record.Name}, volume); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading PersistentVolume %s: %w", record.Name, err))
		}
		if record.Kept || !isStillRetained(volume, etcd, record) {
			continue
		}
		pending = append(pending, record.Name)
		step := plan.ReleaseVolume{Meta: plan.Meta{Object: record.Name, UID: record.UID}, Record: record}
		if err := r.releaseVolume(ctx, etcd, step, "the Etcd is deleted with its volumes, and its final snapshot is verified"); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	if len(pending) > 0 {
		return stillWaiting("Waiting for PersistentVolumes %s to have their reclaim policies from before the restore again", strings.Join(pending, ", "))
	}
	return nil
}

// releasesRetained is true if the Etcd is deleted with its volumes after a verified final snapshot.
func releasesRetained(etcd *druidv1alpha1.Etcd) bool {
	decided := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeFinalSnapshotTaken)
	return helper.DeletesClaims(etcd) && conditions.IsDeletionApproved(decided) && decided.Status == druidv1alpha1.ConditionTrue
}

// reportRetained reports which volumes stay after an Etcd is deleted: the record of them is deleted with it. releaseRetained has released the
// others.
func (r *Reconciler) reportRetained(etcd *druidv1alpha1.Etcd, recorded state.State) {
	isReleased := releasesRetained(etcd)
	var names []string
	for _, volume := range recorded.Retained {
		if isReleased && !volume.Kept {
			continue
		}
		names = append(names, fmt.Sprintf("%s (of claim %s, reclaim policy before: %s)", volume.Name, volume.Claim, volume.ReclaimPolicy))
	}
	if len(names) > 0 {
		r.event(etcd, corev1.EventTypeWarning, "VolumesRetained", "PersistentVolumes with data before a restore, or with wrong data, stay with the reclaim policy Retain. "+
			"kubectl get pv -l %s=%s lists them. When the data is not needed, set their reclaim policy to Delete: %s", druidv1alpha1.VolumeLabelUID, etcd.UID, strings.Join(names, ", "))
	}
}
