// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

const (
	// slowPeriod is the shortest time for which an object counts as slow after its members were slow.
	slowPeriod = time.Minute
	// expiryPeriod is the time after which an object that is not reconciled any more, since it was deleted, does not count as slow.
	expiryPeriod = time.Hour
	// slowRetry is the pause before a slow object asks again for a worker, and nextRetry the pause of those that get the next free workers.
	slowRetry = time.Second
	nextRetry = slowRetry / 5
	// retryPeriod is the longest time between two requests of a waiting object for a worker. No worker is reserved for one that takes longer.
	retryPeriod = time.Minute
)

// fair is a Reconciler that keeps workers free for objects that are not slow.
type fair struct {
	inner reconcile.Reconciler
	clock clock.PassiveClock
	// maxSlow is the largest number of slow objects that are reconciled concurrently.
	maxSlow int

	lock   sync.Mutex
	active int
	// slowAt has the objects that count as slow, with the time of the last reconciliation in which their members were slow.
	slowAt map[reconcile.Request]time.Time
	// waiting are the slow objects that wait for a worker, in the order in which they get one.
	waiting []waiter
}

// waiter is an object that waits for a worker.
type waiter struct {
	request reconcile.Request
	// requestedAt is the time of its last request for a worker.
	requestedAt time.Time
}

// Fair returns a Reconciler that calls inner and limits the workers of slow objects:
//
//   - An object is slow from a request to one of its members that took a second or longer, for at least a minute. It stays slow until a
//     reconciliation finds that its members are not slow any more.
//   - Slow objects use two thirds of the workers, and at least one. The other workers stay free for objects that are not slow.
//   - A slow object that finds these workers in use waits, and is requeued after at most 1.5 seconds.
//   - A free worker goes to the object that has waited longest.
//
// workers is the number of workers of the controller, 0 for the default of one.
//
// Members that never answer hold a worker until the time limit for them ends. Without the limit a few of them would hold all workers, and every
// other object would wait.
func Fair(inner reconcile.Reconciler, workers int, clock clock.PassiveClock) reconcile.Reconciler {
	return &fair{inner: inner, clock: clock, maxSlow: max(1, workers*2/3), slowAt: map[reconcile.Request]time.Time{}}
}

// Reconcile implements reconcile.Reconciler.
func (f *fair) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	isSlow, pause := f.begin(request)
	if pause > 0 {
		logf.FromContext(ctx).V(1).Info("Members were slow to respond, and all workers for such objects are in use", "retryAfter", pause)

		return reconcile.Result{RequeueAfter: pause + rand.N(pause/2)}, nil //nolint:gosec // the pause is no secret
	}
	recording, wasSlow := observer.WithSlowRecorder(ctx)
	defer func() { f.end(ctx, request, isSlow, wasSlow()) }()

	return f.inner.Reconcile(recording, request)
}

// begin admits an object, or returns the pause after which it asks again.
func (f *fair) begin(request reconcile.Request) (isSlow bool, pause time.Duration) {
	f.lock.Lock()
	defer f.lock.Unlock()
	now := f.clock.Now()
	position := slices.IndexFunc(f.waiting, func(w waiter) bool { return w.request == request })
	if _, isSlow = f.slowAt[request]; !isSlow && position < 0 {
		return false, 0
	}
	if position < 0 {
		position = len(f.waiting)
		f.waiting = append(f.waiting, waiter{request: request})
	}
	f.waiting[position].requestedAt = now
	before := f.waitingBefore(position, now)
	if f.active+before < f.maxSlow {
		f.waiting = slices.Delete(f.waiting, position, position+1)
		f.active++

		return true, 0
	}
	if before < f.maxSlow {
		return true, nextRetry
	}

	return true, slowRetry
}

// waitingBefore returns the number of objects that get a worker before the one at this position.
func (f *fair) waitingBefore(position int, now time.Time) int {
	count := 0
	for _, w := range f.waiting[:position] {
		if now.Sub(w.requestedAt) < retryPeriod {
			count++
		}
	}

	return count
}

// end frees the worker of a slow object, and records whether its members were slow.
func (f *fair) end(ctx context.Context, request reconcile.Request, countedAsSlow, isSlow bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if countedAsSlow {
		f.active--
	}
	now := f.clock.Now()
	if isSlow {
		f.slowAt[request] = now
	} else if now.Sub(f.slowAt[request]) >= slowPeriod {
		delete(f.slowAt, request)
	}
	maps.DeleteFunc(f.slowAt, func(_ reconcile.Request, at time.Time) bool { return now.Sub(at) >= expiryPeriod })
	if isSlow && !countedAsSlow {
		logf.FromContext(ctx).Info("Members were slow to respond, the next reconciliations use a bounded number of workers", "workers", f.maxSlow)
	}
}
