// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package dbsize_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/dbsize"
)

var _ = Describe("QuotaReachedIn", func() {
	const gibibyte = 1 << 30
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	// observe observes the sizes for a duration, once a minute.
	observe := func(duration time.Duration, size func(after time.Duration) int64) *dbsize.History {
		history := &dbsize.History{}
		for after := time.Duration(0); after < duration; after += time.Minute {
			history.Add(noon.Add(after), size(after))
		}

		return history
	}
	perHour := func(bytes int64) func(time.Duration) int64 {
		return func(after time.Duration) int64 { return gibibyte + int64(after.Hours()*float64(bytes)) }
	}

	DescribeTable("predicts",
		func(duration time.Duration, size func(time.Duration) int64, expected time.Duration) {
			Expect(observe(duration, size).QuotaReachedIn(8 * gibibyte)).To(BeNumerically("~", expected, expected/10))
		},
		Entry("nothing without an observation", time.Duration(0), perHour(0), time.Duration(0)),
		Entry("nothing before an hour has passed", 50*time.Minute, perHour(gibibyte), time.Duration(0)),
		Entry("nothing if the size stays", 24*time.Hour, perHour(0), time.Duration(0)),
		Entry("nothing if the size decreases", 5*time.Hour, perHour(-gibibyte/10), time.Duration(0)),
		Entry("nothing if it takes years", 24*time.Hour, perHour(1<<19), time.Duration(0)),
		Entry("the time of a steady increase", 2*time.Hour, perHour(gibibyte), 5*time.Hour),
		Entry("the time of a steady increase, although the history is compacted every five minutes", 24*time.Hour, func(after time.Duration) int64 {
			return perHour(gibibyte/100)(after) + int64(after%(5*time.Minute))/1000
		}, 676*time.Hour),
		Entry("the increase of the last day only", 48*time.Hour, func(after time.Duration) int64 {
			return gibibyte + int64(max(0, after-24*time.Hour).Hours()*gibibyte/10)
		}, 46*time.Hour),
		Entry("a second if the quota is reached", 2*time.Hour, perHour(10*gibibyte), time.Second),
	)

	It("ignores that no member responded", func() {
		history := observe(2*time.Hour, perHour(gibibyte))
		before := history.QuotaReachedIn(8 * gibibyte)
		history.Add(noon.Add(3*time.Hour), 0)
		Expect(history.QuotaReachedIn(8 * gibibyte)).To(Equal(before))
	})
})
