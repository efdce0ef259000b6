// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	fakeetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// threeMembers observes a cluster of three members. It records the order in which they hash their keys.
type threeMembers struct {
	oneMember

	etcd      *fakeetcd.Cluster
	unhealthy int
	compacted map[string]int64
	hashed    []string
	// hashLimit is the longest time that a member had for its hash.
	hashLimit time.Duration
}

func (o *threeMembers) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	observation := etcdcluster.Observation{
		State: state.State{Accepted: &state.Accepted{Generation: 1, Defaults: state.Defaults{ImageSets: map[string]state.Images{"3.4": {BackupRestore: "sidecar"}}}}},
		Etcd:  etcdcluster.EtcdResponses{Queried: true},
	}
	for i := range 3 {
		name := fmt.Sprintf("main-%d", i)
		observation.Pods = append(observation.Pods, etcdcluster.Pod{Name: name, Ordinal: i, Ready: true, ContainersReady: true})
		observation.Etcd.Members = append(observation.Etcd.Members, etcdcluster.EndpointStatus{
			Ordinal: i, Reachable: true, Healthy: i != o.unhealthy, MemberID: uint64(i + 1), LeaderID: 1, ClusterID: 1, Revision: 7, QuorumRevision: 7, // #nosec G115 -- 0 to 2
		})
		observation.Etcd.MemberList = append(observation.Etcd.MemberList, etcdcluster.ListedMember{ID: uint64(i + 1), Name: name}) // #nosec G115 -- 0 to 2
	}

	return observation
}

func (o *threeMembers) Member(ctx context.Context, _ *druidv1alpha1.Etcd, pod etcdcluster.Pod) (etcdclient.Client, error) {
	member, err := o.etcd.Connect(ctx, etcdclient.Target{Address: pod.Name})

	return &hashing{Client: member, name: pod.Name, of: o}, err
}

// hashing is a client that records its call of HashKV.
type hashing struct {
	etcdclient.Client

	name string
	of   *threeMembers
}

// HashKV implements etcdclient.Client.
func (h *hashing) HashKV(ctx context.Context, revision int64) (hash uint32, compacted int64, err error) {
	h.of.hashed = append(h.of.hashed, h.name)
	if deadline, isLimited := ctx.Deadline(); isLimited {
		h.of.hashLimit = max(h.of.hashLimit, time.Until(deadline))
	}
	hash, _, err = h.Client.HashKV(ctx, revision)

	return hash, h.of.compacted[h.name], err
}

