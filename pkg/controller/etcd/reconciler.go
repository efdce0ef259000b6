// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Observer reads everything about one Etcd once, and knows the way to its members.
type Observer interface {
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	// Member returns a client of the member in a pod.
	Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error)
	// Sidecar returns a client of the sidecar in a pod.
	Sidecar(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error)
}

// Config is what the operator's configuration says about the spec of Etcds.
type Config struct {
	// AutoReconcile rolls each new generation out without the operation annotation.
	AutoReconcile bool
	// Defaults are what a generation is rendered with that is accepted from now on.
	Defaults state.Defaults
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
}

// Reconciler carries out the specs of Etcds.
type Reconciler struct {
	// Client reads from the caches and writes. What it writes is counted by the guard if it is one of writeguard.CountWrites.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Cache reads from the caches alone. Nil: Client.
	Cache client.Reader
	// Observer reads everything about one Etcd.
	Observer Observer
	// Clock tells the time of conditions and operations.
	Clock clock.Clock
	// Recorder writes events.
	Recorder events.EventRecorder
	// Config is what the operator's configuration says.
	Config Config
	// Payloads remembers the payloads of ManagedResources by the checksum of what they hold. Nil: each is made anew.
	Payloads *lru.Cache
	// Locks prevent the replacement of a member while another controller defragments members. Nil: no lock.
	Locks *calls.ClusterLocks
	// Snapshots runs the calls for full snapshots before members stop or data is discarded.
	Snapshots *calls.Runner[SnapshotCall]

	// operations are those that go on, for the metrics.
	operations operations
	// growths are the larger volumes that were refused lately.
	growths growths
	// guard slows down Etcds whose reconciliations write or conflict without effect.
	guard writeguard.Guard
	// compared are the live objects that are equal to their rendering.
	compared comparisons
}

// pass is what one reconciliation learns on its way to the status.
type pass struct {
	// etcd is the Etcd as it was first read: what is written back is about this generation and no later one.
	etcd *druidv1alpha1.Etcd
	// canonical is its current form; nil if there is none.
	canonical *druidv1alpha1.Etcd
	// observation is meaningful if observed.
	observation etcdcluster.Observation
	observed    bool
	// foreignClaims are the claims that have names of the members' claims and belong to others.
	foreignClaims []etcdcluster.Claim
	// applied is true when the StatefulSet shows what this generation is rendered to.
	applied bool
	// issued is what was issued for TLS, and how far that is; nil if nobody got that far.
	issued *issued
	// comeBack is when something has to be done of which no event tells, such as the renewal of a certificate. 0: nothing.
	comeBack time.Duration
	// reached is true once everything that comes before the plan's step is done.
	reached bool
	// repairing is when members have to be looked at again that are not back, although the spec is not carried out. 0: all are.
	repairing time.Duration
	// finalSnapshot is the condition about the snapshot before the members stop; nil: there is none. It is meaningful if
	// finalSnapshotSeen.
	finalSnapshot     *druidv1alpha1.Condition
	finalSnapshotSeen bool
	// store is what looking for the store came to; nil if nobody looked.
	store *conditions.StoreResolution
	// accepted is what the generation is rendered with; nil if nobody accepted it yet.
	accepted *state.Accepted
	// newest is what was issued for a newer generation, which is not carried out; nil: nothing.
	newest *issued
	// keeps is true where the generation is an earlier one, at which the cluster is kept.
	keeps bool
	// withheld are the objects that differ again so soon after their last repair that they are not repaired now.
	withheld []difference
	// kept is the pass that keeps the cluster at what was accepted last, since the newest generation is not carried out, and
	// what it came to. Nil: there is none.
	kept *keeping
}

