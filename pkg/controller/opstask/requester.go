// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Requester creates tasks for the annotation druid.gardener.cloud/run-task of an Etcd.
type Requester struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
}

// Reconcile creates the task that the annotation requests, and removes the annotation. It deletes the metrics of a deleted
// Etcd. It creates no second task while the same annotation already has a pending task of that kind. An annotation of the Etcd
// has the name of the task before the task exists. Therefore a restart does not create a second task either.
func (r *Requester) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, etcd); err != nil {
		if apierrors.IsNotFound(err) {
			deleteMetrics(request.NamespacedName)
		}

		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	kind, hasKind := etcd.Annotations[druidv1alpha1.RunTaskAnnotation]
	_, identified := etcd.Annotations[druidv1alpha1.RunTaskIDAnnotation]
	switch {
	case etcd.DeletionTimestamp != nil, !hasKind && !identified:
		return reconcile.Result{}, nil
	case !hasKind: // a user removed the other annotation: the next request gets a new name
		return r.patch(ctx, etcd, remove(druidv1alpha1.RunTaskIDAnnotation))
	}
	if !slices.Contains(helper.RunTaskKinds(), kind) {
		r.Recorder.Eventf(etcd, nil, corev1.EventTypeWarning, "UnknownTask", "RunTask", "The annotation %s=%q is not a task: set one of %s", druidv1alpha1.RunTaskAnnotation, kind, strings.Join(helper.RunTaskKinds(), ", "))
		return r.patch(ctx, etcd, test(druidv1alpha1.RunTaskAnnotation, kind), remove(druidv1alpha1.RunTaskAnnotation))
	}
	if !identified {
		// The patch triggers the next reconciliation. It fails if a stale cache hides that the task already has a name.
		return r.patchCurrent(ctx, etcd, test(druidv1alpha1.RunTaskAnnotation, kind), operation{Op: "add", Path: annotationPath(druidv1alpha1.RunTaskIDAnnotation), Value: &etcd.ResourceVersion})
	}
	isOurs, err := r.ensure(ctx, etcd, kind)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !isOurs { // the Etcd is a copy of another one with all its annotations: the task needs a new name
		return r.patch(ctx, etcd, test(druidv1alpha1.RunTaskIDAnnotation, etcd.Annotations[druidv1alpha1.RunTaskIDAnnotation]), remove(druidv1alpha1.RunTaskIDAnnotation))
	}

	return r.patch(ctx, etcd,
		test(druidv1alpha1.RunTaskAnnotation, kind),
		remove(druidv1alpha1.RunTaskAnnotation),
		remove(druidv1alpha1.RunTaskIDAnnotation))
}

// operation is one operation of a JSON patch.
type operation struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Value is nil for an operation without a value.
	Value *string `json:"value,omitempty"`
}

// test makes the patch fail unless the annotation has the value.
func test(annotation, value string) operation {
	return operation{Op: "test", Path: annotationPath(annotation), Value: &value}
}

func remove(annotation string) operation {
	return operation{Op: "remove", Path: annotationPath(annotation)}
}

func annotationPath(annotation string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(annotation)
}

// patch changes annotations if they still have the tested values. Other changes of the Etcd do not cause a conflict.
func (r *Requester) patch(ctx context.Context, etcd *druidv1alpha1.Etcd, operations ...operation) (reconcile.Result, error) {
	patch, err := json.Marshal(operations)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the patch of annotations: %w", err)
	}
	err = r.Client.Patch(ctx, etcd, client.RawPatch(types.JSONPatchType, patch))
	if apierrors.IsInvalid(err) {
		// Another client changed or removed the annotation in the meantime.
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}

	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// patchCurrent changes annotations if the Etcd was not changed since it was read.
func (r *Requester) patchCurrent(ctx context.Context, etcd *druidv1alpha1.Etcd, operations ...operation) (reconcile.Result, error) {
	isCurrent := operation{Op: "test", Path: "/metadata/resourceVersion", Value: &etcd.ResourceVersion}

	return r.patch(ctx, etcd, append([]operation{isCurrent}, operations...)...)
}

// ensure creates a task of the kind unless one is pending. It returns false if a task of another owner has its name.
func (r *Requester) ensure(ctx context.Context, etcd *druidv1alpha1.Etcd, kind string) (bool, error) {
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Reader.List(ctx, tasks, client.InNamespace(etcd.Namespace)); err != nil {
		return false, fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	for i := range tasks.Items {
		task := &tasks.Items[i]
		state := ptr.Deref(task.Status.State, druidv1alpha1.TaskStatePending)
		if task.Annotations[druidv1alpha1.TaskKindAnnotation] == kind && metav1.IsControlledBy(task, etcd) && state == druidv1alpha1.TaskStatePending {
			return true, nil
		}
	}
	task, err := Create(ctx, r.Client, etcd, Request{Kind: kind, ID: etcd.Annotations[druidv1alpha1.RunTaskIDAnnotation]})
	if apierrors.IsAlreadyExists(err) {
		return r.reportExisting(ctx, etcd, kind, client.ObjectKeyFromObject(task))
	}
	if err != nil {
		return false, fmt.Errorf("creating EtcdOpsTask %s: %w", task.Name, err)
	}
	r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "TaskCreated", "RunTask", "EtcdOpsTask %s was created for the annotation %s=%s", task.Name, druidv1alpha1.RunTaskAnnotation, kind)

	return true, nil
}

// reportExisting emits an event for an existing task of that name, and returns whether the Etcd owns it. The operator created
// the task before its restart, or a client restored the annotations of an earlier version.
func (r *Requester) reportExisting(ctx context.Context, etcd *druidv1alpha1.Etcd, kind string, key client.ObjectKey) (bool, error) {
	existing := &druidv1alpha1.EtcdOpsTask{}
	if err := r.Reader.Get(ctx, key, existing); err != nil {
		return false, fmt.Errorf("reading EtcdOpsTask %s: %w", key.Name, err)
	}
	if !metav1.IsControlledBy(existing, etcd) {
		return false, nil
	}
	r.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "TaskExists", "RunTask", "EtcdOpsTask %s of %s already does what the annotation %s=%s requests: set the annotation again for another task", existing.Name, existing.CreationTimestamp.UTC().Format(time.RFC3339), druidv1alpha1.RunTaskAnnotation, kind)

	return true, nil
}
