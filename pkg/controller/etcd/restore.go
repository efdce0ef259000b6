// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// takeRestoreAnnotation removes the annotation that asks for a restore from the Etcd in memory, once the restore is remembered, or
// when it is ignored: it must not come into force later, when somebody has forgotten it. It returns whether anything was removed.
func (r *Reconciler) takeRestoreAnnotation(ctx context.Context, p *pass, etcd *druidv1alpha1.Etcd) (bool, error) {
	value, found := etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	if !found || !p.observed {
		return false, nil
	}
	if phase := etcdcluster.RestorePhase(p.observation.ManagedResource.Restore); phase == etcdcluster.RestoreDiscard {
		r.event(p.etcd, corev1.EventTypeWarning, "Restoring", "The volumes of all members are discarded, and the cluster is restored from its store")
		delete(etcd.Annotations, druidv1alpha1.RestoreAnnotation)
		return true, nil
	}
	_, ignored := etcdcluster.JudgeRestore(p.canonical, p.observation, r.Clock.Now())
	if ignored == "" {
		return false, nil
	}
	if err := r.recordRehearsal(ctx, p); err != nil {
		return false, err
	}
	r.event(p.etcd, corev1.EventTypeWarning, "RestoreIgnored", "The annotation %s=%s has no effect: %s", druidv1alpha1.RestoreAnnotation, value, ignored)
	delete(etcd.Annotations, druidv1alpha1.RestoreAnnotation)
	return true, nil
}

// discard deletes a claim, or a lease that tells of a member; the lease is made anew with the next rendering.
func (r *Reconciler) discard(ctx context.Context, etcd *druidv1alpha1.Etcd, plan etcdcluster.Plan) error {
	step := plan.Step
	meta := metav1.ObjectMeta{Namespace: etcd.Namespace, Name: step.Object}
	if step.Kind == etcdcluster.StepEmptyLease {
		return r.deleteObject(ctx, &coordinationv1.Lease{ObjectMeta: meta}, preconditionsOf(step))
	}
	r.event(etcd, corev1.EventTypeWarning, "DiscardingVolume", "Deleting PersistentVolumeClaim %s: %s", step.Object, plan.Reason)
	if err := r.deleteObject(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta}, preconditionsOf(step)); err != nil {
		return fmt.Errorf("discarding PersistentVolumeClaim %s: %w", step.Object, err)
	}
	return nil
}
