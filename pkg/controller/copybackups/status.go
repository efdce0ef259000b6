// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// owned are the condition types of a task.
var owned = []druidv1alpha1.ConditionType{
	druidv1alpha1.EtcdCopyBackupsTaskSucceeded, druidv1alpha1.EtcdCopyBackupsTaskFailed, druidv1alpha1.EtcdCopyBackupsTaskProgressing,
}

// patchStatus writes the conditions, the generation and the error, unless nothing changed.
func (r *Reconciler) patchStatus(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, computed []druidv1alpha1.Condition, problem error) error {
	next := task.DeepCopy()
	next.Status.ObservedGeneration = new(task.Generation)
	next.Status.Conditions = conditions.Merge(task.Status.Conditions, owned, computed, r.Clock.Now())
	next.Status.LastError = nil
	if problem != nil {
		next.Status.LastError = new(messageOf(problem))
	}
	if equality.Semantic.DeepEqual(task.Status, next.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(task, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patching status: %w", err)
	}
	return nil
}
