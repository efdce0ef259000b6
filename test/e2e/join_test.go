// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withoutTLS disables TLS because the two clusters have no common CA.
func withoutTLS(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) }

var _ = Describe("An Etcd that joins an existing cluster", func() {
	It("adds its members to that cluster, which have every key, and removes the other members when the spec does not name them any more", quiet, SpecPriority(9), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "join")
		existing := fixture.Etcd(fixture.WithName("existing"), fixture.WithReplicas(3), withoutTLS)
		joining := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns), withoutTLS, joiningThree(ns.Name))

		By("starting no member before the existing cluster is healthy")
		ns.Create(ctx, joining)
		ns.Eventually(ctx, joining, func(g Gomega) {
			g.Expect(framework.Condition(joining, "Reconciled")).To(And(
				HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("the existing cluster to be healthy at http://existing-client.")),
			))
		})
		_, found := ns.FindPod(ctx, joining)
		Expect(found).To(BeFalse())

		By("joining the existing cluster when it has all its members")
		ns.Patch(ctx, joining, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, suspendAnnotation, "")
		})
		ns.Create(ctx, existing)
		ns.EventuallyReady(ctx, existing)
		writeLog := ns.NewWriteLog(existing)
		writeLog.Write(ctx, 50)
		ns.Patch(ctx, joining, func(etcd *druidv1alpha1.Etcd) {
			delete(etcd.Annotations, suspendAnnotation)
		})
		ns.EventuallyReady(ctx, joining)
		ns.Eventually(ctx, joining, func(g Gomega) {
			g.Expect(framework.Condition(joining, "BootstrappedWithExistingCluster")).To(HaveField("Status", BeEquivalentTo("True")))
			g.Expect(joining.Status.BootstrapWithExistingCluster).NotTo(BeNil())
			g.Expect(joining.Status.BootstrapWithExistingCluster.Members).To(HaveExactElements(HaveField("Name", "existing-0"), HaveField("Name", "existing-1"), HaveField("Name", "existing-2")))
			g.Expect(joining.Status.Members).To(HaveLen(3))
		})
		ns.NewWriteLog(joining).ExpectContained(ctx, writeLog.Written())

		By("writing to the new members and reading from the existing ones")
		later := ns.NewWriteLog(joining)
		later.Write(ctx, 5)
		ns.NewWriteLog(existing).ExpectContained(ctx, later.Written())

		removeExisting(ctx, ns, joining)
		written := writeLog.Written()
		maps.Copy(written, later.Written())
		ns.NewWriteLog(joining).ExpectContained(ctx, written)
	}, SpecTimeout(specTimeout))
})

// joiningThree lets the members join the cluster of the Etcd existing, which has three members.
func joiningThree(namespace string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		bootstrap := &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{fmt.Sprintf("http://existing-client.%s.svc:2379", namespace)}}
		for ordinal := range 3 {
			name := fmt.Sprintf("existing-%d", ordinal)
			bootstrap.Members = append(bootstrap.Members, druidv1alpha1.BootstrapExistingMember{
				Name: name, PeerURLs: []string{fmt.Sprintf("http://%s.existing-peer.%s.svc:2380", name, namespace)},
			})
		}
		etcd.Spec.Etcd.BootstrapWithExistingCluster = bootstrap
	}
}

// removeExisting removes the joined cluster from the spec under load. It expects short gaps between writes, no lost write, and one restart of each
// member of the Etcd afterwards.
func removeExisting(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	By("removing the members of the existing cluster")
	before := podsByName(ctx, ns)
	workload := ns.StartWorkloadWith(ctx, etcd, nil, "removal of three of six members")
	timeline := ns.StartTimeline(ctx, etcd)
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.BootstrapWithExistingCluster = nil })
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "ScaleOperationComplete")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "BootstrapMembersRemoval")))
	})
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(etcd.Status.BootstrapWithExistingCluster).To(BeNil())
	})
	workload.StartPhase("rolling update without the removed members")
	for name, pod := range podsByName(ctx, ns) {
		if strings.HasPrefix(name, etcd.Name) {
			Expect(pod.UID).To(Equal(before[name].UID), "no member restarts before the others are removed")
		}
	}
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "ScaleOperationComplete")).To(HaveField("Reason", "NoScaleOperation"))
		g.Expect(framework.CheckReady(etcd)).To(Succeed())
	})
	timeline.End("removal of the joined cluster")
	phases := workload.Stop(ctx)
	Expect(phases).To(HaveLen(2))
	expectBelow(phases[0].MembersGap, removalBound, phases[0].String())
	expectBelow(phases[0].WriteGap, removalBound, phases[0].String())
	expectShortGaps(phases)
	for name, pod := range podsByName(ctx, ns) {
		if strings.HasPrefix(name, etcd.Name) {
			Expect(pod.UID).NotTo(Equal(before[name].UID), "one rolling update follows")
		}
	}
	members, err := ns.NewWriteLog(etcd).Members(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(members.Members).To(And(HaveLen(3), HaveEach(And(HaveField("IsLearner", false), HaveField("Name", HavePrefix(etcd.Name+"-"))))))
}
