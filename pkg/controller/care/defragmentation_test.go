// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("A planned defragmentation", func() {
	var (
		etcd     *druidv1alpha1.Etcd
		c        client.Client
		r        *care.Reconciler
		recorder *events.FakeRecorder
		failure  error
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.UID, etcd.Spec.Replicas = "demo", "main", "etcd-uid", 1
		etcd.Spec.Etcd.DefragmentationSchedule = new("0 12 * * *")
		failure, recorder = nil, events.NewFakeRecorder(100)
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if failure != nil {
					return failure
				}

				return c.Create(ctx, obj, opts...)
			},
		}).Build()
		r = &care.Reconciler{
			Client: c, Reader: c, Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 10, 0, 0, time.UTC)), Recorder: recorder,
			Config: care.Config{SyncPeriod: time.Minute, Defragmentation: planner.DefragmentationSettings{Window: time.Hour, MinReclaimable: 1}},
			Observer: &observed{etcdcluster.Observation{
				State:       state.State{Accepted: &state.Accepted{}},
				StatefulSet: etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1},
				Pods:        []etcdcluster.Pod{{Name: "main-0", Ready: true}},
				Etcd: etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{
					{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, DBSize: 3 << 30, DBSizeInUse: 1 << 30},
				}},
			}},
		}
	})
	reconcileOnce := func(ctx context.Context) error {
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})

		return err
	}
	tasks := func(ctx context.Context) []druidv1alpha1.EtcdOpsTask {
		GinkgoHelper()
		list := &druidv1alpha1.EtcdOpsTaskList{}
		Expect(c.List(ctx, list)).To(Succeed())

		return list.Items
	}

	It("is requested once in a window by an EtcdOpsTask", func(ctx SpecContext) {
		Expect(reconcileOnce(ctx)).To(Succeed())
		Expect(reconcileOnce(ctx)).To(Succeed())
		found := tasks(ctx)
		Expect(found).To(HaveLen(1))
		Expect(found[0].Name).To(Equal("main-defragmentation-planned-1767268800"))
		Expect(found[0].Spec.Config.Defragmentation).NotTo(BeNil())
		Expect(found[0].Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/not-after", "2026-01-01T13:00:00Z"))
		Expect(found[0].Spec.TTLSecondsAfterFinished).To(HaveValue(BeEquivalentTo(7 * 24 * 60 * 60)))
		Expect(metav1.IsControlledBy(&found[0], etcd)).To(BeTrue())
		Expect(recorder.Events).To(Receive(ContainSubstring("Normal DefragmentationPlanned The file of member main-0 has 3Gi, and 1Gi are in use; EtcdOpsTask main-defragmentation-planned-1767268800 defragments")))
	})

	It("is reported if it would interrupt a member for too long", func(ctx SpecContext) {
		r.Config.Defragmentation.StallBudget = time.Second
		Expect(reconcileOnce(ctx)).To(Succeed())
		Expect(reconcileOnce(ctx)).To(Succeed())
		Expect(tasks(ctx)).To(BeEmpty())
		Expect(recorder.Events).To(Receive(HavePrefix("Warning DefragmentationRefused A planned defragmentation would interrupt each member for up to 10s")))
		Expect(recorder.Events).NotTo(Receive(HavePrefix("Warning DefragmentationRefused")))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(conditions.Find(etcd.Status.Conditions, "DatabaseSpaceAvailable")).To(And(
			HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "DefragmentationRefused"), HaveField("Message", ContainSubstring("longer than the budget of 1s")),
		))
	})

	It("is tried again after a failure, and the status is written nevertheless", func(ctx SpecContext) {
		failure = errors.New("unavailable")
		Expect(reconcileOnce(ctx)).To(MatchError(ContainSubstring("creating EtcdOpsTask main-defragmentation-planned-1767268800: unavailable")))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(conditions.Find(etcd.Status.Conditions, "DatabaseSpaceAvailable")).To(HaveField("Reason", "SpaceAvailable"))
		failure = nil
		Expect(reconcileOnce(ctx)).To(Succeed())
		Expect(tasks(ctx)).To(HaveLen(1))
	})
})
