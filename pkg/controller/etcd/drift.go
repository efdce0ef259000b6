// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

var (
	// errDryRunUnavailable is the result of a dry run that an admission webhook or another writer prevents. It must not keep the cluster from its
	// next step.
	errDryRunUnavailable = errors.New("the dry run is not available")
	// errPostponed is the result of a comparison that another reconciliation makes, see postponesComparison.
	errPostponed = errors.New("the comparison is postponed")
)

// A comparison that is postponed is made after comparisonDelay, or later by up to comparisonJitter times as much. The limit of comparisons permits
// those of 3,000 Etcds in that time, and postpones a few of them once more.
const (
	comparisonDelay  = time.Minute
	comparisonJitter = 10
)

// repairDrift requests gardener-resource-manager to apply the ManagedResource again if an applied object was deleted or changed.
// It returns true, and what is waited for, until that is done. An object that differs again within drift.Pause after its last
// repair is left as it is until then, and the rest of the reconciliation continues.
func (r *execution) repairDrift(ctx context.Context, run *engine.Run) (bool, error) {
	mr, rendered := r.current, run.Rendered
	if mr.Annotations[resourcesv1alpha1.Ignore] == "true" {
		return false, nil // gardener-resource-manager would not apply it
	}
	now, repairs := r.Clock.Now(), repairsOf(mr, rendered)
	found, isPostponed, err := r.driftOf(ctx, rendered, repairs, now)
	if err != nil {
		return false, plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
	}
	if isPostponed {
		run.RequeueWithin(wait.Jitter(comparisonDelay, comparisonJitter))
	}
	due, recent := split(found, repairs, now)
	if len(due) > 0 {
		r.event(run.Target.Stored, corev1.EventTypeNormal, "RepairingDrift", "Requesting ManagedResource %s to be applied again: %s", mr.Name, describe(due))
		if err := r.recordRepairs(ctx, mr, repairs.With(now, objectsOf(due)...)); err != nil {
			return false, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
		}
		return true, plan.Waiting(engine.FallbackResync, "Waiting for ManagedResource %s to be applied again: %s", mr.Name, describe(due))
	}
	for _, difference := range recent {
		if left := applyTimeout - now.Sub(difference.RepairedAt); left > 0 {
			return true, plan.Waiting(left, "Waiting for ManagedResource %s to be applied again: %s", mr.Name, describe(recent))
		}
	}
	run.Withhold(recent...)
	return false, nil
}

// driftOf returns the rendered objects that are gone or that applying the rendering would change. It reads an object from the API server
// only if its metadata in the cache says that it changed since it was last compared. Within drift.Pause after a repair of an object it reads
// that object at most maxComparisons times while it differs. isPostponed is true if it has not compared all objects.
func (r *Reconciler) driftOf(ctx context.Context, rendered engine.Rendered, repairs drift.Repairs, now time.Time) (found []engine.Difference, isPostponed bool, err error) {
	for _, obj := range rendered.Objects {
		kind, err := apiutil.GVKForObject(obj, r.Client.Scheme())
		if err != nil {
			return nil, false, err
		}
		name := kind.Kind + "/" + obj.GetName()
		what, err := r.compare(ctx, kind, obj, comparison{checksum: rendered.Rendering.Checksum, repairedAt: repairs.Last(name, now)})
		if errors.Is(err, errPostponed) || errors.Is(err, errDryRunUnavailable) {
			isPostponed = true
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("comparing %s %s with its rendering: %w", kind.Kind, obj.GetName(), err)
		}
		if what != "" {
			found = append(found, engine.Difference{Object: name, Message: fmt.Sprintf("%s %s %s", kind.Kind, obj.GetName(), what)})
		}
	}
	return found, isPostponed, nil
}

