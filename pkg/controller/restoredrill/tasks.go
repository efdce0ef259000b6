// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/drill"
)

// cacheDelay is how long a created task may be missing in the cache.
const cacheDelay = time.Minute

// createdTasks are the tasks that this process has created lately. The cache may not show them yet.
type createdTasks struct {
	// starting is held from the count of all scheduled drills until the next one is created.
	starting sync.Mutex
	// lock guards tasks.
	lock  sync.Mutex
	tasks map[client.ObjectKey]time.Time
}

// running returns the created tasks.
func (c *createdTasks) running(now time.Time) map[client.ObjectKey]bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	running := map[client.ObjectKey]bool{}
	for key, at := range c.tasks {
		if now.Sub(at) > cacheDelay {
			delete(c.tasks, key)

			continue
		}
		running[key] = true
	}

	return running
}

func (c *createdTasks) add(key client.ObjectKey, at time.Time) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.tasks == nil {
		c.tasks = map[client.ObjectKey]time.Time{}
	}
	c.tasks[key] = at
}

// snapshotTask returns the task that takes a full snapshot after a fault.
func snapshotTask(etcd *druidv1alpha1.Etcd, decision drill.Decision) *druidv1alpha1.EtcdOpsTask {
	seconds := max(int32(helper.SnapshotTimeout(etcd).Seconds()), 120) // #nosec G115 -- a time limit of years is not meant
	task := taskOf(etcd, "drill-snapshot", decision)
	task.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull, TimeoutSecondsFull: new(seconds)}

	return task
}

// drillTask returns the task that runs a drill.
func drillTask(etcd *druidv1alpha1.Etcd, decision drill.Decision) *druidv1alpha1.EtcdOpsTask {
	task := taskOf(etcd, druidv1alpha1.RunTaskRestoreDrill, decision)
	task.Annotations[druidv1alpha1.TaskKindAnnotation] = druidv1alpha1.RunTaskRestoreDrill
	task.Spec.Config.RestoreDrill = &druidv1alpha1.RestoreDrillConfig{}

	return task
}

func taskOf(etcd *druidv1alpha1.Etcd, kind string, decision drill.Decision) *druidv1alpha1.EtcdOpsTask {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameOpsTask
	task := &druidv1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("%s-%s-%s", etcd.Name, kind, decision.ID),
			Namespace:       etcd.Namespace,
			Labels:          labels,
			Annotations:     map[string]string{},
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)},
		},
		Spec: druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new(etcd.Name)},
	}
	if decision.Follows != "" {
		task.Annotations[druidv1alpha1.DrillOfAnnotation] = string(decision.Follows)
	}

	return task
}

// startDrill creates the task of a drill. One that follows a fault does not count as scheduled.
func (r *Reconciler) startDrill(ctx context.Context, etcd *druidv1alpha1.Etcd, decision drill.Decision) error {
	task := drillTask(etcd, decision)
	if decision.Follows != "" {
		return r.create(ctx, etcd, task, decision)
	}
	task.Annotations[druidv1alpha1.DrillScheduledAnnotation] = "true"
	if err := r.create(ctx, etcd, task, decision); err != nil {
		return err
	}
	r.created.add(client.ObjectKeyFromObject(task), r.Clock.Now())

	return nil
}

// create creates the task. The CustomResourceDefinition of etcd-druid prunes the kind of a drill. It accepts a delta snapshot, and an annotation has the
// actual kind.
func (r *Reconciler) create(ctx context.Context, etcd *druidv1alpha1.Etcd, task *druidv1alpha1.EtcdOpsTask, decision drill.Decision) error {
	pruned := task.DeepCopy()
	err := r.Client.Create(ctx, task)
	if apierrors.IsInvalid(err) && decision.Action == drill.ActionRunDrill {
		task = pruned
		task.Spec.Config = druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeDelta}}
		err = r.Client.Create(ctx, task)
	}
	if apierrors.IsAlreadyExists(err) {
		return r.checkExisting(ctx, etcd, task, err)
	}
	if err != nil {
		return fmt.Errorf("creating EtcdOpsTask %s: %w", task.Name, err)
	}
	if decision.Action == drill.ActionTakeSnapshot {
		r.event(etcd, corev1.EventTypeNormal, "FullSnapshotTriggered", "EtcdOpsTask %s takes a full snapshot, because a restore drill has found a fault: %s", task.Name, decision.Reason)

		return nil
	}
	r.event(etcd, corev1.EventTypeNormal, "RestoreDrillScheduled", "EtcdOpsTask %s runs a restore drill: %s", task.Name, decision.Reason)

	return nil
}

// checkExisting returns the error of the creation, or another one if the existing task is not one of the operator. The cache may not show a task that
// the operator has created.
func (r *Reconciler) checkExisting(ctx context.Context, etcd *druidv1alpha1.Etcd, task *druidv1alpha1.EtcdOpsTask, exists error) error {
	existing := &druidv1alpha1.EtcdOpsTask{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(task), existing); err != nil {
		return fmt.Errorf("reading EtcdOpsTask %s: %w", task.Name, err)
	}
	if !metav1.IsControlledBy(existing, etcd) {
		return fmt.Errorf("metadata.name: EtcdOpsTask %s in namespace %s exists and does not belong to this Etcd: delete it, so that the operator can create its own", task.Name, task.Namespace)
	}

	return exists
}
