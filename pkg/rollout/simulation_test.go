// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	tick         = 30 * time.Second
	canaryPeriod = 5 * time.Minute
	timeout      = 10 * time.Minute
)

// member is one simulated Etcd with what its ManagedResource records.
type member struct {
	rollout.Cluster

	// requested is true if newer defaults were accepted, and delayed.
	requested bool
	// pods are the defaults of the running pods.
	pods string
	// replaceAt is when the pods are replaced. Zero: they are up to date.
	replaceAt time.Time
	// readySince is since when all pods are ready. Zero: they are not.
	readySince time.Time
	// faulty is true while something else than the defaults prevents that the pods are ready.
	faulty bool
	// own is true if the spec names all images.
	own bool
	// declines is true if the reconciliation cannot use a grant.
	declines bool
	// disrupted is true from the begin of an update until all pods were ready with it for the canary period.
	disrupted bool
	// excused is true for an Etcd that was not healthy before its update, or that a user has changed meanwhile.
	excused bool
}

// seed is a simulated operator with many Etcds. The caches of the operator lag behind by one tick.
type seed struct {
	now    time.Time
	random *rand.Rand
	limits rollout.Limits
	// defaults are those of the installed operator, and broken those with which no pod becomes ready.
	defaults string
	broken   map[string]bool
	etcds    map[string]*member
	grants   rollout.Grants
	cached   []rollout.Cluster
	decision rollout.Decision
	created  int
	// excess is the number of slots that the limits do not count: the most updates that had failed in one namespace.
	excess int
	// began are the Etcds whose update has begun, in this order.
	began []string
}

func newSeed(number int64, etcds int, limits rollout.Limits) *seed {
	s := &seed{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), random: rand.New(rand.NewSource(number)), // #nosec G404 -- repeatable on purpose
		limits: limits, defaults: "v1", broken: map[string]bool{}, etcds: map[string]*member{},
	}
	for range etcds {
		s.create()
	}
	s.now = s.now.Add(time.Hour)

	return s
}

// create creates an Etcd. Each namespace has two.
func (s *seed) create() {
	s.created++
	key := fmt.Sprintf("shoot-%03d/%s", s.created/2, []string{"main", "events"}[s.created%2])
	zones := []string{fmt.Sprintf("zone-%d", s.created%3)}
	members := 1
	if s.created%4 == 0 {
		members, zones = 3, []string{"zone-0", "zone-1", "zone-2"}
	}
	s.add(key, members, zones...)
}

// add adds a healthy Etcd.
func (s *seed) add(key string, members int, zones ...string) {
	s.etcds[key] = &member{pods: s.defaults, readySince: s.now, Cluster: rollout.Cluster{
		Key: key, UID: types.UID("uid of " + key), Zones: zones, Members: members, Defaults: s.defaults, Healthy: true, HealthChangedAt: s.now,
	}}
}

// upgrade installs an operator with other defaults. Its memory is empty.
func (s *seed) upgrade(defaults string, broken bool) {
	s.defaults, s.broken[defaults] = defaults, broken
	s.restart()
}

func (s *seed) restart() {
	s.grants = rollout.Grants{}
	s.cached = s.records() // the caches are filled before the operator acts
}

// request accepts a generation or an operation annotation of an Etcd.
func (s *seed) request(m *member) { m.requested = true }

func (s *seed) requestAll() {
	for _, m := range s.sorted() {
		s.request(m)
	}
}

func (s *seed) sorted() []*member {
	var all []*member
	for _, m := range s.etcds {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *member) int { return strings.Compare(a.Key, b.Key) })

	return all
}

// waits is what package target decides.
func (s *seed) waits(m *member) string {
	if m.own || m.Suspended || m.Defaults == s.defaults || !m.requested && (!m.Update.IsUnfinished() || m.Update.To != m.Defaults) {
		return ""
	}

	return s.defaults
}

func (s *seed) records() []rollout.Cluster {
	var clusters []rollout.Cluster
	for _, m := range s.sorted() {
		c := m.Cluster
		c.Waits = s.waits(m)
		if m.Update != nil && m.Update.To != m.Defaults {
			c.Update = nil
		}
		clusters = append(clusters, c)
	}

	return clusters
}

