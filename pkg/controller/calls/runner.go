// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package calls runs long calls outside the workers of a controller, so that no worker blocks: a snapshot takes minutes. The
// results are in memory only: after a restart the caller requests the call again. It also limits how many workers run slow or
// CPU-intensive work.
//
// What may not live here: the calls themselves, and the reaction to their outcome.
package calls

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// maxCalls is the largest number of concurrent calls of a Runner. Other calls wait for a slot.
	maxCalls = 100
	// callTimeout is the longest time of one call.
	callTimeout = 6 * time.Hour
)

// Runner runs calls for objects, at most one at a time for each object, and keeps the last result. The number of concurrent
// calls is limited. A namespace gets a slot only while more slots are free than it has. One namespace therefore has at
// most half of the slots, and the next one half of the rest. A free slot goes to the namespace with the fewest running calls, and within it to the oldest request. The
// Runner is a runnable of the manager: calls run between its start and its stop, and their context ends with it. It is safe for
// concurrent use.
type Runner[Result any] struct {
	lock   sync.Mutex
	base   context.Context // nil: not started, or stopped
	group  sync.WaitGroup
	calls  map[types.UID]*call[Result]
	wakeUp chan event.GenericEvent

	// waiting are the calls without a slot, in the order of their requests.
	waiting []*call[Result]
	// running is the number of running calls by namespace.
	running map[string]int
	// active is the sum of running.
	active int
}

// call is one call. If done is true, result is its result. Until then, result is that of the previous call if found is true.
type call[Result any] struct {
	object      client.Object
	do          func(context.Context) Result
	ctx         context.Context
	cancel      context.CancelFunc
	done, found bool
	result      Result
}

// NewRunner returns a Runner, which the caller adds to a manager.
func NewRunner[Result any]() *Runner[Result] {
	return &Runner[Result]{calls: map[types.UID]*call[Result]{}, running: map[string]int{}, wakeUp: make(chan event.GenericEvent)}
}

// Source triggers a reconciliation of the object when its call has ended.
func (r *Runner[Result]) Source() source.TypedSource[reconcile.Request] {
	return source.Channel(r.wakeUp, &handler.EnqueueRequestForObject{})
}

// Start allows calls until the context ends, and then waits for the running ones.
func (r *Runner[Result]) Start(ctx context.Context) error {
	r.lock.Lock()
	r.base = ctx
	r.lock.Unlock()
	<-ctx.Done()
	r.lock.Lock()
	r.base = nil
	r.lock.Unlock()
	r.group.Wait()

	return nil
}

// Run requests a call for an object. The call starts when a slot is free. The result of the previous call stays available until
// it has ended. Run returns false if the object already has a call, or if the Runner is not started. The caller then requests
// the call again later.
func (r *Runner[Result]) Run(object client.Object, do func(context.Context) Result) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	uid := object.GetUID()
	before := r.calls[uid]
	if r.base == nil || before != nil && !before.done {
		return false
	}
	ctx, cancel := context.WithCancel(r.base) // #nosec G118 -- run and Discard call it
	requested := &call[Result]{object: object, do: do, ctx: ctx, cancel: cancel}
	if before != nil {
		requested.found, requested.result = before.found, before.result
	}
	r.calls[uid] = requested
	r.waiting = append(r.waiting, requested)
	r.fill()

	return true
}

// fill starts waiting calls while slots are free. The caller holds the lock.
func (r *Runner[Result]) fill() {
	r.waiting = slices.DeleteFunc(r.waiting, func(c *call[Result]) bool { return c.ctx.Err() != nil })
	for r.base != nil && r.active < maxCalls {
		next := -1
		for i, c := range r.waiting {
			if count := r.running[c.object.GetNamespace()]; count < maxCalls-r.active && (next < 0 || count < r.running[r.waiting[next].object.GetNamespace()]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		started := r.waiting[next]
		r.waiting = slices.Delete(r.waiting, next, next+1)
		r.active++
		r.running[started.object.GetNamespace()]++
		base := r.base
		r.group.Go(func() { r.run(base, started) })
	}
}

// run executes a call, frees its slot, and triggers a reconciliation of its object.
func (r *Runner[Result]) run(base context.Context, c *call[Result]) {
	ctx, cancel := context.WithTimeout(c.ctx, callTimeout)
	result := c.do(ctx)
	cancel()
	c.cancel()

	r.lock.Lock()
	c.done, c.found, c.result = true, true, result
	isDiscarded := r.calls[c.object.GetUID()] != c
	namespace := c.object.GetNamespace()
	r.active--
	if r.running[namespace]--; r.running[namespace] == 0 {
		delete(r.running, namespace)
	}
	r.fill()
	r.lock.Unlock()
	if isDiscarded {
		return
	}
	select {
	case r.wakeUp <- event.GenericEvent{Object: c.object}:
	case <-base.Done():
	}
}

// Outcome returns the result of the last call for the object. running is true if a call is running or waits for a slot. found
// is true if there is a result, which is that of the previous call while another one is running. Both are false if there was no
// call since the start of the process, or if it was discarded.
func (r *Runner[Result]) Outcome(uid types.UID) (result Result, running, found bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if last := r.calls[uid]; last != nil {
		return last.result, !last.done, last.found
	}

	return result, false, false
}

// Discard cancels the call of an object, if one is running, and discards its result.
func (r *Runner[Result]) Discard(uid types.UID) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if last := r.calls[uid]; last != nil {
		last.cancel()
		delete(r.calls, uid)
	}
}