// Reconcile carries out the spec of one Etcd as far as it can be carried out now, and never blocks:
//
//  1. It reads the Etcd; what is gone is left alone, what is being deleted is taken apart (reconciler_delete.go).
//  2. It maps the older manifest form, and reads the world once (the observer).
//  3. It stops where the spec is suspended, waits for the operation annotation, or is invalid. Whatever ends it before the
//     plan's step, what was accepted last is carried out instead (keep.go).
//  4. It lets the plan say what to render and whether a step is due (etcdcluster).
//  5. It finds the store (backupstore), and has certificates issued that nobody gave (secrets, issue.go).
//  6. It renders, tries the outcome on the API server without writing it, and writes leases and ManagedResource.
//  7. It does at most one step, if there was nothing to write; when none is left, it takes the rotation of CAs one stage
//     further, and deletes Secrets that nobody mounts any more.
//  8. It patches the status once, of the generation that it read first, and removes the operation annotation when the
//     StatefulSet shows that generation.
//
// Steps 2 to 7 are in reconciler_reconcile.go. Whatever ends them early becomes status and requeue in outcome.go. What is repeated
// without effect is slowed down in guard.go.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	recorded, acts := writeguard.Record(ctx)
	result, err := r.reconcile(recorded, req)
	return r.brake(ctx, req.NamespacedName, acts, result, err)
}

// reconcile is Reconcile without the guard. It returns conflicts as they are.
func (r *Reconciler) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, req.NamespacedName, etcd); err != nil {
		if apierrors.IsNotFound(err) {
			logf.FromContext(ctx).V(1).Info("Etcd is gone, stop reconciling")
			r.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the Etcd: %w", err)
	}
	if etcd.DeletionTimestamp != nil {
		if err := r.holdDeletion(etcd); err != nil {
			return reconcile.Result{}, err
		}
		return r.delete(ctx, etcd)
	}

	p := &pass{etcd: etcd}
	err := r.carryOut(ctx, p)
	if engine.IsInterrupted(err) {
		return reconcile.Result{}, err
	}
	o := engine.ResultOf(err)
	o.KeepOperation = o.KeepOperation || err != nil && isOver(etcd)
	if p.kept != nil {
		o.AddAccepted(ctx, p.kept.generation, p.kept.err)
	}
	o.RequeueForRepair(ctx, p.repairing)
	o.RequeueWithin(ctx, p.comeBack)
	if isForeign(err) {
		o.RequeueWithin(ctx, engine.FallbackResync) // the operator watches no objects of others
	}
	return r.report(ctx, p, o)
}

// report writes the status and removes the operation annotation.
func (r *Reconciler) report(ctx context.Context, p *pass, o engine.Result) (reconcile.Result, error) {
	next := p.etcd.DeepCopy()
	changed := r.setStatus(ctx, p, next, o)
	before := p.etcd.DeepCopy()
	if err := r.patchStatus(ctx, p.etcd, next); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.measureOperation(before, next)
	if changed && o.EventReason != "" {
		r.event(p.etcd, o.EventType, o.EventReason, "%s", o.Description)
	}
	r.tell(before, next, o.EventReason)

	rotationTaken := r.takeRotationAnnotation(p, next)
	restoreTaken := r.takeRestoreAnnotation(p, next)
	operationDone := p.applied && helper.RemoveOperationAnnotations(next)
	if rotationTaken || restoreTaken || operationDone {
		if err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(p.etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("removing annotations: %w", err)
		}
	}
	if err := r.ignoreRestore(ctx, p); err != nil {
		return reconcile.Result{}, err
	}
	if operationDone {
		r.event(p.etcd, corev1.EventTypeNormal, "Applied", "Generation %d is applied", p.etcd.Generation)
	}
	logf.FromContext(ctx).V(1).Info("Reconciled", "state", o.State, "description", o.Description)
	return reconcile.Result{RequeueAfter: o.RequeueAfter}, o.Err
}

// event writes an event about an Etcd.
func (r *Reconciler) event(etcd *druidv1alpha1.Etcd, eventType, reason, format string, args ...any) {
	r.Recorder.Eventf(etcd, nil, eventType, reason, "Reconcile", format, args...)
}
