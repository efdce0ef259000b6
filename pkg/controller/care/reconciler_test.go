// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

// takes is an observer that needs time, as for unresponsive members.
type takes struct {
	clock *testclock.FakeClock
	time  time.Duration
}

func (t takes) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	t.clock.Step(t.time)

	return etcdcluster.Observation{}
}

var _ = DescribeTable("A multi-member cluster is reconciled again",
	func(ctx SpecContext, period, took, atLeast, atMost time.Duration, members ...druidv1alpha1.ConditionStatus) {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "demo", "main", 3
		for _, status := range members {
			etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: "AllMembersReady", Status: status})
		}
		clock := testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		r := &care.Reconciler{
			Client: fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build(),
			Clock:  clock, Recorder: events.NewFakeRecorder(100), Config: care.Config{SyncPeriod: period},
			Observer: takes{clock: clock, time: took},
		}

		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.RequeueAfter).To(And(BeNumerically(">=", atLeast), BeNumerically("<=", atMost)))
	},
	Entry("after four seconds plus jitter if all members respond immediately", time.Minute, time.Duration(0), 4*time.Second, 4400*time.Millisecond),
	Entry("after four seconds plus jitter if all members are ready", time.Minute, time.Duration(0), 4*time.Second, 4400*time.Millisecond, druidv1alpha1.ConditionTrue),
	Entry("after two seconds plus jitter if a member is not ready", time.Minute, time.Duration(0), 2*time.Second, 2200*time.Millisecond, druidv1alpha1.ConditionFalse),
	Entry("four seconds after the start of a reconciliation that took two", time.Minute, 2*time.Second, 2*time.Second, 2400*time.Millisecond),
	Entry("after a second if the reconciliation took as long as the period", time.Minute, 4*time.Second, time.Second, time.Second),
	Entry("after a shorter configured period", 100*time.Millisecond, time.Duration(0), 100*time.Millisecond, 110*time.Millisecond),
	Entry("after the configured period if the reconciliation took longer", 100*time.Millisecond, 4*time.Second, 100*time.Millisecond, 100*time.Millisecond),
)

// interrupted is an observer during whose observation another client writes the Etcd.
type interrupted struct {
	count int
	write func(context.Context)
}

func (i *interrupted) Observe(ctx context.Context, _ *druidv1alpha1.Etcd, _ observer.Request) etcdcluster.Observation {
	i.count++
	i.write(ctx)

	return etcdcluster.Observation{}
}

var _ = Describe("An Etcd that another client writes during an observation", func() {
	var (
		etcd         *druidv1alpha1.Etcd
		interruption *interrupted
		c            client.Client
		r            *care.Reconciler
	)

	BeforeEach(func() {
		scheme := runtime.NewScheme()
		Expect(druidv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd = &druidv1alpha1.Etcd{}
		etcd.Namespace, etcd.Name, etcd.Generation, etcd.Spec.Replicas = "demo", "main", 1, 3
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(etcd).WithStatusSubresource(etcd).Build()
		interruption = &interrupted{}
		r = &care.Reconciler{
			Client: c, Reader: c, Clock: testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), Recorder: events.NewFakeRecorder(100),
			Config: care.Config{SyncPeriod: time.Minute}, Observer: interruption,
		}
	})
	reconcileOnce := func(ctx context.Context) reconcile.Result {
		GinkgoHelper()
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())

		return result
	}

	It("gets the observed conditions in addition to those of the other client", func(ctx SpecContext) {
		interruption.write = func(ctx context.Context) {
			other := etcd.DeepCopy()
			Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), other)).To(Succeed())
			other.Status.ObservedGeneration = new(int64(1))
			other.Status.Conditions = append(other.Status.Conditions, druidv1alpha1.Condition{Type: "Reconciled", Status: "False", Reason: "Waiting"})
			Expect(c.Status().Update(ctx, other)).To(Succeed())
		}
		Expect(reconcileOnce(ctx).RequeueAfter).To(BeNumerically(">=", 2*time.Second))
		Expect(interruption.count).To(Equal(1))
		Expect(etcd.Status.Conditions).To(ContainElements(HaveField("Type", druidv1alpha1.ConditionType("Reconciled")), HaveField("Type", druidv1alpha1.ConditionType("AllMembersReady"))))
		Expect(etcd.Status.ObservedGeneration).To(HaveValue(BeEquivalentTo(1)))
	})

	It("is observed again if its spec changed", func(ctx SpecContext) {
		interruption.write = func(ctx context.Context) {
			other := etcd.DeepCopy()
			Expect(c.Get(ctx, client.ObjectKeyFromObject(etcd), other)).To(Succeed())
			other.Generation, other.Spec.Replicas = 2, 5
			Expect(c.Update(ctx, other)).To(Succeed())
		}
		Expect(reconcileOnce(ctx).RequeueAfter).To(BeNumerically("<", time.Second))
		Expect(interruption.count).To(Equal(1))
		Expect(etcd.Status.Conditions).To(BeEmpty())
	})
})
