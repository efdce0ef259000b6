// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The loss of two of three volumes", func() {
	It("is reported with the remaining data, and the operator does not attempt a repair", SpecPriority(7), framework.NeedsSeed("deletes volumes"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "lost-quorum")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"))
		})

		pods, claims := podsByName(ctx, ns), claimUIDs(ctx, ns)
		lostMembers := []string{"main-1", "main-2"}
		for _, pod := range lostMembers {
			ns.DeleteVolume(ctx, "main-"+pod) // the operator does not check the volume while the member is healthy
		}
		for _, pod := range lostMembers {
			ns.Kill(ctx, new(pods[pod]))
		}
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Message).To(And(
				ContainSubstring("the quorum of 2 cannot recover"), ContainSubstring("claim main-main-1 does not exist"), ContainSubstring("claim main-main-2 does not exist"),
				ContainSubstring("data of main-0"), ContainSubstring("newest full snapshot: 2"), ContainSubstring("the operator changes nothing")))
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("False"))
		})
		Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "QuorumLost").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).ShouldNot(BeEmpty(), ns.State)
		Consistently(func(g Gomega) {
			g.Expect(claimUIDs(ctx, ns)).To(Equal(claims))
			g.Expect(podsByName(ctx, ns)["main-0"].UID).To(Equal(pods["main-0"].UID))
			g.Expect(eventsWithReason(ctx, ns, "ReplacingVolume")).To(BeEmpty())
		}).WithContext(ctx).WithTimeout(15*time.Second).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	}, SpecTimeout(specTimeout))

	It("is reported during a scale-up, from the voting members that a quorum confirmed", SpecPriority(7), framework.NeedsSeed("deletes volumes and selects nodes of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "lost-quorum-scale-up")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), onLabeledNodes(ns))
		labelNode(ctx, ns, "n1")
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)

		By("adding one of two members, while the third cannot be scheduled")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })
		labelNode(ctx, ns, "n2")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			members, err := writeLog.Members(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.Members).To(And(HaveLen(2), HaveEach(HaveField("IsLearner", BeFalse()))))
			g.Expect(recordedVoters(ctx, ns, etcd)).To(ConsistOf("main-0", "main-1"))
		})
		writeLog.Write(ctx, 5)

		By("losing the volume of one of them")
		claims := ns.ClaimUIDs(ctx)
		ns.DeleteVolume(ctx, "main-main-1")
		ns.Kill(ctx, new(podsByName(ctx, ns)["main-1"]))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Message).To(And(
				ContainSubstring("cannot recover"), ContainSubstring("claim main-main-1 does not exist"), ContainSubstring("data of main-0"), ContainSubstring("druid.gardener.cloud/restore")))
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("False"))
		})
		Expect(ns.ClaimUIDs(ctx)).To(HaveKeyWithValue("main-main-0", claims["main-main-0"]), "the operator deletes no data")
	}, SpecTimeout(specTimeout))
})

// recordedVoters returns the names of the voting members that the ManagedResource records.
func recordedVoters(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) []string {
	GinkgoHelper()
	record, err := state.Decode(managedResource(ctx, ns, etcd).Annotations)
	Expect(err).NotTo(HaveOccurred())
	if record.Evidence == nil {
		return nil
	}
	names := make([]string, 0, len(record.Evidence.Voters))
	for _, voter := range record.Evidence.Voters {
		names = append(names, voter.Name)
	}

	return names
}
