// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// The operator takes snapshots and frees space in calls that run concurrently with reconciliations. The crash cases need the same order in each run:
//
//   - A call connects to its sidecar, or writes to its member, after the reconciliation that started the call.
//   - The next reconciliation starts after the call.

// startCalls starts the runners of the calls. The returned function stops the runners and waits for their calls.
func (o *operator) startCalls() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for _, runner := range []callRunner{o.reconciler.Snapshots, o.reconciler.Space} {
		started := make(chan struct{})
		ended.Go(func() {
			_ = runner.Start(awaited{Context: ctx, onDone: sync.OnceFunc(func() { close(started) })})
		})
		<-started
		if err := runner.Source().Start(ctx, requests{ended: o.callEnded}); err != nil {
			panic(err)
		}
	}
	return func() {
		cancel()
		ended.Wait()
	}
}

// callRunner is a runner of calls.
type callRunner interface {
	Start(ctx context.Context) error
	Source() source.TypedSource[reconcile.Request]
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
	isRunning := func() bool {
		_, takesSnapshot, _ := o.reconciler.Snapshots.Outcome(found.UID)
		_, freesSpace, _ := o.reconciler.Space.Outcome(found.UID)
		return takesSnapshot || freesSpace
	}
	wasRunning := isRunning()
	for isRunning() {
		<-o.callEnded
	}
	return wasRunning
}

// afterReconciliation is an Observer that connects to sidecars only between reconciliations.
type afterReconciliation struct {
	etcd.Observer

	reconciling *sync.Mutex
}

// Member implements etcd.Observer.
func (a afterReconciliation) Member(ctx context.Context, of *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error) {
	member, err := a.Observer.Member(ctx, of, pod)
	return memberAfterReconciliation{Client: member, reconciling: a.reconciling}, err
}

// memberAfterReconciliation frees space only between reconciliations.
type memberAfterReconciliation struct {
	etcdclient.Client

	reconciling *sync.Mutex
}

func (m memberAfterReconciliation) await() {
	m.reconciling.Lock()
	defer m.reconciling.Unlock()
}

// Compact implements etcdclient.Client.
func (m memberAfterReconciliation) Compact(ctx context.Context, revision int64) error {
	m.await()
	return m.Client.Compact(ctx, revision)
}

// Defragment implements etcdclient.Client.
func (m memberAfterReconciliation) Defragment(ctx context.Context) error {
	m.await()
	return m.Client.Defragment(ctx)
}

// CountKeys implements etcdclient.Client.
func (m memberAfterReconciliation) CountKeys(ctx context.Context) ([]etcdcluster.KeyCount, error) {
	m.await()
	return m.Client.CountKeys(ctx)
}

// Sidecar implements etcd.Observer.
func (a afterReconciliation) Sidecar(ctx context.Context, of *druidv1alpha1.Etcd, pod etcdcluster.Pod) (sidecar.Client, error) {
	a.reconciling.Lock()
	defer a.reconciling.Unlock()
	return a.Observer.Sidecar(ctx, of, pod)
}
