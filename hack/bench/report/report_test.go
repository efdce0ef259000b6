// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

var _ = DescribeTable("The exponent of a figure",
	func(values map[int]float64, expected string) { Expect(report.Exponent(values)).To(Equal(expected)) },
	Entry("is 0 if it is constant", map[int]float64{300: 7, 1000: 7, 3000: 7}, "0.00"),
	Entry("is 1 if it is linear", map[int]float64{300: 30, 1000: 100, 3000: 300}, "1.00"),
	Entry("is 2 if it is quadratic", map[int]float64{10: 5, 20: 20, 40: 80}, "2.00"),
	Entry("fits all values, not only the first and the last", map[int]float64{1: 1, 10: 100, 100: 100}, "1.00"),
	Entry("ignores values that are 0", map[int]float64{10: 0, 100: 5, 1000: 50}, "1.00"),
	Entry("is empty without values", nil, ""),
	Entry("is empty with one value", map[int]float64{300: 5}, ""),
	Entry("is empty if only one value is above 0", map[int]float64{300: 0, 1000: 5}, ""),
)

var _ = DescribeTable("A number", func(value float64, text string) { Expect(report.Number(value)).To(Equal(text)) },
	Entry("that is 0", 0.0, "0"),
	Entry("that is large", 1234567.0, "1,234,567"),
	Entry("with three digits before the decimal point", 300.0, "300"),
	Entry("with more than three significant digits", 12.345, "12.3"),
	Entry("below 1", 0.012345, "0.0123"),
	Entry("with zeros at its end", 2.5, "2.5"),
)

// result returns a result whose figures are linear.
func result(fleet string, etcds int) report.Result {
	n := float64(etcds)

	return report.Result{Fleet: fleet, Etcds: etcds, Commit: "abc123", Machine: "2 cores", Phases: []report.Phase{
		{
			Name: "creation", Seconds: n, Durations: []report.Duration{{Name: "all Etcds are ready", Seconds: n / 10}},
			Requests: []report.Requests{
				{Client: "operator", Verb: "patch", Resource: "etcds/status", Count: 6 * etcds},
				{Client: "operator", Verb: "get", Resource: "secrets", Count: 2 * etcds},
				{Client: "operator", Verb: "update", Resource: "leases", Own: true, Count: 7},
				{Client: "kwok", Verb: "patch", Resource: "pods/status", Count: 1},
			},
			CPU:      map[string]float64{"operator": n / 2},
			Operator: report.Operator{ResidentBytes: int64(etcds) * 1e6, HeapBytes: 5e6, Goroutines: int64(10 * etcds)},
		},
		{Name: "idle", Seconds: 60, CPU: map[string]float64{"operator": 6}},
	}}
}

var _ = DescribeTable("A request writes", func(verb, resource string, writes bool) {
	Expect(report.Requests{Verb: verb, Resource: resource}.IsWrite()).To(Equal(writes))
},
	Entry("if it creates an object", "create", "events", true),
	Entry("if it changes a status", "patch", "etcds/status", true),
	Entry("not if it reads", "watch", "etcds", false),
	Entry("not if it reviews a token", "create", "tokenreviews", false),
)

var _ = Describe("Markdown", func() {
	// The last phase of the largest run was not measured.
	interrupted := result("plaintext", 1000)
	interrupted.Phases = interrupted.Phases[:1]
	page := report.Markdown([]report.Result{result("tls", 100), result("plaintext", 100), interrupted, result("plaintext", 10)})

	It("has a section for each fleet, with its commit and machine", func() {
		Expect(strings.Index(page, "## Fleet plaintext\n\nOperator: commit abc123. Machine: 2 cores.\n")).To(BeZero())
		Expect(page).To(ContainSubstring("\n\n## Fleet tls\n\nOperator"))
	})

	It("has the values and the exponent of each figure", func() {
		Expect(page).To(ContainSubstring(`
| Creation | 10 | 100 | 1,000 | exponent |
|---|---|---|---|---|
| all Etcds are ready (s) | 1 | 10 | 100 | 1.00 |
| requests of the operator | 87 | 807 | 8,007 | 0.98 |
| writes of the operator, without its own Leases | 60 | 600 | 6,000 | 1.00 |
| requests of all clients | 88 | 808 | 8,008 | 0.98 |
| CPU of the operator (s) | 5 | 50 | 500 | 1.00 |
| CPU of the operator (% of a core) | 50 | 50 | 50 | 0.00 |
| resident memory of the operator (MB) | 10 | 100 | 1,000 | 1.00 |
| live heap of the operator (MB) | 5 | 5 | 5 | 0.00 |
| goroutines of the operator | 100 | 1,000 | 10,000 | 1.00 |
`))
	})

	It("leaves a figure empty that was not measured", func() {
		Expect(page).To(ContainSubstring("| CPU of the operator (% of a core) | 10 | 10 | | 0.00 |\n"))
	})

	It("leaves the exponent empty if it is not known", func() { Expect(page).To(ContainSubstring("| all Etcds are ready (s) | 10 |  |\n")) })
})
