// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// waitingError ends a reconciliation that cannot go on yet although nothing is wrong. A watch wakes the Etcd up when
// what it waits for happens; after is only the safety net.
type waitingError struct {
	message string
	after   time.Duration
	// eventReason is the reason of a warning that is written when the wait begins. Empty: none.
	eventReason string
}

// Error is a sentence that says what is waited for.
func (e *waitingError) Error() string { return e.message }

// waitFor returns an error that says what the Etcd waits for, in a sentence that begins with "Waiting".
func waitFor(format string, args ...any) error {
	return &waitingError{message: fmt.Sprintf(format, args...), after: safetyNet}
}

// skippedError ends a reconciliation that has nothing to do, though the cluster is not, or not known to be, as the spec
// describes it. The last operation stays what it was.
type skippedError struct {
	reason  string
	message string
	// after is when to look again, though nothing is to be done for the spec. 0: when something happens.
	after time.Duration
}

// Error is a sentence that says why.
func (e *skippedError) Error() string { return e.message }

// skippedFor returns an error that says why there is nothing to do, with a reason of the condition Progressing.
func skippedFor(reason, format string, args ...any) error {
	return &skippedError{reason: reason, message: fmt.Sprintf(format, args...)}
}

const (
	// safetyNet is when a waiting Etcd is looked at again even if no watch woke it up.
	safetyNet = time.Minute
	// deletionPeriod is when a deletion looks again whether things are gone; not every kind of them is watched.
	deletionPeriod = 5 * time.Second
)

// codedError is an error with the code under which it is listed in status.lastErrors.
type codedError struct {
	code druidv1alpha1.ErrorCode
	err  error
}

// Error is the text of the wrapped error.
func (e *codedError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *codedError) Unwrap() error { return e.err }

// failed returns a failure: the reconciliation is tried again with backoff. Nil stays nil, and an error that is
// already coded or waiting keeps what it is.
func failed(code druidv1alpha1.ErrorCode, err error) error {
	if err == nil || isTyped(err) {
		return err
	}
	return &codedError{code: code, err: err}
}

// refused returns a terminal error: only a change of the spec helps. Nil stays nil.
func refused(code druidv1alpha1.ErrorCode, err error) error {
	if err == nil {
		return nil
	}
	return &codedError{code: code, err: reconcile.TerminalError(err)}
}

func isTyped(err error) bool {
	var (
		coded   *codedError
		waiting *waitingError
		skipped *skippedError
	)
	return errors.As(err, &coded) || errors.As(err, &waiting) || errors.As(err, &skipped)
}

// outcome is what one reconciliation came to, in the terms of the status and of the queue.
type outcome struct {
	// state of status.lastOperation.
	state druidv1alpha1.LastOperationState
	// description of status.lastOperation and message of the condition Progressing.
	description string
	// progressing and reason are status and reason of the condition Progressing.
	progressing druidv1alpha1.ConditionStatus
	reason      string
	// keepOperation leaves status.lastOperation and status.lastErrors as they were.
	keepOperation bool
	// eventType and eventReason are of the event that is written when the condition Progressing changes. Empty: none.
	eventType, eventReason string
	// errors are status.lastErrors; their time is left to the patch. Empty on success and while waiting.
	errors []druidv1alpha1.LastError
	// result and err go to the queue.
	result reconcile.Result
	err    error
}

// outcomeOf is the only place where the kinds of "no" become status and requeue. Nil is success.
func outcomeOf(err error) outcome {
	var (
		waiting *waitingError
		skipped *skippedError
	)
	o := outcome{}
	switch {
	case err == nil:
		o.state = druidv1alpha1.LastOperationStateSucceeded
		o.progressing, o.reason = druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonReconciled
		o.description = "The cluster is as the spec describes it"
		o.eventType, o.eventReason = corev1.EventTypeNormal, "Reconciled"
	case errors.As(err, &waiting):
		o.state = druidv1alpha1.LastOperationStateRequeue
		o.progressing, o.reason = druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonWaiting
		o.description = waiting.message
		o.eventType, o.eventReason = corev1.EventTypeWarning, waiting.eventReason
		o.result = reconcile.Result{RequeueAfter: waiting.after}
	case errors.As(err, &skipped):
		o.keepOperation = true
		o.progressing, o.reason = druidv1alpha1.ConditionFalse, skipped.reason
		o.description = skipped.message
		o.result = reconcile.Result{RequeueAfter: skipped.after}
		if skipped.reason == druidv1alpha1.ReasonSuspended {
			o.eventType, o.eventReason = corev1.EventTypeWarning, "SpecReconciliationSkipped"
		}
	default:
		o.failed(err)
	}
	return o
}

// failed fills in a failure or, if the error is terminal, a refusal.
func (o *outcome) failed(err error) {
	o.state = druidv1alpha1.LastOperationStateError
	o.description = message(err)
	o.errors = lastErrors(err)
	o.err = err
	o.eventType = corev1.EventTypeWarning
	if errors.Is(err, reconcile.TerminalError(nil)) {
		o.progressing, o.reason, o.eventReason = druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonInvalidSpec, "InvalidSpec"
		return
	}
	o.progressing, o.reason, o.eventReason = druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonReconciling, "ReconcileFailed"
}

// lastErrors lists an error under its code; one without a code is a failed step.
func lastErrors(err error) []druidv1alpha1.LastError {
	code := druidv1alpha1.ErrorCodeStep
	var coded *codedError
	if errors.As(err, &coded) {
		code = coded.code
	}
	return []druidv1alpha1.LastError{{Code: code, Description: message(err)}}
}

// longestMessage bounds what the status says of an error, in bytes: an error may repeat a value of the spec.
const longestMessage = 4096

// message is the text of an error without the prefix that controller-runtime gives to terminal ones.
func message(err error) string {
	var coded *codedError
	if errors.As(err, &coded) {
		err = coded.err
	}
	if errors.Is(err, reconcile.TerminalError(nil)) {
		if wrapped := errors.Unwrap(err); wrapped != nil {
			err = wrapped
		}
	}
	text := err.Error()
	if len(text) <= longestMessage {
		return text
	}

	return strings.ToValidUTF8(text[:longestMessage], "") + " (shortened)"
}