// compare returns a text that says how a live object differs from the rendered one; empty if it does not. The error is errPostponed or
// errDryRunUnavailable if a later reconciliation must compare it.
func (r *Reconciler) compare(ctx context.Context, kind schema.GroupVersionKind, rendered client.Object, c comparison) (string, error) {
	key := client.ObjectKeyFromObject(rendered)
	cached := cachedForm(kind)
	err := r.cached().Get(ctx, key, cached)
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	c.object, c.version = objectKey{kind: kind, key: key}, missingVersion
	if err == nil {
		if r.compared.isEqual(cached, c.checksum) {
			return "", nil
		}
		if r.postponesComparison(cached, c) {
			return "", errPostponed
		}
		c = c.of(cached)
	}
	if what := r.compared.lastDifference(c); what != "" {
		return what, nil
	}
	if isCachedEqual, cause := r.isCachedEqual(rendered, cached, c); isCachedEqual || cause != nil {
		return "", cause
	}
	live, err := newObject(r.Client.Scheme(), kind)
	if err != nil {
		return "", err
	}
	if err := r.Reader.Get(ctx, key, live); apierrors.IsNotFound(err) {
		c.version = missingVersion
		return r.compared.differs(c, "is gone"), nil
	} else if err != nil {
		return "", err
	}
	if live.GetDeletionTimestamp() != nil || r.compared.isEqual(live, c.checksum) {
		return "", nil
	}
	paths, err := r.drifted(ctx, rendered, live)
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		r.compared.recordEqual(live, c.checksum)
		return "", nil
	}
	return r.compared.differs(c.of(live), "differs from its rendering in "+strings.Join(paths, ", ")), nil
}

// isCachedEqual is true if the cache has the whole object, and it is equal to its rendering. The object is then not read from the API server. A StatefulSet
// that differs is, since the cache may have an older version.
func (r *Reconciler) isCachedEqual(rendered, cached client.Object, c comparison) (bool, error) {
	if _, isStatefulSet := cached.(*appsv1.StatefulSet); !isStatefulSet || c.version == missingVersion {
		return false, nil
	}
	paths, err := drift.Differences(rendered, cached)
	if err != nil || len(paths) > 0 {
		return false, err
	}
	r.compared.recordEqual(cached, c.checksum)
	return true, nil
}

// postponesComparison returns whether another reconciliation compares an object that this operator does not know yet. Without the limit, an
// operator that starts would read every object of every Etcd before it completes anything. A change that the operator sees is compared at once,
// and so is the StatefulSet, from whose template the operator may replace pods.
func (r *Reconciler) postponesComparison(cached client.Object, c comparison) bool {
	if _, isStatefulSet := cached.(*appsv1.StatefulSet); isStatefulSet {
		return false
	}
	if !c.repairedAt.IsZero() || !r.compared.isUnchanged(cached) {
		return false
	}
	if isBusy := r.Waiting != nil && r.Waiting() > maxWaiting; !isBusy && (r.Comparisons == nil || r.Comparisons.AllowN(r.Clock.Now(), 1)) {
		return false
	}
	r.compared.assumeEqual(cached)
	return true
}

// drifted returns the paths of the fields that applying the rendered object would change in the live one.
func (r *Reconciler) drifted(ctx context.Context, rendered, live client.Object) ([]string, error) {
	paths, err := drift.Differences(rendered, live)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	if isSame, err := r.isUnchangedByApply(ctx, rendered, live); err != nil || isSame {
		return nil, err
	}
	return paths, nil
}

// isUnchangedByApply finds out by a dry run whether the API server would change the live object if the rendered object was applied.
// Defaults and admission webhooks may set what the rendering does not. RBAC objects and ServiceAccounts have no dry run, see dryRunFor.
func (r *Reconciler) isUnchangedByApply(ctx context.Context, rendered, live client.Object) (bool, error) {
	if _, _, has := dryRunFor(rendered); !has {
		return false, nil
	}
	kind := rendered.GetObjectKind().GroupVersionKind()
	merged, err := newObject(r.Client.Scheme(), kind)
	if err != nil {
		return false, err
	}
	if err := drift.Merge(rendered, live, merged); err != nil {
		return false, err
	}
	// The result is compared with the live object. If another writer has changed the object since it was read, the result contains that change.
	patch, err := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}).Data(merged)
	if err != nil {
		return false, err
	}
	applied, err := newObject(r.Client.Scheme(), kind)
	if err != nil {
		return false, err
	}
	applied.SetNamespace(live.GetNamespace())
	applied.SetName(live.GetName())
	err = r.Client.Patch(ctx, applied, client.RawPatch(types.MergePatchType, patch), client.DryRunAll)
	switch {
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err), apierrors.IsNotFound(err):
		return false, nil // gardener-resource-manager gets the same answer, and reports it
	case apierrors.IsConflict(err):
		return false, errDryRunUnavailable
	case apierrors.IsInternalError(err), apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		logf.FromContext(ctx).Error(err, "The dry run of a rendered object failed", "kind", kind.Kind, "object", live.GetName())
		return false, errDryRunUnavailable
	case err != nil:
		return false, fmt.Errorf("dry run: %w", err)
	}
	return drift.IsSame(applied, live)
}
