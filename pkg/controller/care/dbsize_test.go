// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// increasing is an observer of a database that increases by one gibibyte each hour, from one gibibyte on.
type increasing struct {
	clock *testclock.FakeClock
	since time.Time
}

func (i increasing) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	inUse := int64((1 + i.clock.Since(i.since).Hours()) * (1 << 30))

	return etcdcluster.Observation{Etcd: etcdcluster.EtcdResponses{
		Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, DBSizeInUse: inUse}},
	}}
}

var _ = Describe("The size of a database", func() {
	It("is reported after an hour while the Etcd exists", func(ctx SpecContext) {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "increases", "main", 1
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
		began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		clock := testclock.NewFakeClock(began)
		r := &care.Reconciler{Client: c, Clock: clock, Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: time.Minute}, Observer: increasing{clock, began}}
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)}
		observe := func(times int) {
			GinkgoHelper()
			for range times {
				_, err := r.Reconcile(ctx, request)
				Expect(err).NotTo(HaveOccurred())
				clock.Step(10 * time.Minute)
			}
		}
		observe(5)
		Expect(quotas()).To(BeEmpty())
		observe(7)
		Expect(quotas()).To(HaveLen(1))
		Expect(quotas()[0]).To(BeNumerically("~", 5.17*3600, 60), "8Gi after seven hours")
		Expect(c.Get(ctx, request.NamespacedName, etcd)).To(Succeed())
		Expect(conditions.Find(etcd.Status.Conditions, "DatabaseSpaceAvailable")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "QuotaReachedSoon"),
			HaveField("Message", ContainSubstring("the quota of 8Gi within a day"))))

		Expect(c.Delete(ctx, etcd)).To(Succeed())
		observe(1)
		Expect(quotas()).To(BeEmpty())
	})
})

// quotas returns the predicted times.
func quotas() []float64 {
	GinkgoHelper()
	families, err := metrics.Registry.(prometheus.Gatherer).Gather()
	Expect(err).NotTo(HaveOccurred())
	var values []float64
	for _, family := range families {
		if family.GetName() != "etcd_druid_database_quota_reached_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[1].GetValue() == "increases" {
				values = append(values, metric.GetGauge().GetValue())
			}
		}
	}

	return values
}
