// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// largestSize is the largest supported cluster size.
const largestSize = 7

// warningsDelay is the age of an unbound claim from which its warnings are read. Most claims are bound within seconds, and each observation in that time would
// list the events of the namespace.
const warningsDelay = 10 * time.Second

// readClaims reads the claims of the members by exact name: main-etcd-main-x-0 is another Etcd's, whatever its beginning.
func (r *reader) readClaims(ctx context.Context, request Request) {
	list := &corev1.PersistentVolumeClaimList{}
	if err := r.Reader.List(ctx, list, r.shared()...); err != nil {
		r.failed(etcdcluster.SectionClaims, err)

		return
	}
	byName := map[string]*corev1.PersistentVolumeClaim{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	isNew := r.observation.State.Size == 0 && !r.observation.StatefulSet.Exists
	exists, err := r.unlistedClaims(ctx, isNew, isNew && request.KnownClaims)
	if err != nil {
		r.failed(etcdcluster.SectionClaims, err)

		return
	}
	// A hibernated or scaled-down cluster keeps its claims: the loop covers the largest size that it had. It also covers the temporary member of a surge,
	// and the extra member of a volume migration before it exists.
	count := max(int(r.etcd.Spec.Replicas), int(r.observation.State.Size), 1)
	if helper.UsesSurge(r.etcd) || r.observation.State.Surge.IsActive() {
		count = max(count, 2)
	}
	if r.observation.State.Migration != nil {
		count = max(count, int(r.etcd.Spec.Replicas)+1)
	}
	for ordinal := range count {
		claim, isForeign := r.claim(ctx, byName, exists, ordinal)
		if request.Events && r.mayHaveWarnings(claim) {
			claim.Warnings = r.warningsOf(ctx, claim)
		}
		r.addClaim(claim, isForeign)
	}
	if isNew || r.observation.State.Restore == state.RestoreDiscard {
		r.readOrphanedClaims(ctx, byName, exists)
	}
}

// unlistedClaims returns which claims may exist that the cache does not contain, by their names. Of a new cluster, it lists the names once.
// Otherwise each observation during the creation would read seven claims that do not exist. isKnown is true if the observation needs only the claims
// in the cache.
func (r *reader) unlistedClaims(ctx context.Context, isNew, isKnown bool) (func(name string) bool, error) {
	if !isNew || isKnown {
		return func(string) bool { return !isKnown }, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := r.APIReader.List(ctx, list, client.InNamespace(r.etcd.Namespace)); err != nil {
		return nil, fmt.Errorf("listing the claims of the namespace: %w", err)
	}
	names := sets.New[string]()
	for _, item := range list.Items {
		names.Insert(item.Name)
	}

	return func(name string) bool { return names.Has(name) }, nil
}

// addClaim adds a claim to those of the members, or to the foreign ones.
func (r *reader) addClaim(claim etcdcluster.Claim, isForeign bool) {
	if isForeign {
		r.observation.ForeignClaims = append(r.observation.ForeignClaims, claim)

		return
	}
	r.observation.Claims = append(r.observation.Claims, claim)
}

// readOrphanedClaims reads the claims above those of the spec. A deleted Etcd of the same name may have left them, and its size is not recorded.
// Members that are added later would mount the claims that a restore does not delete.
func (r *reader) readOrphanedClaims(ctx context.Context, byName map[string]*corev1.PersistentVolumeClaim, exists func(string) bool) {
	for ordinal := len(r.observation.Claims) + len(r.observation.ForeignClaims); ordinal < largestSize && r.observation.Failure(etcdcluster.SectionClaims) == ""; ordinal++ {
		if claim, isForeign := r.claim(ctx, byName, exists, ordinal); claim.Exists {
			r.addClaim(claim, isForeign)
		}
	}
}

// claim is the claim of one member. One that is not listed but may exist is read from the API server. The caches hold only objects
// with the operator's labels, and a claim keeps the labels of its creation: early versions of etcd-druid set others. Without this read the
// operator would take a claim with data for a missing one.
func (r *reader) claim(ctx context.Context, byName map[string]*corev1.PersistentVolumeClaim, exists func(string) bool, ordinal int) (claim etcdcluster.Claim, isForeign bool) {
	name := helper.ClaimName(r.etcd, ordinal)
	if listed := byName[name]; listed != nil {
		return claimFor(listed, ordinal), false // it has the labels of the Etcd
	}
	if !exists(name) {
		return etcdcluster.Claim{Name: name, Ordinal: ordinal}, false
	}
	object := &corev1.PersistentVolumeClaim{}
	switch err := r.APIReader.Get(ctx, r.key(name), object); {
	case err == nil:
		return claimFor(object, ordinal), !helper.IsClaimOf(object, r.etcd) && !r.usesClaim(ordinal)
	case !apierrors.IsNotFound(err):
		r.failed(etcdcluster.SectionClaims, fmt.Errorf("reading claim %s: %w", name, err))
	}

	return etcdcluster.Claim{Name: name, Ordinal: ordinal}, false
}

// usesClaim is true where a member with the ordinal runs or ran. Kubernetes has let it mount the claim of its name, whatever labels the
// claim has.
func (r *reader) usesClaim(ordinal int) bool {
	size := r.observation.State.Size
	if r.observation.StatefulSet.Exists && r.observation.StatefulSet.OwnerUID == r.etcd.UID {
		size = max(size, r.observation.StatefulSet.SpecReplicas)
	}

	return ordinal < int(size)
}

func claimFor(object *corev1.PersistentVolumeClaim, ordinal int) etcdcluster.Claim {
	claim := etcdcluster.Claim{
		Name:         object.Name,
		Ordinal:      ordinal,
		Exists:       true,
		UID:          object.UID,
		CreationTime: object.CreationTimestamp.Time,
		Deleting:     object.DeletionTimestamp != nil,
		Bound:        object.Status.Phase == corev1.ClaimBound,
		Lost:         object.Status.Phase == corev1.ClaimLost,
		Volume:       object.Spec.VolumeName,
		Requested:    object.Spec.Resources.Requests.Storage().Value(),
		Capacity:     object.Status.Capacity.Storage().Value(),
	}
	for _, condition := range object.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == corev1.PersistentVolumeClaimFileSystemResizePending:
			claim.RemountSince = condition.LastTransitionTime.Time
		case condition.Type == corev1.PersistentVolumeClaimControllerResizeError, condition.Type == corev1.PersistentVolumeClaimNodeResizeError:
			claim.ResizeProblem = condition.Message
		}
	}
	if class := object.Spec.StorageClassName; class != nil {
		claim.StorageClass = *class
	}

	return claim
}

