// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LastOperationType is the kind of the last operation on a resource.
type LastOperationType string

// LastOperationState is how far the last operation on a resource came.
type LastOperationState string

// LastOperation is the last thing that a controller did with a resource.
type LastOperation struct {
	// Type is the kind of the operation: Create, Reconcile or Delete of an Etcd; Admit, Execution or Cleanup of an
	// EtcdOpsTask.
	Type LastOperationType `json:"type"`
	// State is how far the operation came: Processing, Succeeded, Error or Requeue of an Etcd; InProgress, Completed or
	// Failed of an EtcdOpsTask.
	State LastOperationState `json:"state"`
	// Description is a sentence for people about the operation.
	Description string `json:"description"`
	// RunID identifies the reconciliation, as the field reconcileID of the log lines written in it does.
	RunID string `json:"runID"`
	// LastUpdateTime is when the operation was last written.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
}

// ErrorCode identifies an error for programs. The codes in use are the constants ErrorCode* of this package.
type ErrorCode string

// LastError is an error that a controller met with a resource.
type LastError struct {
	// Code identifies the error for programs.
	Code ErrorCode `json:"code"`
	// Description is a sentence that names the invalid field or the failed object, and the remedy.
	Description string `json:"description"`
	// ObservedAt is when the error was met.
	ObservedAt metav1.Time `json:"observedAt"`
}

// Types and states of the last operation on an Etcd.
const (
	// LastOperationTypeCreate is the reconciliation of an Etcd until its members were rolled out for the first time.
	LastOperationTypeCreate LastOperationType = "Create"
	// LastOperationTypeReconcile is every later reconciliation of an Etcd's spec.
	LastOperationTypeReconcile LastOperationType = "Reconcile"
	// LastOperationTypeDelete is the deletion of an Etcd and of all that was made for it.
	LastOperationTypeDelete LastOperationType = "Delete"

	// LastOperationStateProcessing means that the operation is under way.
	LastOperationStateProcessing LastOperationState = "Processing"
	// LastOperationStateSucceeded means that the operation ended well.
	LastOperationStateSucceeded LastOperationState = "Succeeded"
	// LastOperationStateError means that the operation met an error, listed in status.lastErrors.
	LastOperationStateError LastOperationState = "Error"
	// LastOperationStateRequeue means that the operation waits for something, named in its description.
	LastOperationStateRequeue LastOperationState = "Requeue"
)

// Types and states of the last operation on an EtcdOpsTask.
const (
	// LastOperationTypeAdmit is the check whether a task may run.
	LastOperationTypeAdmit LastOperationType = "Admit"
	// LastOperationTypeExecution is the run of an admitted task.
	LastOperationTypeExecution LastOperationType = "Execution"
	// LastOperationTypeCleanup is the removal of a finished task whose time to live has passed.
	LastOperationTypeCleanup LastOperationType = "Cleanup"

	// LastOperationStateInProgress means that the operation is under way.
	LastOperationStateInProgress LastOperationState = "InProgress"
	// LastOperationStateCompleted means that the operation ended well.
	LastOperationStateCompleted LastOperationState = "Completed"
	// LastOperationStateFailed means that the operation failed.
	LastOperationStateFailed LastOperationState = "Failed"
)
