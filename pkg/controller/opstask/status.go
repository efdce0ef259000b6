// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
)

// accept adds the task to the queue.
func (r *Reconciler) accept(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) error {
	if !controllerutil.ContainsFinalizer(task, druidv1alpha1.EtcdOpsTaskFinalizerName) {
		if err := controllerutils.AddFinalizers(ctx, r.Client, task, druidv1alpha1.EtcdOpsTaskFinalizerName); err != nil {
			return fmt.Errorf("adding the finalizer: %w", err)
		}
	}

	return r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		r.setState(status, druidv1alpha1.TaskStatePending)
		r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeAdmit, druidv1alpha1.LastOperationStateInProgress, "The task is in the queue of its Etcd")
	})
}

// start starts the task if it is still the first in the queue on the API server.
func (r *Reconciler) start(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) (reconcile.Result, error) {
	r.starting.Lock()
	defer r.starting.Unlock()
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	if err := r.Reader.List(ctx, tasks, client.InNamespace(task.Namespace)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing EtcdOpsTasks: %w", err)
	}
	if opstask.WaitsForTask(task, tasks.Items) != "" {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	err := r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		r.setState(status, druidv1alpha1.TaskStateInProgress)
		status.StartedAt = status.LastTransitionTime
		r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeExecution, druidv1alpha1.LastOperationStateInProgress, "The task begins")
	})

	return reconcile.Result{}, err
}

// setDescription changes the description of the last operation.
func (r *Reconciler) setDescription(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, message string) error {
	if task.Status.LastOperation != nil && task.Status.LastOperation.Description == message {
		return nil
	}

	return r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		operation := ptr.Deref(status.LastOperation, druidv1alpha1.LastOperation{Type: druidv1alpha1.LastOperationTypeExecution, State: druidv1alpha1.LastOperationStateInProgress})
		r.setOperation(ctx, status, operation.Type, operation.State, message)
	})
}

// recordFailure adds the error of an attempt to the status. The number of errors is the number of failed attempts.
func (r *Reconciler) recordFailure(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, decision opstask.Decision) error {
	err := r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		r.addError(status, decision.Problem)
		r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeExecution, druidv1alpha1.LastOperationStateInProgress, "An attempt has failed: "+decision.Problem.Message)
	})
	if err == nil {
		r.Calls.Discard(task.UID)
	}

	return err
}

// end writes the result of the task into the status.
func (r *Reconciler) end(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, obs observation, decision opstask.Decision) error {
	var message string
	err := r.patch(ctx, task, func(status *druidv1alpha1.EtcdOpsTaskStatus) {
		switch decision.Action {
		case opstask.ActionSucceed:
			message = setResult(task, obs.outcome, status)
			r.setState(status, druidv1alpha1.TaskStateSucceeded)
			r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeExecution, druidv1alpha1.LastOperationStateCompleted, message)
		case opstask.ActionReject:
			message = decision.Problem.Message
			r.addError(status, decision.Problem)
			r.setState(status, druidv1alpha1.TaskStateRejected)
			r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeAdmit, druidv1alpha1.LastOperationStateFailed, message)
		default:
			message = decision.Problem.Message
			r.addError(status, decision.Problem)
			status.Members = obs.outcome.Members
			r.setState(status, druidv1alpha1.TaskStateFailed)
			r.setOperation(ctx, status, druidv1alpha1.LastOperationTypeExecution, druidv1alpha1.LastOperationStateFailed, message)
		}
	})
	if err != nil {
		return err
	}
	r.Calls.Discard(task.UID)
	if obs.exists {
		count(task)
	}
	eventType := corev1.EventTypeNormal
	if decision.Action != opstask.ActionSucceed {
		eventType = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(task, nil, eventType, string(*task.Status.State), "RunTask", "%s", message)

	return nil
}

// release removes the finalizer of a task without a running call.
func (r *Reconciler) release(ctx context.Context, task *druidv1alpha1.EtcdOpsTask) error {
	if !controllerutil.ContainsFinalizer(task, druidv1alpha1.EtcdOpsTaskFinalizerName) {
		return nil
	}
	if err := controllerutils.RemoveFinalizers(ctx, r.Client, task, druidv1alpha1.EtcdOpsTaskFinalizerName); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}

	return nil
}

// patch writes the status. It fails with a conflict if another client changed the task in the meantime.
func (r *Reconciler) patch(ctx context.Context, task *druidv1alpha1.EtcdOpsTask, change func(*druidv1alpha1.EtcdOpsTaskStatus)) error {
	before := task.DeepCopy()
	change(&task.Status)
	if err := r.Client.Status().Patch(ctx, task, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}

	return nil
}

func (r *Reconciler) now() metav1.Time { return metav1.NewTime(r.Clock.Now().Truncate(time.Second)) }

func (r *Reconciler) setState(status *druidv1alpha1.EtcdOpsTaskStatus, state druidv1alpha1.TaskState) {
	status.State = &state
	status.LastTransitionTime = new(r.now())
}

func (r *Reconciler) setOperation(ctx context.Context, status *druidv1alpha1.EtcdOpsTaskStatus, operation druidv1alpha1.LastOperationType, state druidv1alpha1.LastOperationState, description string) {
	status.LastOperation = &druidv1alpha1.LastOperation{
		Type: operation, State: state, Description: description, RunID: string(controller.ReconcileIDFromContext(ctx)), LastUpdateTime: r.now(),
	}
}

func (r *Reconciler) addError(status *druidv1alpha1.EtcdOpsTaskStatus, problem *opstask.Problem) {
	status.LastErrors = append(status.LastErrors, druidv1alpha1.LastError{Code: problem.Code, Description: problem.Message, ObservedAt: r.now()})
}
