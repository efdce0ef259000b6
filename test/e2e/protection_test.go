// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The objects of an Etcd", func() {
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
