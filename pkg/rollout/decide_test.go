// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var (
	now    = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	change = state.Change{From: "v1", To: "v2"}
)

// waiting is a healthy Etcd that waits for v2.
func waiting(key string, options ...func(*rollout.Cluster)) rollout.Cluster {
	c := rollout.Cluster{Key: key, Zones: []string{"a"}, Defaults: "v1", Waits: "v2", Members: 1, Healthy: true}
	for _, option := range options {
		option(&c)
	}

	return c
}

// updated is an Etcd whose update to v2 began an hour ago.
func updated(key string, update state.Rollout, options ...func(*rollout.Cluster)) rollout.Cluster {
	update.Change = change
	if update.StartedAt.IsZero() {
		update.StartedAt = now.Add(-time.Hour)
	}
	c := waiting(key, options...)
	c.Defaults, c.Waits, c.Update = "v2", "", &update

	return c
}

func passed() state.Rollout {
	return state.Rollout{Canary: true, Healthy: true, PassedAt: now.Add(-time.Minute)}
}

func running() state.Rollout { return state.Rollout{Healthy: true, StartedAt: now.Add(-time.Minute)} }

func runningCanary() state.Rollout {
	return state.Rollout{Canary: true, Healthy: true, StartedAt: now.Add(-time.Minute)}
}

// failed is an Etcd that is not healthy since its update to v2.
func failed(key string, options ...func(*rollout.Cluster)) rollout.Cluster {
	return updated(key, state.Rollout{Healthy: true}, append(options, unhealthy)...)
}

// failedCanary is a canary that is not healthy since its update to v2.
func failedCanary(key string, options ...func(*rollout.Cluster)) rollout.Cluster {
	return updated(key, state.Rollout{Canary: true, Healthy: true}, append(options, unhealthy)...)
}

func unhealthy(c *rollout.Cluster)  { c.Healthy = false }
func restarting(c *rollout.Cluster) { c.Healthy, c.HealthChangedAt = false, now.Add(-time.Minute) }
func grantedNow(c *rollout.Cluster) {
	c.Waits, c.Update = "", &state.Rollout{Change: change, Healthy: true, StartedAt: now}
}
func hibernated(c *rollout.Cluster) { c.Hibernated, c.Healthy = true, false }
func suspended(c *rollout.Cluster)  { c.Suspended = true }
func three(c *rollout.Cluster)      { c.Members, c.Zones = 3, []string{"a", "b", "c"} }
func tried(c *rollout.Cluster)      { c.Tried = true }
func in(zone string) func(*rollout.Cluster) {
	return func(c *rollout.Cluster) { c.Zones = []string{zone} }
}

func limits(total int) rollout.Limits {
	return rollout.Limits{Total: rollout.Limit{Number: &total}, Canaries: 1, CanaryPeriod: canaryPeriod, Timeout: timeout}
}

func twoCanaries() rollout.Limits {
	l := limits(5)
	l.Canaries = 2

	return l
}

// granted are the keys of the Etcds whose update begins, sorted. Canaries have a star.
func granted(d rollout.Decision) []string {
	keys := slices.Sorted(maps.Keys(d.Grants))
	for i, key := range keys {
		if d.Grants[key].Canary {
			keys[i] += "*"
		}
	}

	return keys
}

