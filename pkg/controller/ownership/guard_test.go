// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"time"

	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
)

var _ = Describe("Guard", func() {
	var (
		ctx      = context.Background()
		scheme   = runtime.NewScheme()
		objects  []client.Object
		calls    interceptor.Funcs
		recorder *events.FakeRecorder
		guard    *ownership.Guard
		c        client.Client
	)
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
	Expect(operatorv1alpha1.AddToScheme(scheme)).To(Succeed())

	labels := map[string]string{"gardener.cloud/role": "etcd-druid"}
	deployment := func(replicas int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "etcd-druid"},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}
	}
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: name, Labels: labels}}
	}
	ended := func(phase corev1.PodPhase) *corev1.Pod {
		ended := pod("etcd-druid-" + strings.ToLower(string(phase)))
		ended.Status.Phase = phase

		return ended
	}
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "druid-leader-election"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	check := func() error {
		c = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(calls).Build()
		guard.Client = c

		return guard.Check(ctx)
	}

	BeforeEach(func() {
		objects, calls, recorder = nil, interceptor.Funcs{}, events.NewFakeRecorder(10)
		guard = &ownership.Guard{Hostname: "ours-0", Recorder: recorder, Lease: client.ObjectKey{Namespace: "garden", Name: "druid-leader-election"}}
	})

	DescribeTable("decides whether to be standby",
		func(standsBy bool, found ...client.Object) {
			objects = found
			Expect(check()).To(Succeed())
			if standsBy {
				Expect(guard.StandbyReason()).To(ContainSubstring("garden/etcd-druid"))
				Expect(recorder.Events).To(Receive(ContainSubstring("StandingBy")))
			} else {
				Expect(guard.StandbyReason()).To(BeEmpty())
				Expect(recorder.Events).NotTo(Receive())
			}
		},
		Entry("not without an etcd-druid of gardenlet", false),
		Entry("for an etcd-druid that is running", true, deployment(1), pod("etcd-druid-a")),
		Entry("for an etcd-druid that is about to start", true, deployment(1)),
		Entry("for the last pod of an etcd-druid that is scaled down", true, deployment(0), pod("etcd-druid-a")),
		Entry("not for an etcd-druid that is scaled down", false, deployment(0)),
		Entry("not for pods of a scaled down etcd-druid that have ended but exist", false, deployment(0), ended("Failed"), ended("Succeeded")),
		Entry("for a pod of a scaled down etcd-druid whose node does not report its state", true, deployment(0), ended("Unknown")),
		Entry("not for its own Deployment in place of etcd-druid", false, deployment(1), pod("ours-0")),
		Entry("not for another instance of this operator in place of etcd-druid that is the leader", false, deployment(1), pod("etcd-druid-a"), lease("etcd-druid-a_1234_gardener-extension-etcd-druid")),
		Entry("for an etcd-druid that is the leader with the same Lease", true, deployment(1), pod("etcd-druid-a"), lease("etcd-druid-a_1234")),
		Entry("for an etcd-druid while another instance of this operator is the leader", true, deployment(1), pod("etcd-druid-a"), lease("other-0_1234_gardener-extension-etcd-druid")),
	)

	It("writes the event of a standby that began before the recorder existed, and writes it once", func() {
		objects = []client.Object{deployment(1), pod("etcd-druid-a")}
		guard.Recorder = nil
		Expect(check()).To(Succeed())
		guard.Recorder = recorder
		Expect(check()).To(Succeed())
		Expect(check()).To(Succeed())
		Expect(recorder.Events).To(Receive(ContainSubstring("StandingBy")))
		Expect(recorder.Events).NotTo(Receive())

		objects = nil
		Expect(check()).To(Succeed())
		objects = []client.Object{deployment(1)}
		Expect(check()).To(Succeed())
		Expect(recorder.Events).To(Receive(ContainSubstring("StandingBy")), "of the next standby")
	})

	It("lets its pod in place of etcd-druid connect to the etcds, and changes no other pod", func() {
		objects = []client.Object{deployment(2), pod("ours-0"), pod("other-0")}
		Expect(check()).To(Succeed())
		Expect(guard.AllowNetwork(ctx)).To(Succeed())

		labeled := &corev1.Pod{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "ours-0"}, labeled)).To(Succeed())
		Expect(labeled.Labels).To(And(
			HaveKeyWithValue("gardener.cloud/role", "etcd-druid"),
			HaveKeyWithValue("networking.resources.gardener.cloud/to-all-shoots-etcd-events-client-tcp-2379", "allowed"),
			HaveKeyWithValue("networking.resources.gardener.cloud/to-garden-virtual-garden-etcd-main-client-tcp-8080", "allowed"),
			HaveLen(9),
		))
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "garden", Name: "other-0"}, labeled)).To(Succeed())
		Expect(labeled.Labels).To(Equal(labels))

		calls.Patch = func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("forbidden")
		}
		Expect(check()).To(Succeed())
		Expect(guard.AllowNetwork(ctx)).To(MatchError(And(ContainSubstring("garden/ours-0"), ContainSubstring("additionalServiceAccounts"))))
	})

	It("changes no pod outside of the Deployment of etcd-druid", func() {
		own := pod("ours-0")
		own.Labels = map[string]string{"app": "operator"}
		objects = []client.Object{deployment(0), own}
		Expect(check()).To(Succeed())
		Expect(guard.AllowNetwork(ctx)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKeyFromObject(own), own)).To(Succeed())
		Expect(own.Labels).To(HaveLen(1))
	})

	It("is standby until the first check", func() {
		Expect(guard.StandbyReason()).NotTo(BeEmpty())
	})

	It("keeps the last result while checks fail", func() {
		Expect(check()).To(Succeed())
		calls.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("timeout")
		}
		Expect(check()).To(MatchError(ContainSubstring("timeout")))
		Expect(guard.StandbyReason()).To(BeEmpty())
	})

	It("reports on standby why a check fails, until one succeeds", func() {
		objects = []client.Object{deployment(1)}
		Expect(check()).To(Succeed())
		before := guard.StandbyReason()
		calls.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("timeout")
		}
		Expect(check()).NotTo(Succeed())
		Expect(guard.StandbyReason()).To(Equal(before + "; the last check failed: reading Deployment garden/etcd-druid: timeout"))
		calls.Get = nil
		Expect(check()).To(Succeed())
		Expect(guard.StandbyReason()).To(Equal(before))
	})

	DescribeTable("is standby, with the remedy, if it may not list the pods of an etcd-druid",
		func(replicas int32) {
			forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no RBAC policy matched"))
			calls.List = func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return forbidden
			}
			objects = []client.Object{deployment(replicas)}
			Expect(check()).To(Succeed())
			Expect(guard.StandbyReason()).To(And(HavePrefix("Deployment garden/etcd-druid exists"), ContainSubstring(forbidden.Error()), ContainSubstring("delete the Deployment")))
			Expect(recorder.Events).To(Receive(ContainSubstring("StandingBy")))

			By("acting when the Deployment is deleted")
			objects = nil
			Expect(check()).To(Succeed())
			Expect(guard.StandbyReason()).To(BeEmpty())
		},
		Entry("that is running", int32(1)),
		Entry("that is scaled down, since its last pod may exist", int32(0)),
	)

	It("responds with its state", func() {
		ownership := func() string {
			response := httptest.NewRecorder()
			guard.ServeHTTP(response, nil)

			return response.Body.String()
		}
		Expect(check()).To(Succeed())
		Expect(ownership()).To(Equal("waiting for the election\n"))
		objects = []client.Object{deployment(1)}
		Expect(check()).To(Succeed())
		Expect(ownership()).To(HavePrefix("standby: Deployment garden/etcd-druid"))
		objects = nil
		Expect(check()).To(Succeed())
		elected := make(chan struct{})
		close(elected)
		guard.Elected = elected
		Expect(ownership()).To(Equal("acting\n"))
	})

	It("ends a leading process when the etcd-druid runs again", func() {
		clock := testclock.NewFakeClock(time.Now())
		elected := make(chan struct{})
		close(elected)
		guard.Elected, guard.Clock = elected, clock
		Expect(check()).To(Succeed())
		ended := make(chan error, 1)
		go func() { ended <- guard.Start(ctx) }()
		Eventually(clock.HasWaiters).Should(BeTrue())
		Expect(c.Create(ctx, deployment(1))).To(Succeed())
		clock.Step(5 * time.Second)
		Eventually(ended).Should(Receive(MatchError(ownership.ErrEtcdDruidActive)))
	})

	It("stops the etcd-druid for a takeover, and is standby until its pods are gone", func() {
		guard.TakeOver = true
		objects = []client.Object{
			deployment(1), pod("etcd-druid-a"),
			&resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "etcd-druid", Annotations: map[string]string{"a": "b"}}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}},
		}
		Expect(check()).To(Succeed())
		Expect(guard.StandbyReason()).To(ContainSubstring("being switched off"))

		resource, scaled := &resourcesv1alpha1.ManagedResource{}, &appsv1.Deployment{}
		Expect(c.Get(ctx, ownership.EtcdDruidKey, resource)).To(Succeed())
		Expect(resource.Annotations).To(Equal(map[string]string{"a": "b", "resources.gardener.cloud/ignore": "true"}))
		Expect(c.Get(ctx, ownership.EtcdDruidKey, scaled)).To(Succeed())
		Expect(scaled.Spec.Replicas).To(HaveValue(BeZero()))
		webhooks := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		Expect(c.List(ctx, webhooks)).To(Succeed())
		Expect(webhooks.Items).To(BeEmpty())

		Expect(guard.Check(ctx)).To(Succeed())
		Expect(guard.StandbyReason()).NotTo(BeEmpty(), "its pod is still there")
		Expect(c.Delete(ctx, pod("etcd-druid-a"))).To(Succeed())
		Expect(guard.Check(ctx)).To(Succeed())
		Expect(guard.StandbyReason()).To(BeEmpty())
	})

	It("does not take over from gardener-operator, which would wait for its etcd-druid forever, and states the remedy", func() {
		guard.TakeOver = true
		objects = []client.Object{
			deployment(1), pod("etcd-druid-a"), &operatorv1alpha1.Garden{ObjectMeta: metav1.ObjectMeta{Name: "garden"}},
			&resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "etcd-druid"}},
		}
		Expect(check()).To(Succeed())
		Expect(guard.StandbyReason()).To(And(ContainSubstring("gardener-operator"), ContainSubstring("in place of etcd-druid")))
		Expect(recorder.Events).To(Receive(ContainSubstring("StandingBy")))

		untouched, resource := &appsv1.Deployment{}, &resourcesv1alpha1.ManagedResource{}
		Expect(c.Get(ctx, ownership.EtcdDruidKey, untouched)).To(Succeed())
		Expect(untouched.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
		Expect(c.Get(ctx, ownership.EtcdDruidKey, resource)).To(Succeed())
		Expect(resource.Annotations).To(BeEmpty())
	})

	It("takes over without the CustomResourceDefinition of Gardens", func() {
		guard.TakeOver = true
		objects = []client.Object{deployment(1)}
		calls.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if kind := list.GetObjectKind().GroupVersionKind(); kind.Kind == "GardenList" {
				return &meta.NoKindMatchError{GroupKind: kind.GroupKind()}
			}

			return c.List(ctx, list, options...)
		}
		Expect(check()).To(Succeed())
		Expect(guard.StandbyReason()).To(ContainSubstring("being switched off"))
	})

	It("does not change the etcd-druid otherwise", func() {
		objects = []client.Object{deployment(1), pod("etcd-druid-a")}
		Expect(check()).To(Succeed())
		untouched := &appsv1.Deployment{}
		Expect(c.Get(ctx, ownership.EtcdDruidKey, untouched)).To(Succeed())
		Expect(untouched.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
	})
})
