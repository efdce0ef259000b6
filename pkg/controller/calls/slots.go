// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"cmp"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	// SlotRetry is the time after which an object that waits for a slot requests it again, if nothing has triggered its reconciliation earlier.
	SlotRetry = 2 * time.Minute
	// slotExpiry is the time after which no slot is kept free for an object that has not requested it again.
	slotExpiry = SlotRetry + time.Minute
	// wakeUpExpiry is the time after which no slot is kept free for an object whose reconciliation was triggered.
	wakeUpExpiry = 10 * time.Second
	// urgentLead is the time by which an urgent object precedes others.
	urgentLead = SlotRetry
	// pendingWakeUps is the maximum number of triggered reconciliations that the controller has not received yet.
	pendingWakeUps = 1024
)

// Slots limits for how many objects a controller runs CPU-intensive work at the same time, so that it has workers for other objects. An object
// that finds no free slot waits. Its reconciliation is triggered when a slot is free for it. Objects get slots in the order of their first
// requests. An urgent object precedes those that requested a slot up to two minutes earlier. Slots is safe for concurrent use. Nil: there is no
// limit.
type Slots struct {
	clock  clock.PassiveClock
	wakeUp chan event.GenericEvent

	lock sync.Mutex
	free int
	// waiting has the objects in the order in which they get slots.
	waiting []slotRequest
	// requests counts the first requests.
	requests int
}

// slotRequest is the request of an object that waits for a slot.
type slotRequest struct {
	key client.ObjectKey
	// since is the time of the first request, for an urgent object urgentLead before it. It determines the order. Objects with the same time are
	// ordered by number, which counts the first requests.
	since  time.Time
	number int
	// requestedAt is the time of the last request.
	requestedAt time.Time
	// wokenAt is the time at which the reconciliation was triggered. Zero: it was not triggered since the last request.
	wokenAt time.Time
}

// NewSlots returns count free slots. With a count of 0, all objects wait for ever.
func NewSlots(count int, clock clock.PassiveClock) *Slots {
	return &Slots{clock: clock, wakeUp: make(chan event.GenericEvent, pendingWakeUps), free: count}
}

// Source triggers the reconciliation of an object when a slot is free for it.
func (s *Slots) Source() source.TypedSource[reconcile.Request] {
	return source.Channel(s.wakeUp, &handler.EnqueueRequestForObject{})
}

// Acquire uses a slot for an object until release is called. If no slot is free for it, Acquire returns false, and the object waits. The
// caller requests the slot again when its reconciliation is triggered, and at the latest after SlotRetry.
func (s *Slots) Acquire(key client.ObjectKey, isUrgent bool) (release func(), acquired bool) {
	if s == nil {
		return func() {}, true
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	position := s.enqueue(key, isUrgent)
	if s.before(position) >= s.free {
		s.wake()

		return nil, false
	}
	s.waiting = slices.Delete(s.waiting, position, position+1)
	s.free--

	return sync.OnceFunc(s.release), true
}

// Discard removes an object that waits. The caller calls it when the object needs no slot any more.
func (s *Slots) Discard(key client.ObjectKey) {
	if s == nil {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	count := len(s.waiting)
	s.waiting = slices.DeleteFunc(s.waiting, func(r slotRequest) bool { return r.key == key })
	if len(s.waiting) < count {
		s.wake()
	}
}

// enqueue records the request of an object, and returns its position.
func (s *Slots) enqueue(key client.ObjectKey, isUrgent bool) int {
	now := s.clock.Now()
	s.requests++
	request := slotRequest{key: key, since: now, number: s.requests, requestedAt: now}
	if isUrgent {
		request.since = now.Add(-urgentLead)
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(r slotRequest) bool {
		if r.key == key && !r.since.After(request.since) {
			request.since, request.number = r.since, r.number
		}

		return r.key == key || now.Sub(r.requestedAt) >= slotExpiry
	})
	position, _ := slices.BinarySearchFunc(s.waiting, request, compareRequests)
	s.waiting = slices.Insert(s.waiting, position, request)

	return position
}

func compareRequests(a, b slotRequest) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.number, b.number))
}

// before returns the number of objects for which slots are kept free before the one at this position.
func (s *Slots) before(position int) int {
	count := 0
	for _, r := range s.waiting[:position] {
		if !s.isLate(r) {
			count++
		}
	}

	return count
}

// isLate returns whether an object has not requested its slot, although its reconciliation was triggered.
func (s *Slots) isLate(r slotRequest) bool {
	return !r.wokenAt.IsZero() && s.clock.Since(r.wokenAt) >= wakeUpExpiry
}

func (s *Slots) release() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.free++
	s.wake()
}

// wake triggers the reconciliations of the objects that get the free slots. If too many are pending, the objects request the slots again later.
func (s *Slots) wake() {
	free := s.free
	for i := range s.waiting {
		r := &s.waiting[i]
		switch {
		case free == 0:
			return
		case s.isLate(*r):
			continue
		}
		free--
		if !r.wokenAt.IsZero() {
			continue
		}
		select {
		case s.wakeUp <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.key.Namespace, Name: r.key.Name}}}:
			r.wokenAt = s.clock.Now()
		default:
			return
		}
	}
}
