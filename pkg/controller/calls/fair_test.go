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
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

var _ = Describe("Fair", func() {
	const workers = 3
	var (
		clock *testclock.FakeClock
		fair  reconcile.Reconciler
		// takes is how long a request to the members of an object takes.
		takes map[string]time.Duration
		// held is closed to let the reconciliations end that hold a worker.
		held  chan struct{}
		began chan string
	)

	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "demo", Name: name}}
	}
	// once reconciles an object, and says whether a worker did.
	once := func(ctx context.Context, name string) bool {
		GinkgoHelper()
		result, err := fair.Reconcile(ctx, request(name))
		Expect(err).NotTo(HaveOccurred())
		if result.RequeueAfter == time.Hour {
			return true
		}
		Expect(result.RequeueAfter).To(And(BeNumerically(">=", 200*time.Millisecond), BeNumerically("<", 2*time.Second)))

		return false
	}
	// hold occupies a worker with an object until held is closed.
	hold := func(ctx context.Context, name string) {
		GinkgoHelper()
		takes[name] = -1
		go func() { _, _ = fair.Reconcile(ctx, request(name)) }()
		Eventually(began).Should(Receive(Equal(name)))
	}

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Now())
		takes, held, began = map[string]time.Duration{}, make(chan struct{}), make(chan string, 10)
		DeferCleanup(func() {
			select {
			case <-held:
			default:
				close(held)
			}
		})
		fair = calls.Fair(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			if took := takes[request.Name]; took >= 0 {
				observer.RecordRequest(ctx, took)
			} else {
				began <- request.Name
				<-held
			}

			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}), workers, clock)
	})

	// slow makes an object a slow one.
	slow := func(ctx context.Context, names ...string) {
		GinkgoHelper()
		for _, name := range names {
			takes[name] = 4 * time.Second
			Expect(once(ctx, name)).To(BeTrue())
			takes[name] = 0
		}
	}

	It("lets slow objects use two of three workers, and others all", func(ctx SpecContext) {
		slow(ctx, "a", "b", "c")
		hold(ctx, "a")
		hold(ctx, "b")
		Expect(once(ctx, "c")).To(BeFalse())
		Expect(once(ctx, "healthy")).To(BeTrue())
		close(held)
		Eventually(func() bool { return once(ctx, "c") }).Should(BeTrue())
	})

	It("counts an object as slow for a minute after its members were slow", func(ctx SpecContext) {
		slow(ctx, "a", "b", "c")
		clock.Step(59 * time.Second)
		Expect(once(ctx, "c")).To(BeTrue())
		hold(ctx, "a")
		hold(ctx, "b")
		Expect(once(ctx, "c")).To(BeFalse())
	})

	It("counts an object as slow until a reconciliation finds that its members are not slow any more", func(ctx SpecContext) {
		slow(ctx, "a", "b", "c", "d")
		clock.Step(time.Minute)
		Expect(once(ctx, "d")).To(BeTrue())
		hold(ctx, "a")
		hold(ctx, "b")
		for range 50 {
			Expect(once(ctx, "c")).To(BeFalse())
			Expect(once(ctx, "d")).To(BeTrue())
			clock.Step(time.Minute)
		}
		close(held)
		Eventually(func() bool { return once(ctx, "c") }).Should(BeTrue())

		held = make(chan struct{})
		hold(ctx, "a")
		hold(ctx, "b")
		Expect(once(ctx, "c")).To(BeTrue())
	})

	It("no longer counts an object as slow that was not reconciled for an hour", func(ctx SpecContext) {
		slow(ctx, "a", "b", "deleted")
		hold(ctx, "a")
		hold(ctx, "b")
		clock.Step(time.Hour)
		Expect(once(ctx, "other")).To(BeTrue())
		Expect(once(ctx, "deleted")).To(BeTrue())
	})

	It("gives a free worker to the object that has waited longest", func(ctx SpecContext) {
		slow(ctx, "a", "b", "c", "d", "e")
		hold(ctx, "a")
		hold(ctx, "b")
		for _, name := range []string{"c", "d", "e", "d", "c"} {
			Expect(once(ctx, name)).To(BeFalse())
		}
		close(held)
		Consistently(func() bool { return once(ctx, "e") }, 20*time.Millisecond).Should(BeFalse(), "two others wait longer")
		Eventually(func() bool { return once(ctx, "c") }).Should(BeTrue())
		Eventually(func() bool { return once(ctx, "e") }).Should(BeTrue(), "one other waits longer, and two workers are free")
		Expect(once(ctx, "d")).To(BeTrue())
	})

	It("keeps no worker free for an object that no longer needs one", func(ctx SpecContext) {
		slow(ctx, "a", "b", "gone", "lost", "c")
		hold(ctx, "a")
		hold(ctx, "b")
		for _, name := range []string{"gone", "lost", "c"} {
			Expect(once(ctx, name)).To(BeFalse())
		}
		close(held)
		clock.Step(59 * time.Second)
		Consistently(func() bool { return once(ctx, "c") }, 20*time.Millisecond).Should(BeFalse())
		clock.Step(time.Second)
		Eventually(func() bool { return once(ctx, "c") }).Should(BeTrue())
	})

	It("does not count a request of less than a second", func(ctx SpecContext) {
		slow(ctx, "a", "b")
		takes["c"] = 999 * time.Millisecond
		Expect(once(ctx, "c")).To(BeTrue())
		hold(ctx, "a")
		hold(ctx, "b")
		Expect(once(ctx, "c")).To(BeTrue())
	})

	It("lets slow objects use the one worker of a controller", func(ctx SpecContext) {
		fair = calls.Fair(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			observer.RecordRequest(ctx, 2*time.Second)

			return reconcile.Result{RequeueAfter: time.Hour}, nil
		}), 0, clock)
		Expect(once(ctx, "a")).To(BeTrue())
		Expect(once(ctx, "a")).To(BeTrue())
	})
})
