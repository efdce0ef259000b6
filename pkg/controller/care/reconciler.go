// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"fmt"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// conflictPause is how long to wait when somebody else wrote the Etcd, so that the cache shows it.
const conflictPause = 200 * time.Millisecond

// multiMemberPeriod is the longest time from the beginning of one look at a cluster of several members to that of the next. The last
// look before somebody fell silent saw nothing, and the next is over after four seconds at most (observer), so that less than ten
// seconds pass.
const multiMemberPeriod = 4 * time.Second

// degradedPeriod is the same while members are missing already: whoever falls silent next may be one too many.
const degradedPeriod = 2 * time.Second

// minPause is the shortest time from the end of one look to the beginning of the next, where looking took as long as the period,
// and the period itself is not shorter.
const minPause = time.Second

// Observer reads everything about one Etcd.
type Observer interface {
	// Observe reads everything about a canonical Etcd once. What cannot be read is told by the Observation.
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
}

// Reconciler keeps the health of Etcds in their status.
type Reconciler struct {
	// Client reads Etcds from the cache and patches their status.
	Client client.Client
	// Observer reads everything about one Etcd.
	Observer Observer
	// Config says when to look and how to judge.
	Config Config
	// Clock tells the time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder
}

// Reconcile looks at one Etcd:
//  1. guards: it is gone; it is being deleted, and the etcd controller alone writes; its members are not ours to look at; its
//     spec contradicts itself, which the etcd controller reports;
//  2. observe, also by asking the members;
//  3. compute the conditions and the members;
//  4. patch the status when something changed, and tell changes by events;
//  5. come again after the period.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	began := r.Clock.Now()
	stored := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			setMetrics(request.NamespacedName, nil)
		}

		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if stored.DeletionTimestamp != nil || metav1.HasAnnotation(stored.ObjectMeta, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation) {
		return reconcile.Result{}, nil
	}
	etcd, errs := helper.Canonical(stored)
	if len(errs) > 0 {
		return reconcile.Result{}, nil
	}
	if err := r.updateStatus(ctx, stored, etcd); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: conflictPause}, nil
		}

		return reconcile.Result{}, client.IgnoreNotFound(err)
	}

	period := r.periodFor(etcd)
	next := wait.Jitter(period, 0.1) - r.Clock.Now().Sub(began)

	return reconcile.Result{RequeueAfter: max(next, min(period, minPause))}, nil
}

// periodFor is the time between two looks. A member that falls silent while others serve is seen by no watch for most of a
// minute, and its repair begins when it is seen. Of a single member there is nothing that could be done.
func (r *Reconciler) periodFor(etcd *druidv1alpha1.Etcd) time.Duration {
	switch {
	case etcd.Spec.Replicas <= 1:
		return r.Config.SyncPeriod
	case slices.ContainsFunc(etcd.Status.Conditions, func(c druidv1alpha1.Condition) bool {
		return c.Type == druidv1alpha1.ConditionTypeAllMembersReady && c.Status != druidv1alpha1.ConditionTrue
	}):
		return min(r.Config.SyncPeriod, degradedPeriod)
	default:
		return min(r.Config.SyncPeriod, multiMemberPeriod)
	}
}

// updateStatus brings the status of the stored Etcd up to date; etcd is its canonical form. Where somebody else writes the status during the
// look, what was seen is still new, and is reported with that: looking again would take as long again while members are silent.
func (r *Reconciler) updateStatus(ctx context.Context, stored, etcd *druidv1alpha1.Etcd) error {
	observation := r.Observer.Observe(ctx, etcd, observer.Request{AskEtcd: !helper.IsHibernated(etcd), Events: true})
	setMetrics(client.ObjectKeyFromObject(stored), conditions.CertificatesInUse(observation))

	// Of another spec something else may have to be said: that is looked at anew.
	isSuperseded := false
	isRepeated := func(err error) bool { return apierrors.IsConflict(err) && !isSuperseded }
	current, canonical := stored, etcd
	return retry.OnError(retry.DefaultBackoff, isRepeated, func() error {
		err := r.patchStatus(ctx, current, canonical, observation)
		if !apierrors.IsConflict(err) {
			return err
		}
		latest := &druidv1alpha1.Etcd{}
		if gone := r.Client.Get(ctx, client.ObjectKeyFromObject(stored), latest); gone != nil {
			return gone
		}
		if isSuperseded = latest.UID != stored.UID || latest.Generation != stored.Generation || latest.DeletionTimestamp != nil; !isSuperseded {
			current = latest
			canonical, _ = helper.Canonical(latest) // without errors, as this spec had none before
		}

		return err
	})
}

// patchStatus patches the status of the stored Etcd where it does not say what was seen.
func (r *Reconciler) patchStatus(ctx context.Context, stored, etcd *druidv1alpha1.Etcd, observation etcdcluster.Observation) error {
	updated := stored.DeepCopy()
	conditions.ForCare(conditions.Input{
		Etcd:        etcd,
		Observation: observation,
		Thresholds:  conditions.Thresholds{Unknown: r.Config.UnknownThreshold, NotReady: r.Config.NotReadyThreshold},
		Now:         r.Clock.Now(),
	}, &updated.Status)
	if apiequality.Semantic.DeepEqual(stored.Status, updated.Status) {
		return nil
	}
	// The conditions are one atomic list for some servers: a patch made from an older one would undo what others wrote.
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, updated, patch); err != nil {
		return fmt.Errorf("patching the status: %w", err)
	}
	r.emitEvents(stored, updated)

	return nil
}
