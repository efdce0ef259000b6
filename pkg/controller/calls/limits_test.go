// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

var _ = Describe("Concurrent calls", func() {
	var (
		runner *calls.Runner[string]
		lock   sync.Mutex
		active map[string]int // by namespace
		end    chan struct{}
	)

	BeforeEach(func() {
		runner, active, end = calls.NewRunner[string](), map[string]int{}, make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = runner.Start(ctx)
		}()
		DeferCleanup(func() { cancel(); <-done })
	})

	// begin requests calls that last until end is closed.
	begin := func(namespace string, count int) {
		GinkgoHelper()
		for i := range count {
			etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main", UID: types.UID(fmt.Sprintf("%s-%d", namespace, i))}}
			Eventually(func() bool {
				return runner.Run(etcd, func(ctx context.Context) string {
					lock.Lock()
					active[namespace]++
					lock.Unlock()
					select {
					case <-end:
					case <-ctx.Done():
					}
					lock.Lock()
					active[namespace]--
					lock.Unlock()

					return "done"
				})
			}).Should(BeTrue())
		}
	}
	running := func() map[string]int {
		lock.Lock()
		defer lock.Unlock()
		copied := map[string]int{}
		for namespace, count := range active {
			copied[namespace] = count
		}

		return copied
	}

	It("are limited to 50 for one namespace, so that other namespaces get slots", func() {
		begin("hostile", 300)
		Eventually(running).Should(HaveKeyWithValue("hostile", 50))
		Consistently(running, 100*time.Millisecond).Should(HaveKeyWithValue("hostile", 50))
		begin("healthy", 3)
		Eventually(running).Should(HaveKeyWithValue("healthy", 3))
		_, isRunning, _ := runner.Outcome("hostile-299")
		Expect(isRunning).To(BeTrue(), "a call that waits for a slot is reported as one that runs")
	})

	It("leave slots to other namespaces, also if several namespaces request many", func() {
		for _, namespace := range []string{"a", "b", "c"} {
			begin(namespace, 60)
		}
		Eventually(running).Should(And(HaveKeyWithValue("a", 50), HaveKeyWithValue("b", 25), HaveKeyWithValue("c", 13)))
		begin("healthy", 3)
		Eventually(running).Should(HaveKeyWithValue("healthy", 3))
	})

	It("are limited to 100 in total, and the next slot goes to the namespace with the fewest calls", func() {
		for i := range 110 {
			begin(fmt.Sprintf("n%03d", i), 1)
		}
		Eventually(running).Should(HaveLen(100))
		Consistently(running, 100*time.Millisecond).Should(And(HaveLen(100), Not(HaveKey("n100"))))
		runner.Discard("n000-0")
		Eventually(running).Should(HaveKeyWithValue("n100", 1))
	})

	It("all end", func() {
		begin("a", 200)
		close(end)
		for i := range 200 {
			Eventually(func() bool {
				_, isRunning, found := runner.Outcome(types.UID(fmt.Sprintf("a-%d", i)))

				return found && !isRunning
			}).Should(BeTrue())
		}
	})

	It("do not start after they were discarded", func() {
		begin("a", 60)
		Eventually(running).Should(HaveKeyWithValue("a", 50))
		for i := range 60 {
			runner.Discard(types.UID(fmt.Sprintf("a-%d", i)))
		}
		Eventually(running).Should(HaveKeyWithValue("a", 0))
		Consistently(running, 50*time.Millisecond).Should(HaveKeyWithValue("a", 0))
	})
})
