// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
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
	restore := restoreRequest(r.Newest, now)
	if restore != nil {
		requests = append(requests, *restore)
	}
	if request := revisionRequest(r.Newest, restore); request != nil {
		requests = append(requests, *request)
	}

	if request := r.recoverRequest(now); request != nil {
		requests = append(requests, *request)
	}

	return requests
}

// recoverRequest returns the request of a recovery, once the recovery is recorded or has no effect. Nil: there is none.
func (r *Result) recoverRequest(now time.Time) *Request {
	run := r.Current()
	if run == nil || !run.Observed || run.Observation.Failure(etcdcluster.SectionManagedResource) != "" {
		return nil
	}
	value, found := run.stored().Annotations[druidv1alpha1.RecoverAnnotation]
	if !found {
		return nil
	}
	request := &Request{Annotation: druidv1alpha1.RecoverAnnotation, Value: value}
	if recorded := run.Observation.State; recorded.Restore == state.RestoreRecover && recorded.Recovery.IsActive() && recorded.Recovery.Token == value {
		return request
	}
	if request.Ignored = r.unrecoverable(); request.Ignored != "" {
		return request
	}
	if _, request.Ignored = planner.EvaluateRecovery(run.Target.Etcd, run.Observation, now); request.Ignored == "" {
		return nil
	}

	return request
}

// endsVerification is true if the Job that verifies a restore has ended, and nothing depends on its result any more. A later restore must not
// use the result: the store and the volumes may have changed since.
func (r *Result) endsVerification() bool {
	run := r.Newest
	if run == nil || !run.Observed || run.Observation.Failure(etcdcluster.SectionRestoreVerification) != "" {
		return false
	}
	if job := run.Observation.RestoreVerification; !job.Failed && !job.Succeeded || job.Recorded || job.Deleting {
		return false
	}
	isConsumed := slices.ContainsFunc(r.Requests, func(request Request) bool { return request.Annotation == druidv1alpha1.RestoreAnnotation })

	return isConsumed || !planner.AwaitsVerification(run.Target.Etcd, run.Observation)
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

// revisionRequest returns the request to accept a revision, once that is recorded or has no effect. The request of a restore takes it along.
// Nil: there is none.
func revisionRequest(run *Run, restore *Request) *Request {
	value, found := run.Target.Stored.Annotations[druidv1alpha1.AcceptRevisionAnnotation]
	if !found || !run.Observed || run.Observation.Failure(etcdcluster.SectionManagedResource) != "" {
		return nil
	}
	request := &Request{Annotation: druidv1alpha1.AcceptRevisionAnnotation, Value: value}
	recorded := run.Observation.State
	switch {
	case restore != nil && restore.Ignored != "":
		request.Ignored = "the requested restore is ignored"

		return request
	case recorded.Restore != state.RestoreNone && recorded.Verified != nil && strconv.FormatInt(recorded.Verified.AcceptedRevision, 10) == value:
		return request
	case restore == nil && planner.UsesAcceptedRevision(run.Target.Etcd, run.Observation):
		return nil // it is not decided yet
	}
	accepted, ignored := evidence.Accept(run.Observation.State.Evidence, value)
	if accepted != nil {
		return nil // it is not recorded yet
	}

	request.Ignored = ignored

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

// QueriesOnlyMember is true if the plan of a cluster of one member depends on the responses of its members.
func QueriesOnlyMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) bool {
	return planner.QueriesOnlyMember(etcd, o, now)
}
