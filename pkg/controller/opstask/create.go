// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Request is a task to create.
type Request struct {
	// Kind is the kind of the task, one of helper.TaskKinds.
	Kind string
	// ID is the last part of its name.
	ID string
	// TTL is how long the task is kept after it has finished. 0: the default of the API.
	TTL time.Duration
	// NotAfter is the time after which the task does not start any more. Zero: no limit.
	NotAfter time.Time
}

// Create creates the task NAME-KIND-ID of an Etcd, and returns it. The error says whether a task of that name exists already.
func Create(ctx context.Context, c client.Client, etcd *druidv1alpha1.Etcd, request Request) (*druidv1alpha1.EtcdOpsTask, error) {
	task := taskOf(etcd, request)
	err := c.Create(ctx, task)
	if apierrors.IsInvalid(err) {
		// The CustomResourceDefinition of etcd-druid prunes the kind. It accepts a delta snapshot, and the annotation has the actual kind.
		task = taskOf(etcd, request)
		task.Spec.Config = druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeDelta}}
		err = c.Create(ctx, task)
	}

	return task, err
}

func taskOf(etcd *druidv1alpha1.Etcd, request Request) *druidv1alpha1.EtcdOpsTask {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameOpsTask
	task := &druidv1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{
			Name:            etcd.Name + "-" + request.Kind + "-" + request.ID,
			Namespace:       etcd.Namespace,
			Labels:          labels,
			Annotations:     map[string]string{druidv1alpha1.TaskKindAnnotation: request.Kind},
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)},
		},
		Spec: druidv1alpha1.EtcdOpsTaskSpec{EtcdName: new(etcd.Name)},
	}
	if !request.NotAfter.IsZero() {
		task.Annotations[druidv1alpha1.TaskNotAfterAnnotation] = request.NotAfter.UTC().Format(time.RFC3339)
	}
	if request.TTL > 0 {
		task.Spec.TTLSecondsAfterFinished = new(int32(request.TTL.Seconds()))
	}
	switch request.Kind {
	case druidv1alpha1.RunTaskFullSnapshot:
		task.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull}
	case druidv1alpha1.RunTaskDeltaSnapshot:
		task.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeDelta}
	case druidv1alpha1.RunTaskCompaction:
		task.Spec.Config.Compaction = &druidv1alpha1.CompactionConfig{}
	case druidv1alpha1.RunTaskDefragmentation:
		task.Spec.Config.Defragmentation = &druidv1alpha1.DefragmentationConfig{}
	case druidv1alpha1.RunTaskRestoreDrill:
		task.Spec.Config.RestoreDrill = &druidv1alpha1.RestoreDrillConfig{}
	}

	return task
}
