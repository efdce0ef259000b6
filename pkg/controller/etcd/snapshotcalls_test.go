// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// The operator takes full snapshots in calls that run concurrently with reconciliations. The crash cases need the same order in each run:
//
//   - A call connects to its sidecar after the reconciliation that started the call.
//   - The next reconciliation starts after the call.

// startCalls starts the runner of the calls. The returned function stops the runner and waits for its calls.
func (o *operator) startCalls() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = o.reconciler.Snapshots.Start(awaited{Context: ctx, onDone: sync.OnceFunc(func() { close(started) })})
	}()
	<-started
	if err := o.reconciler.Snapshots.Source().Start(ctx, requests{ended: o.callEnded}); err != nil {
		panic(err)
	}
	return func() {
		cancel()
		<-ended
	}
}

// awaited is a context that reports when Done is called for the first time.
type awaited struct {
	context.Context

	onDone func()
}

// Done implements context.Context.
func (a awaited) Done() <-chan struct{} {
	a.onDone()
	return a.Context.Done()
}

// requests is a queue that reports each request. The runner adds one when a call has ended.
type requests struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: only Add is called

	ended chan<- struct{}
}

// Add implements workqueue.TypedInterface.
func (r requests) Add(reconcile.Request) { r.ended <- struct{}{} }

// awaitCall waits until no call runs for the Etcd. It returns whether one ran.
func (o *operator) awaitCall() bool {
	found := o.cluster.EtcdObject()
	if found == nil {
		return false
	}
	_, isRunning, _ := o.reconciler.Snapshots.Outcome(found.UID)
	for running := isRunning; running; _, running, _ = o.reconciler.Snapshots.Outcome(found.UID) {
		<-o.callEnded
	}
	return isRunning
}

// afterReconciliation is an Observer that connects to sidecars only between reconciliations.
type afterReconciliation struct {
	etcd.Observer

	reconciling *sync.Mutex
}

// Sidecar implements etcd.Observer.
func (a afterReconciliation) Sidecar(ctx context.Context, of *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error) {
	a.reconciling.Lock()
	defer a.reconciling.Unlock()
	return a.Observer.Sidecar(ctx, of, pod)
}
