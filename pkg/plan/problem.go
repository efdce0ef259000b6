// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ProblemKind says what follows from a Problem.
type ProblemKind string

// The kinds of problems.
const (
	// ProblemWaiting: nothing is wrong, but something has to happen before the reconciliation can continue.
	ProblemWaiting ProblemKind = "Waiting"
	// ProblemSkipped: nothing is done for the generation, for example because it is suspended. The last operation stays what it was.
	ProblemSkipped ProblemKind = "Skipped"
	// ProblemRefused: only a change of the spec helps.
	ProblemRefused ProblemKind = "Refused"
	// ProblemFailed: the reconciliation is repeated with backoff.
	ProblemFailed ProblemKind = "Failed"
	// ProblemPaused: the write guard holds the reconciliation back. Nothing is reported.
	ProblemPaused ProblemKind = "Paused"
)

// Problem is why a reconciliation ends before the cluster is as its spec describes it. It is the only error type for that. Any other error
// is a failure with the code ERR_STEP.
type Problem struct {
	// Kind says what follows.
	Kind ProblemKind
	// Message is a sentence for users. Empty: the text of Err.
	Message string
	// Code is the code in status.lastErrors. It is set for ProblemRefused and ProblemFailed.
	Code druidv1alpha1.ErrorCode
	// Reason is the reason of the condition Reconciled. It is set for ProblemSkipped.
	Reason string
	// EventReason is the reason of the warning that is emitted when a ProblemWaiting begins. Empty: none.
	EventReason string
	// RequeueAfter is when to reconcile again if no watch reports a change before. 0: only a watch does.
	RequeueAfter time.Duration
	// Foreign is true if objects that do not belong to the Etcd have the names that it needs. The operator does not watch them.
	Foreign bool
	// Err is the cause. Nil: Message says everything.
	Err error
}

// Error is the message, or the text of the cause.
func (p *Problem) Error() string {
	if p.Message == "" && p.Err != nil {
		return p.Err.Error()
	}

	return p.Message
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Waiting returns a problem of the kind ProblemWaiting. The message is a sentence that begins with "Waiting".
func Waiting(after time.Duration, format string, args ...any) *Problem {
	return &Problem{Kind: ProblemWaiting, Message: fmt.Sprintf(format, args...), RequeueAfter: after}
}

// Skipped returns a problem of the kind ProblemSkipped with the reason of the condition Reconciled.
func Skipped(reason, format string, args ...any) *Problem {
	return &Problem{Kind: ProblemSkipped, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Refused returns a problem of the kind ProblemRefused. Nil stays nil.
func Refused(code druidv1alpha1.ErrorCode, err error) error {
	if err == nil {
		return nil
	}

	return &Problem{Kind: ProblemRefused, Code: code, Err: err}
}

// Failed returns a problem of the kind ProblemFailed. Nil stays nil, and an error that has a Problem among its causes stays as it is.
func Failed(code druidv1alpha1.ErrorCode, err error) error {
	if err == nil || AsProblem(err) != nil {
		return err
	}

	return &Problem{Kind: ProblemFailed, Code: code, Err: err}
}

// AsProblem returns the Problem among the causes of an error. Nil: there is none.
func AsProblem(err error) *Problem {
	var problem *Problem
	if !errors.As(err, &problem) {
		return nil
	}

	return problem
}
