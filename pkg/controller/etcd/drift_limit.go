// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// applyTimeout is how long gardener-resource-manager may take to apply a ManagedResource on request, before an object that still
// differs counts as changed again.
const applyTimeout = 30 * time.Second

// repairsOf reads the repairs of the objects of a rendering from the ManagedResource.
func repairsOf(mr *resourcesv1alpha1.ManagedResource, rendered engine.Rendered) drift.Repairs {
	return drift.ParseRepairs(mr.Annotations[druidv1alpha1.ManagedResourceAnnotationRepairs], rendered.Rendering.Checksum)
}

// split separates the objects that may be repaired now from those that were repaired within drift.Pause.
func split(found []engine.Difference, repairs drift.Repairs, now time.Time) (due, recent []engine.Difference) {
	for _, one := range found {
		one.RepairedAt = repairs.Last(one.Object, now)
		if one.RepairedAt.IsZero() {
			due = append(due, one)
		} else {
			recent = append(recent, one)
		}
	}
	return due, recent
}

func describe(found []engine.Difference) string {
	messages := make([]string, 0, len(found))
	for _, one := range found {
		messages = append(messages, one.Message)
	}
	return strings.Join(messages, "; ")
}

func objectsOf(found []engine.Difference) []string {
	objects := make([]string, 0, len(found))
	for _, one := range found {
		objects = append(objects, one.Object)
	}
	return objects
}

// limitRecreation returns the Leases and the payload of an unchanged rendering that were deleted and that may be recreated now, and
// withholds the others. A ManagedResource whose spec was changed is written at most once within drift.Pause: until then the error
// says what is waited for.
func (r *execution) limitRecreation(ctx context.Context, run *engine.Run, desired desiredResource) ([]engine.Difference, error) {
	mr, rendered := r.current, run.Rendered
	isApplied := run.Observation.StatefulSet.Rendering.Checksum == rendered.Rendering.Checksum
	if mr == nil || mr.DeletionTimestamp != nil || !isApplied {
		return nil, nil // all is created or written with the first or a new rendering
	}
	now, repairs := r.Clock.Now(), repairsOf(mr, rendered)
	if !desired.describes(mr) {
		due, recent := split([]engine.Difference{{Object: "ManagedResource/" + mr.Name, Message: "ManagedResource " + mr.Name + " differs from its rendering in spec"}}, repairs, now)
		run.Withhold(recent...)
		if len(due) > 0 { // recorded by the same write
			desired.annotations[druidv1alpha1.ManagedResourceAnnotationRepairs] = repairs.With(now, objectsOf(due)...).String()
		}
		return nil, run.Withheld(now)
	}
	found, err := r.missingObjects(ctx, rendered, desired.secretName, repairs)
	due, recent := split(found, repairs, now)
	run.Withhold(recent...)
	return due, plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
}

// missingObjects are the Leases and the payload that do not exist. What the cache does not have is read from the API server, but once if it
// was recreated within drift.Pause.
func (r *Reconciler) missingObjects(ctx context.Context, rendered engine.Rendered, payloadName string, repairs drift.Repairs) ([]engine.Difference, error) {
	var objects []client.Object
	for _, lease := range append(componentetcd.MemberLeases(rendered.Values), componentetcd.SnapshotLeases(rendered.Values)...) {
		objects = append(objects, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}})
	}
	payload := metadataOf(corev1.SchemeGroupVersion.WithKind("Secret"))
	payload.Namespace, payload.Name = rendered.StatefulSet.Namespace, payloadName

	var found []engine.Difference
	for _, obj := range append(objects, payload) {
		kind, err := apiutil.GVKForObject(obj, r.Client.Scheme())
		if err != nil {
			return nil, err
		}
		name := obj.GetName()
		isMissing, err := r.isMissing(ctx, obj, comparison{
			object: objectKey{kind: kind, key: client.ObjectKeyFromObject(obj)}, checksum: rendered.Rendering.Checksum, version: missingVersion,
			repairedAt: repairs.Last(kind.Kind+"/"+name, r.Clock.Now()),
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, name, err)
		}
		if isMissing {
			found = append(found, engine.Difference{Object: kind.Kind + "/" + name, Message: fmt.Sprintf("%s %s is gone", kind.Kind, name)})
		}
	}
	return found, nil
}

