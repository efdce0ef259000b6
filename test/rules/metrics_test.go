// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"encoding/json"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// targetLabels are the labels that Prometheus adds to all scraped series.
var targetLabels = []string{"namespace", "pod", "job"}

// readMetrics returns the metrics that the alerts and the dashboards read, each with the sorted labels that they read.
func readMetrics() map[string][]string {
	GinkgoHelper()

	metrics := map[string][]string{}
	read := func(expression parser.Expr) {
		parser.Inspect(expression, func(node parser.Node, path []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				metrics[selector.Name] = append(metrics[selector.Name], labelsOf(selector, path)...)
			}

			return nil
		})
	}

	for _, group := range groups(&rules.ManagerOptions{}) {
		for _, alert := range group.AlertingRules() {
			read(alert.Query())
		}
	}

	for _, panels := range dashboards() {
		for _, panel := range panels {
			for _, target := range panel.Targets {
				expression, err := parser.NewParser(parser.Options{}).ParseExpr(target.Expr)
				Expect(err).NotTo(HaveOccurred(), panel.Title)
				read(expression)
			}
		}
	}

	for name, labels := range metrics {
		slices.Sort(labels)
		metrics[name] = slices.DeleteFunc(slices.Compact(labels), func(label string) bool { return slices.Contains(targetLabels, label) })
	}

	return metrics
}

// labelsOf returns the labels that an expression reads from the series of a selector: in its matchers and in enclosing aggregations.
func labelsOf(selector *parser.VectorSelector, path []parser.Node) []string {
	var labels []string

	for _, matcher := range selector.LabelMatchers {
		if matcher.Name != "__name__" {
			labels = append(labels, matcher.Name)
		}
	}

	for _, node := range path {
		if aggregation, ok := node.(*parser.AggregateExpr); ok && !aggregation.Without {
			labels = append(labels, aggregation.Grouping...)
		}
	}

	return labels
}

// metrics.json lists which process exports which metric. The end-to-end tests compare the same file with the exported metrics. An alert on a
// metric that no process exports would never fire, and its panel would be empty. No end-to-end test compares the predictions, which need an hour.
var _ = Describe("The metrics that the alerts and dashboards read", func() {
	It("match metrics.json, which the end-to-end tests check", func() {
		content, err := os.ReadFile("metrics.json")
		Expect(err).NotTo(HaveOccurred())

		var servers map[string]map[string][]string
		Expect(json.Unmarshal(content, &servers)).To(Succeed())

		served := map[string][]string{}
		for _, metrics := range servers {
			for name, labels := range metrics {
				Expect(served).NotTo(HaveKey(name))
				served[name] = labels
			}
		}

		read := readMetrics()
		for name, labels := range read {
			Expect(served).To(HaveKeyWithValue(name, ConsistOf(labels)), name)
		}
		for name := range served {
			Expect(read).To(HaveKey(name), "no alert and no dashboard reads it")
		}
	})
})