var _ = Describe("Decide", func() {
	DescribeTable("begins updates", func(limits rollout.Limits, clusters []rollout.Cluster, expected ...string) {
		Expect(granted(rollout.Decide(clusters, limits, now))).To(Equal(append([]string(nil), expected...)))
	},
		Entry("of one canary", limits(5), []rollout.Cluster{waiting("a"), waiting("b")}, "a*"),
		Entry("of a multi-member canary", limits(5), []rollout.Cluster{waiting("a"), waiting("b", three)}, "b*"),
		Entry("of no other while the canary is updated", limits(5), []rollout.Cluster{updated("a", state.Rollout{Canary: true, Healthy: true, StartedAt: now}), waiting("b")}),
		Entry("of no other after the canary of the only namespace has failed", limits(5), []rollout.Cluster{failedCanary("n/a"), waiting("n/b"), waiting("n/c", unhealthy)}),
		Entry("of one more canary, in another namespace, after the canary has failed", limits(5), []rollout.Cluster{failedCanary("n/a"), waiting("n/b", three), waiting("o/c"), waiting("o/d")}, "o/c*"),
		Entry("of one more canary although the failed one uses the only slot", limits(1), []rollout.Cluster{failedCanary("n/a"), waiting("o/b"), waiting("o/c")}, "o/b*"),
		Entry("of one more canary although the failed one uses the only slot of a zone", rollout.Limits{PerZone: rollout.Limit{Number: new(1)}, Canaries: 1, Timeout: timeout}, []rollout.Cluster{failedCanary("n/a"), waiting("o/b"), waiting("o/c", in("b"))}, "o/b*"),
		Entry("of no other while one more canary is updated", limits(5), []rollout.Cluster{failedCanary("n/a"), updated("o/b", runningCanary()), waiting("o/c"), waiting("x/d", unhealthy)}),
		Entry("of others after one more canary has passed", limits(2), []rollout.Cluster{failedCanary("n/a"), updated("o/b", passed()), waiting("o/c"), waiting("x/d"), waiting("x/e")}, "o/c", "x/d"),
		Entry("of none in the namespace of the failed canary while it uses the only slot", limits(1), []rollout.Cluster{failedCanary("n/a"), updated("o/b", passed()), waiting("n/c")}),
		Entry("of no other after canaries in two namespaces have failed", limits(5), []rollout.Cluster{failedCanary("n/a"), failedCanary("o/b"), waiting("n/c"), waiting("x/d"), waiting("x/e", unhealthy)}),
		Entry("of one that is not healthy if a canary of another namespace has failed, and no healthy one waits there", limits(1), []rollout.Cluster{failedCanary("n/a"), waiting("n/b"), waiting("n/c", unhealthy), waiting("o/d", unhealthy)}, "o/d"),
		Entry("of two canaries in two namespaces", twoCanaries(), []rollout.Cluster{waiting("n/a", three), waiting("n/b", three), waiting("o/c")}, "n/a*", "o/c*"),
		Entry("of two canaries in the only namespace", twoCanaries(), []rollout.Cluster{waiting("n/a"), waiting("n/b"), waiting("n/c")}, "n/a*", "n/b*"),
		Entry("of a second canary in another namespace than the first", twoCanaries(), []rollout.Cluster{updated("n/a", passed()), waiting("n/b", three), waiting("o/c")}, "o/c*"),
		Entry("of a second canary in the namespace of the first if no other is healthy", twoCanaries(), []rollout.Cluster{updated("n/a", passed()), waiting("n/b"), waiting("o/c", unhealthy)}, "n/b*"),
		Entry("of no canary in a namespace that had one, if there is another", limits(5), []rollout.Cluster{waiting("n/a", three, tried), waiting("o/b")}, "o/b*"),
		Entry("of a canary in a namespace that had one, if there is no other", limits(5), []rollout.Cluster{waiting("n/a", tried), waiting("o/b", unhealthy)}, "n/a*"),
		Entry("of others after the canary has passed", limits(2), []rollout.Cluster{updated("a", passed()), waiting("b"), waiting("c"), waiting("d")}, "b", "c"),
		Entry("without a canary if none is required", rollout.Limits{Total: rollout.Limit{Number: new(2)}}, []rollout.Cluster{waiting("a"), waiting("b"), waiting("c")}, "a", "b"),
		Entry("of another canary after the canary was deleted", limits(5), []rollout.Cluster{waiting("b"), waiting("c")}, "b*"),
		Entry("of another canary after it began to hibernate", limits(5), []rollout.Cluster{updated("a", state.Rollout{Canary: true, Healthy: true}, hibernated), waiting("b")}, "b*"),
		Entry("while others that have not passed use slots", limits(2), []rollout.Cluster{updated("a", passed()), updated("b", running()), waiting("c"), waiting("d")}, "c"),
		Entry("of none while failed ones use all slots", limits(2), []rollout.Cluster{updated("a", passed()), failed("b"), failed("c"), waiting("d")}),
		Entry("of none while failed ones use all slots, in the only namespace", limits(1), []rollout.Cluster{updated("n/a", passed()), failed("n/b"), waiting("n/c")}),
		Entry("although failed ones of one other namespace use all slots", limits(2), []rollout.Cluster{updated("a", passed()), failed("n/b"), failed("n/c"), waiting("d"), waiting("e"), waiting("f")}, "d", "e"),
		Entry("although a hibernated one has not passed", limits(1), []rollout.Cluster{updated("a", passed()), updated("b", running(), hibernated), waiting("c")}, "c"),
		Entry("although a suspended one has not passed", limits(1), []rollout.Cluster{updated("a", passed()), updated("b", running(), suspended), waiting("c")}, "c"),
		Entry("of none while a suspended one is not healthy", limits(1), []rollout.Cluster{updated("a", passed()), updated("b", running(), suspended, unhealthy), waiting("c")}),
		Entry("within a percentage, which is at least one", rollout.Limits{Total: rollout.Limit{Percentage: new(10)}}, []rollout.Cluster{waiting("a"), waiting("b"), waiting("c")}, "a"),
		Entry("within the lower of both", rollout.Limits{Total: rollout.Limit{Number: new(2), Percentage: new(100)}}, []rollout.Cluster{waiting("a"), waiting("b"), waiting("c")}, "a", "b"),
		Entry("within the limit of a zone", rollout.Limits{PerZone: rollout.Limit{Number: new(1)}}, []rollout.Cluster{waiting("a"), waiting("b"), waiting("c", in("b"))}, "a", "c"),
		Entry("in no zone of a member that is full", rollout.Limits{PerZone: rollout.Limit{Number: new(1)}}, []rollout.Cluster{waiting("a", in("b")), waiting("b", three), waiting("c", in("c"))}, "a", "c"),
		Entry("within the percentage of a zone", rollout.Limits{PerZone: rollout.Limit{Percentage: new(50)}}, []rollout.Cluster{waiting("a"), waiting("b"), waiting("c"), waiting("d"), waiting("e", in("b"))}, "a", "b", "e"),
		Entry("without a known zone, which count as one zone", rollout.Limits{PerZone: rollout.Limit{Number: new(1)}}, []rollout.Cluster{waiting("a", in("")), waiting("b", in(""))}, "a"),
		Entry("within the limit of a change", rollout.Limits{PerChange: rollout.Limit{Number: new(1)}}, []rollout.Cluster{waiting("a"), waiting("b"), waiting("c", func(c *rollout.Cluster) { c.Defaults = "v0" })}, "a", "c"),
		Entry("within the percentage of a change, in which updates count once that are granted and not recorded", rollout.Limits{PerChange: rollout.Limit{Percentage: new(50)}, Timeout: timeout}, []rollout.Cluster{
			waiting("a", grantedNow), waiting("b", grantedNow), waiting("c"), waiting("d"),
		}),
		Entry("in the zones of today, and not in those of an earlier update", rollout.Limits{PerZone: rollout.Limit{Number: new(1)}, Timeout: timeout}, []rollout.Cluster{
			updated("a", running(), in("b")), waiting("b", in("b"), func(c *rollout.Cluster) {
				c.Update = &state.Rollout{Change: state.Change{From: "v0", To: "v1"}, Zones: []string{"a"}, PassedAt: now.Add(-time.Hour)}
			}),
		}),
		Entry("of a canary of each change", limits(5), []rollout.Cluster{updated("a", passed()), waiting("b", func(c *rollout.Cluster) { c.Defaults = "v0" }), waiting("c", func(c *rollout.Cluster) { c.Defaults = "v0" })}, "b*"),
		Entry("of no canary that is not healthy", limits(5), []rollout.Cluster{waiting("a", unhealthy), waiting("b")}, "b*"),
		Entry("of one that is not healthy after the canary has passed", limits(1), []rollout.Cluster{updated("a", passed()), waiting("b"), waiting("c", unhealthy)}, "c"),
		Entry("of one that is not healthy if no healthy one waits", limits(1), []rollout.Cluster{waiting("a", unhealthy)}, "a"),
		Entry("of none that may only be restarting, if no healthy one waits", limits(1), []rollout.Cluster{waiting("a", restarting)}),
		Entry("of none that may only be restarting, after the canary has passed", limits(1), []rollout.Cluster{updated("p", passed()), waiting("a", restarting), waiting("b")}, "b"),
		Entry("of none that is not healthy while one that may only be restarting can become the canary", limits(2), []rollout.Cluster{waiting("a", unhealthy), waiting("b", restarting)}),
		Entry("of those that are not healthy in half of the slots", limits(4), []rollout.Cluster{updated("p", passed()), waiting("a", unhealthy), waiting("b", unhealthy), waiting("c", unhealthy), waiting("d"), waiting("e"), waiting("f")}, "a", "b", "d", "e"),
		Entry("of one that is not healthy although one of another namespace that was not either has no new pods for an hour", limits(1), []rollout.Cluster{updated("p", passed()), updated("n/a", state.Rollout{}), waiting("o/b", unhealthy)}, "o/b"),
		Entry("of none that is not healthy while one of its namespace that was not either has no new pods for an hour", limits(3), []rollout.Cluster{updated("p", passed()), updated("n/a", state.Rollout{}), waiting("n/b", unhealthy)}),
		Entry("although one that was not healthy before is not ready after the timeout", limits(1), []rollout.Cluster{updated("p", passed()), updated("a", state.Rollout{}, unhealthy), waiting("b")}, "b"),
		Entry("of a hibernated one after the canary has passed, without a slot", limits(1), []rollout.Cluster{updated("p", passed()), waiting("a", hibernated), waiting("b", hibernated), waiting("c")}, "a", "b", "c"),
		Entry("of no hibernated one before", limits(5), []rollout.Cluster{waiting("a", hibernated)}),
		Entry("of no suspended one", limits(5), []rollout.Cluster{waiting("a", suspended)}),
		Entry("of no canary whose earlier update has failed, if there is another", limits(5), []rollout.Cluster{waiting("a", three, func(c *rollout.Cluster) {
			c.Update = &state.Rollout{Change: state.Change{From: "v0", To: "v1"}, Healthy: true, StartedAt: now.Add(-time.Hour)}
		}), waiting("b")}, "b*"),
		Entry("last of one that has declined", limits(1), []rollout.Cluster{waiting("a", func(c *rollout.Cluster) { c.Declined = true }), waiting("b", three)}, "b*"),
	)

	It("lets newer defaults replace broken ones at once, and keeps the slot", func() {
		broken := updated("a", state.Rollout{Canary: true, Healthy: true}, unhealthy)
		broken.Waits = "v3"
		healthy := waiting("b")
		healthy.Waits = "v3"
		d := rollout.Decide([]rollout.Cluster{broken, healthy}, limits(1), now)
		Expect(d.Grants).To(Equal(map[string]state.Rollout{"a": {Change: state.Change{From: "v2", To: "v3"}, Healthy: true, Zones: []string{"a"}}}), "it is no canary, and still counts as broken by an update")
		Expect(d.Delays["b"].Reason).To(Equal(rollout.WaitingForCanary))
	})

	It("lets newer defaults replace those of an Etcd that was not healthy before, and keeps its slot of the unhealthy ones", func() {
		broken := updated("a", state.Rollout{StartedAt: now.Add(-time.Minute)}, unhealthy)
		broken.Waits = "v3"
		Expect(granted(rollout.Decide([]rollout.Cluster{broken, waiting("b", unhealthy), waiting("c", unhealthy)}, limits(4), now))).To(Equal([]string{"a", "b"}))
	})

	DescribeTable("explains why an Etcd waits", func(limits rollout.Limits, clusters []rollout.Cluster, expected map[string]rollout.Reason) {
		found := map[string]rollout.Reason{}
		for key, delay := range rollout.Decide(clusters, limits, now).Delays {
			found[key] = delay.Reason
			Expect(delay.Message()).NotTo(ContainSubstring("healthy-one"), "the names of other Etcds are not public")
		}
		Expect(found).To(Equal(expected))
	},
		Entry("for a canary", limits(5), []rollout.Cluster{waiting("a"), waiting("b")}, map[string]rollout.Reason{"b": rollout.WaitingForCanary}),
		Entry("for a slot", limits(1), []rollout.Cluster{updated("p", passed()), waiting("a"), waiting("b")}, map[string]rollout.Reason{"b": rollout.WaitingForSlot}),
		Entry("after the canary of the only namespace has failed", limits(5), []rollout.Cluster{failedCanary("n/a"), waiting("n/b"), waiting("o/c", hibernated)}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/b": rollout.RolloutStopped, "o/c": rollout.RolloutStopped}),
		Entry("for one more canary after one has failed", limits(5), []rollout.Cluster{failedCanary("n/a"), updated("o/b", runningCanary()), waiting("n/c"), waiting("o/d")}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/c": rollout.WaitingForCanary, "o/d": rollout.WaitingForCanary}),
		Entry("for one more canary after one has failed, which may only be restarting", limits(5), []rollout.Cluster{failedCanary("n/a"), waiting("n/b"), waiting("o/c", restarting)}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/b": rollout.WaitingForCanary, "o/c": rollout.WaitingForCanary}),
		Entry("after canaries in two namespaces have failed", limits(5), []rollout.Cluster{failedCanary("n/a"), failedCanary("o/b"), waiting("x/c")}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "o/b": rollout.UpdateFailed, "x/c": rollout.RolloutStopped}),
		Entry("while failed updates have all slots", limits(2), []rollout.Cluster{updated("p", passed()), failed("a"), failed("b"), waiting("c")}, map[string]rollout.Reason{"a": rollout.UpdateFailed, "b": rollout.UpdateFailed, "c": rollout.RolloutStopped}),
		Entry("while failed updates have all slots of the only namespace", limits(1), []rollout.Cluster{updated("n/p", passed()), failed("n/a"), waiting("n/b")}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/b": rollout.RolloutStopped}),
		Entry("for a slot while failed updates of one namespace do not stop the others", limits(1), []rollout.Cluster{updated("p", passed()), failed("n/a"), updated("o/b", running()), waiting("n/c"), waiting("o/d")}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/c": rollout.WaitingForSlot, "o/d": rollout.WaitingForSlot}),
		Entry("for a canary that is healthy, but does not get its pods for an hour", limits(5), []rollout.Cluster{updated("n/a", state.Rollout{Canary: true, Healthy: true}), waiting("n/b")}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/b": rollout.RolloutStopped}),
		Entry("for a canary that is not ready again and again for an hour", limits(5), []rollout.Cluster{failedCanary("n/a", func(c *rollout.Cluster) { c.HealthChangedAt = now.Add(-time.Minute) }), waiting("n/b")}, map[string]rollout.Reason{"n/a": rollout.UpdateFailed, "n/b": rollout.RolloutStopped}),
		Entry("not for one that was not healthy before", limits(1), []rollout.Cluster{updated("a", state.Rollout{}, unhealthy)}, map[string]rollout.Reason{}),
		Entry("not before the timeout", limits(1), []rollout.Cluster{updated("a", state.Rollout{Healthy: true, StartedAt: now.Add(-9 * time.Minute)}, unhealthy)}, map[string]rollout.Reason{}),
		Entry("not while the members of a rolling update become ready in turn", limits(1), []rollout.Cluster{updated("a", state.Rollout{Healthy: true, StartedAt: now.Add(-59 * time.Minute)}, unhealthy, func(c *rollout.Cluster) { c.HealthChangedAt = now.Add(-time.Minute) })}, map[string]rollout.Reason{}),
	)

	DescribeTable("counts the Etcds of a change", func(expected rollout.Progressed, clusters ...rollout.Cluster) {
		expected.Change = change
		Expect(rollout.Decide(clusters, limits(2), now).Changes).To(ConsistOf(expected))
	},
		Entry("which is not stopped by one failed canary", rollout.Progressed{Waiting: 1, Updating: 1, Failed: 1}, failedCanary("n/a"), waiting("o/b"), waiting("o/c")),
		Entry("which is stopped by two", rollout.Progressed{Waiting: 1, Failed: 2, Stopped: true}, failedCanary("n/a"), failedCanary("o/b"), waiting("x/c")),
		Entry("which is stopped by one if no other Etcd waits", rollout.Progressed{Failed: 1, Stopped: true}, failedCanary("n/a")),
		Entry("which continues after one more canary has passed", rollout.Progressed{Updating: 1, Failed: 1, Updated: 1}, failedCanary("n/a"), updated("o/b", passed()), waiting("o/c")),
	)

	It("uses another canary for each change, whatever the names of the Etcds are", func() {
		const etcds, changes = 50, 50
		canaryOf := func(to string, keyOf func(int) string) types.UID {
			var clusters []rollout.Cluster
			uids := map[string]types.UID{}
			for i := range etcds {
				c := waiting(keyOf(i))
				c.UID, c.Waits = types.UID(fmt.Sprintf("uid-%d", i)), to
				uids[c.Key] = c.UID
				clusters = append(clusters, c)
			}
			found := granted(rollout.Decide(clusters, limits(5), now))
			Expect(found).To(HaveLen(1))

			return uids[strings.TrimSuffix(found[0], "*")]
		}
		canaries := map[types.UID]bool{}
		for i := range changes {
			to := fmt.Sprintf("v%d", i+2)
			canary := canaryOf(to, func(i int) string { return fmt.Sprintf("shoot-%02d/main", i) })
			Expect(canaryOf(to, func(i int) string { return fmt.Sprintf("shoot-%02d/main", etcds-i) })).To(Equal(canary))
			canaries[canary] = true
		}
		Expect(len(canaries)).To(BeNumerically(">", etcds/3))
	})

	It("takes a time linear in the number of Etcds", func() {
		var clusters []rollout.Cluster
		for i := range 20000 {
			clusters = append(clusters, waiting(fmt.Sprintf("etcd-%05d", i), in(fmt.Sprint(i%3))))
		}
		begin := time.Now()
		rollout.Decide(clusters, defaultLimits, now)
		Expect(time.Since(begin)).To(BeNumerically("<", 5*time.Second))
	})
})

var _ = Describe("Grants", func() {
	It("count until the caches show the record, so that no slot is granted twice", func() {
		later := now.Add(50 * time.Minute)
		grants, clusters := rollout.Grants{}, []rollout.Cluster{updated("p", passed()), waiting("a"), waiting("b")}
		decide := func(at time.Time) []string {
			d := rollout.Decide(grants.Merge(clusters, at), limits(1), at)
			grants.Add(d.Grants, at)

			return granted(d)
		}
		Expect(decide(now)).To(Equal([]string{"a"}))
		Expect(decide(now)).To(BeEmpty())
		Expect(grants.Begin("b")).To(BeNil())
		used := grants.Begin("a")
		Expect(used.Change).To(Equal(change))
		Expect(decide(later)).To(BeEmpty(), "a reconciliation uses it")
		grants.End("a", rollout.Written, later)
		Expect(decide(later)).To(BeEmpty(), "the caches do not show it")
		used.StartedAt = later
		clusters[1].Defaults, clusters[1].Waits, clusters[1].Update = "v2", "", used
		Expect(decide(later.Add(time.Minute))).To(BeEmpty(), "the record shows it")
		Expect(grants.Begin("a")).To(BeNil())
		clusters[1].Update.PassedAt = now.Add(2 * time.Hour)
		Expect(decide(now.Add(2 * time.Hour))).To(Equal([]string{"b"}))
	})

	DescribeTable("give the next canary to another namespace", func(leave func(*rollout.Grants, []rollout.Cluster) []rollout.Cluster) {
		grants := rollout.Grants{}
		clusters := []rollout.Cluster{waiting("n/a", three), waiting("n/b", three), waiting("o/c")}
		decide := func(at time.Time) []string {
			d := rollout.Decide(grants.Merge(clusters, at), limits(2), at)
			grants.Add(d.Grants, at)

			return granted(d)
		}
		Expect(decide(now)).To(Equal([]string{"n/a*"}))
		grants.Begin("n/a")
		clusters = leave(&grants, clusters)
		Expect(decide(now.Add(time.Hour))).To(Equal([]string{"o/c*"}))
	},
		Entry("if the canary declines", func(g *rollout.Grants, clusters []rollout.Cluster) []rollout.Cluster {
			g.End("n/a", rollout.Declined, now)

			return clusters
		}),
		Entry("if the canary does not use its grant", func(g *rollout.Grants, clusters []rollout.Cluster) []rollout.Cluster {
			g.End("n/a", rollout.Interrupted, now)

			return clusters
		}),
		Entry("if the canary is deleted", func(g *rollout.Grants, clusters []rollout.Cluster) []rollout.Cluster {
			g.End("n/a", rollout.Written, now)

			return clusters[1:]
		}),
		Entry("if the canary hibernates", func(g *rollout.Grants, clusters []rollout.Cluster) []rollout.Cluster {
			g.End("n/a", rollout.Written, now)
			hibernated(&clusters[0])
			clusters[0].Defaults, clusters[0].Waits = "v2", ""

			return clusters
		}),
		Entry("if the canary is suspended", func(g *rollout.Grants, clusters []rollout.Cluster) []rollout.Cluster {
			g.End("n/a", rollout.Written, now)
			clusters[0] = updated("n/a", state.Rollout{Canary: true, Healthy: true}, suspended)

			return clusters
		}),
		Entry("if the canary is not healthy in time", func(g *rollout.Grants, clusters []rollout.Cluster) []rollout.Cluster {
			g.End("n/a", rollout.Written, now)
			clusters[0] = failedCanary("n/a")

			return clusters
		}),
	)

	It("do not remember the namespaces of canaries longer than Etcds wait for the change", func() {
		grants := rollout.Grants{}
		grants.Add(map[string]state.Rollout{"n/a": {Change: change, Canary: true}}, now)
		grants.Merge(nil, now)
		Expect(granted(rollout.Decide(grants.Merge([]rollout.Cluster{waiting("n/b"), waiting("o/c")}, now), limits(1), now))).To(Equal([]string{"n/b*"}))
	})

	DescribeTable("end", func(end func(*rollout.Grants), after time.Duration, expected ...string) {
		grants := rollout.Grants{}
		clusters := []rollout.Cluster{updated("p", passed()), waiting("a"), waiting("b")}
		grants.Add(map[string]state.Rollout{"a": {Change: change, Healthy: true}}, now)
		end(&grants)
		d := rollout.Decide(grants.Merge(clusters, now.Add(after)), limits(1), now.Add(after))
		Expect(granted(d)).To(Equal(append([]string(nil), expected...)))
	},
		Entry("if the reconciliation declines, and another Etcd comes first", func(g *rollout.Grants) { g.Begin("a"); g.End("a", rollout.Declined, now) }, time.Second, "b"),
		Entry("not if it was interrupted", func(g *rollout.Grants) { g.Begin("a"); g.End("a", rollout.Interrupted, now) }, time.Second),
		Entry("not while something else is done before the update", func(g *rollout.Grants) {
			g.Begin("a")
			g.End("a", rollout.Preparing, now.Add(8*time.Minute))
		}, 10*time.Minute),
		Entry("after some time if no reconciliation begins, and another Etcd comes first", func(*rollout.Grants) {}, time.Hour, "b"),
		Entry("after some time if all reconciliations are interrupted, and another Etcd comes first", func(g *rollout.Grants) {
			g.Begin("a")
			g.End("a", rollout.Interrupted, now.Add(4*time.Minute))
		}, 5*time.Minute, "b"),
		Entry("after some time if the write has failed, and another Etcd comes first", func(g *rollout.Grants) { g.Begin("a"); g.End("a", rollout.Written, now) }, time.Hour, "b"),
		Entry("not if a later reconciliation declines after the write", func(g *rollout.Grants) {
			g.Begin("a")
			g.End("a", rollout.Written, now)
			g.Begin("a")
			g.End("a", rollout.Declined, now)
		}, time.Minute),
	)
})

var _ = DescribeTable("Next", func(record *state.Rollout, p rollout.Progress, expectedPassed, expectedRecord bool, expectedAfter time.Duration) {
	next, after := rollout.Next(record, p, canaryPeriod, now)
	Expect(next != nil).To(Equal(expectedRecord))
	Expect(next.HasPassed()).To(Equal(expectedPassed))
	Expect(after).To(Equal(expectedAfter))
},
	Entry("no update", nil, rollout.Progress{Defaults: "v2"}, false, false, time.Duration(0)),
	Entry("ready for the period", began(time.Hour), rollout.Progress{Defaults: "v2", RolledOut: true, ReadySince: now.Add(-5 * time.Minute)}, true, true, time.Duration(0)),
	Entry("ready for a shorter time", began(time.Hour), rollout.Progress{Defaults: "v2", RolledOut: true, ReadySince: now.Add(-4 * time.Minute)}, false, true, time.Minute),
	Entry("ready since before the update", began(time.Minute), rollout.Progress{Defaults: "v2", RolledOut: true, ReadySince: now.Add(-time.Hour)}, false, true, 4*time.Minute),
	Entry("not ready", began(time.Hour), rollout.Progress{Defaults: "v2", RolledOut: true}, false, true, time.Duration(0)),
	Entry("not rolled out", began(time.Hour), rollout.Progress{Defaults: "v2", ReadySince: now.Add(-time.Hour)}, false, true, time.Duration(0)),
	Entry("hibernated", began(time.Hour), rollout.Progress{Defaults: "v2", Hibernated: true}, false, false, time.Duration(0)),
	Entry("other defaults, for example of the spec", began(time.Hour), rollout.Progress{Defaults: "v3"}, false, false, time.Duration(0)),
	Entry("passed before", &state.Rollout{Change: change, PassedAt: now}, rollout.Progress{Defaults: "v2"}, true, true, time.Duration(0)),
)

func began(ago time.Duration) *state.Rollout {
	return &state.Rollout{Change: change, Healthy: true, StartedAt: now.Add(-ago)}
}

var _ = Describe("Fingerprint", func() {
	images := state.Images{EtcdWrapper: "example.com/a/etcd-wrapper:v1", BackupRestore: "example.com/a/etcdbrctl:v2", Init: "example.com/alpine:3"}
	of := func(change func(*druidv1alpha1.EtcdSpec, *state.Accepted)) string {
		spec, accepted := druidv1alpha1.EtcdSpec{}, state.Accepted{Generation: 1, EtcdVersion: "3.4", Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": images}}}
		change(&spec, &accepted)

		return rollout.Fingerprint(spec, accepted)
	}
	reference := of(func(*druidv1alpha1.EtcdSpec, *state.Accepted) {})
	setImages := func(accepted *state.Accepted, change func(*state.Images)) {
		changed := images
		change(&changed)
		accepted.Defaults.ImageSets = map[string]state.Images{"3.4": changed}
	}

	It("names the images", func() {
		Expect(reference).To(MatchRegexp("^etcd-wrapper:v1,etcdbrctl:v2@[0-9a-f]{8}$"))
		Expect(rollout.Describe(reference)).To(Equal("etcd-wrapper:v1 and etcdbrctl:v2"))
		Expect(of(func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) {
			setImages(a, func(i *state.Images) { i.EtcdWrapper = "example.com/etcd-wrapper@sha256:0123456789abcdef" })
		})).To(HavePrefix("etcd-wrapper:01234567,"))
	})

	DescribeTable("changes", func(expected bool, change func(*druidv1alpha1.EtcdSpec, *state.Accepted)) {
		if expected {
			Expect(of(change)).NotTo(Equal(reference))
		} else {
			Expect(of(change)).To(Equal(reference))
		}
	},
		Entry("with an image", true, func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) {
			setImages(a, func(i *state.Images) { i.BackupRestore = "other.example.com/a/etcdbrctl:v2" })
		}),
		Entry("with the version of etcd", true, func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) { a.EtcdVersion = "3.5" }),
		Entry("not with the generation", false, func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) { a.Generation = 2 }),
		Entry("not with the NetworkPolicies", false, func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) {
			a.Defaults.NetworkPolicies = &state.NetworkPolicies{}
		}),
		Entry("not if the version is not known, and counts as 3.4", false, func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) { a.EtcdVersion = "" }),
		Entry("not with the image of the init container, which only a Local store uses", false, func(_ *druidv1alpha1.EtcdSpec, a *state.Accepted) {
			setImages(a, func(i *state.Images) { i.Init = "example.com/alpine:4" })
		}),
	)

	It("does not depend on defaults that the spec replaces", func() {
		own := func(image string) string {
			return of(func(spec *druidv1alpha1.EtcdSpec, a *state.Accepted) {
				spec.Etcd.Image = new("example.com/own:v1")
				setImages(a, func(i *state.Images) { i.EtcdWrapper = image })
			})
		}
		Expect(own("example.com/etcd-wrapper:v1")).To(Equal(own("example.com/etcd-wrapper:v2")))
		Expect(own("example.com/etcd-wrapper:v1")).NotTo(Equal(reference))
	})
})

var _ = It("knows all defaults that change pods", func() {
	var names []string
	for field := range reflect.TypeFor[state.Defaults]().Fields() {
		names = append(names, field.Name)
	}
	Expect(names).To(Equal([]string{"ImageSets", "IPFamilies", "NamespaceSelectors", "NetworkPolicies"}),
		"add a field that changes pods to Fingerprint and to Defaults.WithPodsOf. The limits then cover a version of the operator that renders another pod template with it")
})
