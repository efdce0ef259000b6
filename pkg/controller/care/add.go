// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	predicateutils "github.com/gardener/gardener/pkg/controllerutils/predicate"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "care"

// defaultConcurrency is the default number of Etcds that are reconciled concurrently. It is higher than that of the etcd
// controller, because a request to unresponsive members takes seconds.
const defaultConcurrency = 15

// Config has the periods and thresholds of the controller.
type Config struct {
	// SyncPeriod is the time between two reconciliations without a watch event, plus a random part. A multi-member cluster is
	// reconciled at least every four seconds, and every two seconds while a member is not ready. Most reconciliations of a healthy cluster without watch
	// events only probe its members, for at most eight periods and two minutes. A healthy single member is probed every four periods or every minute,
	// whichever is shorter. A period of more than a minute applies instead. It is observed again after at most 20 periods and five minutes.
	// A cluster that is hibernated or not created yet is only observed, at the same periods.
	SyncPeriod time.Duration
	// UnknownThreshold is the time since the last renewal of its Lease after which the state of a member is Unknown.
	UnknownThreshold time.Duration
	// NotReadyThreshold is the additional time after which the state is NotReady.
	NotReadyThreshold time.Duration
	// Defragmentation says when members are defragmented although no database is full.
	Defragmentation planner.DefragmentationSettings
	// DataComparisonPeriod is the time between two comparisons of the data of all voting members, plus a random part. 0: the data is not compared.
	DataComparisonPeriod time.Duration
}

// ConfigFor returns the Config of a completed configuration.
func ConfigFor(config configv1alpha1.EtcdControllerConfiguration) Config {
	return Config{
		SyncPeriod:        config.EtcdStatusSyncPeriod.Duration,
		UnknownThreshold:  config.EtcdMember.UnknownThreshold.Duration,
		NotReadyThreshold: config.EtcdMember.NotReadyThreshold.Duration,
		Defragmentation: planner.DefragmentationSettings{
			Window:         config.Defragmentation.Window.Duration,
			MinReclaimable: config.Defragmentation.MinReclaimableSize.Value(),
			StallBudget:    config.Defragmentation.StallBudget.Duration,
		},
		DataComparisonPeriod: config.DataComparisonPeriod.Duration,
	}
}

// AddOptions are the dependencies of the controller in addition to the manager.
type AddOptions struct {
	// Controller has the number of Etcds that are reconciled concurrently. 0: 15.
	Controller controller.Options
	// Config has the periods and thresholds. All of them must be set.
	Config Config
	// Observer reads the cluster of one Etcd.
	Observer Observer
	// Members connects to members. Nil: a rejection of writes is not ended, the data of members is not compared, and each reconciliation observes the
	// whole cluster.
	Members Members
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
		Members:  o.Members,
		Versions: o.Versions,
		Config:   o.Config,
		Clock:    o.Clock,
		Recorder: mgr.GetEventRecorder(ControllerName),
	}
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	if o.Controller.MaxConcurrentReconciles == 0 {
		o.Controller.MaxConcurrentReconciles = defaultConcurrency
	}
	// The backoff after failures is at most the time between two reconciliations.
	o.Controller = queue.WithDefaults(o.Controller, 100*time.Millisecond, r.Config.SyncPeriod)
	if err := r.add(mgr, o.Controller); err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}
	return nil
}

// add watches the objects that show the health of a cluster. Changes without a watch event, for example a Lease that is not
// renewed, are detected by the periodic reconciliation.
func (r *Reconciler) add(mgr manager.Manager, options controller.Options) error {
	enqueue := func(requestsFor handler.MapFunc) handler.EventHandler {
		return handler.EnqueueRequestsFromMapFunc(r.baselines.recordEvents(requestsFor))
	}
	toEtcd := enqueue(queue.EtcdByLabel)
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(options).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, toEtcd, builder.WithPredicates(isMemberPod())).
		Watches(&appsv1.StatefulSet{}, toEtcd, builder.WithPredicates(isManaged())).
		Watches(&coordinationv1.Lease{}, toEtcd, builder.WithPredicates(isManaged(), LeaseContentChanged())).
		Watches(&resourcesv1alpha1.ManagedResource{}, enqueue(queue.EtcdByManagedResource), builder.WithPredicates(RestoreDrillRecorded())).
		Watches(&druidv1alpha1.Etcd{}, r.baselines.enqueueLater(queue.Etcd, r.Config.SyncPeriod), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Watches(&resourcesv1alpha1.ManagedResource{}, r.baselines.enqueueLater(queue.EtcdByManagedResource, r.Config.SyncPeriod), builder.WithPredicates(
			predicate.Or(predicateutils.ManagedResourceConditionsChanged(), predicate.AnnotationChangedPredicate{}, predicate.GenerationChangedPredicate{}),
		)).
		Watches(&corev1.PersistentVolumeClaim{}, toEtcd, builder.WithPredicates(isManaged())).
		WatchesMetadata(&corev1.Secret{}, enqueue(r.etcdsBySecret)).
		Complete(calls.Fair(r, options.MaxConcurrentReconciles, clock.RealClock{}))
}
