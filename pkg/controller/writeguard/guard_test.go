// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package writeguard_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/writeguard"
)

var object = types.NamespacedName{Namespace: "demo", Name: "main"}

// round is one reconciliation. It observes a state, and acts unless the guard delays it.
type round struct {
	// after is the time since the previous round.
	after time.Duration
	// observes is the fingerprint of the observed state.
	observes string
	// acts is false for a round that only reads.
	acts bool
}

// every returns rounds with equal intervals.
func every(after time.Duration, count int, acts bool, observes func(i int) string) []round {
	var rounds []round
	for i := range count {
		rounds = append(rounds, round{after: after, observes: observes(i), acts: acts})
	}
	return rounds
}

func same(int) string       { return "same" }
func toggling(i int) string { return fmt.Sprint(i % 2) }
func always(i int) string   { return fmt.Sprint(i) }

var _ = Describe("Guard", func() {
	var (
		guard *writeguard.Guard
		clock *testclock.FakeClock
	)
	BeforeEach(func() {
		guard, clock = &writeguard.Guard{}, testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	})

	// play returns the number of rounds that acted, of rounds that were delayed, and of loops that began.
	play := func(rounds []round) (acted, delayed, loops int) {
		for _, round := range rounds {
			clock.Step(round.after)
			switch {
			case guard.Observe(object, round.observes, clock.Now()) > 0:
				delayed++
			case round.acts:
				acted++
				if _, begins := guard.RecordActs(object, clock.Now(), writeguard.LongestPause); begins {
					loops++
				}
			default:
				guard.RecordNoActs(object, clock.Now())
			}
		}
		return acted, delayed, loops
	}

	DescribeTable("lets objects act", func(rounds []round) {
		acted, delayed, loops := play(rounds)
		Expect(delayed).To(BeZero())
		Expect(loops).To(BeZero())
		Expect(guard.IsLooping(object, clock.Now())).To(BeFalse())
		if rounds[0].acts {
			Expect(acted).To(Equal(len(rounds)))
		}
	},
		Entry("30 times a minute, for an hour", every(2*time.Second, 1800, true, same)),
		Entry("30 times at once", every(0, 30, true, same)),
		Entry("300 times a minute where each observation is new", every(200*time.Millisecond, 3000, true, always)),
		Entry("after polling 300 times a minute", append(every(200*time.Millisecond, 3000, false, same), every(time.Second, 30, true, same)...)),
		Entry("never, while it polls", every(200*time.Millisecond, 3000, false, same)),
	)

	DescribeTable("slows down an object", func(rounds []round, mostActs int) {
		acted, delayed, loops := play(rounds)
		Expect(acted).To(BeNumerically("<=", mostActs))
		Expect(delayed).To(Equal(len(rounds) - acted))
		Expect(loops).To(Equal(1))
		Expect(guard.IsLooping(object, clock.Now())).To(BeTrue())
	},
		// 31 acts, then after 10s, 20s, 40s, 80s, 160s, and every 300s.
		Entry("that acts five times a second for ten minutes", every(200*time.Millisecond, 3000, true, same), 31+6),
		Entry("that acts every 1.9 seconds for an hour", every(1900*time.Millisecond, 1895, true, same), 33+5+11),
		Entry("that alternates between two states", every(200*time.Millisecond, 3000, true, toggling), 33+6),
	)

	It("makes each pause twice as long, up to five minutes", func() {
		play(every(time.Second, 30, true, same))
		var pauses []time.Duration
		for range 8 {
			pause, _ := guard.RecordActs(object, clock.Now(), writeguard.LongestPause)
			pauses = append(pauses, pause)
			Expect(guard.Observe(object, "same", clock.Now())).To(Equal(pause))
			clock.Step(pause)
			Expect(guard.Observe(object, "same", clock.Now())).To(BeZero())
		}
		Expect(pauses).To(Equal([]time.Duration{
			10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute, 5 * time.Minute,
		}))
	})

	It("makes no pause longer than the caller allows", func() {
		play(every(time.Second, 31, true, same))
		for range 5 {
			pause, _ := guard.RecordActs(object, clock.Now(), writeguard.FirstPause)
			Expect(pause).To(Equal(10 * time.Second))
			clock.Step(pause)
		}
	})

	It("ends the pause at a new observation, and resets the count", func() {
		play(every(time.Second, 31, true, same))
		Expect(guard.Observe(object, "same", clock.Now())).To(BeNumerically(">", 0))
		Expect(guard.Observe(object, "other", clock.Now())).To(BeZero())
		Expect(guard.IsLooping(object, clock.Now())).To(BeFalse())
		Expect(guard.Observe(object, "same", clock.Now())).To(BeZero(), "the pause has ended")
		_, delayed, loops := play(every(time.Second, 31, true, same))
		Expect(delayed).To(BeZero())
		Expect(loops).To(Equal(1))
	})

	It("ends a loop a minute after its last pause", func() {
		play(every(time.Second, 31, true, same))
		clock.Step(10 * time.Second)
		Expect(guard.RecordNoActs(object, clock.Now())).To(Equal(time.Minute))
		Expect(guard.IsLooping(object, clock.Now())).To(BeTrue())
		clock.Step(59 * time.Second)
		Expect(guard.RecordNoActs(object, clock.Now())).To(Equal(time.Second))
		clock.Step(time.Second)
		Expect(guard.IsLooping(object, clock.Now())).To(BeFalse())

		By("letting the reconciliation act that reports the end")
		pause, _ := guard.RecordActs(object, clock.Now(), writeguard.LongestPause)
		Expect(pause).To(BeZero())
		Expect(guard.RecordNoActs(object, clock.Now())).To(BeZero())
	})

	It("doubles the pause of an object that acts within that minute", func() {
		play(every(time.Second, 31, true, same))
		clock.Step(69 * time.Second)
		pause, begins := guard.RecordActs(object, clock.Now(), writeguard.LongestPause)
		Expect(pause).To(Equal(20 * time.Second))
		Expect(begins).To(BeFalse())
	})

	It("distinguishes objects, and deletes the records of deleted ones", func() {
		play(every(0, 31, true, same))
		other := types.NamespacedName{Namespace: "demo", Name: "other"}
		Expect(guard.Observe(other, "same", clock.Now())).To(BeZero())
		Expect(guard.IsLooping(other, clock.Now())).To(BeFalse())
		guard.Delete(object)
		Expect(guard.IsLooping(object, clock.Now())).To(BeFalse())
		Expect(guard.Observe(object, "same", clock.Now())).To(BeZero())
	})
})
