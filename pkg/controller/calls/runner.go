// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package calls runs what takes long beside the workers of a controller, so that none of them ever waits: a snapshot takes
// minutes. Nothing is remembered beyond the process: whoever needs the outcome asks again after a restart.
//
// What may not live here: what is called, and what follows from its outcome.
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
	// maxCalls is how many calls of a Runner run at the same time, and maxCallsPerNamespace how many of them for objects of one namespace. Others wait
	// for a slot.
	maxCalls             = 100
	maxCallsPerNamespace = 50
	// callTimeout is when a call is ended that has not ended by itself.
	callTimeout = 6 * time.Hour
)

// Runner runs calls for objects, at most one at a time for each, and keeps what the last one came to. The number of calls that run at the same
// time is bounded; a free slot goes to the namespace that has the fewest, and within it to the call that has waited longest. It is a runnable of
// the manager: calls run between its start and its end, and their context ends with it. It is safe for concurrent use.
type Runner[Result any] struct {
	lock   sync.Mutex
	base   context.Context // nil: not started, or ended
	group  sync.WaitGroup
	calls  map[types.UID]*call[Result]
	wakeUp chan event.GenericEvent

	// waiting are the calls without a slot, in the order of their requests.
	waiting []*call[Result]
	// running is how many calls run for objects of a namespace.
	running map[string]int
	// active is the sum of running.
	active int
}

// call is one call. done says that result is what it came to. Before that result is what the one before came to, if found says so.
type call[Result any] struct {
	object      client.Object
	do          func(context.Context) Result
	ctx         context.Context
	cancel      context.CancelFunc
	done, found bool
	result      Result
}

// NewRunner returns a Runner to be added to a manager.
func NewRunner[Result any]() *Runner[Result] {
	return &Runner[Result]{calls: map[types.UID]*call[Result]{}, running: map[string]int{}, wakeUp: make(chan event.GenericEvent)}
}

// Source wakes an object when its call is over.
func (r *Runner[Result]) Source() source.TypedSource[reconcile.Request] {
	return source.Channel(r.wakeUp, &handler.EnqueueRequestForObject{})
}

// Start lets calls run until the context ends, and then waits for them.
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

// Run requests a call for an object, which begins when there is a slot for it. The outcome of the call before is kept until it has ended. False:
// there is a call for the object already, or none may run now; the caller requests it again later.
func (r *Runner[Result]) Run(object client.Object, do func(context.Context) Result) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	uid := object.GetUID()
	before := r.calls[uid]
	if r.base == nil || before != nil && !before.done {
		return false
	}
	ctx, cancel := context.WithCancel(r.base)
	requested := &call[Result]{object: object, do: do, ctx: ctx, cancel: cancel}
	if before != nil {
		requested.found, requested.result = before.found, before.result
	}
	r.calls[uid] = requested
	r.waiting = append(r.waiting, requested)
	r.fill()

	return true
}

// fill gives the free slots to waiting calls. The lock is held.
func (r *Runner[Result]) fill() {
	r.waiting = slices.DeleteFunc(r.waiting, func(c *call[Result]) bool { return c.ctx.Err() != nil })
	for r.base != nil && r.active < maxCalls {
		next := -1
		for i, c := range r.waiting {
			if count := r.running[c.object.GetNamespace()]; count < maxCallsPerNamespace && (next < 0 || count < r.running[r.waiting[next].object.GetNamespace()]) {
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

// run does a call, frees its slot, and wakes its object.
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

// Outcome is what the last call for the object came to that is over. running says that one is not over yet, or waits for a slot; found, that there is
// a result, of the one before where one is running. Both are false where nothing was called since the start of the process, or it was forgotten.
func (r *Runner[Result]) Outcome(uid types.UID) (result Result, running, found bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if last := r.calls[uid]; last != nil {
		return last.result, !last.done, last.found
	}

	return result, false, false
}

// Forget ends the call of an object, if one runs, and forgets its outcome.
func (r *Runner[Result]) Discard(uid types.UID) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if last := r.calls[uid]; last != nil {
		last.cancel()
		delete(r.calls, uid)
	}
}
