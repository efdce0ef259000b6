// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const series = `
  desired{etcd="a"} 3x40
  desired{etcd="b"} 0x20 stale
  expires{etcd="a",secret="server"} 172800x40
  total{step="Evict"} 0x8 4x31
  total{step="Move"} 0x8 8x31
  total{step="Nothing"} 0x39`

const dashboard = `{"title": "Test", "templating": {"list": [{"name": "etcd", "label": "Etcd"}]}, "panels": [
  {"type": "row", "title": "Now", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}},
  {"type": "stat", "title": "Number", "gridPos": {"x": 0, "y": 1, "w": 4, "h": 4}, "targets": [{"expr": "count(desired)", "instant": true}],
   "options": {"colorMode": "background"}, "fieldConfig": {"defaults": {"thresholds": {"steps": [{"color": "green", "value": null}, {"color": "red", "value": 1}]}}}},
  {"type": "stat", "title": "Nothing", "gridPos": {"x": 4, "y": 1, "w": 4, "h": 4}, "targets": [{"expr": "absent_metric", "instant": true}],
   "fieldConfig": {"defaults": {"noValue": "Never"}}},
  {"type": "table", "title": "Table", "gridPos": {"x": 8, "y": 1, "w": 16, "h": 4}, "targets": [{"expr": "expires{etcd=\"$etcd\"}", "instant": true, "format": "table"}],
   "transformations": [{"id": "organize", "options": {"excludeByName": {"Time": true, "__name__": true}, "indexByName": {"secret": 0, "etcd": 1, "Value": 2}, "renameByName": {"Value": "Left"}}}],
   "fieldConfig": {"defaults": {}, "overrides": [{"matcher": {"options": "Left"}, "properties": [{"id": "unit", "value": "s"}]}]}},
  {"type": "graph", "title": "Graph", "gridPos": {"x": 0, "y": 5, "w": 24, "h": 8}, "targets": [{"expr": "sum by (step) (increase(total[1m]))", "legendFormat": "{{step}}"}],
   "legend": {"hideZero": true, "sort": "max", "sortDesc": true}, "yaxes": [{"format": "short", "min": 0}]}
]}`

var _ = Describe("A page", func() {
	pageAt := func(ctx SpecContext, after time.Duration) *Page {
		GinkgoHelper()

		recording := recordingOf(series)
		prometheus, err := NewPrometheus(ctx, recording)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(prometheus.Close)

		file := filepath.Join(GinkgoT().TempDir(), "dashboard.json")
		Expect(os.WriteFile(file, []byte(dashboard), 0o600)).To(Succeed())

		variables := map[string]string{"etcd": "a"}
		parsed, err := ReadDashboard(file, variables)
		Expect(err).NotTo(HaveOccurred())

		page, err := prometheus.Page(ctx, parsed, variables, Range{From: recording.Start, To: recording.Start.Add(after)}, 1200)
		Expect(err).NotTo(HaveOccurred())

		return page
	}

	It("shows the value at the end of its time, in the color of its threshold", func(ctx SpecContext) {
		Expect(pageAt(ctx, 3*time.Minute).Panels[1].Stats).To(ConsistOf(HaveField("Text", "2")))

		stats := pageAt(ctx, 6*time.Minute).Panels[1].Stats
		Expect(stats).To(ConsistOf(And(HaveField("Text", "1"), HaveField("Color", hex("red")), HaveField("Background", true))))
	})

	It("shows the text for no value", func(ctx SpecContext) {
		Expect(pageAt(ctx, time.Minute).Panels[2].Stats).To(ConsistOf(HaveField("Text", "Never")))
	})

	It("orders and renames the columns of a table, and shows units", func(ctx SpecContext) {
		table := pageAt(ctx, time.Minute).Panels[3].Table
		Expect(table.Columns).To(Equal([]string{"secret", "etcd", "Left"}))
		Expect(table.Rows).To(HaveLen(1))
		Expect(table.Rows[0][0].Text).To(Equal("server"))
		Expect(table.Rows[0][2].Text).To(Equal("2 day"))
	})

	It("has one point in a graph for each scrape", func(ctx SpecContext) {
		graph := pageAt(ctx, 5*time.Minute).Panels[4].Graph
		Expect(graph.Step).To(Equal(interval))
		Expect(graph.Lines).To(HaveLen(3))
		Expect(graph.Lines[0].Legend).To(Equal("Evict"))
		Expect(graph.Legend()).To(HaveExactElements(
			And(HaveField("Name", "Move"), HaveField("Max", Not(Equal("0"))), HaveField("Current", "0")), HaveField("Name", "Evict"),
		), "in the order of the maximum, without lines of zero")
	})

	It("is written as one file that contains the texts of all panels", func(ctx SpecContext) {
		var html bytes.Buffer
		Expect(pageAt(ctx, 5*time.Minute).Write(&html)).To(Succeed())

		for _, text := range []string{"Etcd: a", "Number", "Never", "2 day", "Evict", "<path d="} {
			Expect(html.String()).To(ContainSubstring(text))
		}

		Expect(html.String()).NotTo(MatchRegexp(`(?i)(src|href)=|url\(|ZgotmplZ`), "no reference to another file")
	})
})

var _ = DescribeTable("A value has the unit of its panel", func(value float64, unit, expected string) {
	Expect(format(value, unit)).To(Equal(expected))
},
	Entry("seconds", 0.0042, "s", "4.2 ms"),
	Entry("hours", 5400.0, "s", "1.5 hour"),
	Entry("weeks", 62899200.0, "s", "1.99 year"),
	Entry("zero seconds", 0.0, "s", "0 s"),
	Entry("bytes", 8589934592.0, "bytes", "8 GiB"),
	Entry("a ratio", 0.123, "percentunit", "12.3%"),
	Entry("a rate", 1.5, "ops", "1.5 ops/s"),
	Entry("a large number", 12345.0, "short", "12.3 K"),
	Entry("a number", 17.0, "none", "17"),
)

var _ = Describe("A picture of a terminal", func() {
	It("contains the command and each line of its output", func() {
		var svg bytes.Buffer
		Expect(WriteTerminal(&svg, "kubectl etcd status", "NAME  STATE\nmain  <Ready>\n")).To(Succeed())
		Expect(svg.String()).To(ContainSubstring("$\u00a0kubectl\u00a0etcd\u00a0status"))
		Expect(svg.String()).To(ContainSubstring("main\u00a0\u00a0&lt;Ready&gt;"))
	})
})
