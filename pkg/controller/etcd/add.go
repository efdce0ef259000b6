// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"runtime"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	predicateutils "github.com/gardener/gardener/pkg/controllerutils/predicate"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "etcd"

// cachedPayloads is the number of payloads of ManagedResources in the cache, of some kilobytes each.
const cachedPayloads = 1000

// AddOptions are what the controller needs in addition to the manager.
type AddOptions struct {
	// Controller has the number of Etcds that are reconciled concurrently.
	Controller controller.Options
	// Config is what the operator's configuration says. Its images must be set.
	Config target.Config
	// Observer reads everything about one Etcd.
	Observer Observer
	// Gardener is true if the CustomResourceDefinitions of Clusters and BackupEntries are installed.
	Gardener bool
	// Garden is true if the CustomResourceDefinition of Gardens is installed.
	Garden bool
	// CopyTasks is true if EtcdCopyBackupsTasks are users of Secrets. Their CustomResourceDefinition must then exist.
	CopyTasks bool
	// Locks prevent the replacement of a member while another controller defragments members. Nil: no lock.
	Locks *calls.ClusterLocks
	// Versions write the status and the annotations of Etcds for all controllers of the process. Nil: writes of another controller cause conflicts.
	Versions *calls.EtcdVersions
	// Renderings records what the embedded resource manager may apply. Nil: another resource manager applies it.
	Renderings Renderings
	// Stores prevent that two Etcds, or an Etcd and a copy, begin to use the same store at the same time. Nil: only other Etcds are considered.
	Stores *calls.StoreReservations
	// Rollouts grants updates to newer defaults within Config.Rollout. Nil: there are no limits.
	Rollouts *rollouts.Coordinator
	// Clock returns the time. Nil: the real one.
	Clock clock.Clock
}

// AddToManager adds the controller to a manager whose caches hold the objects that an Etcd consists of.
func AddToManager(ctx context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{
		Client:   writeguard.CountWrites(mgr.GetClient()),
		Reader:   mgr.GetAPIReader(),
		Cache:    mgr.GetCache(),
		Observer: o.Observer,
		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
		Config:   o.Config,
		Payloads: lru.New(cachedPayloads),
		Versions: o.Versions,

		CopyTasks:  o.CopyTasks,
		Renderings: o.Renderings,

		Locks:     o.Locks,
		Stores:    o.Stores,
		Snapshots: calls.NewRunner[etcdcluster.SnapshotCall](),
		Space:     calls.NewRunner[etcdcluster.SpaceCall](),
	}
	if err := mgr.Add(r.Snapshots); err != nil {
		return fmt.Errorf("adding the runner of snapshots: %w", err)
	}
	if err := mgr.Add(r.Space); err != nil {
		return fmt.Errorf("adding the runner of calls that free space: %w", err)
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	if r.Stores == nil {
		r.Stores = calls.NewStoreReservations(r.Clock)
	}
	// The controller retries a failure after a second, and at the latest after five minutes. It watches what the Etcd waits for.
	o.Controller = queue.WithDefaults(o.Controller, time.Second, 5*time.Minute)
	queued := &queue.Queue{CanWait: func(request reconcile.Request) bool { return r.isCreating(ctx, request) }}
	o.Controller.NewQueue = queued.New
	r.Comparisons, r.Waiting = newComparisonLimit(), queued.Len
	r.Issuing = calls.NewSlots(slotsOf(o.Controller.MaxConcurrentReconciles, runtime.GOMAXPROCS(0)), r.Clock)
	if err := addSecretIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing Etcds by their secrets: %w", err)
	}
	if err := addStoreIndex(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing Etcds by their BackupEntry: %w", err)
	}

	ownerHandler := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &druidv1alpha1.Etcd{}, handler.OnlyControllerOwner())
	b := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(etcdChanged())).
		Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(etcdForManagedResource), builder.WithPredicates(predicate.Or(predicateutils.ManagedResourceConditionsChanged(), storeAnnotationRemoved(), predicate.GenerationChangedPredicate{}))).
		Watches(&appsv1.StatefulSet{}, ownerHandler, builder.WithPredicates(contentChanged())).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(etcdForPod), builder.WithPredicates(contentChanged())).
		WatchesMetadata(metadataOf(corev1.SchemeGroupVersion.WithKind("Secret")), handler.EnqueueRequestsFromMapFunc(r.etcdsForSecret), builder.WithPredicates(contentChanged()))
	b = b.WatchesRawSource(r.Snapshots.Source()).WatchesRawSource(r.Space.Source()).WatchesRawSource(r.Issuing.Source())
	if o.Rollouts != nil {
		if err := mgr.Add(o.Rollouts); err != nil {
			return fmt.Errorf("adding the coordinator of rollouts: %w", err)
		}
		r.Rollouts = o.Rollouts
		b = b.WatchesRawSource(o.Rollouts.Source())
	}
	if o.Gardener {
		b = r.watchGardener(b)
	}
	if o.Garden {
		b = r.watchGarden(b)
	}
	b = b.Watches(&coordinationv1.Lease{}, ownerHandler, builder.WithPredicates(leaseChanged()))
	b = b.Watches(&batchv1.Job{}, ownerHandler, builder.WithPredicates(restoreJobEnded()))
	for _, kind := range watchedForDrift {
		b = b.WatchesMetadata(metadataOf(kind), ownerHandler, builder.WithPredicates(renderedPartChanged()))
	}
	return b.Complete(calls.Fair(r, o.Controller.MaxConcurrentReconciles, clock.RealClock{}))
}

// slotsOf returns the number of workers that may generate keys at the same time. It is at least one. A third of the workers, and half of the
// CPUs, stay free for everything else.
func slotsOf(workers, cpus int) int { return max(1, min(workers*2/3, cpus/2)) }

// etcdForManagedResource maps a ManagedResource of the operator to its Etcd.
func etcdForManagedResource(_ context.Context, mr client.Object) []reconcile.Request {
	name, ok := helper.EtcdNameOfManagedResource(mr.GetName())
	if !ok || mr.GetLabels()[managedresources.LabelKeyOrigin] != druidv1alpha1.ManagedResourceOrigin {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: mr.GetNamespace(), Name: name}}}
}

// etcdForPod maps a member's pod to its Etcd; it ignores the pods of Jobs.
func etcdForPod(_ context.Context, pod client.Object) []reconcile.Request {
	labels := pod.GetLabels()
	if labels[druidv1alpha1.LabelComponentKey] != druidv1alpha1.ComponentNameStatefulSet {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: labels[druidv1alpha1.LabelPartOfKey]}}}
}
