// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

var _ = DescribeTable("The exponent of a figure",
	func(values map[int]float64, expected float64) {
		exponent, known := report.Figure{Values: values}.Exponent()
		Expect(known).To(BeTrue())
		Expect(exponent).To(BeNumerically("~", expected, 0.001))
	},
	Entry("is 0 if it is constant", map[int]float64{300: 7, 1000: 7, 3000: 7}, 0.0),
	Entry("is 1 if it is linear", map[int]float64{300: 30, 1000: 100, 3000: 300}, 1.0),
	Entry("is 2 if it is quadratic", map[int]float64{10: 5, 20: 20, 40: 80}, 2.0),
	Entry("fits all values, not only the first and the last", map[int]float64{1: 1, 10: 100, 100: 100}, 1.0),
	Entry("ignores values that are 0", map[int]float64{10: 0, 100: 5, 1000: 50}, 1.0),
)

var _ = DescribeTable("The exponent of a figure is not known", func(values map[int]float64) {
	_, known := report.Figure{Values: values}.Exponent()
	Expect(known).To(BeFalse())
},
	Entry("without values", nil),
	Entry("with one value", map[int]float64{300: 5}),
	Entry("if only one value is above 0", map[int]float64{300: 0, 1000: 5}),
)

var _ = DescribeTable("A number", func(value float64, text string) { Expect(report.Number(value)).To(Equal(text)) },
	Entry("that is 0", 0.0, "0"),
	Entry("that is large", 1234567.0, "1,234,567"),
	Entry("with three digits before the decimal point", 300.0, "300"),
	Entry("with more than three significant digits", 12.345, "12.3"),
	Entry("below 1", 0.012345, "0.0123"),
	Entry("with zeros at its end", 2.5, "2.5"),
	Entry("that is negative", -1234.5, "-1,234"),
	Entry("that is infinite", math.Inf(1), "+Inf"),
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
			CPU:      []report.CPU{{Process: "operator", Seconds: n / 2}},
			Operator: report.Operator{ResidentBytes: int64(etcds) * 1e6, HeapBytes: 5e6, Goroutines: int64(10 * etcds)},
		},
		{Name: "idle", Seconds: 60, CPU: []report.CPU{{Process: "operator", Seconds: 6}}},
	}}
}

func figure(figures []report.Figure, phase, label string) report.Figure {
	GinkgoHelper()
	for _, f := range figures {
		if f.Phase == phase && f.Label() == label {
			return f
		}
	}
	Fail("there is no figure " + label)

	return report.Figure{}
}

var _ = DescribeTable("A request writes", func(verb, resource string, writes bool) {
	Expect(report.Requests{Verb: verb, Resource: resource}.IsWrite()).To(Equal(writes))
},
	Entry("if it creates an object", "create", "events", true),
	Entry("if it changes a status", "patch", "etcds/status", true),
	Entry("not if it reads", "watch", "etcds", false),
	Entry("not if it reviews a token", "create", "tokenreviews", false),
)

var _ = Describe("Figures", func() {
	figures := report.Figures([]report.Result{result("plaintext", 10), result("plaintext", 100)})

	It("have the values of each number of Etcds", func() {
		for label, values := range map[string]map[int]float64{
			"all Etcds are ready (s)":                        {10: 1, 100: 10},
			"requests of the operator":                       {10: 87, 100: 807},
			"writes of the operator, without its own Leases": {10: 60, 100: 600},
			"requests of all clients":                        {10: 88, 100: 808},
			"CPU of the operator (s)":                        {10: 5, 100: 50},
			"CPU of the operator (% of a core)":              {10: 50, 100: 50},
			"resident memory of the operator (MB)":           {10: 10, 100: 100},
			"live heap of the operator (MB)":                 {10: 5, 100: 5},
			"goroutines of the operator":                     {10: 100, 100: 1000},
		} {
			Expect(figure(figures, "creation", label).Values).To(Equal(values), label)
		}
		Expect(figure(figures, "idle", "CPU of the operator (% of a core)").Values).To(Equal(map[int]float64{10: 10, 100: 10}))
	})

	It("count the requests by client and verb, the most first", func() {
		var names []string
		for _, f := range report.RequestFigures([]report.Result{result("plaintext", 10)}) {
			names = append(names, f.Name)
		}
		Expect(names).To(HaveExactElements("operator patch", "operator get", "operator update", "kwok patch"))
	})
})

var _ = Describe("Markdown", func() {
	page := report.Markdown([]report.Result{result("tls", 100), result("plaintext", 100), result("plaintext", 10)})

	It("has a section for each fleet, with its commit and machine", func() {
		Expect(strings.Index(page, "## Fleet plaintext\n\nOperator: commit abc123. Machine: 2 cores.\n")).To(BeNumerically("<", strings.Index(page, "## Fleet tls\n")))
	})

	It("has the values and the exponent of each figure", func() {
		Expect(page).To(ContainSubstring("| Creation | 10 | 100 | exponent |\n|---|---|---|---|\n| all Etcds are ready (s) | 1 | 10 | 1.00 |\n"))
		Expect(page).To(ContainSubstring("| operator patch | 60 | 600 | 1.00 |\n"))
	})

	It("leaves the exponent empty if it is not known", func() { Expect(page).To(ContainSubstring("| all Etcds are ready (s) | 10 |  |\n")) })

	It("does not list rare requests", func() { Expect(page).NotTo(ContainSubstring("kwok patch")) })
})

var _ = Describe("HTML", func() {
	page, err := report.HTML([]report.Result{result("plaintext", 10), result("plaintext", 100), result("tls <b>", 10)})

	It("is valid, and escapes names", func() {
		Expect(err).NotTo(HaveOccurred())
		Expect(page).To(ContainSubstring("Fleet tls &lt;b&gt;"))
		decoder := xml.NewDecoder(strings.NewReader(page))
		decoder.Strict, decoder.AutoClose, decoder.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred())
		}
	})

	It("loads no other files", func() {
		Expect(page).NotTo(MatchRegexp(`(?i)\b(src|href)=|url\(|@import`))
	})

	It("has a plot for each figure with two values, and all points inside the plot", func() {
		figures := 0
		for _, f := range report.Figures([]report.Result{result("plaintext", 10), result("plaintext", 100)}) {
			if _, known := f.Exponent(); known {
				figures++
			}
		}
		Expect(strings.Count(page, "<svg ")).To(Equal(figures))
		points := regexp.MustCompile(`cx="([0-9.]+)" cy="([0-9.]+)"`).FindAllStringSubmatch(page, -1)
		Expect(points).To(HaveLen(2 * figures))
		for _, point := range points {
			Expect(point[1]).To(MatchRegexp(`^\d{2,3}(\.\d+)?$`))
			Expect(point[2]).To(MatchRegexp(`^\d{2,3}(\.\d+)?$`))
		}
	})
})
