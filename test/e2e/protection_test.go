// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const unprotectedAnnotation = "druid.gardener.cloud/disable-etcd-component-protection"

var _ = Describe("The objects of an Etcd", func() {
	It("are protected against changes by users, but not by the operator", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "protection")
		etcd := fixture.Etcd(fixture.WithName("main"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicy("DeleteAll"))
		})
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		pod, claim := ns.Pod(ctx, etcd), ns.Claim(ctx, etcd)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main-0"}}

		By("changing and deleting them as the administrator")
		for _, object := range append(issuedSecrets(ctx, ns), pod, claim, lease, statefulSet(ctx, ns, etcd), managedResource(ctx, ns, etcd),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main-config"}}) {
			expectForbidden(ns.Admin.Delete(ctx, object))
			expectForbidden(ns.Admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))))
		}
		expectForbidden(ns.Admin.SubResource("scale").Patch(ctx, statefulSet(ctx, ns, etcd), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))))
		expectForbidden(ns.Drainer.Delete(ctx, claim))

		By("changing the spec, which the operator rolls out")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["test"] = "changed" })
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		Expect(pod.Labels).To(HaveKeyWithValue("test", "changed"))

		By("deleting the pod as a drainer")
		Expect(ns.Drainer.Delete(ctx, pod)).To(Succeed())
		ns.EventuallyReplaced(ctx, etcd, pod)

		By("deleting a Lease as the administrator while the protection is disabled")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, unprotectedAnnotation, "")
		})
		Eventually(ns.Admin.Delete).WithArguments(ctx, lease).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed())
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { delete(etcd.Annotations, unprotectedAnnotation) })
		ns.EventuallyReady(ctx, etcd)

		By("deleting the Etcd, whose objects the operator deletes")
		Expect(ns.Admin.Delete(ctx, etcd)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
		expectRemaining(ctx, ns)
	}, SpecTimeout(specTimeout))

	It("allow an administrator to drain one node at a time, and do not count the pod of a Job as a member", framework.NeedsSeed("runs the pause image of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "drain")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)

		By("running a pod with the labels of a compaction Job")
		compacting := compactingPod()
		ns.Create(ctx, compacting)
		Eventually(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(compacting), compacting)).To(Succeed())
			g.Expect(framework.IsPodReady(compacting)).To(BeTrue())
		}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main"}}
		Eventually(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
			g.Expect(budget.Status).To(And(HaveField("ExpectedPods", int32(3)), HaveField("CurrentHealthy", int32(3)), HaveField("DisruptionsAllowed", int32(1))))
		}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		Expect(endpoints(ctx, ns, "main-client")).To(ConsistOf("main-0", "main-1", "main-2"))

		By("evicting a second member only after the first has recovered")
		first, second := memberPod(ctx, ns, 1), memberPod(ctx, ns, 2) // the write log uses the first member
		Expect(evict(ctx, ns, first)).To(Succeed())
		Expect(evict(ctx, ns, second)).To(Satisfy(apierrors.IsTooManyRequests))
		writeLog.Write(ctx, 5) // two of three members are healthy

		Eventually(evict).WithArguments(ctx, ns, second).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		Expect(memberPod(ctx, ns, 1)).To(And(HaveField("UID", Not(Equal(first.UID))), Satisfy(framework.IsPodReady)), "the second eviction succeeded after the recovery of the first member")

		ns.EventuallyReady(ctx, etcd)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

func expectForbidden(err error) {
	GinkgoHelper()
	Expect(err).To(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("annotate it with "+unprotectedAnnotation))))
}

// issuedSecrets returns the Secrets of the certificates that the operator issued, and the connection Secret.
func issuedSecrets(ctx context.Context, ns *framework.TestNamespace) []client.Object {
	GinkgoHelper()

	secrets := &corev1.SecretList{}
	Expect(ns.Client.List(ctx, secrets, client.InNamespace(ns.Name))).To(Succeed())

	kinds, found := map[string]bool{}, []client.Object{}
	for i := range secrets.Items {
		found = append(found, &secrets.Items[i])
		kinds[secrets.Items[i].Labels["managed-by"]+secrets.Items[i].Labels["origin"]+secrets.Items[i].Labels["app.kubernetes.io/component"]] = true
	}
	Expect(kinds).To(And(HaveKey("secrets-manager"), HaveKey("gardener-extension-etcd-druid"), HaveKey("etcd-connection")))

	return found
}

func memberPod(ctx context.Context, ns *framework.TestNamespace, ordinal int) *corev1.Pod {
	GinkgoHelper()

	pod := &corev1.Pod{}
	Expect(client.IgnoreNotFound(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: []string{"main-0", "main-1", "main-2"}[ordinal]}, pod))).To(Succeed())

	return pod
}

// evict creates an Eviction, like kubectl drain.
func evict(ctx context.Context, ns *framework.TestNamespace, pod *corev1.Pod) error {
	return ns.Admin.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}})
}

// endpoints returns the names of the pods in the EndpointSlices of the Service.
func endpoints(ctx context.Context, ns *framework.TestNamespace, service string) []string {
	GinkgoHelper()

	slices := &discoveryv1.EndpointSliceList{}
	Expect(ns.Client.List(ctx, slices, client.InNamespace(ns.Name), client.MatchingLabels{"kubernetes.io/service-name": service})).To(Succeed())

	names := []string{}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			names = append(names, endpoint.TargetRef.Name)
		}
	}

	return names
}

func compactingPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "main-compactor-x", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid",
			"app.kubernetes.io/part-of":    "main",
			"app.kubernetes.io/component":  "etcd-snapshot-compaction-job",
		}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "compaction", Image: "seed.local/pause:1"}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
}
