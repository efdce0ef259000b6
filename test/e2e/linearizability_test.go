// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The history of concurrent clients", framework.NeedsSeed("crashes etcd and reads write-ahead logs"), func() {
	// The test kills the operator, and needs a host with low load: too many requests without a result make the search for a linearization long.
	// Therefore no other test may run at the same time.
	It("is linearizable while the operator rolls out changes, scales, repairs, defragments, surges and rotates, and crashes", Label("long"), Serial, func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		c := newChanges(ctx, "history", GinkgoRandomSeed())
		kill := sync.OnceFunc(func() {
			operator.Kill(ctx)
		})
		c.beforeEach = func(context.Context) { kill() }
		history := c.ns.RecordHistory(ctx, c.etcd, c.seed)
		c.runAll(ctx, c.ofThree())
		c.scale(ctx, 1)
		c.runAll(ctx, c.ofOne())
		c.scale(ctx, 3)
		history.ExpectLinearizable(ctx)
	}, SpecTimeout(specTimeout+specTimeout/2))

	// The operator is killed at random. Therefore no other test may run at the same time.
	It("is linearizable for hours, while the operator and members are killed at random", Label("soak"), Serial, func(ctx SpecContext) {
		duration, err := time.ParseDuration(os.Getenv("SOAK_DURATION"))
		Expect(err).NotTo(HaveOccurred(), "SOAK_DURATION is a duration, for example 4h")
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		// The search for a linearization is short for a history of minutes.
		for began, round := time.Now(), int64(0); time.Since(began) < duration; round++ {
			c := newChanges(ctx, fmt.Sprintf("soak-%d", round), GinkgoRandomSeed()+round)
			c.beforeEach = func(ctx context.Context) {
				if c.random.IntN(2) == 0 {
					By("killing the operator")
					operator.Kill(ctx)
				}
			}
			history := c.ns.RecordHistory(ctx, c.etcd, c.seed)
			c.runAll(ctx, c.ofThree())
			c.scale(ctx, 1)
			c.runAll(ctx, c.ofOne())
			c.scale(ctx, []int32{3, 5}[c.random.IntN(2)])
			history.ExpectLinearizable(ctx)
			Expect(c.ns.Delete(ctx, c.etcd)).To(Succeed())
		}
	}, SpecTimeout(24*time.Hour))
})

// changes are what happens to an Etcd in a random order.
type changes struct {
	ns     *framework.TestNamespace
	etcd   *druidv1alpha1.Etcd
	seed   int64
	random *rand.Rand
	// beforeEach runs before each change. Nil: nothing.
	beforeEach func(ctx context.Context)
}

// change is one of them.
type change struct {
	name string
	run  func(ctx context.Context)
}

// newChanges creates an Etcd with three members. Its write-ahead logs have the whole history, since etcd creates no snapshot of it.
func newChanges(ctx context.Context, name string, randomSeed int64) *changes {
	GinkgoHelper()
	GinkgoWriter.Printf("random seed %d\n", randomSeed)
	c := &changes{ns: seed.NewNamespace(ctx, name), seed: randomSeed, random: rand.New(rand.NewPCG(uint64(randomSeed), 0))} // #nosec G115 G404 -- reproducible
	c.etcd = fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(c.ns), withSurge, func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Etcd.EnableTLS, etcd.Spec.Etcd.SnapshotCount = new(true), new(int64(1_000_000))
	})
	c.ns.Create(ctx, c.etcd)
	c.ns.EventuallyReady(ctx, c.etcd)

	return c
}

// runAll runs the changes in a random order.
func (c *changes) runAll(ctx context.Context, all []change) {
	GinkgoHelper()
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, next := range all {
		By(next.name)
		if c.beforeEach != nil {
			c.beforeEach(ctx)
		}
		next.run(ctx)
		c.ns.EventuallyReady(ctx, c.etcd)
	}
}

func (c *changes) scale(ctx context.Context, members int32) {
	GinkgoHelper()
	By(fmt.Sprintf("scaling to %d", members))
	if c.beforeEach != nil {
		c.beforeEach(ctx)
	}
	c.ns.Patch(ctx, c.etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = members })
	c.ns.EventuallyReady(ctx, c.etcd)
}

// ofThree are the changes of three members.
func (c *changes) ofThree() []change {
	return []change{
		{"rolling out a change", c.changeMetrics},
		{"crashing the leader", func(ctx context.Context) {
			GinkgoHelper()
			c.ns.Eventually(ctx, c.etcd, func(g Gomega) { g.Expect(findLeader(c.etcd)).NotTo(BeEmpty()) })
			before := podsByName(ctx, c.ns)[leader(c.etcd)]
			c.ns.Crash(new(before), "etcd")
			c.ns.Eventually(ctx, c.etcd, func(g Gomega) {
				g.Expect(restartsOf(podsByName(ctx, c.ns)[before.Name])["etcd"]).To(BeNumerically(">", restartsOf(before)["etcd"]))
			})
		}},
		{"deleting the volume of a follower", func(ctx context.Context) {
			GinkgoHelper()
			c.ns.Eventually(ctx, c.etcd, func(g Gomega) { g.Expect(findLeader(c.etcd)).NotTo(BeEmpty()) })
			victim := podsByName(ctx, c.ns)[follower(c.etcd)]
			c.ns.DeleteVolume(ctx, "main-"+victim.Name)
			c.ns.Kill(ctx, new(victim))
			c.ns.EventuallyReplaced(ctx, c.etcd, new(victim))
		}},
		{"defragmenting the members", func(ctx context.Context) {
			GinkgoHelper()
			task := newTask("defragment", druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}})
			c.ns.Create(ctx, task)
			eventuallySucceeded(ctx, c.ns, task)
		}},
	}
}

// ofOne are the changes of a single member.
func (c *changes) ofOne() []change {
	return []change{
		{"replacing the member by a surge", c.changeMetrics},
		{"rotating the CAs", func(ctx context.Context) {
			GinkgoHelper()
			before, err := c.ns.Connection(ctx, c.etcd)
			Expect(err).NotTo(HaveOccurred())
			c.ns.Patch(ctx, c.etcd, func(etcd *druidv1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/rotate-ca", "start")
			})
			Eventually(func(g Gomega) {
				now, err := c.ns.Connection(ctx, c.etcd)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(otherCA(before, now)).To(BeTrue())
			}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), c.ns.State)
		}},
	}
}

// changeMetrics changes the pod template.
func (c *changes) changeMetrics(ctx context.Context) {
	GinkgoHelper()
	before := podsByName(ctx, c.ns)
	c.ns.Patch(ctx, c.etcd, func(etcd *druidv1alpha1.Etcd) {
		level := druidv1alpha1.MetricsLevel("extensive")
		if etcd.Spec.Etcd.Metrics != nil && *etcd.Spec.Etcd.Metrics == level {
			level = "basic"
		}
		etcd.Spec.Etcd.Metrics = &level
	})
	c.ns.Eventually(ctx, c.etcd, func(g Gomega) {
		after := podsByName(ctx, c.ns)
		for name := range before {
			g.Expect(after[name].UID).NotTo(BeElementOf("", before[name].UID), name)
		}
	})
}
