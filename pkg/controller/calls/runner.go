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
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Runner runs calls for objects, at most one at a time for each, and keeps what the last one came to. It is a runnable of
// the manager: calls run between its start and its end, and their context ends with it. It is safe for concurrent use.
type Runner[Result any] struct {
	lock   sync.Mutex
	base   context.Context // nil: not started, or ended
	group  sync.WaitGroup
	calls  map[types.UID]*call[Result]
	wakeUp chan event.GenericEvent
}

// call is one call. done says that result is what it came to. Before that result is what the one before came to, if found says so.
type call[Result any] struct {
	cancel      context.CancelFunc
	done, found bool
	result      Result
}

// NewRunner returns a Runner to be added to a manager.
func NewRunner[Result any]() *Runner[Result] {
	return &Runner[Result]{calls: map[types.UID]*call[Result]{}, wakeUp: make(chan event.GenericEvent)}
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

// Run begins a call for an object, whose outcome before is kept until it is over. False: one runs already, or none may run now; whoever
// asks comes again.
func (r *Runner[Result]) Run(object client.Object, do func(context.Context) Result) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	uid := object.GetUID()
	before := r.calls[uid]
	if r.base == nil || before != nil && !before.done {
		return false
	}
	ctx, cancel := context.WithCancel(r.base)
	began := &call[Result]{cancel: cancel}
	if before != nil {
		began.found, began.result = before.found, before.result
	}
	r.calls[uid] = began
	base := r.base
	r.group.Go(func() {
		defer cancel()
		result := do(ctx)
		r.lock.Lock()
		began.done, began.found, began.result = true, true, result
		isForgotten := r.calls[uid] != began
		r.lock.Unlock()
		if isForgotten {
			return
		}
		select {
		case r.wakeUp <- event.GenericEvent{Object: object}:
		case <-base.Done():
		}
	})

	return true
}

// Outcome is what the last call for the object came to that is over. running says that one is not over yet; found, that there is
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
func (r *Runner[Result]) Forget(uid types.UID) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if last := r.calls[uid]; last != nil {
		last.cancel()
		delete(r.calls, uid)
	}
}
