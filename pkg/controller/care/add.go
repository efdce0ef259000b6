// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"fmt"
	"time"

	"github.com/gardener/gardener/pkg/controllerutils"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/config/v1alpha1"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

// ControllerName is the name of the controller in logs, metrics and events.
const ControllerName = "care"

// defaultConcurrency is how many Etcds are looked at at the same time. It is higher than that of the etcd controller, since a
// look at members that do not answer takes seconds.
const defaultConcurrency = 15

// Config says when to look and how to judge.
type Config struct {
	// SyncPeriod is the time between two looks without an event, plus a little of chance. Clusters of several members are
	// looked at every four seconds where it is longer, and every two while members are missing.
	SyncPeriod time.Duration
	// UnknownThreshold is how long a member may be silent before its state is unknown.
	UnknownThreshold time.Duration
	// NotReadyThreshold is how much longer, before it is not ready.
	NotReadyThreshold time.Duration
}

// ConfigFor takes the Config out of a completed configuration.
func ConfigFor(config configv1alpha1.EtcdControllerConfiguration) Config {
	return Config{
		SyncPeriod:        config.EtcdStatusSyncPeriod.Duration,
		UnknownThreshold:  config.EtcdMember.UnknownThreshold.Duration,
		NotReadyThreshold: config.EtcdMember.NotReadyThreshold.Duration,
	}
}

// AddOptions are what the controller needs beside the manager.
type AddOptions struct {
	// Controller says how many Etcds are looked at at the same time. 0: 15.
	Controller controller.Options
	// Config says when to look and how to judge. All of it must be set.
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
		Observer: o.Observer,
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
	if o.Controller.ReconciliationTimeout == 0 {
		o.Controller.ReconciliationTimeout = controllerutils.DefaultReconciliationTimeout
	}
	if o.Controller.RateLimiter == nil {
		// No wait after failures is longer than the time between two looks.
		o.Controller.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, r.Config.SyncPeriod)
	}
	if err := r.add(mgr, o.Controller); err != nil {
		return fmt.Errorf("adding controller %s: %w", ControllerName, err)
	}
	return nil
}

// add watches what shows health. Health that shows nowhere, such as a lease that grows old, is left to the next look.
func (r *Reconciler) add(mgr manager.Manager, options controller.Options) error {
	toEtcd := handler.EnqueueRequestsFromMapFunc(etcdByLabel)
	return builder.ControllerManagedBy(mgr).
		Named(ControllerName).
		WithOptions(options).
		For(&druidv1alpha1.Etcd{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, toEtcd, builder.WithPredicates(isMemberPod())).
		Watches(&appsv1.StatefulSet{}, toEtcd, builder.WithPredicates(isManaged())).
		Watches(&coordinationv1.Lease{}, toEtcd, builder.WithPredicates(isManaged(), LeaseContentChanged())).
		Watches(&corev1.PersistentVolumeClaim{}, toEtcd, builder.WithPredicates(isManaged())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.etcdsBySecret)).
		Complete(calls.Fair(r, options.MaxConcurrentReconciles, clock.RealClock{}))
}
