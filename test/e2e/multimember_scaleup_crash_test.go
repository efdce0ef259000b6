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

var _ = Describe("A scale-up from one member", func() {
	It("keeps the cluster ID and every key when etcd crashes with a database older than the snapshots", SpecPriority(10), framework.NeedsSeed("kills processes and changes the directory of a volume"), framework.NeedsRestore("validates the data after a crash"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "scaleup-crash")
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
			By("crashing etcd of the first member " + stage)
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
				g.Expect(now.UID).To(Equal(pod.UID), "the container restarts, but the pod is the same")
				g.Expect(restartsOf(*now)["etcd"]).To(BeNumerically(">", restartsOf(*pod)["etcd"]))
			})
			members, err := writeLog.Members(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(members.Header.ClusterId).To(Equal(cluster), "the sidecar did not restore a second cluster")
			writeLog.ExpectComplete(ctx)
		}
		first := ns.Pod(ctx, etcd).UID

		By("scaling up to three members while only one pod can be scheduled")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			pod, found := ns.FindPod(ctx, etcd)
			g.Expect(found).To(BeTrue())
			g.Expect(pod.UID).NotTo(Equal(first), "the first member restarts with the new cluster size")
			g.Expect(framework.IsPodReady(pod)).To(BeTrue())
		})
		first = ns.Pod(ctx, etcd).UID

		By("allowing a second pod to be scheduled")
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
		kill("when the second member is a voting member and the third cannot start")

		By("allowing a third pod to be scheduled")
		labelNode(ctx, ns, "n3")
		ns.EventuallyReady(ctx, etcd)
		Expect(voters(etcd)).To(Equal(3))
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(first), "the first member restarts only once")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// onLabeledNodes allows pods only on nodes with the label of the namespace, and only one pod on each node.
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

// labelNode adds the label of the namespace to the node. The cleanup removes it.
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