// step advances all Etcds, and lets the operator decide and reconcile.
func (s *seed) step() {
	before := s.records()
	s.decision = rollout.Decide(s.grants.Merge(s.cached, s.now), s.limits, s.now)
	s.grants.Add(s.decision.Grants, s.now)
	failed := map[string]int{}
	for key, delay := range s.decision.Delays {
		if delay.Reason == rollout.UpdateFailed {
			failed[namespaceOf(key)]++
			s.excess = max(s.excess, failed[namespaceOf(key)])
		}
	}
	for _, m := range s.sorted() {
		if s.random.Intn(4) > 0 {
			s.reconcile(m)
		}
	}
	s.now = s.now.Add(tick)
	for _, m := range s.sorted() {
		s.advance(m)
	}
	s.cached = before
	if s.random.Intn(2) == 0 {
		s.cached = s.records()
	}
}

// reconcile is a reconciliation of one Etcd: it uses a grant, and records the progress.
func (s *seed) reconcile(m *member) {
	granted := s.grants.Begin(m.Key)
	outcome := rollout.Declined
	switch {
	case m.Suspended, granted != nil && m.declines:
	case granted != nil && granted.To == s.waits(m) && granted.From == m.Defaults && (m.Healthy || !granted.Canary):
		outcome = rollout.Written
		if s.random.Intn(10) == 0 {
			outcome = rollout.Interrupted

			break
		}
		m.excused = m.excused || !granted.Healthy
		m.requested, m.Defaults = false, granted.To
		if !m.Hibernated {
			granted.StartedAt = s.now
			m.Update, m.replaceAt = granted, s.now.Add(time.Duration(s.random.Intn(4))*tick)
			m.disrupted = true
			s.began = append(s.began, m.Key)
		}
	default:
		m.Update, _ = rollout.Next(m.Update, rollout.Progress{Defaults: m.Defaults, Hibernated: m.Hibernated, RolledOut: m.replaceAt.IsZero() && m.pods == m.Defaults, ReadySince: m.readySince}, s.limits.CanaryPeriod, s.now)
	}
	s.grants.End(m.Key, outcome, s.now)
}

// advance replaces pods, and lets them become ready.
func (s *seed) advance(m *member) {
	if !m.replaceAt.IsZero() && !s.now.Before(m.replaceAt) && !m.Suspended {
		m.pods, m.replaceAt, m.readySince = m.Defaults, time.Time{}, time.Time{}
	} else if isReady := !m.Hibernated && !m.faulty && !s.broken[m.pods]; !isReady {
		m.readySince = time.Time{}
	} else if m.readySince.IsZero() {
		m.readySince = s.now
	}
	if m.replaceAt.IsZero() && m.pods == m.Defaults && !m.readySince.IsZero() && m.Update != nil && s.now.Sub(m.readySince) >= canaryPeriod && s.now.Sub(m.Update.StartedAt) >= canaryPeriod {
		m.disrupted = false
	}
	if healthy := !m.readySince.IsZero(); healthy != m.Healthy {
		m.Healthy, m.HealthChangedAt = healthy, s.now
	}
}

// brokenByUpdate are the Etcds that were healthy, and are not since their update.
func (s *seed) brokenByUpdate() int {
	count := 0
	for _, m := range s.etcds {
		if s.broken[m.pods] && m.Update != nil && !m.excused && !m.Hibernated {
			count++
		}
	}

	return count
}

// disrupted are the Etcds whose update has begun, and that were not ready with it for the canary period.
func (s *seed) disrupted(is func(*member) bool) int {
	count := 0
	for _, m := range s.etcds {
		if m.disrupted && !m.excused && is(m) {
			count++
		}
	}

	return count
}

func (s *seed) expectLimits() {
	GinkgoHelper()
	Expect(s.disrupted(func(*member) bool { return true })).To(BeNumerically("<=", s.limits.Total.Of(len(s.etcds))+s.excess), "in total at %s", s.now)
	Expect(s.brokenByUpdate()).To(BeNumerically("<=", s.limits.Total.Of(len(s.etcds))+s.excess), "broken at %s", s.now)
	if s.limits.PerZone.Number == nil {
		return
	}
	for _, zone := range []string{"zone-0", "zone-1", "zone-2"} {
		in := func(m *member) bool { return slices.Contains(m.Zones, zone) }
		Expect(s.disrupted(in)).To(BeNumerically("<=", *s.limits.PerZone.Number+s.excess), "%s at %s", zone, s.now)
	}
}

