// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "restoredrill"

// Config has the schedule of restore drills.
type Config struct {
	// Period is the time between two drills of an Etcd without an annotation. 0: none is scheduled.
	Period time.Duration
	// Limit is the number of drills of all Etcds at which no further one is scheduled.
	Limit int
}

// ConfigFor returns the Config of a completed configuration.
func ConfigFor(config configv1alpha1.RestoreDrillControllerConfiguration) Config {
	return Config{Period: config.Period.Duration, Limit: *config.MaxConcurrentDrills}
}

// AddOptions are the dependencies of the controller in addition to the manager.
type AddOptions struct {
	// Controller has the number of Etcds that are reconciled concurrently.
	Controller controller.Options
	// Config has the schedule.
	Config Config
	// Clock returns the current time. Nil: the real clock.
	Clock clock.Clock
}

// AddToManager adds the controller to a manager. The caches of the manager must hold the objects of an Etcd.
func AddToManager(_ context.Context, mgr manager.Manager, o AddOptions) error {
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Reader:   mgr.GetAPIReader(),
		Config:   o.Config,
		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	o.Controller = queue.WithDefaults(o.Controller, time.Second, 5*time.Minute)
	err := builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(o.Controller).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&resourcesv1alpha1.ManagedResource{}, handler.EnqueueRequestsFromMapFunc(queue.EtcdByManagedResource), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(queue.EtcdByLabel), builder.WithPredicates(queue.IsComponent(druidv1alpha1.ComponentNameRestoreDrillJob))).
		Watches(&druidv1alpha1.EtcdOpsTask{}, handler.EnqueueRequestsFromMapFunc(etcdByTask)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}

	return nil
}

// etcdByTask returns the request for the Etcd of a drill, or of a full snapshot after one.
func etcdByTask(_ context.Context, object client.Object) []reconcile.Request {
	task, is := object.(*druidv1alpha1.EtcdOpsTask)
	if !is || task.Spec.EtcdName == nil || !isOfDrill(task) {
		return nil
	}

	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: task.Namespace, Name: *task.Spec.EtcdName}}}
}

// isOfDrill is true for a task that runs a drill, or takes a full snapshot after one.
func isOfDrill(task *druidv1alpha1.EtcdOpsTask) bool {
	return helper.TaskKind(task) == druidv1alpha1.RunTaskRestoreDrill || task.Annotations[druidv1alpha1.DrillOfAnnotation] != ""
}
