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

var _ = Describe("ClusterLocks", func() {
	var (
		clock *testclock.FakePassiveClock
		locks *calls.ClusterLocks
	)

	BeforeEach(func() {
		clock = testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		locks = calls.NewClusterLocks(clock)
	})

	It("have one holder at a time for each object", func() {
		Expect(locks.TryLock("a", "one")).To(BeTrue())
		Expect(locks.TryLock("a", "one")).To(BeFalse())
		Expect(locks.TryLock("b", "one")).To(BeTrue())
		locks.Unlock("a", 0)
		Expect(locks.TryLock("a", "one")).To(BeTrue())
	})

	It("stay locked for other holders during the cooldown", func() {
		Expect(locks.TryLock("a", "one")).To(BeTrue())
		locks.Unlock("a", 5*time.Second)
		Expect(locks.TryLock("a", "other")).To(BeFalse())
		Expect(locks.TryLock("a", "one")).To(BeTrue(), "the cooldown does not apply to the same holder")
		locks.Unlock("a", 5*time.Second)
		clock.SetTime(clock.Now().Add(5 * time.Second))
		Expect(locks.TryLock("a", "other")).To(BeTrue())
	})

	It("are always free if they are nil", func() {
		locks = nil
		Expect(locks.TryLock("a", "one")).To(BeTrue())
		Expect(locks.TryLock("a", "one")).To(BeTrue())
		locks.Unlock("a", time.Second)
	})
})