// run steps for the time, and checks the limits.
func (s *seed) run(limit time.Duration) {
	GinkgoHelper()
	for until := s.now.Add(limit); s.now.Before(until); {
		s.step()
		s.expectLimits()
	}
}

// finish runs until no Etcd waits and no update is unfinished, or for at most two days.
func (s *seed) finish() {
	GinkgoHelper()
	s.run(5 * time.Minute)
	for until := s.now.Add(48 * time.Hour); s.now.Before(until) && len(s.decision.Changes) > 0; {
		s.step()
		s.expectLimits()
	}
}

func namespaceOf(key string) string { return strings.Split(key, "/")[0] }

func (s *seed) updatedTo(defaults string) int {
	count := 0
	for _, m := range s.etcds {
		if m.pods == defaults && m.Update.HasPassed() {
			count++
		}
	}

	return count
}

var defaultLimits = rollout.Limits{
	Total: rollout.Limit{Number: new(20), Percentage: new(10)}, PerZone: rollout.Limit{Percentage: new(10)}, PerChange: rollout.Limit{Percentage: new(10)},
	Canaries: 1, CanaryPeriod: canaryPeriod, Timeout: timeout,
}

var _ = Describe("200 Etcds", func() {
	var s *seed
	BeforeEach(func() { s = newSeed(1, 200, defaultLimits) })

	It("change to new defaults in slots", func() {
		s.upgrade("v2", false)
		s.requestAll()
		begin := s.now
		s.finish()
		Expect(s.now.Sub(begin)).To(BeNumerically("<", 3*time.Hour))
		Expect(s.updatedTo("v2")).To(Equal(200))
		Expect(s.etcds[s.began[0]].Members).To(Equal(3), "the canary")
		Expect(s.decision.Changes).To(BeEmpty())
	})

	It("break only canaries of two namespaces if the new defaults are broken", func() {
		s.upgrade("v2", true)
		s.requestAll()
		s.run(2 * time.Hour)
		Expect(s.began).To(HaveLen(2))
		Expect(namespaceOf(s.began[0])).NotTo(Equal(namespaceOf(s.began[1])))
		Expect(s.brokenByUpdate()).To(Equal(2))
		Expect(s.decision.Changes).To(ConsistOf(rollout.Progressed{Change: state.Change{From: "v1", To: "v2"}, Waiting: 198, Failed: 2, Stopped: true}))
		for _, canary := range s.began {
			Expect(s.decision.Delays[canary].Reason).To(Equal(rollout.UpdateFailed))
		}

		By("repairing the canaries and all others with other defaults")
		s.upgrade("v3", false)
		s.finish()
		Expect(s.updatedTo("v3")).To(Equal(200))
	})

	It("break only canaries of two namespaces although each one restarts for its spec when it accepts the new defaults", func() {
		s.upgrade("v2", true)
		for _, m := range s.sorted() {
			m.replaceAt, m.faulty = s.now, true
			s.request(m)
			s.run(3 * tick)
			m.faulty = false
			s.run(tick)
		}
		Expect(s.began).To(HaveLen(2))
		Expect(s.decision.Changes).To(ConsistOf(HaveField("Stopped", true)))
	})

	It("break at most the limit, and those of one namespace, if the canary is not affected", func() {
		s.upgrade("v2", true)
		s.requestAll()
		for len(s.began) == 0 {
			s.step()
		}
		canary := s.etcds[s.began[0]]
		s.broken["v2"] = false
		for !canary.Update.HasPassed() {
			s.step()
		}
		s.broken["v2"] = true
		canary.excused = true
		s.run(4 * time.Hour)
		Expect(s.brokenByUpdate()).To(And(BeNumerically(">=", 20), BeNumerically("<=", 20+2)))
		Expect(s.decision.Changes).To(ConsistOf(HaveField("Stopped", true)))
	})

	It("return to the earlier defaults with the earlier operator", func() {
		s.upgrade("v2", true)
		s.requestAll()
		s.run(time.Hour)
		s.upgrade("v1", false)
		s.run(time.Hour)
		Expect(s.brokenByUpdate()).To(BeZero())
		for _, m := range s.etcds {
			Expect(m.pods).To(Equal("v1"))
		}
		Expect(s.decision.Changes).To(BeEmpty())
	})

	It("break at most the limit with one broken version after the other", func() {
		for i := range 10 {
			s.upgrade(fmt.Sprintf("v%d", i+2), true)
			s.requestAll()
			s.run(time.Hour)
		}
		Expect(s.brokenByUpdate()).To(BeNumerically("<=", 20+2))
		s.upgrade("v99", false)
		s.finish()
		Expect(s.updatedTo("v99")).To(Equal(200))
	})
})

