// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	testclock "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

var _ = Describe("Turns", func() {
	var (
		clock *testclock.FakePassiveClock
		turns *calls.Turns
	)

	BeforeEach(func() {
		clock = testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		turns = calls.NewTurns(clock)
	})

	It("are taken by one at a time for each object", func() {
		Expect(turns.Take("a", "one")).To(BeTrue())
		Expect(turns.Take("a", "one")).To(BeFalse())
		Expect(turns.Take("b", "one")).To(BeTrue())
		turns.Give("a", 0)
		Expect(turns.Take("a", "one")).To(BeTrue())
	})

	It("rest until all have seen what was done", func() {
		Expect(turns.Take("a", "one")).To(BeTrue())
		turns.Give("a", 5*time.Second)
		Expect(turns.Take("a", "other")).To(BeFalse())
		Expect(turns.Take("a", "one")).To(BeTrue(), "who did it knows")
		turns.Give("a", 5*time.Second)
		clock.SetTime(clock.Now().Add(5 * time.Second))
		Expect(turns.Take("a", "other")).To(BeTrue())
	})

	It("are always free where there are none", func() {
		turns = nil
		Expect(turns.Take("a", "one")).To(BeTrue())
		Expect(turns.Take("a", "one")).To(BeTrue())
		turns.Give("a", time.Second)
	})
})
