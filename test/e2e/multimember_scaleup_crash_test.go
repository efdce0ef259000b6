// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A cluster that grows from one member", func() {
	It("stays one cluster and loses no key where etcd is killed at each stage, with a newer snapshot in the store than in its database", SpecPriority(10), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "growth-crash")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), onLabeledNodes(ns))
		labelNode(ctx, ns, "n1")
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		members, err := writeLog.Members(ctx)
		Expect(err).NotTo(HaveOccurred())
		cluster := members.Header.ClusterId
		kill := func(stage string) {
			GinkgoHelper()
			By("killing etcd of the first member " + stage)
			pod := ns.Pod(ctx, etcd)
			ns.CrashWithOlderDatabase(ctx, etcd, pod, func() {
				writeLog.Write(ctx, 5)
				ns.Eventually(ctx, etcd, func(g Gomega) {
					saved := max(lastRevision(ctx, ns, "main-full-snap"), lastRevision(ctx, ns, "main-delta-snap"))
					g.Expect(saved).To(BeNumerically(">=", writeLog.Revision))
				})
			})
			ns.Eventually(ctx, etcd, func(g Gomega) {
				now := ns.Pod(ctx, etcd)
				g.Expect(framework.IsPodReady(now)).To(BeTrue())
				g.Expect(now.UID).To(Equal(pod.UID), "its container restarts, and not its pod")
				g.Expect(restartsOf(*now)["etcd"]).To(BeNumerically(">", restartsOf(*pod)["etcd"]))
			})
			members, err := writeLog.Members(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(members.Header.ClusterId).To(Equal(cluster), "no second cluster was restored")
			writeLog.ExpectComplete(ctx)
		}
		first := ns.Pod(ctx, etcd).UID

		By("growing to three members, while no more than one pod can be scheduled")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			pod, found := ns.FindPod(ctx, etcd)
			g.Expect(found).To(BeTrue())
			g.Expect(pod.UID).NotTo(Equal(first), "it restarts with the size of the cluster")
			g.Expect(framework.IsPodReady(pod)).To(BeTrue())
		})
		first = ns.Pod(ctx, etcd).UID
		kill("before a learner joins")

		By("letting a second pod be scheduled")
		labelNode(ctx, ns, "n2")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			members, err := writeLog.Members(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.Members).To(HaveLen(2))
		})
		kill("as soon as the second member has joined")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			members, err := writeLog.Members(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.Members).To(And(HaveLen(2), HaveEach(HaveField("IsLearner", BeFalse()))))
		})
		kill("when the second member votes, and the third cannot start")

		By("letting a third pod be scheduled")
		labelNode(ctx, ns, "n3")
		ns.EventuallyReady(ctx, etcd)
		Expect(voters(etcd)).To(Equal(3))
		kill("when all members vote")
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(first), "the first member restarts no second time")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout+specTimeout/2)) // four restarts of one container, each after a longer back-off of the kubelet
})

// onLabeledNodes lets pods run on nodes with the label of the story alone, one pod on each.
func onLabeledNodes(ns *framework.TestNamespace) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.SchedulingConstraints.Affinity = &corev1.Affinity{
			NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: nodeLabel(ns), Operator: corev1.NodeSelectorOpExists}},
			}}}},
			PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/part-of": etcd.Name}},
			}}},
		}
	}
}

func nodeLabel(ns *framework.TestNamespace) string { return "e2e.example.com/" + ns.Name }

// labelNode gives the node the label of the story, until the story ends.
func labelNode(ctx context.Context, ns *framework.TestNamespace, name string) {
	GinkgoHelper()
	patch := func(ctx context.Context, patch func(*corev1.Node)) {
		GinkgoHelper()
		node := &corev1.Node{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
		before := node.DeepCopy()
		patch(node)
		Expect(ns.Client.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
	}
	patch(ctx, func(node *corev1.Node) { metav1.SetMetaDataLabel(&node.ObjectMeta, nodeLabel(ns), "") })
	DeferCleanup(patch, func(node *corev1.Node) { delete(node.Labels, nodeLabel(ns)) })
}