// The namespace "hostile" has the only multi-member clusters, so that one of them is the first canary.
var _ = Describe("The author of the first canary", func() {
	hasBegun := func(m *member) bool { return m.Update != nil }
	// flap lets the members be ready, but never for the canary period.
	flap := func(s *seed, m *member) {
		m.faulty = hasBegun(m) && int(s.now.Sub(m.Update.StartedAt)/time.Minute)%4 == 3
	}
	// late is shortly before an update has failed that flaps.
	late := func(s *seed, m *member) bool {
		return hasBegun(m) && s.now.Sub(m.Update.StartedAt) >= 55*time.Minute
	}
	start := func(etcds, hostile int) *seed {
		s := newSeed(1, etcds, defaultLimits)
		for _, m := range s.etcds {
			m.Members = 1
		}
		for i := range hostile {
			s.add(fmt.Sprintf("hostile/%d", i), 3, "zone-0", "zone-1", "zone-2")
		}
		s.now = s.now.Add(time.Hour)
		s.upgrade("v2", false)
		s.requestAll()

		return s
	}

	DescribeTable("delays the Etcds of others by at most one more canary", func(act func(*seed, *member)) {
		for etcds, hostile := range map[int]int{60: 1, 61: 8, 9: 1} {
			By(fmt.Sprintf("%d Etcds of others, and %d hostile ones", etcds, hostile))
			undisturbed, disturbed := start(etcds, hostile).timesOfOthers(nil), start(etcds, hostile).timesOfOthers(act)
			// The first canary has failed after six timeouts. The other one must be ready for the canary period.
			Expect(disturbed.proven-undisturbed.proven).To(BeNumerically("<", 6*timeout+canaryPeriod+5*time.Minute), "until the change is proven")
			if hostile == 1 {
				Expect(disturbed.finished-undisturbed.finished).To(BeNumerically("<", 6*timeout+canaryPeriod+10*time.Minute), "until all are updated")
			}
		}
	},
		Entry("which is never ready", func(_ *seed, m *member) { m.faulty = hasBegun(m) }),
		Entry("which is never ready for the canary period", flap),
		Entry("which is suspended while it is not ready", func(_ *seed, m *member) {
			m.faulty = hasBegun(m)
			m.Suspended = hasBegun(m) && !m.Healthy
		}),
		Entry("which is suspended late", func(s *seed, m *member) {
			flap(s, m)
			m.Suspended = late(s, m)
		}),
		Entry("which hibernates late", func(s *seed, m *member) {
			flap(s, m)
			m.Hibernated = m.Hibernated || late(s, m)
		}),
		Entry("which is deleted late", func(s *seed, m *member) {
			flap(s, m)
			if late(s, m) {
				delete(s.etcds, m.Key)
			}
		}),
		Entry("which changes to its own images late", func(s *seed, m *member) {
			flap(s, m)
			if late(s, m) {
				m.own, m.Defaults = true, "own"
			}
		}),
		Entry("which declines all grants", func(_ *seed, m *member) { m.declines = true }),
	)
})

// times are the durations from the request until others than the namespace "hostile" begin after their canary, and until all of them are updated.
type times struct{ proven, finished time.Duration }

// timesOfOthers steps until all other Etcds are updated, or for at most two days. Each Etcd in the namespace "hostile" acts before each step.
func (s *seed) timesOfOthers(act func(*seed, *member)) times {
	GinkgoHelper()
	begin, found := s.now, times{proven: 48 * time.Hour, finished: 48 * time.Hour}
	for s.now.Sub(begin) < found.finished {
		updated, others := 0, 0
		for _, m := range s.sorted() {
			switch {
			case namespaceOf(m.Key) != "hostile":
				others++
				if m.pods == "v2" && m.Update.HasPassed() {
					updated++
				}
			case act != nil:
				m.excused = true
				act(s, m)
			}
		}
		if begun := slices.DeleteFunc(slices.Clone(s.began), func(key string) bool { return namespaceOf(key) == "hostile" }); len(begun) > 1 {
			found.proven = min(found.proven, s.now.Sub(begin))
		}
		if updated == others {
			found.finished = s.now.Sub(begin)
		}
		s.step()
		s.expectLimits()
	}

	return found
}

