// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

var _ = Describe("Runner", func() {
	var (
		runner *calls.Runner[string]
		queue  workqueue.TypedRateLimitingInterface[reconcile.Request]
		end    func()

		etcd = func(uid types.UID) *druidv1alpha1.Etcd {
			return &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: uid}}
		}
	)

	BeforeEach(func() {
		runner = calls.NewRunner[string]()
		queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		ctx, cancel := context.WithCancel(context.Background())
		Expect(runner.Source().Start(ctx, queue)).To(Succeed())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = runner.Start(ctx)
		}()
		end = func() { cancel(); <-ended }
		DeferCleanup(func() { end(); queue.ShutDown() })
	})

	// run starts a call that returns the result sent to the channel, or "ended" when its context ends.
	run := func(uid types.UID) (say chan string) {
		GinkgoHelper()
		say = make(chan string)
		Eventually(func() bool {
			return runner.Run(etcd(uid), func(ctx context.Context) string {
				select {
				case result := <-say:
					return result
				case <-ctx.Done():
					return "ended"
				}
			})
		}).Should(BeTrue())

		return say
	}
	outcome := func(uid types.UID) string {
		result, running, found := runner.Outcome(uid)
		switch {
		case running:
			return "running"
		case found:
			return result
		default:
			return "nothing"
		}
	}

	It("keeps the result of a call, and triggers a reconciliation of its object", func() {
		Expect(outcome("a")).To(Equal("nothing"))
		say := run("a")
		Expect(outcome("a")).To(Equal("running"))
		Expect(queue.Len()).To(BeZero())
		say <- "taken"
		Eventually(queue.Len).Should(Equal(1))
		request, _ := queue.Get()
		Expect(request.String()).To(Equal("demo/main"))
		Expect(outcome("a")).To(Equal("taken"))
	})

	It("runs one call at a time for an object, and calls for other objects concurrently", func() {
		say := run("a")
		Expect(runner.Run(etcd("a"), func(context.Context) string { return "second" })).To(BeFalse())
		run("b") <- "of b"
		Eventually(outcome).WithArguments(types.UID("b")).Should(Equal("of b"))
		say <- "first"
		Eventually(outcome).WithArguments(types.UID("a")).Should(Equal("first"))
		run("a") <- "third"
		Eventually(outcome).WithArguments(types.UID("a")).Should(Equal("third"))
	})

	It("keeps the result of the previous call while the next one is running", func() {
		run("a") <- "first"
		Eventually(outcome).WithArguments(types.UID("a")).Should(Equal("first"))
		say := run("a")
		result, running, found := runner.Outcome("a")
		Expect([]any{result, running, found}).To(Equal([]any{"first", true, true}))
		say <- "second"
		Eventually(outcome).WithArguments(types.UID("a")).Should(Equal("second"))
	})

	It("cancels a discarded call, and triggers no reconciliation", func() {
		run("a")
		runner.Discard("a")
		Expect(outcome("a")).To(Equal("nothing"))
		run("b") <- "of b"
		Eventually(queue.Len).Should(Equal(1))
		Expect(outcome("a")).To(Equal("nothing"))
	})

	It("cancels all calls with its context, and starts none afterwards", func() {
		run("a")
		end()
		Expect(outcome("a")).To(Equal("ended"))
		Expect(runner.Run(etcd("b"), func(context.Context) string { return "late" })).To(BeFalse())
	})
})
