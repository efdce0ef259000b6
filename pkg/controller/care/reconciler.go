// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// conflictPause is the pause after a conflict with another writer, until the cache shows its change.
const conflictPause = 200 * time.Millisecond

// multiMemberPeriod is the longest time between the starts of two reconciliations of a multi-member cluster. The observer needs
// at most four seconds, so that a member that stops responding is detected within ten seconds.
const multiMemberPeriod = 4 * time.Second

// singleMemberPeriods is how many sync periods pass between two probes of a healthy single member, and maxSingleMemberPeriod the longest time. The operator
// cannot repair a single member, and a watch event reports what kubelet finds. An alarm NOSPACE must be found and resolved within two minutes.
const (
	singleMemberPeriods   = 4
	maxSingleMemberPeriod = time.Minute
)

// degradedPeriod is the same time while a member is not ready: the failure of one more member can cost the quorum.
const degradedPeriod = 2 * time.Second

// minPause is the shortest time from the end of a reconciliation to the start of the next. It applies if the reconciliation
// took as long as the period, and the period is not shorter.
const minPause = time.Second

// Observer reads the cluster of one Etcd.
type Observer interface {
	// Observe reads the cluster of a canonical Etcd once. The Observation records read errors.
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
}

// Reconciler reports the health of Etcds in their status.
type Reconciler struct {
	// Client reads Etcds from the cache and patches their status.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Observer reads the cluster of one Etcd.
	Observer Observer
	// Members connects to members. Nil: a rejection of writes is not ended, the data of members is not compared, and each reconciliation observes the
	// whole cluster.
	Members Members
	// Versions write the status of Etcds. Nil: writes of another controller cause conflicts.
	Versions *calls.EtcdVersions
	// Config has the periods and thresholds.
	Config Config
	// Clock returns the current time.
	Clock clock.PassiveClock
	// Recorder writes events.
	Recorder events.EventRecorder

	// prunesVersions is true after the API server has removed the versions of members from a status. gardenlet applies such a
	// CustomResourceDefinition. Without it, each reconciliation would patch the status again.
	prunesVersions atomic.Bool
	// histories are the sizes of the databases, and the full snapshots.
	histories histories
	// comparisons are the times of the next comparisons of the data of members.
	comparisons comparisons
	// baselines are what the last observations of healthy clusters have found.
	baselines baselines
}

// Reconcile updates the status of one Etcd:
//  1. Guards: The Etcd does not exist. The Etcd is being deleted, so that only the etcd controller writes. The operator does
//     not manage the runtime components. The spec contradicts itself, which the etcd controller reports.
//  2. Probe the members if the last observation found a healthy cluster, and no watch event has arrived since. If they report the same as then, requeue
//     after the period.
//  3. Observe the cluster, including the status of the members.
//  4. Record the revision and the voting members that a quorum has confirmed. Its failure is returned after the status is written.
//  5. Compare the data of the members if that is due. The same applies to its failure.
//  6. End a rejection of writes that a restored snapshot contains. The same applies to its failure.
//  7. Request a defragmentation of the members if one is due.
//  8. Compute the conditions and the member statuses, patch the status if something changed, and emit events.
//  9. Requeue after the period.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	began := r.Clock.Now()
	stored := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, request.NamespacedName, stored); err != nil {
		if apierrors.IsNotFound(err) {
			r.histories.drop(request.NamespacedName)
			r.baselines.drop(request.NamespacedName)
			setMetrics(request.NamespacedName, measured{})
		}

		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if stored.DeletionTimestamp != nil {
		r.comparisons.remove(stored.UID)

		return reconcile.Result{}, nil
	}
	if metav1.HasAnnotation(stored.ObjectMeta, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation) {
		return reconcile.Result{}, nil
	}
	etcd, errs := helper.Canonical(stored)
	if len(errs) > 0 {
		return reconcile.Result{}, nil
	}
	if expected, _ := r.baselines.get(request.NamespacedName); expected != nil && r.probe(ctx, stored, etcd, expected) {
		return reconcile.Result{RequeueAfter: r.nextAfter(etcd, began, expected)}, nil
	}
	if err := r.updateStatus(ctx, stored, etcd); err != nil {
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: conflictPause}, nil
		}

		return reconcile.Result{}, client.IgnoreNotFound(err)
	}

	next, _ := r.baselines.get(request.NamespacedName)

	return reconcile.Result{RequeueAfter: r.nextAfter(etcd, began, next)}, nil
}

// nextAfter returns the pause after a reconciliation that began at a time. With a baseline, the next reconciliation is a probe, or the observation that is
// due. Without members it is the observation that is due. Without a baseline it is an observation.
func (r *Reconciler) nextAfter(etcd *druidv1alpha1.Etcd, began time.Time, expected *baseline) time.Duration {
	now, period := r.Clock.Now(), r.periodFor(etcd, expected != nil)
	if expected != nil && len(expected.members) == 0 {
		return max(expected.until.Sub(now), minPause)
	}
	next := wait.Jitter(period, 0.1) - now.Sub(began)
	if expected != nil {
		next = min(next, expected.until.Sub(now))
	}

	return max(next, min(period, minPause))
}

