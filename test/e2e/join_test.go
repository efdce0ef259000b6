// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withoutTLS disables TLS because the two clusters have no common CA.
func withoutTLS(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(false) }

var _ = Describe("An Etcd that joins an existing cluster", func() {
	It("adds its members to that cluster, and they have every key", SpecPriority(5), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "join")
		existing := fixture.Etcd(fixture.WithName("existing"), withoutTLS)
		joining := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withoutTLS, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
				Members: []druidv1alpha1.BootstrapExistingMember{{
					Name: "existing-0", PeerURLs: []string{fmt.Sprintf("http://existing-0.existing-peer.%s.svc:2380", ns.Name)},
				}},
				ClientEndpoints: []string{fmt.Sprintf("http://existing-client.%s.svc:2379", ns.Name)},
			}
		})

		By("starting no member before the existing cluster is healthy")
		ns.Create(ctx, joining)
		ns.Eventually(ctx, joining, func(g Gomega) {
			g.Expect(framework.Condition(joining, "Progressing")).To(And(
				HaveField("Status", BeEquivalentTo("True")), HaveField("Message", ContainSubstring("the existing cluster to be healthy at http://existing-client.")),
			))
		})
		_, found := ns.FindPod(ctx, joining)
		Expect(found).To(BeFalse())

		By("joining the existing cluster")
		ns.Create(ctx, existing)
		ns.EventuallyReady(ctx, existing)
		writeLog := ns.NewWriteLog(existing)
		writeLog.Write(ctx, 50)
		ns.EventuallyReady(ctx, joining)
		ns.Eventually(ctx, joining, func(g Gomega) {
			g.Expect(framework.Condition(joining, "BootstrappedWithExistingCluster")).To(HaveField("Status", BeEquivalentTo("True")))
			g.Expect(joining.Status.BootstrapWithExistingCluster).NotTo(BeNil())
			g.Expect(joining.Status.BootstrapWithExistingCluster.Members).To(HaveExactElements(HaveField("Name", "existing-0")))
			g.Expect(joining.Status.Members).To(HaveLen(3))
		})
		ns.NewWriteLog(joining).ExpectContained(ctx, writeLog.Written())

		By("writing to the new members and reading from the existing one")
		later := ns.NewWriteLog(joining)
		later.Write(ctx, 5)
		ns.NewWriteLog(existing).ExpectContained(ctx, later.Written())
	}, SpecTimeout(specTimeout))
})
