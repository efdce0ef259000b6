// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// Observer reads everything about one Etcd once, and connects to its members.
type Observer interface {
	Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, request observer.Request) etcdcluster.Observation
	// Member returns a client of the member in a pod.
	Member(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error)
	ExistingMember(ctx context.Context, etcd *druidv1alpha1.Etcd, observation etcdcluster.Observation, address string) (etcdclient.Client, error)
	// Sidecar returns a client of the sidecar in a pod.
	Sidecar(ctx context.Context, etcd *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error)
}

// Renderings records the latest payload of each Etcd for the embedded resource manager, which applies no other.
type Renderings interface {
	// Record records the name and the data of the Secret with the payload.
	Record(etcd *druidv1alpha1.Etcd, secret string, data map[string][]byte)
	// Discard removes the record of an Etcd that is deleted.
	Discard(etcd *druidv1alpha1.Etcd)
}

// Rollouts grants updates of Etcds to newer defaults of the operator.
type Rollouts interface {
	// Begin returns the update that an Etcd may begin. Nil: none.
	Begin(etcd client.ObjectKey) *state.Rollout
	// End ends a reconciliation that has called Begin. It returns why the Etcd waits, or why its update has failed. Nil: neither.
	End(etcd client.ObjectKey, report rollouts.Report) *rollout.Delay
	// Discard discards the state of an Etcd that is deleted.
	Discard(etcd client.ObjectKey)
}

// Reconciler reconciles Etcds.
type Reconciler struct {
	// Client reads from the caches and writes. What it writes is counted by the guard if it is one of writeguard.CountWrites.
	Client client.Client
	// Reader reads from the API server.
	Reader client.Reader
	// Cache reads from the caches alone. Nil: Client.
	Cache client.Reader
	// Observer reads everything about one Etcd.
	Observer Observer
	// Clock returns the time for conditions and operations.
	Clock clock.Clock
	// Recorder writes events.
	Recorder events.EventRecorder
	// Config is what the operator's configuration says.
	Config target.Config
	// Payloads caches the payloads of ManagedResources by the checksum of their content. Nil: no cache.
	Payloads *lru.Cache
	// CopyTasks is true if EtcdCopyBackupsTasks are users of Secrets. Their CustomResourceDefinition must then exist.
	CopyTasks bool
	// Renderings records what the embedded resource manager may apply. Nil: another resource manager applies it.
	Renderings Renderings
	// Locks prevent the replacement of a member while another controller defragments members. Nil: no lock.
	Locks *calls.ClusterLocks
	// Versions write the status and the annotations of Etcds. Nil: writes of another controller cause conflicts.
	Versions *calls.EtcdVersions
	// Stores prevent that two Etcds begin to use the same store at the same time. Nil: nothing prevents it.
	Stores *calls.StoreReservations
	// Rollouts grants updates to newer defaults. Nil: none are granted, which Config.Rollout must then not require.
	Rollouts Rollouts
	// Issuing limits the number of Etcds for which keys are generated at the same time. Nil: there is no limit.
	Issuing *calls.Slots
	// Comparisons limits the reads of objects that this operator has never compared with their rendering and has not seen changing, in objects
	// per second. It does not limit StatefulSets. Nil: there is no limit.
	Comparisons *rate.Limiter
	// Waiting returns the number of Etcds that wait for a worker. While it exceeds maxWaiting, those reads wait, whatever the limit. Nil: none wait.
	Waiting func() int
	// Snapshots runs the calls for full snapshots before members stop or data is discarded.
	Snapshots *calls.Runner[etcdcluster.SnapshotCall]
	// Space runs the calls that free space in databases.
	Space *calls.Runner[etcdcluster.SpaceCall]

	// start is when the first reconciliation began. A Reconciler of another leader has its own.
	start     time.Time
	startOnce sync.Once
	// operations are those that have not ended, for the metrics.
	operations operations
	// guard slows down Etcds whose reconciliations write or conflict without effect.
	guard writeguard.Guard
	// compared are the live objects that are equal to their rendering.
	compared comparisons
}

