// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// resizeClaim requests a larger volume. The observer has tried that with a dry run.
func (r *Reconciler) resizeClaim(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.ResizeClaim, reason string) error {
	patch, err := observer.ResizePatch(step.UID, step.Size)
	if err != nil {
		return fmt.Errorf("writing the patch of PersistentVolumeClaim %s: %w", step.Object, err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: step.Object}}
	err = r.Client.Patch(ctx, claim, patch)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return plan.Waiting(observer.ResizePause, "Waiting for the API server to accept a larger volume for PersistentVolumeClaim %s: %s", step.Object, err)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // it is another claim by now
	case err != nil:
		return fmt.Errorf("resizing the volume of PersistentVolumeClaim %s: %w", step.Object, err)
	}
	size := resource.NewQuantity(step.Size, resource.BinarySI).String()
	r.event(etcd, corev1.EventTypeNormal, "ResizingVolume", "Requested %s for PersistentVolumeClaim %s: %s", size, step.Object, reason)

	return nil
}

// announceSizeOne reports that the first member starts with size 1 again, since its sidecar may restore the store over its data then.
func (r *execution) announceSizeOne(run *engine.Run) {
	if !planner.ReturnsToOne(run.Rendered.Plan, run.Target.Stored, run.Observation) {
		return
	}
	restores := ""
	if helper.IsStoreConfigured(run.Target.Etcd) {
		restores = ", and restores the store if the member has lost its data"
	}
	r.event(run.Target.Stored, corev1.EventTypeWarning, "FirstMemberNotReady",
		"Member %s has not become ready: its sidecar starts with cluster size 1 again%s", helper.MemberName(run.Target.Stored, 0), restores)
}
