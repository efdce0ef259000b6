// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metric returns the value of the counter or gauge with exactly these labels, each `name=value`, in any order. For a histogram it
// returns the number of observations. It returns -1 if the metric does not exist.
func Metric(name string, labels ...string) float64 {
	GinkgoHelper()

	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())

	for _, family := range families {
		if family.GetName() != name {
			continue
		}

		for _, metric := range family.GetMetric() {
			var has []string
			for _, pair := range metric.GetLabel() {
				has = append(has, pair.GetName()+"="+pair.GetValue())
			}

			if matched, err := ConsistOf(labels).Match(has); err != nil || !matched {
				continue
			}

			if histogram := metric.GetHistogram(); histogram != nil {
				return float64(histogram.GetSampleCount())
			}

			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}

	return -1
}
