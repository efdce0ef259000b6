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

// snapshotting is an observer of a cluster whose newest full snapshot is as old as its observation.
type snapshotting struct{ clock *testclock.FakeClock }

func (s snapshotting) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	lease := etcdcluster.Lease{Exists: true, Name: "main-full-snap", RenewTime: s.clock.Now()}

	return etcdcluster.Observation{FullSnapshotLease: lease, DeltaSnapshotLease: lease}
}

var _ = Describe("The number of full snapshots", func() {
	It("is reported if the schedule requests far fewer, with one patch", func(ctx SpecContext) {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "snapshots", "main", 1
		etcd.Spec.Backup.Store, etcd.Spec.Backup.FullSnapshotSchedule = &druidv1alpha1.StoreSpec{}, new("0 12 * * *")
		c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
		clock := testclock.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
		r := &care.Reconciler{Client: c, Clock: clock, Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: time.Minute}, Observer: snapshotting{clock}}
		backups := func(count int) druidv1alpha1.Condition {
			GinkgoHelper()
			for range count {
				clock.Step(time.Minute)
				_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
				Expect(err).NotTo(HaveOccurred())
			}
			Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())

			return *conditions.Find(etcd.Status.Conditions, "BackupReady")
		}
		Expect(backups(10)).To(HaveField("Status", BeEquivalentTo("True")))
		Expect(backups(1)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "TooManySnapshots"),
			HaveField("Message", ContainSubstring(`than the schedule "0 12 * * *" requests, observed at 2030-01-02T03:15:05Z`))))
		version := etcd.ResourceVersion
		backups(5)
		Expect(etcd.ResourceVersion).To(Equal(version))
	})
})

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
