// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// creations records the dry runs of new pods.
type creations struct {
	client.Writer

	sent     []*corev1.Pod
	response error
}

func (c *creations) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := client.CreateOptions{}
	options.ApplyOptions(opts)
	Expect(options.DryRun).To(ConsistOf(metav1.DryRunAll))
	c.sent = append(c.sent, obj.(*corev1.Pod))

	return c.response
}

var _ = Describe("The dry run of a new pod", func() {
	var (
		dryRuns *creations
		clock   *testclock.FakePassiveClock
		pod     *corev1.Pod
		observe func() []etcdcluster.Preflight
	)
	forbidden := func(message string) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "main-0", errors.New(message))
	}

	BeforeEach(func() {
		scheme := clientgoscheme.Scheme
		Expect(resourcesv1alpha1.AddToScheme(scheme)).To(Succeed())
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace("demo"))
		labels := map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"}
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "sts", Generation: 2, Labels: labels}}
		set.Spec.ServiceName, set.Spec.Template.Labels, set.Spec.Template.Spec.PriorityClassName = "main-peer", map[string]string{"app": "etcd"}, "absent"
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "main"}}}
		set.Status.ObservedGeneration, set.Status.UpdateRevision = 2, "new"
		pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-0", Labels: map[string]string{"controller-revision-hash": "old"}}}
		for key, value := range labels {
			pod.Labels[key] = value
		}
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("300m")}}}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		dryRuns, clock = &creations{}, testclock.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
		var o *observer.Observer
		observe = func() []etcdcluster.Preflight {
			if o == nil {
				c := fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(set, pod).Build()
				o = &observer.Observer{Reader: c, APIReader: c, Clock: clock, DryRun: dryRuns}
			}

			return o.Observe(context.Background(), etcd, observer.Request{Admission: true}).Preflights
		}
	})

	It("is sent before the pod of a healthy member is replaced, and again a minute later", func() {
		dryRuns.response = forbidden("no PriorityClass with name absent was found")
		refused := []etcdcluster.Preflight{{Refusal: `StatefulSet main cannot create a pod: pods "main-0" is forbidden: no PriorityClass with name absent was found; correct the field, the quota, or the policy in this message`}}
		Expect(observe()).To(Equal(refused))
		Expect(dryRuns.sent).To(ConsistOf(And(
			HaveField("Name", "main-0"), HaveField("Namespace", "demo"), HaveField("Spec.PriorityClassName", "absent"), HaveField("Spec.Hostname", "main-0"),
			HaveField("Labels", And(HaveKeyWithValue("app", "etcd"), HaveKeyWithValue("controller-revision-hash", "new"))),
			HaveField("Spec.Volumes", ConsistOf(HaveField("PersistentVolumeClaim.ClaimName", "main-main-0"))),
			HaveField("OwnerReferences", ConsistOf(HaveField("Name", "main"))),
		)))
		dryRuns.response = nil
		clock.SetTime(clock.Now().Add(59 * time.Second))
		Expect(observe()).To(Equal(refused))
		clock.SetTime(clock.Now().Add(time.Second))
		Expect(observe()).To(Equal([]etcdcluster.Preflight{{}}))
	})

	It("is not sent if no healthy member is outdated", func() {
		pod.Labels["controller-revision-hash"] = "new"
		Expect(observe()).To(BeEmpty())
		Expect(dryRuns.sent).To(BeEmpty())
	})

	It("is not sent for a pod that is not ready", func() {
		pod.Status.Conditions = nil
		Expect(observe()).To(BeEmpty())
	})

	const quota = "exceeded quota: main, "
	DescribeTable("refuses",
		func(response error, refusal, unknown string) {
			dryRuns.response = response
			Expect(observe()).To(ConsistOf(And(HaveField("Refusal", ContainSubstring(refusal)), HaveField("Unknown", ContainSubstring(unknown)))))
			if refusal == "" {
				Expect(observe()).To(ConsistOf(HaveField("Refusal", "")))
			}
			if unknown == "" {
				Expect(observe()).To(ConsistOf(HaveField("Unknown", "")))
			}
		},
		Entry("nothing if the name exists", apierrors.NewAlreadyExists(corev1.Resource("pods"), "main-0"), "", ""),
		Entry("what a policy refuses", forbidden(`violates PodSecurity "restricted:latest"`), "PodSecurity", ""),
		Entry("what a webhook refuses", errors.New(`admission webhook "policy.example.com" denied the request: no`), "policy.example.com", ""),
		Entry("an invalid pod", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "main-0", nil), "invalid", ""),
		Entry("nothing for a quota with the old pod", forbidden(quota+"requested: pods=1, used: pods=1, limited: pods=1"), "", ""),
		Entry("nothing for a quota with the requests of the old pod", forbidden(quota+"requested: count/pods=1,requests.cpu=400m, used: count/pods=3,requests.cpu=700m, limited: count/pods=3,requests.cpu=800m"), "", ""),
		Entry("larger requests than a quota has room for", forbidden(quota+"requested: cpu=500m, used: cpu=700m, limited: cpu=800m"), "exceeded quota", ""),
		Entry("a limit that the old pod does not have", forbidden(quota+"requested: limits.memory=1Gi, used: limits.memory=0, limited: limits.memory=512Mi"), "exceeded quota", ""),
		Entry("nothing if a webhook does not respond", apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": no endpoints`)), "", `could not be checked: Internal error occurred: failed calling webhook "policy.example.com"`),
		Entry("nothing if a webhook has no dry run", apierrors.NewBadRequest(`admission webhook "policy.example.com" does not support dry run`), "", "policy.example.com"),
		Entry("nothing without the right to create pods", forbidden(`User "operator" cannot create resource "pods" in API group "" in the namespace "demo"`), "", "cannot create resource"),
	)
})
