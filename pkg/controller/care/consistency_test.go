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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("The comparison of the data of members", func() {
	const period = time.Hour
	var (
		etcd    *druidv1alpha1.Etcd
		mr      *resourcesv1alpha1.ManagedResource
		c       client.Client
		clock   *testclock.FakeClock
		cluster *fake.Cluster
		view    *observed
		r       *care.Reconciler
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.UID, etcd.Spec.Replicas = "demo", "main", "etcd-uid", 3
		mr = &resourcesv1alpha1.ManagedResource{}
		mr.Namespace, mr.Name, mr.UID = "demo", "druid-main", "mr-uid"
		mr.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":3}`}
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, mr).WithStatusSubresource(etcd).Build()
		clock = testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		cluster = fake.NewCluster(7)
		view = newObserved(cluster)
		r = &care.Reconciler{
			Client: c, Reader: c, Clock: clock, Recorder: events.NewFakeRecorder(100), Observer: view, Members: members{cluster},
			Config: care.Config{SyncPeriod: time.Minute, DataComparisonPeriod: period},
		}
	})

	// recordedBy reconciles the Etcd, and returns what is recorded. The next observation contains it.
	recordedBy := func(ctx context.Context, r *care.Reconciler) *state.Inconsistency {
		GinkgoHelper()
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
		decoded, err := state.Decode(mr.Annotations)
		Expect(err).NotTo(HaveOccurred())
		view.Observation.State = decoded

		return decoded.Inconsistency
	}
	recorded := func(ctx context.Context) *state.Inconsistency {
		GinkgoHelper()

		return recordedBy(ctx, r)
	}
	// reset deletes the record of a difference.
	reset := func(ctx context.Context) {
		GinkgoHelper()
		mr.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"size":3}`}
		Expect(c.Update(ctx, mr)).To(Succeed())
		view.Observation.State = state.State{Size: 3}
	}
	// begin lets the first period pass, in which the first comparison is at a random time.
	begin := func(ctx context.Context) {
		GinkgoHelper()
		Expect(recorded(ctx)).To(BeNil())
		clock.Step(period)
	}

	dataConsistent := func(ctx context.Context) druidv1alpha1.Condition {
		GinkgoHelper()
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		found := conditions.Find(etcd.Status.Conditions, "DataConsistent")
		Expect(found).NotTo(BeNil())

		return *found
	}

	It("records a difference, which three comparisons confirm, and its end", func(ctx SpecContext) {
		begin(ctx)
		cluster.SetHash(3, 7)
		Expect(recorded(ctx)).To(And(HaveField("Comparisons", 1), HaveField("Since", clock.Now())))
		Expect(dataConsistent(ctx)).To(And(HaveField("Status", BeEquivalentTo("Unknown")), HaveField("Reason", "DifferenceNotConfirmed")))
		clock.Step(59 * time.Second)
		Expect(recorded(ctx)).To(HaveField("Comparisons", 1), "the next one follows after a minute")
		for comparison := 2; comparison <= 3; comparison++ {
			clock.Step(time.Minute)
			Expect(recorded(ctx)).To(HaveField("Comparisons", comparison))
		}
		Expect(dataConsistent(ctx)).To(And(
			HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "DifferentData"),
			HaveField("Message", ContainSubstring("The operator replaces main-2 with the data of the quorum, and keeps the volume")),
		))
		cluster.SetHash(3, 0)
		clock.Step(time.Minute)
		Expect(recorded(ctx)).To(BeNil())
		Expect(dataConsistent(ctx)).To(HaveField("Status", BeEquivalentTo("True")))
	})

	It("reads and writes nothing until the period has passed, and writes nothing while the data is the same", func(ctx SpecContext) {
		begin(ctx)
		Expect(recorded(ctx)).To(BeNil())
		before := mr.ResourceVersion
		cluster.SetHash(3, 7)
		clock.Step(period - time.Second)
		Expect(recorded(ctx)).To(BeNil(), "the comparison before was less than a period ago")
		Expect(mr.ResourceVersion).To(Equal(before))
		clock.Step(period / 5)
		Expect(recorded(ctx)).NotTo(BeNil())
	})

	It("begins at a random time within the period", func(ctx SpecContext) {
		cluster.SetHash(3, 7)
		waited := map[time.Duration]bool{}
		for range 5 {
			r := &care.Reconciler{Client: c, Reader: c, Clock: clock, Recorder: events.NewFakeRecorder(1000), Observer: view, Members: members{cluster}, Config: r.Config}
			began := clock.Now()
			for recordedBy(ctx, r) == nil {
				Expect(clock.Now().Sub(began)).To(BeNumerically("<=", period))
				clock.Step(time.Minute)
			}
			waited[clock.Now().Sub(began)] = true
			reset(ctx)
		}
		Expect(len(waited)).To(BeNumerically(">", 1), "the first comparisons of many Etcds do not coincide")
	})

	DescribeTable("records nothing, and compares again after a minute, while", func(ctx SpecContext, fails, recovers func()) {
		begin(ctx)
		cluster.SetHash(3, 7)
		fails()
		Expect(recorded(ctx)).To(BeNil())
		recovers()
		clock.Step(59 * time.Second)
		Expect(recorded(ctx)).To(BeNil())
		clock.Step(time.Second)
		Expect(recorded(ctx)).NotTo(BeNil())
	},
		Entry("a member is not healthy", func() { view.Observation.Etcd.Members[1].Healthy = false }, func() { view.Observation.Etcd.Members[1].Healthy = true }),
		Entry("a member is a learner", func() { view.Observation.Etcd.MemberList[1].Learner = true }, func() { view.Observation.Etcd.MemberList[1].Learner = false }),
		Entry("the members are compacted at different revisions", func() { cluster.SetCompacted(2, 5) }, func() { cluster.SetCompacted(2, 0) }),
		Entry("the pod of a member is gone", func() { view.Observation.Pods = view.Observation.Pods[:2] }, func() {
			view.Observation.Pods = append(view.Observation.Pods, etcdcluster.Pod{Name: "main-2", Ordinal: 2, Ready: true})
		}),
	)

	It("records nothing if a member returns no hash, and compares again after ten minutes", func(ctx SpecContext) {
		begin(ctx)
		cluster.SetHash(3, 7)
		cluster.Stop(2)
		Expect(recorded(ctx)).To(BeNil())
		cluster.Start(2)
		clock.Step(10*time.Minute - time.Second)
		Expect(recorded(ctx)).To(BeNil())
		clock.Step(time.Second)
		Expect(recorded(ctx)).NotTo(BeNil())
	})

	It("keeps a recorded difference while the members cannot be compared", func(ctx SpecContext) {
		begin(ctx)
		cluster.SetHash(3, 7)
		before := recorded(ctx)
		view.Observation.Etcd.Members[2].Healthy = false
		clock.Step(time.Hour)
		Expect(recorded(ctx)).To(Equal(before))
	})

	It("deletes a recorded difference if it is disabled", func(ctx SpecContext) {
		begin(ctx)
		cluster.SetHash(3, 7)
		Expect(recorded(ctx)).NotTo(BeNil())
		r.Config.DataComparisonPeriod = 0
		Expect(recorded(ctx)).To(BeNil())
		clock.Step(2 * period)
		Expect(recorded(ctx)).To(BeNil())
	})

	It("deletes a recorded difference between members of another cluster", func(ctx SpecContext) {
		begin(ctx)
		cluster.SetHash(3, 7)
		Expect(recorded(ctx)).NotTo(BeNil())
		view.Observation.Etcd.MemberList = []etcdcluster.ListedMember{{ID: 1, Name: "main-0"}, {ID: 8, Name: "main-1"}, {ID: 9, Name: "main-2"}}
		Expect(recorded(ctx)).To(BeNil())
	})

	It("disarms the alarm CORRUPT if the data is the same, and not before", func(ctx SpecContext) {
		begin(ctx)
		Expect(recorded(ctx)).To(BeNil())
		corrupt := etcdcluster.Alarm{Type: etcdcluster.AlarmCorrupt}
		cluster.Raise(corrupt)
		view.Observation.Etcd.Alarms = []etcdcluster.Alarm{corrupt}
		cluster.SetHash(3, 7)
		clock.Step(time.Minute)
		Expect(recorded(ctx)).NotTo(BeNil(), "long before the period has passed")
		Expect(cluster.Alarms()).NotTo(BeEmpty())
		view.Observation.Etcd.Members[1].Healthy = false
		clock.Step(time.Minute)
		Expect(recorded(ctx)).NotTo(BeNil())
		Expect(cluster.Alarms()).NotTo(BeEmpty(), "it was not compared")
		view.Observation.Etcd.Members[1].Healthy = true
		cluster.SetHash(3, 0)
		clock.Step(time.Minute)
		Expect(recorded(ctx)).To(BeNil())
		Expect(cluster.Alarms()).To(BeEmpty())
	})

	It("does not disarm the alarm CORRUPT while another alarm is raised, which would lose its effect", func(ctx SpecContext) {
		view.Observation.Etcd.Alarms = []etcdcluster.Alarm{{Type: etcdcluster.AlarmCorrupt}, {MemberID: 1, Type: etcdcluster.AlarmNoSpace}}
		for _, alarm := range view.Observation.Etcd.Alarms {
			cluster.Raise(alarm)
		}
		Expect(recorded(ctx)).To(BeNil())
		Expect(cluster.Alarms()).To(HaveLen(2))
	})
})

// newObserved returns an observation of three healthy members of the cluster.
func newObserved(cluster *fake.Cluster) *observed {
	o := etcdcluster.Observation{
		ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main", UID: "mr-uid"}, State: state.State{Size: 3},
		Etcd: etcdcluster.EtcdResponses{Queried: true},
	}
	for i := range 3 {
		name := fmt.Sprintf("main-%d", i)
		id := uint64(i + 1) // #nosec G115 -- 1 to 3
		cluster.AddMember(id, name, name)
		o.Pods = append(o.Pods, etcdcluster.Pod{Name: name, Ordinal: i, Ready: true})
		o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name})
		o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{
			Ordinal: i, Reachable: true, Healthy: true, ClusterID: 7, MemberID: id, LeaderID: o.Etcd.MemberList[0].ID, Revision: cluster.Revision(),
		})
	}

	return &observed{o}
}
