// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "compaction"

// Config says when to compact and for how long.
type Config struct {
	// EventsThreshold is the number of events since the last full snapshot from which on a Job runs, where the Etcd says
	// nothing. 0: compaction is switched off, whatever the Etcd says, but for tasks that ask for it.
	EventsThreshold int64
	// FullSnapshotThreshold is the number from which on a full snapshot is taken instead, where the Etcd says nothing.
	FullSnapshotThreshold int64
	// Deadline is how long a Job may take.
	Deadline time.Duration
	// MetricsScrapeWait is how long a Job waits at its end for its metrics to be read.
	MetricsScrapeWait time.Duration
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
}

// ConfigFor takes the Config out of a completed configuration.
func ConfigFor(config configv1alpha1.CompactionControllerConfiguration) Config {
	c := Config{Deadline: config.ActiveDeadlineDuration.Duration, MetricsScrapeWait: config.MetricsScrapeWaitDuration.Duration}
	if config.Enabled {
		c.EventsThreshold, c.FullSnapshotThreshold = config.EventsThreshold, config.TriggerFullSnapshotThreshold
	}

	return c
}

// AddOptions are what the controller needs beside the manager.
type AddOptions struct {
	// Controller says how many Etcds are worked on at the same time.
	Controller controller.Options
	// Config says when to compact.
	Config Config
	// Observer reads everything about one Etcd.
	Observer Observer
	// Clock tells the time. Nil: the real one.
	Clock clock.Clock
}

// AddToManager adds the controller to a manager whose caches hold the objects that an Etcd consists of.
func AddToManager(_ context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Observer: o.Observer,
		Config:   o.Config,
		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	if o.Controller.ReconciliationTimeout == 0 {
		o.Controller.ReconciliationTimeout = controllerutils.DefaultReconciliationTimeout
	}
	if o.Controller.RateLimiter == nil {
		o.Controller.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, 5*time.Minute)
	}

	byLabel := handler.EnqueueRequestsFromMapFunc(etcdByLabel)
	err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&coordinationv1.Lease{}, byLabel, builder.WithPredicates(isComponent(druidv1alpha1.ComponentNameSnapshotLease), holderChanged())).
		Watches(&batchv1.Job{}, byLabel, builder.WithPredicates(isComponent(druidv1alpha1.ComponentNameSnapshotCompactionJob))).
		Watches(&corev1.Pod{}, byLabel, builder.WithPredicates(isComponent(druidv1alpha1.ComponentNameSnapshotCompactionJob))).
		Watches(&druidv1alpha1.EtcdOpsTask{}, handler.EnqueueRequestsFromMapFunc(etcdByTask)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}

	return nil
}

// isComponent lets objects of ours pass that are of this component.
func isComponent(name string) predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[druidv1alpha1.LabelComponentKey] == name
	})
}

// holderChanged lets updates of leases pass that name another revision: they are renewed every few seconds.
func holderChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, is := e.ObjectOld.(*coordinationv1.Lease)
		after, isToo := e.ObjectNew.(*coordinationv1.Lease)

		return is && isToo && ptr.Deref(before.Spec.HolderIdentity, "") != ptr.Deref(after.Spec.HolderIdentity, "")
	}}
}

// etcdByLabel is the Etcd that the object was made for.
func etcdByLabel(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: object.GetLabels()[druidv1alpha1.LabelPartOfKey]}}}
}

// etcdByTask is the Etcd on which a task acts that compacts snapshots, or that was made by this controller.
func etcdByTask(_ context.Context, object client.Object) []reconcile.Request {
	task, is := object.(*druidv1alpha1.EtcdOpsTask)
	if !is || task.Spec.EtcdName == nil {
		return nil
	}
	if _, isInstead := task.Annotations[druidv1alpha1.CompactionBaseAnnotation]; !isInstead && helper.TaskKind(task) != druidv1alpha1.RunTaskCompaction {
		return nil
	}

	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: task.Namespace, Name: *task.Spec.EtcdName}}}
}