func (r *Reconciler) isMissing(ctx context.Context, obj client.Object, c comparison) (bool, error) {
	err := r.cached().Get(ctx, c.object.key, obj)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if r.compared.lastDifference(c) != "" {
		return true, nil
	}
	err = r.Reader.Get(ctx, c.object.key, obj)
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if !c.repairedAt.IsZero() { // before the first repair, the cache may not yet contain the object that this reconciliation creates
		r.compared.differs(c, "is gone")
	}
	return true, nil
}

// recordRecreation records at the ManagedResource what was recreated. If the operator dies before that, it may recreate the same
// object once more within drift.Pause.
func (r *execution) recordRecreation(ctx context.Context, run *engine.Run, recreated []engine.Difference) error {
	if len(recreated) == 0 {
		return nil
	}
	mr, rendered := r.current, run.Rendered
	r.event(run.Target.Stored, corev1.EventTypeNormal, "RepairingDrift", "Recreated what was deleted: %s", describe(recreated))
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(mr), mr); err != nil {
			return err
		}
		before := mr.DeepCopy()
		repairs := repairsOf(mr, rendered).With(r.Clock.Now(), objectsOf(recreated)...)
		metav1.SetMetaDataAnnotation(&mr.ObjectMeta, druidv1alpha1.ManagedResourceAnnotationRepairs, repairs.String())
		return r.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("recording repairs at ManagedResource %s: %w", mr.Name, err))
	}
	return nil
}

// limitStep returns true for a step that is not executed now. The operator replaces no pod from a template that another writer has
// changed. It does not request the StatefulSet again within drift.Pause.
func (r *execution) limitStep(ctx context.Context, run *engine.Run) (bool, error) {
	mr, rendered, decision := r.current, run.Rendered, run.Plan
	object := statefulSetObject(run.Target.Etcd)
	if decision.Stage == plan.StageReplacePod && run.IsWithheld(object) {
		return true, nil
	}
	if _, is := decision.Step.(plan.RequestReconcile); !is {
		return false, nil
	}
	if isApplied, err := r.showsRendering(ctx, rendered); err != nil || isApplied {
		return true, err // the cache lags behind, and its next event wakes the Etcd
	}
	now := r.Clock.Now()
	last := repairsOf(mr, rendered).Last(object, now)
	if last.IsZero() {
		return false, nil
	}
	if left := applyTimeout - now.Sub(last); left > 0 {
		return true, plan.Waiting(left, "Waiting for ManagedResource %s to be applied again: %s", mr.Name, decision.Reason)
	}
	run.Withhold(engine.Difference{Object: object, Message: decision.Reason, RepairedAt: last})
	return true, nil
}

// showsRendering is what waits for the cache if the StatefulSet at the API server shows the rendering already.
func (r *Reconciler) showsRendering(ctx context.Context, rendered engine.Rendered) (bool, error) {
	live := &appsv1.StatefulSet{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(rendered.StatefulSet), live); err != nil {
		return false, plan.Failed(druidv1alpha1.ErrorCodeGetStatefulSet, client.IgnoreNotFound(err))
	}
	if live.DeletionTimestamp != nil || live.Annotations[etcdcluster.RenderingAnnotation] != rendered.Rendering.Checksum {
		return false, nil
	}
	return true, plan.Waiting(engine.FallbackResync, "Waiting for StatefulSet %s as it was applied", live.Name)
}

// notWithheld are the Leases that may be created now if they do not exist.
func notWithheld(run *engine.Run, leases []*coordinationv1.Lease) []*coordinationv1.Lease {
	return slices.DeleteFunc(leases, func(lease *coordinationv1.Lease) bool { return run.IsWithheld("Lease/" + lease.Name) })
}

func statefulSetObject(etcd *druidv1alpha1.Etcd) string {
	return "StatefulSet/" + helper.StatefulSetName(etcd)
}
