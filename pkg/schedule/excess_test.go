// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/schedule"
)

var _ = Describe("Excess", func() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const never, daily, everyFiveMinutes = "0 0 30 2 *", "0 3 * * *", "*/5 * * * *"

	DescribeTable("is found if there are more than ten events in an hour in addition to the schedule",
		func(expression string, period time.Duration, found bool) {
			excess, since := schedule.Excess{}, time.Time{}
			for at := noon; at.Before(noon.Add(2 * time.Hour)); at = at.Add(period) {
				for _, later := range []time.Duration{0, period / 2} { // each event is observed twice
					since = excess.Observe(expression, at, at.Add(later))
				}
			}
			Expect(!since.IsZero()).To(Equal(found))
		},
		Entry("without a time at which the schedule is due", never, 15*time.Second, true),
		Entry("with a daily schedule", daily, 5*time.Minute, true),
		Entry("with a schedule that requests as many", everyFiveMinutes, 5*time.Minute, false),
		Entry("with a schedule that requests fewer", everyFiveMinutes, time.Minute, true),
		Entry("not for ten in an hour", daily, 7*time.Minute, false),
	)

	It("has a time that does not change until there are not too many events any more", func() {
		excess := schedule.Excess{}
		var since []time.Time
		for i := range 13 {
			at := noon.Add(time.Duration(i) * time.Minute)
			since = append(since, excess.Observe(daily, at, at))
		}
		Expect(since[:10]).To(HaveEach(BeZero()))
		Expect(since[10:]).To(HaveEach(Equal(noon.Add(10 * time.Minute))))
		Expect(excess.Observe(daily, noon.Add(12*time.Minute), noon.Add(63*time.Minute))).To(BeZero())
		Expect(excess.Observe(daily, time.Time{}, noon.Add(64*time.Minute))).To(BeZero())
	})
})
