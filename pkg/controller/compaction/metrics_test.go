// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	decisions "github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/compaction"
)

// exported returns the names of the metrics that the registry has for an Etcd, in alphabetical order and without the common prefix.
func exported(etcd client.ObjectKey) []string {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, family := range families {
		name, has := strings.CutPrefix(family.GetName(), "etcddruid_compaction_")
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if has && labels["etcd_namespace"] == etcd.Namespace && labels["etcd"] == etcd.Name {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)

	return names
}

var _ = Describe("The metrics of compactions", func() {
	It("exist for an Etcd while it has a store", func() {
		etcd, other := client.ObjectKey{Namespace: "metrics", Name: "main"}, client.ObjectKey{Namespace: "metrics", Name: "other"}
		for _, key := range []client.ObjectKey{etcd, other} {
			compaction.SetMetrics(key, decisions.Input{HasStore: true})
			compaction.CountJob(key, decisions.Job{Outcome: druidv1alpha1.PodSuccessReasonNone})
		}
		Expect(exported(etcd)).To(ContainElements("jobs_current", "jobs_total"))

		compaction.SetMetrics(etcd, decisions.Input{})
		Expect(exported(etcd)).To(BeEmpty())
		compaction.SetMetrics(etcd, decisions.Input{})
		Expect(exported(other)).To(ContainElements("jobs_current", "jobs_total"))
	})
})
