// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// counting is an observer that reads the status of three members from a fake cluster.
type counting struct {
	cluster *fake.Cluster
	// base is the observation without the responses of the members.
	base etcdcluster.Observation
	// count is the number of observations. during is called in each of them. Nil: nothing is.
	count  int
	during func()
}

func (c *counting) Observe(ctx context.Context, _ *druidv1alpha1.Etcd, _ observer.Request) etcdcluster.Observation {
	c.count++
	if c.during != nil {
		c.during()
	}
	o := c.base
	o.Etcd = etcdcluster.EtcdResponses{Queried: true, MemberList: c.cluster.Members(), Alarms: c.cluster.Alarms()}
	for _, pod := range o.Pods {
		member, err := c.cluster.Connect(ctx, members{c.cluster}.target(pod))
		Expect(err).NotTo(HaveOccurred())
		status, _, _ := member.Status(ctx) // a member that does not respond is not reachable
		status.Ordinal = pod.Ordinal
		o.Etcd.Members = append(o.Etcd.Members, status)
	}

	return o
}

var _ = Describe("A healthy cluster", func() {
	const period, observationPeriod = 10 * time.Second, 80 * time.Second
	var (
		etcd    *druidv1alpha1.Etcd
		lease   *coordinationv1.Lease
		c       client.Client
		clock   *testclock.FakeClock
		cluster *fake.Cluster
		sees    *counting
		r       *care.Reconciler
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		Expect(coordinationv1.AddToScheme(scheme)).To(Succeed())
		clock = testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.UID, etcd.Spec.Replicas = "demo", "main", "etcd-uid", 3
		etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.ConditionTypeReconciled, Status: druidv1alpha1.ConditionFalse}}
		lease = &coordinationv1.Lease{}
		lease.Namespace, lease.Name, lease.Labels = "demo", "main-0", helper.DefaultLabels(etcd)
		lease.Labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameMemberLease
		lease.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now().Add(time.Hour)))
		mr := &resourcesv1alpha1.ManagedResource{}
		mr.Namespace, mr.Name, mr.UID = "demo", "druid-main", "mr-uid"
		cluster = fake.NewCluster(7)
		sees = &counting{cluster: cluster, base: etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main", UID: "mr-uid"},
			StatefulSet:     etcdcluster.StatefulSet{Exists: true, SpecReplicas: 3},
		}}
		for i := range 3 {
			name, id := fmt.Sprintf("main-%d", i), uint64(i+1) // #nosec G115 -- 1 to 3
			cluster.AddMember(id, name, name)
			cluster.SetDatabase(id, 1000, 1000, 0)
			sees.base.Pods = append(sees.base.Pods, etcdcluster.Pod{Name: name, Ordinal: i, Ready: true, IPs: []string{"192.0.2.1"}})
		}
		voters := []state.Voter{{Name: "main-0", ID: "1"}, {Name: "main-1", ID: "2"}, {Name: "main-2", ID: "3"}}
		sees.base.State = state.State{Size: 3, Evidence: &state.Evidence{HighestRevision: 1, ClusterID: "7", Term: 1, At: clock.Now(), Voters: voters}}
		recorded, err := sees.base.State.Encode()
		Expect(err).NotTo(HaveOccurred())
		mr.Annotations = recorded
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, mr, lease).WithStatusSubresource(etcd).Build()
		r = &care.Reconciler{
			Client: c, Reader: c, Clock: clock, Recorder: events.NewFakeRecorder(100), Observer: sees, Members: members{cluster},
			Config: care.Config{SyncPeriod: period, UnknownThreshold: time.Minute, NotReadyThreshold: time.Minute},
		}
	})

	AfterEach(func(ctx SpecContext) {
		Expect(c.Delete(ctx, etcd)).To(Succeed())
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred(), "removing the metrics of the Etcd")
	})

	// reconcileOnce returns the pause until the next reconciliation.
	reconcileOnce := func(ctx context.Context) time.Duration {
		GinkgoHelper()
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(BeNumerically(">", 0))

		return result.RequeueAfter
	}
	// withJitter matches a pause that is a period plus its random part.
	withJitter := func(period time.Duration) types.GomegaMatcher {
		return And(BeNumerically(">=", period), BeNumerically("<=", period+period/10))
	}
	// reconcileUntilStable reconciles until the status does not change any more.
	reconcileUntilStable := func(ctx context.Context) {
		GinkgoHelper()
		for range 3 {
			reconcileOnce(ctx)
		}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		sees.count = 0
	}

	It("is only probed, with a read from each member and one status, until the next observation is due", func(ctx SpecContext) {
		reconcileUntilStable(ctx)
		before := cluster.Calls()
		reconcileOnce(ctx)
		Expect(sees.count).To(BeZero())
		Expect(cluster.Calls() - before).To(Equal(3 + 1))

		clock.Step(observationPeriod - time.Second)
		reconcileOnce(ctx)
		Expect(sees.count).To(BeZero())
		clock.Step(time.Second)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1), "the next observation is due later")
	})

	Context("with a single member", func() {
		BeforeEach(func(ctx SpecContext) {
			cluster.RemoveMember(2)
			cluster.RemoveMember(3)
			sees.base.Pods, sees.base.StatefulSet.SpecReplicas = sees.base.Pods[:1], 1
			sees.base.State.Evidence.Voters = sees.base.State.Evidence.Voters[:1]
			etcd.Spec.Replicas = 1
			Expect(c.Update(ctx, etcd)).To(Succeed())
			lease.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now().Add(2 * time.Hour)))
			Expect(c.Update(ctx, lease)).To(Succeed())
		})

		It("is probed with one request every four periods, and observed every twenty", func(ctx SpecContext) {
			reconcileUntilStable(ctx)
			before := cluster.Calls()
			for passed := time.Duration(0); passed < 20*period; {
				Expect(sees.count).To(BeZero(), "after %s", passed)
				pause := reconcileOnce(ctx)
				Expect(pause).To(withJitter(4 * period))
				passed += 4 * period
				clock.Step(4 * period)
			}
			Expect(cluster.Calls() - before).To(Equal(5))
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		})

		DescribeTable("is reconciled again with a sync period of", func(ctx SpecContext, configured, next time.Duration) {
			r.Config.SyncPeriod = configured
			reconcileUntilStable(ctx)
			pause := reconcileOnce(ctx)
			Expect(sees.count).To(BeZero())
			Expect(pause).To(withJitter(next))
		},
			Entry("15 seconds after a minute", 15*time.Second, time.Minute),
			Entry("half a minute after a minute", 30*time.Second, time.Minute),
			Entry("five minutes after five minutes", 5*time.Minute, 5*time.Minute),
			Entry("ten minutes after five minutes, when an observation is due", 10*time.Minute, 5*time.Minute),
		)

		It("is reconciled again after the sync period while it is not healthy", func(ctx SpecContext) {
			sees.base.Pods[0].Ready = false
			reconcileUntilStable(ctx)
			pause := reconcileOnce(ctx)
			Expect(pause).To(withJitter(period))
		})

		It("is reconciled again when an observation is due", func(ctx SpecContext) {
			reconcileUntilStable(ctx)
			clock.Step(20*period - period)
			pause := reconcileOnce(ctx)
			Expect(sees.count).To(BeZero())
			Expect(pause).To(Equal(period))
		})

		It("is observed at least every five minutes", func(ctx SpecContext) {
			r.Config.SyncPeriod = time.Minute
			reconcileUntilStable(ctx)
			clock.Step(5 * time.Minute)
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		})

		DescribeTable("is observed at once if one of two probes finds", func(ctx SpecContext, change func()) {
			reconcileUntilStable(ctx)
			change()
			reconcileOnce(ctx)
			if sees.count == 0 {
				reconcileOnce(ctx)
			}
			Expect(sees.count).To(Equal(1))
		},
			Entry("that it completes no read", func() { cluster.Hang(1) }),
			Entry("a larger database", func() { cluster.SetDatabase(1, 1000+1<<30, 1000, 0) }),
			Entry("that it runs another version", func() { cluster.SetVersion(1, "3.5.0") }),
		)

		DescribeTable("is observed at once if a probe finds an alarm", func(ctx SpecContext, before int) {
			reconcileUntilStable(ctx)
			for range before {
				reconcileOnce(ctx)
			}
			Expect(sees.count).To(BeZero())
			cluster.Raise(etcdcluster.Alarm{MemberID: 1, Type: "NOSPACE"})
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		},
			Entry("in its endpoint status", 0),
			Entry("in its health", 1),
		)

		It("is observed five minutes after a revision was recorded", func(ctx SpecContext) {
			r.Config.SyncPeriod = time.Minute
			sees.base.State.Evidence.At = clock.Now().Add(-3 * time.Minute)
			reconcileUntilStable(ctx)
			clock.Step(2*time.Minute - time.Second)
			reconcileOnce(ctx)
			Expect(sees.count).To(BeZero())
			clock.Step(time.Second)
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		})

		It("is observed if a revision must be recorded", func(ctx SpecContext) {
			sees.base.State.Evidence.At = clock.Now().Add(-5 * time.Minute)
			reconcileUntilStable(ctx)
			Expect(cluster.Write()).To(Succeed())
			reconcileOnce(ctx)
			reconcileOnce(ctx)
			Expect(sees.count).To(BeNumerically(">=", 1))
		})
	})

	Context("that has no pods", func() {
		BeforeEach(func(ctx SpecContext) {
			for id := range uint64(3) {
				cluster.RemoveMember(id + 1)
			}
			sees.base.Pods, sees.base.StatefulSet.SpecReplicas, sees.base.State.Evidence = nil, 0, nil
			etcd.Spec.Replicas = 0
			Expect(c.Update(ctx, etcd)).To(Succeed())
			lease.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now().Add(-time.Hour)))
			Expect(c.Update(ctx, lease)).To(Succeed())
		})

		withDeltaSnapshots := druidv1alpha1.BackupSpec{Store: &druidv1alpha1.StoreSpec{}, DeltaSnapshotPeriod: &metav1.Duration{Duration: 10 * time.Second}}
		// scaleSpec sets the replicas of the spec.
		scaleSpec := func(ctx context.Context, replicas int32) {
			GinkgoHelper()
			etcd.Spec.Replicas = replicas
			Expect(c.Update(ctx, etcd)).To(Succeed())
		}

		DescribeTable("is observed again after a longer time", func(ctx SpecContext, change func(context.Context), next time.Duration) {
			change(ctx)
			reconcileUntilStable(ctx)
			Expect(reconcileOnce(ctx)).To(Equal(next))
			Expect(sees.count).To(BeZero())
			clock.Step(next)
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		},
			Entry("if it is hibernated, and takes no snapshots", func(context.Context) {}, 20*period),
			Entry("if it is hibernated, and took its last snapshot before", func(ctx context.Context) {
				etcd.Spec.Backup = withDeltaSnapshots
				Expect(c.Update(ctx, etcd)).To(Succeed())
				sees.base.FullSnapshotLease = etcdcluster.Lease{Exists: true, Holder: "1", RenewTime: clock.Now().Add(-time.Hour)}
				sees.base.DeltaSnapshotLease = sees.base.FullSnapshotLease
			}, 20*period),
			Entry("if it has no StatefulSet yet", func(ctx context.Context) {
				scaleSpec(ctx, 1)
				etcd.Spec.Backup = withDeltaSnapshots
				Expect(c.Update(ctx, etcd)).To(Succeed())
				sees.base.StatefulSet, sees.base.ManagedResource = etcdcluster.StatefulSet{}, etcdcluster.ManagedResource{}
			}, 20*period),
			Entry("if it has no StatefulSet yet, and will be a multi-member cluster", func(ctx context.Context) {
				scaleSpec(ctx, 3)
				sees.base.StatefulSet, sees.base.ManagedResource = etcdcluster.StatefulSet{}, etcdcluster.ManagedResource{}
			}, observationPeriod),
		)

		It("is observed at once after a watch event", func(ctx SpecContext) {
			reconcileUntilStable(ctx)
			r.RecordEvent(client.ObjectKeyFromObject(etcd))
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		})

		DescribeTable("is observed in each period", func(ctx SpecContext, change func(ctx context.Context)) {
			change(ctx)
			reconcileUntilStable(ctx)
			reconcileOnce(ctx)
			Expect(sees.count).To(Equal(1))
		},
			Entry("if the StatefulSet has replicas", func(ctx context.Context) {
				scaleSpec(ctx, 1)
				sees.base.StatefulSet.SpecReplicas = 1
			}),
			Entry("if external members respond", func(context.Context) { cluster.AddMember(1, "main-0", "main-0") }),
			Entry("if a read failed", func(context.Context) {
				sees.base.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionPods, Message: "timeout"}}
			}),
			Entry("if a volume is not bound", func(context.Context) { sees.base.Claims = []etcdcluster.Claim{{Name: "main-0", Exists: true}} }),
		)
	})

	It("is only probed while clients write", func(ctx SpecContext) {
		reconcileUntilStable(ctx)
		Expect(cluster.Write()).To(Succeed())
		reconcileOnce(ctx)
		Expect(sees.count).To(BeZero())

		sees.base.State.Evidence.At = clock.Now().Add(-5 * time.Minute)
		r.RecordEvent(client.ObjectKeyFromObject(etcd))
		reconcileUntilStable(ctx)
		Expect(cluster.Write()).To(Succeed())
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1), "the revision is recorded")
	})

	It("is observed at least every two minutes", func(ctx SpecContext) {
		r.Config.SyncPeriod = time.Minute
		reconcileUntilStable(ctx)
		clock.Step(2 * time.Minute)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
	})

	It("is observed when a delta snapshot is late", func(ctx SpecContext) {
		etcd.Spec.Backup = druidv1alpha1.BackupSpec{Store: &druidv1alpha1.StoreSpec{}, DeltaSnapshotPeriod: &metav1.Duration{Duration: 10 * time.Second}}
		Expect(c.Update(ctx, etcd)).To(Succeed())
		for _, renewed := range []*etcdcluster.Lease{&sees.base.FullSnapshotLease, &sees.base.DeltaSnapshotLease} {
			*renewed = etcdcluster.Lease{Exists: true, Holder: "1", RenewTime: clock.Now()}
		}
		clock.Step(10 * time.Second)
		reconcileUntilStable(ctx)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1), "members may have been read before the snapshot")

		clock.Step(time.Second)
		reconcileUntilStable(ctx)
		reconcileOnce(ctx)
		Expect(sees.count).To(BeZero())
		clock.Step(24 * time.Second)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1), "two periods and 15 seconds later")
	})

	It("is observed in each period, and not more often, after a delta snapshot was due", func(ctx SpecContext) {
		etcd.Spec.Backup = druidv1alpha1.BackupSpec{Store: &druidv1alpha1.StoreSpec{}, DeltaSnapshotPeriod: &metav1.Duration{Duration: 10 * time.Second}}
		Expect(c.Update(ctx, etcd)).To(Succeed())
		sees.base.FullSnapshotLease = etcdcluster.Lease{Exists: true, Holder: "1", RenewTime: clock.Now()}
		sees.base.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, Holder: "1", RenewTime: clock.Now().Add(-time.Minute)}
		clock.Step(11 * time.Second)
		reconcileUntilStable(ctx)
		pause := reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
		Expect(pause).To(BeNumerically(">=", 4*time.Second))
	})

	It("finds what only one member reports within as many probes as there are members", func(ctx SpecContext) {
		reconcileUntilStable(ctx)
		cluster.SetVersion(3, "3.5.0")
		for range 3 {
			reconcileOnce(ctx)
		}
		Expect(sees.count).To(BeNumerically(">=", 1))
	})

	DescribeTable("is observed at once after a change", func(ctx SpecContext, change func(ctx context.Context)) {
		reconcileUntilStable(ctx)
		change(ctx)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
	},
		Entry("if a watch event arrived", func(context.Context) { r.RecordEvent(client.ObjectKeyFromObject(etcd)) }),
		Entry("of the Etcd", func(ctx context.Context) {
			etcd.Labels = map[string]string{"new": "true"}
			Expect(c.Update(ctx, etcd)).To(Succeed())
		}),
		Entry("of a Lease that is not renewed any more", func(ctx context.Context) {
			lease.Spec.RenewTime = new(metav1.NewMicroTime(clock.Now().Add(-time.Minute - time.Second)))
			Expect(c.Update(ctx, lease)).To(Succeed())
		}),
		Entry("if a member does not respond", func(context.Context) { cluster.Stop(2) }),
		Entry("if there is another leader", func(context.Context) { cluster.Stop(1); cluster.Start(1) }),
		Entry("if an alarm is raised", func(context.Context) { cluster.Raise(etcdcluster.Alarm{MemberID: 2, Type: "NOSPACE"}) }),
		Entry("if a member completes no linearizable read", func(context.Context) { cluster.Hang(2) }),
		Entry("if the members run another version", func(context.Context) {
			for id := range uint64(3) {
				cluster.SetVersion(id+1, "3.5.0")
			}
		}),
		Entry("if a member is a learner", func(context.Context) { cluster.SetLearner(3, true) }),
		Entry("if a revision is lower", func(context.Context) { cluster.SetRevision(0) }),
		Entry("if the databases are larger", func(context.Context) {
			for id := range uint64(3) {
				cluster.SetDatabase(id+1, 1000+1<<30, 1000, 0)
			}
		}),
	)

	It("is observed again if an event arrives during an observation", func(ctx SpecContext) {
		reconcileUntilStable(ctx)
		clock.Step(observationPeriod)
		sees.during = func() { r.RecordEvent(client.ObjectKeyFromObject(etcd)) }
		reconcileOnce(ctx)
		sees.during = nil
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(2))
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(2))
	})

	DescribeTable("is observed after the sync period", func(ctx SpecContext, change func(handler.EventHandler, workqueue.TypedRateLimitingInterface[reconcile.Request])) {
		reconcileUntilStable(ctx)
		requests := workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.DefaultTypedControllerRateLimiter[reconcile.Request](), workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Clock: clock})
		defer requests.ShutDown()
		change(r.EnqueueLater(queue.Etcd, period), requests)
		Expect(requests.Len()).To(BeZero())

		Eventually(clock.HasWaiters).Should(BeTrue())
		clock.Step(period)
		request, _ := requests.Get()
		Expect(request.NamespacedName).To(Equal(client.ObjectKeyFromObject(etcd)))
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
	},
		Entry("if an object is updated", func(enqueue handler.EventHandler, requests workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue.Update(context.Background(), event.UpdateEvent{ObjectOld: etcd, ObjectNew: etcd}, requests)
		}),
		Entry("if an object is deleted", func(enqueue handler.EventHandler, requests workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue.Delete(context.Background(), event.DeleteEvent{Object: etcd}, requests)
		}),
	)

	It("is observed when the data of the members is compared", func(ctx SpecContext) {
		reconcileUntilStable(ctx)
		r.Config.DataComparisonPeriod = 2 * time.Minute
		reconcileOnce(ctx)
		clock.Step(2 * time.Minute)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
	})

	DescribeTable("is observed each time otherwise", func(ctx SpecContext, change func()) {
		change()
		reconcileUntilStable(ctx)
		reconcileOnce(ctx)
		Expect(sees.count).To(Equal(1))
	},
		Entry("if a pod is not ready", func() { sees.base.Pods[1].Ready = false }),
		Entry("if a pod is being deleted", func() { sees.base.Pods[1].Deleting = true }),
		Entry("if a member is missing", func() { sees.base.Pods = sees.base.Pods[:2] }),
		Entry("if something could not be read", func() {
			sees.base.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionLeases, Message: "timeout"}}
		}),
		Entry("if a volume is being expanded", func() {
			sees.base.Claims = []etcdcluster.Claim{{Name: "main-main-0", Exists: true, Bound: true, Requested: 2, Capacity: 1}}
		}),
		Entry("if the observation took a second", func() { sees.during = func() { clock.Step(time.Second) } }),
		Entry("if another member is listed", func() { cluster.AddLearner(4, "main-3", "main-3") }),
		Entry("if the Lease of full snapshots awaits a reset", func() { sees.base.FullSnapshotLease.AwaitsReset = true }),
	)
})
