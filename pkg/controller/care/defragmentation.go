// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// plannedTaskTTL is how long the task of a planned defragmentation is kept. It contains how long members did not respond, from which the operator
// predicts the next one.
const plannedTaskTTL = 7 * 24 * time.Hour

// planDefragmentation creates the EtcdOpsTask that defragments the members of a canonical Etcd, if they are due. It returns why they are not
// defragmented although a file could shrink. Empty: nothing is refused.
func (r *Reconciler) planDefragmentation(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (refusal string, err error) {
	now := r.Clock.Now()
	if !planner.IsDefragmentationDue(etcd, o, r.Config.Defragmentation, now) {
		return "", nil
	}
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Client.List(ctx, tasks, client.InNamespace(etcd.Namespace)); err != nil {
		return "", fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	decision := planner.PlanDefragmentation(etcd, o, tasks.Items, r.Config.Defragmentation, now)
	if decision.TaskID == "" {
		r.announceRefusal(etcd, decision.Refusal)

		return decision.Refusal, nil
	}
	task, err := opstask.Create(ctx, r.Client, etcd, opstask.Request{Kind: druidv1alpha1.RunTaskDefragmentation, ID: decision.TaskID, TTL: plannedTaskTTL, NotAfter: decision.NotAfter})
	switch {
	case apierrors.IsAlreadyExists(err):
		return "", nil // the cache does not show it yet
	case err != nil:
		return "", fmt.Errorf("creating EtcdOpsTask %s: %w", task.Name, err)
	}
	r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "DefragmentationPlanned", "Defragment", "%s; EtcdOpsTask %s defragments one member after another", decision.Reason, task.Name)

	return "", nil
}

// announceRefusal emits an event when the status does not report a refusal yet. The status of the condition stays True, so that its change emits none.
func (r *Reconciler) announceRefusal(etcd *druidv1alpha1.Etcd, refusal string) {
	before := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeDatabaseSpaceAvailable)
	if refusal != "" && (before == nil || before.Reason != druidv1alpha1.ReasonDefragmentationRefused) {
		r.Recorder.Eventf(etcd, nil, corev1.EventTypeWarning, druidv1alpha1.ReasonDefragmentationRefused, "Defragment", "%s", refusal)
	}
}
