// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

var _ = Describe("Slots", func() {
	var (
		clock *testclock.FakeClock
		slots *calls.Slots
	)
	key := func(name string) client.ObjectKey { return types.NamespacedName{Namespace: "demo", Name: name} }
	acquire := func(name string) func() {
		GinkgoHelper()
		release, acquired := slots.Acquire(key(name), false)
		Expect(acquired).To(BeTrue(), name)

		return release
	}
	expectWaiting := func(isUrgent bool, names ...string) {
		GinkgoHelper()
		for _, name := range names {
			_, acquired := slots.Acquire(key(name), isUrgent)
			Expect(acquired).To(BeFalse(), name)
		}
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Now())
		slots = calls.NewSlots(2, clock)
	})

	It("are limited, and go to the objects in the order of their first requests", func() {
		release := acquire("a")
		acquire("b")
		expectWaiting(false, "c", "d", "c")
		release()
		release() // has no effect
		expectWaiting(false, "d")
		acquire("c")
		expectWaiting(false, "d")
	})

	It("go to urgent objects first, but not before those that have waited for two minutes", func() {
		release := acquire("a")
		releaseToo := acquire("b")
		expectWaiting(false, "c")
		clock.Step(calls.SlotRetry + time.Second)
		expectWaiting(false, "c", "d")
		expectWaiting(true, "urgent", "urgent-too")
		expectWaiting(true, "d") // it has become urgent
		release()
		expectWaiting(true, "urgent")
		acquire("c")
		releaseToo()
		expectWaiting(false, "d")
		expectWaiting(true, "urgent-too")
		_, acquired := slots.Acquire(key("urgent"), true)
		Expect(acquired).To(BeTrue())
	})

	It("are not kept free for an object that does not request its slot again, or that needs none any more", func() {
		release := acquire("a")
		releaseToo := acquire("b")
		expectWaiting(false, "late", "c", "discarded", "d", "e")
		release()
		expectWaiting(false, "c")
		clock.Step(10 * time.Second)
		release = acquire("c")
		release()
		slots.Discard(key("discarded"))
		expectWaiting(false, "e")
		acquire("d")
		expectWaiting(false, "late")
		releaseToo()
		acquire("late")
		expectWaiting(false, "e")
		clock.Step(3*time.Minute - time.Second)
		expectWaiting(false, "f")
		clock.Step(time.Second)
		expectWaiting(false, "f", "g") // e has expired
	})

	It("trigger the reconciliations of the objects that get the free slots", func(ctx context.Context) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		DeferCleanup(queue.ShutDown)
		Expect(slots.Source().Start(ctx, queue)).To(Succeed())
		release := acquire("a")
		releaseToo := acquire("b")
		expectWaiting(false, "c", "d", "e")
		Consistently(queue.Len, "100ms").Should(BeZero())
		release()
		Eventually(queue.Len).Should(Equal(1))
		request, _ := queue.Get()
		Expect(request.Name).To(Equal("c"))
		acquire("c")
		queue.Done(request)
		releaseToo()
		Eventually(queue.Len).Should(Equal(1))
		request, _ = queue.Get()
		Expect(request.Name).To(Equal("d"))
		slots.Discard(key("d"))
		Eventually(queue.Len).Should(Equal(1))
		request, _ = queue.Get()
		Expect(request.Name).To(Equal("e"))
	})

	It("have no limit if there are none", func() {
		release, acquired := (*calls.Slots)(nil).Acquire(key("a"), false)
		Expect(acquired).To(BeTrue())
		release()
		(*calls.Slots)(nil).Discard(key("a"))
	})
})
