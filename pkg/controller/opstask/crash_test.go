// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	fakesidecar "github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar/fake"
	"github.com/gardener/gardener-extension-etcd-druid/test/crash"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// oneMember observes a healthy cluster of one member at revision 7, whose sidecar uses the store.
type oneMember struct{ store *fakesidecar.Store }

func (oneMember) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return etcdcluster.Observation{
		Pods: []etcdcluster.Pod{{Name: "main-0", UID: "pod", Ready: true, ContainersReady: true}},
		Etcd: etcdcluster.EtcdResponses{
			Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, ClusterID: 1, Revision: 7, QuorumRevision: 7}},
			MemberList: []etcdcluster.ListedMember{{ID: 1, Name: "main-0"}},
		},
	}
}

func (oneMember) Member(context.Context, *druidv1alpha1.Etcd, etcdcluster.Pod) (etcdclient.Client, error) {
	return nil, fmt.Errorf("no task of this test calls etcd")
}

func (oneMember) HostPath(context.Context, string, backupstore.Store) (string, error) { return "", nil }

func (o oneMember) Sidecar(context.Context, *druidv1alpha1.Etcd, etcdcluster.Pod) (sidecar.Client, error) {
	return o.store.Connect(sidecar.Target{})
}

// started is a context that reports when Done is called for the first time.
type started struct {
	context.Context

	onDone func()
}

// Done implements context.Context.
func (s started) Done() <-chan struct{} {
	s.onDone()

	return s.Context.Done()
}

var _ = Describe("A controller of tasks that is killed at any of its writes", func() {
	It("comes to what it would have come to, and takes a full snapshot once", func(ctx SpecContext) {
		var store *fakesidecar.Store
		task := client.ObjectKey{Namespace: "demo", Name: "snapshot"}
		result, err := crash.Run(ctx, crash.Case{
			Scheme: app.NewScheme(),
			Objects: func() []client.Object {
				store = fakesidecar.NewStore(func() time.Time { return now })
				store.SetRevision(7)
				etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "etcd-uid", Generation: 1}}
				etcd.Spec.Replicas, etcd.Spec.Labels = 1, map[string]string{"role": "main"}
				etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "etcd-main"}
				etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: "True"}}
				snapshot := &druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace, Name: task.Name, UID: "task-uid", CreationTimestamp: metav1.NewTime(now)}}
				snapshot.Spec.EtcdName = new("main")
				snapshot.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull}

				return []client.Object{etcd, snapshot}
			},
			Status: []client.Object{&druidv1alpha1.EtcdOpsTask{}},
			Start: func(process context.Context, c client.Client) func(context.Context) error {
				runner, isStarted := calls.NewRunner[opstask.Outcome](), make(chan struct{})
				go func() {
					defer GinkgoRecover()
					_ = runner.Start(started{Context: process, onDone: sync.OnceFunc(func() { close(isStarted) })})
				}()
				<-isStarted
				r := &opstask.Reconciler{
					Client: c, Reader: c, Observer: oneMember{store}, Calls: runner, RequeueInterval: time.Second, JobDeadline: time.Hour,
					Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(1000),
				}

				return func(ctx context.Context) error {
					_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: task})
					Eventually(func() bool {
						_, isRunning, _ := runner.Outcome("task-uid")

						return isRunning
					}).WithPolling(time.Millisecond).Should(BeFalse())

					return err
				}
			},
			Others: func(context.Context, client.Client) error {
				if requests := store.SnapshotRequests(); requests > 1 {
					return fmt.Errorf("%d full snapshots were requested", requests)
				}

				return nil
			},
			Kinds: []client.ObjectList{&druidv1alpha1.EtcdOpsTaskList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		Expect(result.Writes).To(HaveLen(6), "%v", result.Writes)
		Expect(result.Objects).To(ContainElement(ContainSubstring("Succeeded")))
	})
})