// mayHaveWarnings is true for an unbound claim that is older than warningsDelay, and for a bound claim that is smaller than requested.
func (r *reader) mayHaveWarnings(claim etcdcluster.Claim) bool {
	if !claim.Bound {
		return claim.Exists && r.now().Sub(claim.CreationTime) >= warningsDelay
	}

	return claim.Capacity < claim.Requested
}

// warningsOf reads the warning events of a claim, no more than the newest two, sorted: two that
// alternate have the same order each time.
func (r *reader) warningsOf(ctx context.Context, claim etcdcluster.Claim) []string {
	var warnings []string
	for _, event := range r.readWarnings(ctx, "PersistentVolumeClaim", claim.Name, claim.UID) {
		if len(warnings) < 2 && !slices.Contains(warnings, event.Message) {
			warnings = append(warnings, event.Message)
		}
	}
	slices.Sort(warnings)

	return warnings
}

// readWarnings reads the warning events of an object, the newest first.
func (r *reader) readWarnings(ctx context.Context, kind, name string, uid types.UID) []corev1.Event {
	list := &corev1.EventList{}
	err := r.APIReader.List(ctx, list, client.InNamespace(r.etcd.Namespace), client.MatchingFields{
		"involvedObject.kind": kind, "involvedObject.name": name, "type": corev1.EventTypeWarning,
	})
	if err != nil {
		r.failed(etcdcluster.SectionClaimEvents, err)

		return nil
	}
	events := slices.DeleteFunc(list.Items, func(event corev1.Event) bool { return event.InvolvedObject.UID != uid })
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return lastObserved(b).Compare(lastObserved(a)) })

	return events
}

// readFailedCreate reads why the StatefulSet controller does not create a pod that is missing.
func (r *reader) readFailedCreate(ctx context.Context) {
	if set := &r.observation.StatefulSet; set.GenerationObserved() && !set.Deleting && len(r.observation.Pods) < int(set.SpecReplicas) {
		var newest time.Time
		for _, pod := range r.observation.Pods {
			newest = etcdcluster.Later(newest, pod.CreationTime)
		}
		set.FailedCreate = r.failedCreate(ctx, "StatefulSet", set.Name, set.UID, newest)
	}
}

// createRetryPeriod is longer than the pause of a controller between two attempts to create a pod. An older event is about an earlier pod.
const createRetryPeriod = 20 * time.Minute

// failedCreate reads the message of the newest event FailedCreate of a controller. Empty: there is none, or it is old. It is old if the controller has
// created a pod since.
func (r *reader) failedCreate(ctx context.Context, kind, name string, uid types.UID, newest time.Time) string {
	for _, event := range r.readWarnings(ctx, kind, name, uid) {
		if event.Reason == "FailedCreate" && r.now().Sub(lastObserved(event)) < createRetryPeriod && !lastObserved(event).Before(newest) {
			return event.Message
		}
	}

	return ""
}

// jobProblem reads why a Job that has not ended does not create its pod. Empty: no reason is known.
func (r *reader) jobProblem(ctx context.Context, job *batchv1.Job) string {
	if job.Status.Active > 0 || len(job.Status.Conditions) > 0 || ptr.Deref(job.Spec.Suspend, false) {
		return ""
	}
	if message := r.failedCreate(ctx, "Job", job.Name, job.UID, time.Time{}); message != "" {
		return etcdcluster.CreationProblem("Job", job.Name, message)
	}

	return ""
}

func lastObserved(event corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	default:
		return event.EventTime.Time
	}
}