// periodFor returns the time until the next reconciliation. For most of a minute no watch event reports that a member of a
// healthy cluster stopped responding. Its repair starts after it is detected. For a single member no repair is possible.
func (r *Reconciler) periodFor(etcd *druidv1alpha1.Etcd, isProbe bool) time.Duration {
	switch {
	case etcd.Spec.Replicas <= 1 && isProbe:
		return max(r.Config.SyncPeriod, min(singleMemberPeriods*r.Config.SyncPeriod, maxSingleMemberPeriod))
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

// updateStatus updates the status of the stored Etcd. etcd is its canonical form. If another client changes the status in the
// meantime, the same observation is written into the new version. Another observation would take seconds while members do not
// respond.
func (r *Reconciler) updateStatus(ctx context.Context, stored, etcd *druidv1alpha1.Etcd) error {
	key, began := client.ObjectKeyFromObject(stored), r.Clock.Now()
	_, eventsBefore := r.baselines.get(key)
	observation := r.Observer.Observe(ctx, etcd, observer.Request{QueryEtcd: !helper.IsHibernated(etcd), Events: true, KnownClaims: true})
	quotaReachedIn, excessSince := r.histories.add(etcd, observation, r.Clock.Now()), r.histories.addSnapshot(etcd, observation, r.Clock.Now())
	setMetrics(key, measured{
		certificates: etcdcluster.CertificatesInUse(etcd, observation), members: etcdcluster.VotingMembers(etcd, observation), quotaReachedIn: quotaReachedIn,
		retained: observation.State.Retained,
	})

	// The status is written although the evidence is not: the health of the members does not depend on it.
	failure := errors.Join(r.recordEvidence(ctx, etcd, &observation), r.compareData(ctx, etcd, &observation), r.allowWrites(ctx, etcd, observation))
	refusal, err := r.planDefragmentation(ctx, etcd, observation)
	failure = errors.Join(failure, err)

	// The observation does not apply to another spec: the next reconciliation observes again.
	isPatched, current, canonical := false, stored.DeepCopy(), etcd
	isOther := func(latest *druidv1alpha1.Etcd) bool {
		return latest.UID != stored.UID || latest.Generation != stored.Generation || latest.DeletionTimestamp != nil
	}
	err = r.Versions.Write(ctx, r.Reader, current, isOther, func() (err error) {
		canonical, _ = helper.Canonical(current) // without errors, as this spec had none before
		isPatched, err = r.patchStatus(ctx, current, canonical, observed{Observation: observation, quotaReachedIn: quotaReachedIn, excessSince: excessSince, refusal: refusal})

		return err
	})

	var next *baseline
	if err == nil && failure == nil && refusal == "" && !isPatched {
		next = r.baselineFor(canonical, observation, began)
	}
	r.baselines.set(key, next, eventsBefore)

	return cmp.Or(err, failure)
}

// observed is an observation with what follows from it and the ones before, and with why no defragmentation starts.
type observed struct {
	etcdcluster.Observation

	quotaReachedIn time.Duration
	excessSince    time.Time
	refusal        string
}

// patchStatus patches the status of the stored Etcd if it differs from the observed one. It returns whether it does. Afterwards, stored has the new status.
func (r *Reconciler) patchStatus(ctx context.Context, stored, etcd *druidv1alpha1.Etcd, o observed) (bool, error) {
	updated := stored.DeepCopy()
	conditions.ForCare(conditions.Input{
		Etcd:           etcd,
		Observation:    o.Observation,
		Thresholds:     conditions.Thresholds{Unknown: r.Config.UnknownThreshold, NotReady: r.Config.NotReadyThreshold},
		QuotaReachedIn: o.quotaReachedIn,
		ExcessSince:    o.excessSince,

		DefragmentationRefusal: o.refusal,
		Now:                    r.Clock.Now(),
	}, &updated.Status)
	hasVersions := removeVersions(updated.Status.Members, r.prunesVersions.Load())
	if apiequality.Semantic.DeepEqual(stored.Status, updated.Status) {
		return false, nil
	}
	// The conditions are an atomic list in a merge patch: a patch based on a stale version would undo changes of other clients.
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, updated, patch); err != nil {
		return true, fmt.Errorf("patching the status: %w", err)
	}
	if hasVersions && !removeVersions(updated.Status.Members, false) {
		r.prunesVersions.Store(true)
	}
	r.emitEvents(stored, updated)
	updated.DeepCopyInto(stored)

	return true, nil
}

// removeVersions removes the versions of the members if remove is true. It returns whether there are any afterwards.
func removeVersions(members []druidv1alpha1.EtcdMemberStatus, remove bool) bool {
	has := false
	for i := range members {
		member := &members[i]
		if remove {
			member.EtcdVersion, member.WrapperVersion, member.SidecarVersion = nil, nil, nil
		}
		has = has || member.EtcdVersion != nil || member.WrapperVersion != nil || member.SidecarVersion != nil
	}

	return has
}
