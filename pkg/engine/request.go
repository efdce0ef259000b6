// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"time"

	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Request is an annotation of the Etcd that requests an operation and that the operator removes.
type Request struct {
	// Annotation is the key, Value the value that was observed.
	Annotation, Value string
	// Ignored is why the request has no effect. It must not take effect later without the user's knowledge. Empty: it is recorded, and the
	// annotation is not needed any more.
	Ignored string
}

// requests returns the annotations to remove after a reconciliation.
func (r *Result) requests(now time.Time) []Request {
	var requests []Request
	if request := rotationRequest(r.runWithTLS()); request != nil {
		requests = append(requests, *request)
	}
	if request := restoreRequest(r.Newest, now); request != nil {
		requests = append(requests, *request)
	}

	return requests
}

// runWithTLS returns the run whose TLS modes are known. The run of the last accepted generation is preferred. Nil: they are not known.
func (r *Result) runWithTLS() *Run {
	for _, run := range []*Run{r.Accepted, r.Newest} {
		if run != nil && run.resolvedTLS {
			return run
		}
	}

	return nil
}

// rotationRequest returns the request of a rotation of the CAs, once the rotation is recorded or cannot be done. Nil: there is none.
func rotationRequest(run *Run) *Request {
	if run == nil {
		return nil
	}
	stored := run.stored()
	value, found := stored.Annotations[druidv1alpha1.RotateCAAnnotation]
	if !found {
		return nil
	}
	err := secrets.CheckAnnotation(value)
	switch gardener := run.Observation.Gardener; {
	case err != nil:
	case !run.Target.TLS.AnyManaged():
		err = errors.New("the CAs are not issued by the operator: rotate them where the Secrets of the spec come from")
	case gardener.Cluster != nil || gardener.Garden != nil:
		err = errors.New("the CAs follow the rotation of the shoot or garden")
	case !secrets.HasConsumed(ptr.Deref(run.Observation.State.Rotation, state.Rotation{}), value):
		return nil
	}
	request := &Request{Annotation: druidv1alpha1.RotateCAAnnotation, Value: value}
	if err != nil {
		request.Ignored = err.Error()
	}

	return request
}

// restoreRequest returns the request of a restore, once the restore is recorded or has no effect. Nil: there is none.
func restoreRequest(run *Run, now time.Time) *Request {
	value, found := run.Target.Stored.Annotations[druidv1alpha1.RestoreAnnotation]
	if !found || !run.Observed {
		return nil
	}
	request := &Request{Annotation: druidv1alpha1.RestoreAnnotation, Value: value}
	if run.Observation.State.Restore == state.RestoreDiscard {
		return request
	}
	if _, request.Ignored = planner.EvaluateRestore(run.Target.Etcd, run.Observation, now); request.Ignored == "" {
		return nil
	}

	return request
}
