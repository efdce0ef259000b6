// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/storejob"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "compaction"

// Config has the thresholds and time limits of compactions.
type Config struct {
	// EventsThreshold is the default number of events since the last full snapshot that starts a Job. 0: compaction is disabled
	// for all Etcds, except for tasks that request it.
	EventsThreshold int64
	// FullSnapshotThreshold is the default number of events that starts a full snapshot instead of a Job.
	FullSnapshotThreshold int64
	// Deadline is the longest time that a Job may run.
	Deadline time.Duration
	// MetricsScrapeWait is how long a Job waits before it exits, so that its metrics can be scraped.
	MetricsScrapeWait time.Duration
	// LocalStoreRoots are the directories of nodes that stores with the provider Local may use. Empty: none.
	LocalStoreRoots backupstore.LocalRoots
	// Restrictions are the values that authors may select. Zero: all.
	Restrictions restrictions.Restrictions
}

// ConfigFor returns the Config of a completed configuration.
func ConfigFor(config configv1alpha1.CompactionControllerConfiguration) Config {
	c := Config{Deadline: config.ActiveDeadlineDuration.Duration, MetricsScrapeWait: config.MetricsScrapeWaitDuration.Duration}
	if config.Enabled {
		c.EventsThreshold, c.FullSnapshotThreshold = config.EventsThreshold, config.TriggerFullSnapshotThreshold
	}

	return c
}

// AddOptions are the dependencies of the controller in addition to the manager.
type AddOptions struct {
	// Controller has the number of Etcds that are reconciled concurrently.
	Controller controller.Options
	// Config has the thresholds and time limits.
	Config Config
	// Observer reads everything about one Etcd.
	Observer storejob.Observer
	// Versions write the status of Etcds for all controllers of the process. Nil: writes of another controller cause conflicts.
	Versions *calls.EtcdVersions
	// Clock returns the current time. Nil: the real clock.
	Clock clock.Clock
}

// AddToManager adds the controller to a manager. The caches of the manager must hold the objects of an Etcd.
func AddToManager(_ context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Observer: o.Observer,
		Versions: o.Versions,
		Config:   o.Config,
		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	o.Controller = queue.WithDefaults(o.Controller, time.Second, 5*time.Minute)

	byLabel := handler.EnqueueRequestsFromMapFunc(queue.EtcdByLabel)
	err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		// The record says whether acknowledged writes are lost, and to which store the members write.
		Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(queue.EtcdByManagedResource), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&coordinationv1.Lease{}, byLabel, builder.WithPredicates(queue.IsComponent(druidv1alpha1.ComponentNameSnapshotLease), holderChanged())).
		Watches(&batchv1.Job{}, byLabel, builder.WithPredicates(queue.IsComponent(druidv1alpha1.ComponentNameSnapshotCompactionJob))).
		Watches(&corev1.Pod{}, byLabel, builder.WithPredicates(queue.IsComponent(druidv1alpha1.ComponentNameSnapshotCompactionJob))).
		Watches(&druidv1alpha1.EtcdOpsTask{}, handler.EnqueueRequestsFromMapFunc(etcdByTask)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}

	return nil
}

// holderChanged passes updates of Leases with another revision. The sidecar also renews Leases without a new revision.
func holderChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, is := e.ObjectOld.(*coordinationv1.Lease)
		after, isToo := e.ObjectNew.(*coordinationv1.Lease)

		return is && isToo && ptr.Deref(before.Spec.HolderIdentity, "") != ptr.Deref(after.Spec.HolderIdentity, "")
	}}
}

// etcdByTask returns the request for the Etcd of a compaction task, or of a task that this controller created.
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
