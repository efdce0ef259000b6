// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// fleet is what the caches contain.
type fleet struct {
	clusters []rollout.Cluster
	err      error
	reads    atomic.Int32
}

// Clusters implements rollouts.Fleet.
func (f *fleet) Clusters(context.Context) ([]rollout.Cluster, error) {
	f.reads.Add(1)

	return slices.Clone(f.clusters), f.err
}

var _ = Describe("The coordinator", func() {
	var (
		ctx    = context.Background()
		found  *fleet
		clock  *clocktesting.FakeClock
		c      *rollouts.Coordinator
		change = state.Change{From: "v1", To: "v2"}
		limits = rollout.Limits{Total: rollout.Limit{Number: new(1)}, Canaries: 1, CanaryPeriod: 5 * time.Minute, Timeout: 10 * time.Minute}
	)
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "demo", Name: name} }
	BeforeEach(func() {
		clock = clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		found = &fleet{}
		for _, name := range []string{"a", "b", "c"} {
			found.clusters = append(found.clusters, rollout.Cluster{Key: key(name).String(), Defaults: "v1", Members: 1, Healthy: true})
		}
		c = rollouts.NewCoordinator(found, limits, clock)
	})
	reportWaiting := func(names ...string) {
		for _, name := range names {
			Expect(c.Begin(key(name))).To(BeNil())
			Expect(c.End(key(name), rollouts.Report{Outcome: rollout.Declined, Waits: &change})).To(HaveValue(HaveField("Reason", rollout.WaitingForCanary)))
		}
	}
	decide := func() []string {
		GinkgoHelper()
		changed, _, err := c.Decide(ctx)
		Expect(err).NotTo(HaveOccurred())
		slices.Sort(changed)

		return changed
	}

	// measured are the metrics by the value of the label state.
	measured := func() map[string]float64 {
		GinkgoHelper()
		families, err := metrics.Registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		values := map[string]float64{}
		for _, family := range families {
			for _, metric := range family.Metric {
				switch family.GetName() {
				case "etcd_druid_rollout_etcds":
					values[metric.Label[1].GetValue()] = metric.Gauge.GetValue()
				case "etcd_druid_rollout_stopped":
					values["stopped"] = metric.Gauge.GetValue()
				}
			}
		}

		return values
	}

	It("grants one slot once, and enqueues the Etcds whose reason changes", func() {
		reportWaiting("a", "b", "c")
		Expect(decide()).To(Equal([]string{"demo/a", "demo/b", "demo/c"}))
		Expect(decide()).To(BeEmpty())
		Expect(c.Begin(key("b"))).To(BeNil())
		granted := c.Begin(key("a"))
		Expect(granted).To(HaveValue(And(HaveField("Change", change), HaveField("Canary", true))))
		Expect(c.End(key("a"), rollouts.Report{Outcome: rollout.Written, Updating: true})).To(BeNil())
		Expect(decide()).To(BeEmpty(), "the caches do not show the record")

		granted.StartedAt = clock.Now()
		found.clusters[0].Defaults, found.clusters[0].Update = "v2", granted
		Expect(decide()).To(BeEmpty())

		By("stopping after the canary has failed")
		found.clusters[0].Healthy = false
		clock.Step(11 * time.Minute)
		Expect(decide()).To(Equal([]string{"demo/a", "demo/b", "demo/c"}))
		Expect(c.End(key("a"), rollouts.Report{Outcome: rollout.Declined, Updating: true})).To(HaveValue(HaveField("Reason", rollout.UpdateFailed)))
		Expect(c.End(key("b"), rollouts.Report{Outcome: rollout.Declined, Waits: &change})).To(HaveValue(HaveField("Reason", rollout.RolloutStopped)))
		Expect(measured()).To(Equal(map[string]float64{"failed": 1, "updated": 0, "updating": 0, "waiting": 2, "stopped": 1}))

		By("continuing after the canary has passed")
		found.clusters[0].Healthy, granted.PassedAt = true, clock.Now()
		Expect(decide()).To(Equal([]string{"demo/a", "demo/b", "demo/c"}))
		Expect(c.End(key("a"), rollouts.Report{Outcome: rollout.Declined})).To(BeNil())
		Expect(c.Begin(key("b"))).NotTo(BeNil())
		Expect(c.End(key("c"), rollouts.Report{Outcome: rollout.Declined, Waits: &change})).To(HaveValue(HaveField("Reason", rollout.WaitingForSlot)))
	})

	It("begins one more canary in another namespace after one has failed, and reports both", func() {
		found.clusters[2].Key = "other/c"
		reportWaiting("a", "b")
		other := client.ObjectKey{Namespace: "other", Name: "c"}
		Expect(c.End(other, rollouts.Report{Outcome: rollout.Declined, Waits: &change})).NotTo(BeNil())
		decide()
		granted := c.Begin(key("a"))
		c.End(key("a"), rollouts.Report{Outcome: rollout.Written, Updating: true})
		granted.StartedAt = clock.Now()
		found.clusters[0].Defaults, found.clusters[0].Update, found.clusters[0].Healthy = "v2", granted, false
		clock.Step(11 * time.Minute)
		Expect(decide()).To(Equal([]string{"demo/a", "other/c"}))
		Expect(c.End(key("a"), rollouts.Report{Outcome: rollout.Declined, Updating: true})).To(HaveValue(HaveField("Reason", rollout.UpdateFailed)))
		Expect(c.End(key("b"), rollouts.Report{Outcome: rollout.Declined, Waits: &change})).To(HaveValue(HaveField("Reason", rollout.WaitingForCanary)))
		Expect(c.Begin(other)).To(HaveValue(HaveField("Canary", true)))
		Expect(measured()).To(Equal(map[string]float64{"failed": 1, "updated": 0, "updating": 1, "waiting": 1, "stopped": 0}))
	})

	It("gives the slot to another Etcd if the reconciliation does not use it, or if the Etcd is deleted", func() {
		reportWaiting("a", "b")
		decide()
		Expect(c.Begin(key("a"))).NotTo(BeNil())
		c.End(key("a"), rollouts.Report{Outcome: rollout.Declined, Waits: &change})
		Expect(decide()).To(ContainElement("demo/b"))
		found.clusters = slices.DeleteFunc(found.clusters, func(cluster rollout.Cluster) bool { return cluster.Key == "demo/b" })
		c.Discard(key("b"))
		Expect(decide()).To(ContainElement("demo/a"))
		Expect(c.Begin(key("a"))).NotTo(BeNil())
	})

	It("keeps the grant of an interrupted reconciliation", func() {
		reportWaiting("a")
		decide()
		Expect(c.Begin(key("a"))).NotTo(BeNil())
		Expect(c.End(key("a"), rollouts.Report{Outcome: rollout.Interrupted})).To(BeNil())
		Expect(c.Begin(key("a"))).NotTo(BeNil())
	})

	It("grants nothing if the caches cannot be read", func() {
		reportWaiting("a")
		found.err = errors.New("no cache")
		_, isBusy, err := c.Decide(ctx)
		Expect(err).To(MatchError("no cache"))
		Expect(isBusy).To(BeTrue())
		Expect(c.Begin(key("a"))).To(BeNil())
	})

	It("reads the caches only while Etcds wait or are updated", func() {
		stopped := make(chan struct{})
		runCtx, cancel := context.WithCancel(ctx)
		go func() {
			defer GinkgoRecover()
			defer close(stopped)
			Expect(c.Start(runCtx)).To(Succeed())
		}()
		Expect(c.End(key("a"), rollouts.Report{Outcome: rollout.Declined})).To(BeNil())
		clock.Step(time.Hour)
		Expect(found.reads.Load()).To(BeZero())
		c.End(key("a"), rollouts.Report{Outcome: rollout.Declined, Updating: true})
		Eventually(clock.HasWaiters, "20s").Should(BeTrue())
		clock.Step(time.Second)
		Eventually(found.reads.Load, "20s").Should(BeEquivalentTo(1))
		Consistently(clock.HasWaiters, "100ms").Should(BeFalse(), "nothing is updated")
		cancel()
		<-stopped
	})
})