// Reconcile reconciles one Etcd as far as possible now, and never blocks. It reads the Etcd, and deletes what belongs to one that is being
// deleted (reconciler_delete.go). Package engine does the rest through execution.go. The result becomes the one status patch of the
// generation that was read first. The write guard slows down what is repeated without effect (guard.go).
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	recorded, acts := writeguard.Record(ctx)
	result, err := r.reconcile(recorded, req)
	result, err = r.brake(ctx, req.NamespacedName, acts, result, err)
	if result.Priority == nil { // otherwise, the steps after a start of the operator would keep the priority of that start
		result.Priority = new(0)
	}
	return result, err
}

// started returns when the first reconciliation began.
func (r *Reconciler) started() time.Time {
	r.startOnce.Do(func() { r.start = r.Clock.Now() })
	return r.start
}

// reconcile is Reconcile without the guard. It returns conflicts as they are.
func (r *Reconciler) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	etcd := &druidv1alpha1.Etcd{}
	if err := r.Client.Get(ctx, req.NamespacedName, etcd); err != nil {
		if apierrors.IsNotFound(err) {
			logf.FromContext(ctx).V(1).Info("Etcd does not exist any more")
			r.dropMeasurements(req.NamespacedName)
			r.Stores.Release(calls.StoreUser{Key: req.NamespacedName})
			r.discardRollout(req.NamespacedName)
			r.Issuing.Discard(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the Etcd: %w", err)
	}
	if etcd.DeletionTimestamp != nil {
		r.Issuing.Discard(req.NamespacedName)
		if err := r.holdDeletion(etcd); err != nil {
			return reconcile.Result{}, err
		}
		return r.delete(ctx, etcd)
	}

	execution := &execution{Reconciler: r, issued: map[target.Source]*issued{}}
	execution.beginRollout(req.NamespacedName)
	defer execution.releaseRollout(req.NamespacedName)
	result := engine.Engine{
		Observer: execution, Executor: execution, Render: engine.Render, Config: r.Config, Clock: r.Clock, Start: r.started(),
	}.Reconcile(ctx, etcd)
	delay := execution.endRollout(req.NamespacedName, result)
	if result.Err == nil && !execution.requestedSlot {
		r.Issuing.Discard(req.NamespacedName)
	}
	if engine.IsInterrupted(result.Err) {
		return reconcile.Result{}, result.Err
	}
	return r.report(ctx, result, delay)
}

// report removes annotations that are consumed, and then patches the status. No write follows the status, which clients wait for.
func (r *Reconciler) report(ctx context.Context, o engine.Result, delay *rollout.Delay) (reconcile.Result, error) {
	run := o.Newest
	for _, run := range []*engine.Run{o.Newest, o.Accepted} {
		if run != nil {
			r.operations.record(client.ObjectKeyFromObject(run.Target.Stored), run.Planned)
			r.operations.record(client.ObjectKeyFromObject(run.Target.Stored), run.Plan)
		}
	}
	if o.EndsVerification { // before its annotation is removed, so that a later restore needs another Job
		if err := r.recordRestoreVerification(ctx, run); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := r.removeAnnotations(ctx, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before, next, changed, err := r.writeStatus(ctx, o, delay)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.measureOperation(before, next)
	if changed && o.EventReason != "" {
		r.event(run.Target.Stored, o.EventType, o.EventReason, "%s", o.Description)
	}
	r.emitEvents(before, next, o.EventReason)
	logf.FromContext(ctx).V(1).Info("Reconciled", "state", o.State, "description", o.Description)
	requeue := reconcile.Result{RequeueAfter: o.RequeueAfter}
	if o.State == druidv1alpha1.LastOperationStateSucceeded {
		requeue.Priority = new(queue.LowPriority)
	}
	return requeue, o.Err
}

// maxEvent is the largest size of the note of an event, in bytes. The API server rejects a larger one.
const maxEvent = 1024

// event writes an event about an Etcd. A note that is too large ends with "...".
func (r *Reconciler) event(etcd *druidv1alpha1.Etcd, eventType, reason, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if len(note) > maxEvent {
		note = strings.ToValidUTF8(note[:maxEvent-3], "") + "..."
	}
	r.Recorder.Eventf(etcd, nil, eventType, reason, "Reconcile", "%s", note)
}
