// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

const (
	// slowDuration is the time of a reconciliation of a slow object, which is requeued after slowRequeue.
	slowDuration, slowRequeue = 4 * time.Second, time.Second
	// fastFor is the time of a reconciliation of another object, which is requeued after fastRequeue.
	fastFor, fastRequeue = 10 * time.Millisecond, 30 * time.Second
)

// simulation is a controller with a real queue and the fake clock of a synctest bubble.
type simulation struct {
	workers, slow, fast int

	lock sync.Mutex
	// dueAt is when an object was requeued for.
	dueAt map[reconcile.Request]time.Time
	// reconciledAt is when the last reconciliation of an object ended.
	reconciledAt map[reconcile.Request]time.Time
	// active is the number of slow objects that workers reconcile, and mostActive the largest one.
	active, mostActive int
	// longestDelay is the longest time that a fast object waited for a worker, and longestGap the longest time without a reconciliation of one
	// slow object.
	longestDelay, longestGap time.Duration
}

// elapse waits until the fake clock of the bubble has advanced.
func elapse(duration time.Duration) { <-time.After(duration) }

// Reconcile is the inner reconciler.
func (s *simulation) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if strings.HasPrefix(request.Name, "fast") {
		s.lock.Lock()
		s.longestDelay = max(s.longestDelay, time.Since(s.dueAt[request]))
		s.lock.Unlock()
		elapse(fastFor)

		return reconcile.Result{RequeueAfter: fastRequeue}, nil
	}
	s.lock.Lock()
	s.active++
	s.mostActive = max(s.mostActive, s.active)
	s.lock.Unlock()
	elapse(slowDuration)
	observer.RecordRequest(ctx, slowDuration)
	s.lock.Lock()
	defer s.lock.Unlock()
	s.active--
	s.longestGap = max(s.longestGap, time.Since(s.reconciledAt[request]))
	s.reconciledAt[request] = time.Now()

	return reconcile.Result{RequeueAfter: slowRequeue}, nil
}

// round is the time in which each slow object is reconciled once, if a free worker gets the next one within 300 ms.
func (s *simulation) round() time.Duration {
	limit := s.workers * 2 / 3

	return time.Duration((s.slow+limit-1)/limit) * (slowDuration + 300*time.Millisecond)
}

// measure starts the measurement.
func (s *simulation) measure() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.mostActive, s.longestDelay, s.longestGap = 0, 0, 0
}

// requests are those of all objects, slow ones first.
func (s *simulation) requests() []reconcile.Request {
	var all []reconcile.Request
	for i := range s.slow + s.fast {
		name := fmt.Sprintf("slow-%d", i)
		if i >= s.slow {
			name = fmt.Sprintf("fast-%d", i)
		}
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "demo", Name: name}})
	}

	return all
}

// run reconciles all objects until each slow one is recorded as slow and was reconciled once more, and then measures for more than a round.
// Before that, all slow objects request a worker at the same instant of the fake clock. They then wait in the order in which their goroutines
// lock the mutex, so that an object that was reconciled early may come last.
func (s *simulation) run(t *testing.T) {
	queue := workqueue.NewTypedDelayingQueue[reconcile.Request]()
	fair := calls.Fair(s, s.workers, clock.RealClock{})
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() {
			for {
				request, isShutDown := queue.Get()
				if isShutDown {
					return
				}
				result, _ := fair.Reconcile(t.Context(), request)
				s.lock.Lock()
				s.dueAt[request] = time.Now().Add(result.RequeueAfter)
				s.lock.Unlock()
				queue.Done(request)
				queue.AddAfter(request, result.RequeueAfter)
			}
		})
	}
	for i, request := range s.requests() {
		s.lock.Lock()
		s.dueAt[request], s.reconciledAt[request] = time.Now(), time.Now()
		s.lock.Unlock()
		queue.Add(request)
		if i >= s.slow {
			elapse(fastRequeue / time.Duration(s.fast)) // they are not due all at the same moment
		}
	}
	elapse(slowDuration*time.Duration(s.slow/s.workers+2) + s.round()*3/2)
	s.measure()
	elapse(s.round() * 3 / 2)
	queue.ShutDown()
	workers.Wait()
}

// TestFairWithManySlowObjects simulates a controller on a fake clock.
func TestFairWithManySlowObjects(t *testing.T) {
	for _, s := range []*simulation{
		{workers: 3, slow: 60, fast: 300},
		{workers: 15, slow: 46, fast: 300},
		{workers: 15, slow: 300, fast: 1000},
	} {
		t.Run(fmt.Sprintf("%d workers, %d slow and %d fast objects", s.workers, s.slow, s.fast), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.dueAt, s.reconciledAt = map[reconcile.Request]time.Time{}, map[reconcile.Request]time.Time{}
				s.run(t)
				t.Logf("slow objects used %d workers, fast ones waited %s, slow ones %s", s.mostActive, s.longestDelay, s.longestGap)
				g := NewWithT(t)
				g.Expect(s.mostActive).To(Equal(s.workers*2/3), "workers of slow objects")
				g.Expect(s.longestDelay).To(BeNumerically("<", time.Second), "delay of fast objects")
				g.Expect(s.longestGap).To(BeNumerically("<", s.round()+5*time.Second), "time without a reconciliation of one slow object")
			})
		})
	}
}