var _ = Describe("Random sequences", func() {
	It("of the author of one namespace hold back no other Etcd", func() {
		for number := range int64(30) {
			random := rand.New(rand.NewSource(number)) // #nosec G404 -- repeatable on purpose
			etcds, hostile, total, canaries, leave := 4+random.Intn(30), 1+random.Intn(3), 1+random.Intn(3), 1+random.Intn(2), random.Intn(2) == 0
			By(fmt.Sprintf("sequence %d: %d Etcds of others, %d hostile ones, %d slots, %d canaries", number, etcds, hostile, total, canaries))
			start := func() *seed {
				s := newSeed(number, etcds, rollout.Limits{Total: rollout.Limit{Number: &total}, Canaries: canaries, CanaryPeriod: canaryPeriod, Timeout: timeout})
				for i := range hostile {
					s.add(fmt.Sprintf("hostile/%d", i), 3, "zone-0", "zone-1", "zone-2")
				}
				s.upgrade("v2", false)
				s.requestAll()

				return s
			}
			undisturbed := start().timesOfOthers(nil)
			disturbed := start().timesOfOthers(func(s *seed, m *member) {
				switch random.Intn(40) {
				case 0, 1:
					m.faulty = true
				case 2:
					m.faulty = false
				case 3:
					m.Suspended = !m.Suspended
				case 4:
					m.declines = !m.declines
				case 5:
					m.Hibernated = leave && random.Intn(4) == 0
				case 6:
					if leave && random.Intn(10) == 0 {
						delete(s.etcds, m.Key)
					}
				}
				if m.Update.IsUnfinished() && s.now.Sub(m.readySince) > canaryPeriod/2 {
					m.faulty = true // it never passes
				}
			})
			// Each hostile Etcd uses a slot of others once, until its update has failed.
			Expect(disturbed.finished-undisturbed.finished).To(BeNumerically("<", time.Duration(hostile)*6*timeout+max(30*time.Minute, undisturbed.finished/10)), "sequence %d", number)
		}
	})

	It("never exceed the limits, and end when nothing fails", func() {
		for number := range int64(30) {
			By(fmt.Sprintf("sequence %d", number))
			random := rand.New(rand.NewSource(number)) // #nosec G404 -- repeatable on purpose
			limits := rollout.Limits{
				Total: rollout.Limit{Number: new(1 + random.Intn(8))}, PerZone: rollout.Limit{Number: new(1 + random.Intn(5))}, PerChange: rollout.Limit{Number: new(1 + random.Intn(8))},
				Canaries: random.Intn(3), CanaryPeriod: canaryPeriod, Timeout: timeout,
			}
			s := newSeed(number, 10+random.Intn(30), limits)
			for i := range 60 {
				s.fault(i)
				s.run(time.Duration(random.Intn(20)) * tick)
			}
			s.repairAll()
			s.finish()
			Expect(s.decision.Changes).To(BeEmpty(), "sequence %d", number)
			for _, m := range s.etcds {
				Expect(m.own || m.pods == "final").To(BeTrue(), "sequence %d: %s has %s", number, m.Key, m.pods)
			}
		}
	})
})

// fault does something to a random Etcd or to the operator.
func (s *seed) fault(i int) {
	all := s.sorted()
	m := all[s.random.Intn(len(all))]
	switch s.random.Intn(14) {
	case 0:
		m.faulty = true
	case 1, 2:
		m.faulty = false
	case 3:
		delete(s.etcds, m.Key)
	case 4, 5:
		s.create()
	case 6:
		s.restart()
	case 7:
		s.upgrade(fmt.Sprintf("v%d", i+2), s.random.Intn(3) == 0)
		s.requestAll()
	case 8:
		m.Hibernated, m.excused = !m.Hibernated, true // it wakes up with what is rendered
	case 9:
		m.Suspended, m.excused = !m.Suspended, true // it continues without a slot
	case 10:
		m.own, m.excused = true, true
		m.Defaults, m.replaceAt = "own", s.now
	case 11, 12:
		s.requestAll()
	case 13:
		s.restart()
		s.request(m)
	}
}

// repairAll ends all faults, and installs an operator with working defaults.
func (s *seed) repairAll() {
	for _, m := range s.etcds {
		m.faulty, m.Hibernated, m.Suspended = false, false, false
	}
	s.upgrade("final", false)
	s.requestAll()
}