var _ = Describe("A restore drill of three members", func() {
	var (
		members *threeMembers
		locks   *calls.ClusterLocks
		clock   *testclock.FakePassiveClock
		c       client.Client
		attempt func(context.Context)
	)
	key := client.ObjectKey{Namespace: "demo", Name: "drill"}
	found := func(ctx context.Context) *druidv1alpha1.EtcdOpsTask {
		GinkgoHelper()
		task := &druidv1alpha1.EtcdOpsTask{}
		Expect(c.Get(ctx, key, task)).To(Succeed())

		return task
	}
	jobs := func(ctx context.Context) []batchv1.Job {
		GinkgoHelper()
		list := &batchv1.JobList{}
		Expect(c.List(ctx, list)).To(Succeed())

		return list.Items
	}

	BeforeEach(func(ctx SpecContext) {
		clock = testclock.NewFakePassiveClock(now)
		locks = calls.NewClusterLocks(clock)
		members = &threeMembers{oneMember: oneMember{fakesidecar.NewStore(clock.Now)}, etcd: fakeetcd.NewCluster(1), unhealthy: -1, compacted: map[string]int64{}}
		for i := range 3 {
			members.etcd.AddMember(uint64(i+1), fmt.Sprintf("main-%d", i), fmt.Sprintf("main-%d", i)) // #nosec G115 -- 0 to 2
		}
		for members.etcd.Revision() < 7 {
			Expect(members.etcd.Write()).To(Succeed())
		}
		members.store.SetRevision(4)
		sidecarClient, err := members.store.Connect(sidecar.Target{})
		Expect(err).NotTo(HaveOccurred())
		Expect(sidecarClient.FullSnapshot(ctx)).Error().NotTo(HaveOccurred())
		members.store.SetRevision(7)
		clock.SetTime(now.Add(3 * time.Minute))

		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "etcd-uid", Generation: 1}}
		etcd.Spec.Replicas, etcd.Spec.Labels = 3, map[string]string{"role": "main"}
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "etcd-main", SecretRef: &corev1.SecretReference{Name: "store"},
		}
		etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: "True"}}
		mr := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "druid-main", Annotations: map[string]string{
			"etcd-druid.extensions.gardener.cloud/state": `{"version":1,"accepted":{"generation":1}}`,
			"etcd-druid.extensions.gardener.cloud/store": `{"provider":"S3","container":"bucket","prefix":"etcd-main"}`,
		}}}
		task := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "task-uid", CreationTimestamp: metav1.NewTime(now)}}
		task.Spec.EtcdName, task.Spec.Config.RestoreDrill = new("main"), &druidv1alpha1.RestoreDrillConfig{}
		c = fakeclient.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.EtcdOpsTask{}, &druidv1alpha1.Etcd{}).WithObjects(etcd, mr, task).Build()

		runner, isStarted := calls.NewRunner[opstask.Outcome](), make(chan struct{})
		process, stop := context.WithCancel(context.Background())
		DeferCleanup(stop)
		go func() {
			defer GinkgoRecover()
			_ = runner.Start(started{Context: process, onDone: sync.OnceFunc(func() { close(isStarted) })})
		}()
		<-isStarted
		r := &opstask.Reconciler{
			Client: c, Reader: c, Observer: members, Calls: runner, Locks: locks, RequeueInterval: time.Second, JobDeadline: time.Hour, Clock: clock,
			Recorder: events.NewFakeRecorder(1000), Drills: opstask.Drills{EtcdHelper: target.EtcdHelper{Image: "helper"}},
		}
		// attempt reconciles until a call has ended, and its result is in the status.
		attempt = func(ctx context.Context) {
			GinkgoHelper()
			for range 5 {
				Expect(r.Reconcile(ctx, reconcile.Request{NamespacedName: key})).Error().NotTo(HaveOccurred())
				Eventually(func() bool {
					_, isRunning, _ := runner.Outcome("task-uid")

					return isRunning
				}).WithPolling(time.Millisecond).WithTimeout(10 * time.Second).Should(BeFalse())
			}
		}
	})

	It("hashes the keys of all members, and those of the leader at last", func(ctx SpecContext) {
		attempt(ctx)
		Expect(members.hashed).To(Equal([]string{"main-1", "main-2", "main-0"}))
		Expect(members.hashLimit).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Minute)))
		Expect(jobs(ctx)).To(HaveLen(1))
		Expect(found(ctx).Status.LastOperation.Description).To(Equal("Attempt 1 of 3: the Job runs"))
	})

	It("deletes the Job if its task is deleted", func(ctx SpecContext) {
		attempt(ctx)
		Expect(jobs(ctx)).To(HaveLen(1))
		Expect(c.Delete(ctx, found(ctx))).To(Succeed())
		attempt(ctx)
		Expect(jobs(ctx)).To(BeEmpty())
		Expect(c.Get(ctx, key, &druidv1alpha1.EtcdOpsTask{})).To(MatchError(ContainSubstring("not found")))
	})

	It("keeps a Job that has ended if its task is deleted", func(ctx SpecContext) {
		attempt(ctx)
		ended := jobs(ctx)[0]
		ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		Expect(c.Status().Update(ctx, &ended)).To(Succeed())
		Expect(c.Delete(ctx, found(ctx))).To(Succeed())
		attempt(ctx)
		Expect(jobs(ctx)).To(HaveLen(1))
	})

	It("creates no Job if the members have different data", func(ctx SpecContext) {
		members.etcd.SetHash(3, 5)
		attempt(ctx)
		Expect(jobs(ctx)).To(BeEmpty())
		Expect(found(ctx).Status.LastErrors).To(ConsistOf(And(
			HaveField("Code", BeEquivalentTo("ERR_MEMBERS_DIFFER")),
			HaveField("Description", "the members have different data at revision 7, main-0 has hash 00000000, main-1 has hash 00000000, main-2 has hash 00000005"),
		)))
	})

	It("compares no hashes after different compactions", func(ctx SpecContext) {
		members.etcd.SetHash(3, 5)
		members.compacted["main-2"] = 3
		attempt(ctx)
		Expect(jobs(ctx)).To(BeEmpty())
		Expect(found(ctx).Status.LastErrors).To(ConsistOf(And(
			HaveField("Code", BeEquivalentTo("ERR_RESTORE_DRILL")), HaveField("Description", ContainSubstring("compacted at different revisions, 0 and 3")),
		)))
	})

	It("hashes no keys unless all members are healthy", func(ctx SpecContext) {
		members.unhealthy = 2
		attempt(ctx)
		Expect(members.hashed).To(BeEmpty())
		Expect(found(ctx).Status.LastErrors).To(ConsistOf(HaveField("Description", "the members cannot be compared now: member main-2 is not healthy")))
	})

	It("hashes no keys while another controller replaces a member", func(ctx SpecContext) {
		Expect(locks.TryLock("etcd-uid", "etcd")).To(BeTrue())
		released := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(released)
			Eventually(members.store.SnapshotRequests).WithPolling(time.Millisecond).WithTimeout(10 * time.Second).Should(Equal(2))
			Consistently(func() []batchv1.Job { return jobs(ctx) }).WithTimeout(100 * time.Millisecond).Should(BeEmpty())
			locks.Unlock("etcd-uid", 0)
		}()
		attempt(ctx)
		<-released
		Expect(jobs(ctx)).To(HaveLen(1))
	})

	It("keeps what the store lacked before the first attempt", func(ctx SpecContext) {
		members.unhealthy = 2
		attempt(ctx)
		Expect(jobs(ctx)).To(BeEmpty())
		members.unhealthy = -1
		for members.etcd.Revision() < 20 {
			Expect(members.etcd.Write()).To(Succeed())
		}
		members.store.SetRevision(20)
		clock.SetTime(now.Add(30 * time.Minute))
		attempt(ctx)
		Expect(jobs(ctx)).To(ConsistOf(HaveField("Annotations", And(
			HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/data-age", "3m0s"),
			HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/missing-revisions", "3"),
			HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/live-revision", "20"),
		))))
	})
})
