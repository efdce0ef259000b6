// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// Kubernetes evicts all pods from the node. Therefore no other test may run at the same time.
var _ = Describe("The loss of a node", Serial, func() {
	It("runs a member on another node after the commands of the runbook, and uses the node again after its return", framework.NeedsSeed("evicts all pods from a node of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "lostnode")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)

		pod := podOffFirstNode(ctx, ns)
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": etcd.Name, "NODE": pod.Spec.NodeName}
		const page = "operations/recover-a-member.md"
		DeferCleanup(removeOutOfServiceTaint, pod.Spec.NodeName)
		ns.Follow(ctx, page, "The node is lost", placeholders)
		Expect(isOutOfService(ctx, pod.Spec.NodeName)).To(BeTrue())
		Expect(ns.EventuallyReplaced(ctx, etcd, pod).Spec.NodeName).NotTo(Equal(pod.Spec.NodeName))
		writeLog.ExpectComplete(ctx)

		ns.Follow(ctx, page, "The node has recovered", placeholders)
		Expect(isOutOfService(ctx, pod.Spec.NodeName)).To(BeFalse())
	}, SpecTimeout(specTimeout))
})

// podOffFirstNode returns the pod of a member on a node other than n1, which the seed needs.
func podOffFirstNode(ctx context.Context, ns *framework.TestNamespace) *corev1.Pod {
	GinkgoHelper()

	pods := &corev1.PodList{}
	Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/part-of": "main"})).To(Succeed())

	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "n1" && pods.Items[i].Name != "main-0" {
			return &pods.Items[i]
		}
	}

	Fail("all members run on node n1")

	return nil
}

// isOutOfService returns whether the node has the out-of-service taint.
func isOutOfService(ctx context.Context, name string) bool {
	GinkgoHelper()

	node := &corev1.Node{}
	Expect(seed.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())

	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}

	return false
}

// removeOutOfServiceTaint removes the out-of-service taint of the node.
func removeOutOfServiceTaint(ctx SpecContext, name string) {
	node := &corev1.Node{}
	Expect(seed.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())

	before := node.DeepCopy()
	node.Spec.Taints = nil

	for _, taint := range before.Spec.Taints {
		if taint.Key != corev1.TaintNodeOutOfService {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}

	Expect(seed.Client.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
}
