// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// measured are the counters of the name, by kind and outcome, for example "rolling-update done".
func measured(name, kind string) map[string]int {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	found := map[string]int{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			found[labels[kind]+" "+labels["outcome"]] = int(metric.GetCounter().GetValue()) + int(metric.GetHistogram().GetSampleCount()) // #nosec G115 -- a few samples
		}
	}

	return found
}

// since returns the counters that have increased, and by how much.
func since(before, after map[string]int) map[string]int {
	increased := map[string]int{}
	for key, value := range after {
		if value > before[key] {
			increased[key] = value - before[key]
		}
	}

	return increased
}

var _ = Describe("Operations and steps", func() {
	DescribeTable("are counted by their kind and outcome",
		func(given []func(*kube.Cluster), when func(*kube.Cluster), operations, steps map[string]int) {
			k := kube.New(scheme)
			o := startOperator(k, nil)
			for _, happens := range given {
				happens(k)
				o.due = k.Clock.Now()
				o.run()
			}
			counted, lasted, done := measured("etcd_druid_operations_total", "kind"), measured("etcd_druid_operation_duration_seconds", "kind"), measured("etcd_druid_steps_total", "step")
			when(k)
			o.due = k.Clock.Now()
			o.run()

			Expect(since(counted, measured("etcd_druid_operations_total", "kind"))).To(Equal(operations))
			Expect(since(lasted, measured("etcd_druid_operation_duration_seconds", "kind"))).To(Equal(operations))
			Expect(since(done, measured("etcd_druid_steps_total", "step"))).To(Equal(steps))

			deleteEtcd(k)
			o.due = k.Clock.Now()
			o.run()
			o.reconcileOnce()
			Expect(measured("etcd_druid_operations_total", "kind")).To(BeEmpty(), "of an Etcd that is gone")
			Expect(measured("etcd_druid_steps_total", "step")).To(BeEmpty(), "of an Etcd that is gone")
		},
		Entry("when a cluster is created", nil, create(1), map[string]int{"create done": 1}, map[string]int{}),
		Entry("when pods are replaced", []func(*kube.Cluster){create(3)}, update(relabel), map[string]int{"rolling-update done": 1}, map[string]int{"EvictPod done": 3, "MoveLeader done": 1}),
		Entry("when a cluster with a store is scaled up", []func(*kube.Cluster){create(1, withStore)}, update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 }),
			map[string]int{"scale-up done": 1}, map[string]int{"PromoteMember done": 2, "DeletePod done": 1}),
		Entry("when a member is repaired", []func(*kube.Cluster){create(3)}, loseNode, map[string]int{"repair done": 1}, map[string]int{"ReplaceClaim done": 1, "PromoteMember done": 1}),
		Entry("when volumes are resized", []func(*kube.Cluster){create(3, withExpandableVolumes)}, update(resizeVolumes), map[string]int{"resize-volume done": 1}, map[string]int{"ResizeClaim done": 3, "RecreateStatefulSet done": 1, "RequestReconcile done": 1}),
		Entry("when a cluster hibernates", []func(*kube.Cluster){create(1)}, update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 }), map[string]int{"hibernate done": 1}, map[string]int{}),
		Entry("when the spec is refused after all", []func(*kube.Cluster){create(3)}, update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse("1Gi")) }), map[string]int{}, map[string]int{}),
		Entry("when a cluster with a store is scaled in", []func(*kube.Cluster){create(3, withStore)}, update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 }),
			map[string]int{"scale-in done": 1}, map[string]int{"TakeSnapshot done": 1, "SelectPod done": 1, "RefreshPod done": 2, "RemoveMember done": 2, "DeleteClaim done": 2, "ResetLease done": 2}),
	)

	It("last from the first reconciliation, without the time for which the Etcd waited for its user", func() {
		seconds := func() (sum float64) {
			families, err := metrics.Registry.Gather()
			Expect(err).NotTo(HaveOccurred())
			for _, family := range families {
				if family.GetName() == "etcd_druid_operation_duration_seconds" {
					for _, metric := range family.GetMetric() {
						sum += metric.GetHistogram().GetSampleSum()
					}
				}
			}

			return sum
		}
		k := kube.New(scheme)
		o := startOperator(k, nil)
		create(1)(k)
		o.run()
		update(relabel)(k)
		etcd := k.EtcdObject().DeepCopy()
		delete(etcd.Annotations, "druid.gardener.cloud/operation")
		must(k.Client(nil).Update(context.Background(), etcd))
		o.due = k.Clock.Now()
		o.run()
		before := seconds()
		k.Clock.Step(240 * time.Hour)
		update(func(*druidv1alpha1.Etcd) {})(k)
		o.due = k.Clock.Now()
		o.run()
		Expect(seconds() - before).To(And(BeNumerically(">", 0), BeNumerically("<", time.Hour.Seconds())))
	})
})
