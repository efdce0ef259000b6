// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The volumes of three members", quiet, func() {
	It("are expanded while the cluster is healthy, and are replaced by smaller ones of another class", SpecPriority(7), framework.NeedsSeed("expands volumes without a driver"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "volumes")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), capacity("1Gi"), withLocalStore(ns), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.Quota = new(resource.MustParse("128Mi"))
		})
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		before, former := podsByName(ctx, ns), &appsv1.StatefulSet{}
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), former)).To(Succeed())

		workload := ns.StartWorkload(ctx, etcd, "the volumes are expanded")
		ns.Patch(ctx, etcd, capacity("2Gi"))
		ns.EventuallyReady(ctx, etcd)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			for _, name := range []string{"main-main-0", "main-main-1", "main-main-2"} {
				claim := ns.ClaimNamed(ctx, name)
				g.Expect(claim.Spec.Resources.Requests.Storage().String()).To(Equal("2Gi"))
				g.Expect(claim.Status.Capacity.Storage().String()).To(Equal("2Gi"))
			}
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			g.Expect(statefulSet.UID).NotTo(Equal(former.UID))
			g.Expect(statefulSet.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("2Gi"))
		})
		expectShortGaps(workload.Stop(ctx)) // the next line expects that no pod restarts
		expectUntouched(ctx, ns, before, "")

		By("requesting a smaller capacity than the data needs, which the operator rejects until it is reverted")
		ns.Patch(ctx, etcd, capacity("256Mi"))
		ns.Eventually(ctx, etcd, reportsInvalidSpec(etcd, "256Mi are too small for the quota of 128Mi"))
		expectNoRetries(ctx, ns, etcd)
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(operator.MissingMetrics).WithContext(ctx).WithArguments("rejections").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())
		ns.Patch(ctx, etcd, capacity("2Gi"))
		ns.EventuallyReady(ctx, etcd)
		expectUntouched(ctx, ns, before, "")

		migrateVolumes(ctx, ns, etcd)
	}, SpecTimeout(specTimeout))
})

// capacity sets the size of the volumes.
func capacity(size string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse(size)) }
}

// migrateVolumes requests smaller volumes of another class. All members are replaced, one after the other, and at least as many as before vote at all
// times. The client Service selects none of them when it is removed. A client that was connected to it before waits until etcd stops, after one second.
func migrateVolumes(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	By("requesting smaller volumes of another class")
	before := ns.ClaimUIDs(ctx)
	workload := ns.StartWorkload(ctx, etcd, "the volumes are replaced")
	timeline := ns.StartTimeline(ctx, etcd)
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.StorageCapacity, etcd.Spec.StorageClass = new(resource.MustParse("1Gi")), new("gardener.cloud-fast")
	})
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "AllMembersUpdated")).To(HaveField("Message", ContainSubstring("members vote, of which 1 can fail")))
	})
	ns.EventuallyReady(ctx, etcd)
	timeline.End("the volumes are replaced")
	for _, stats := range workload.Stop(ctx) {
		expectBelow(stats.MembersGap, time.Second, stats.String())
		expectBelow(stats.WriteGap, surgeBound, stats.String())
	}
	Expect(eventsWithReason(ctx, ns, "ExcludedMember")).To(ContainElements(
		ContainSubstring("does not select pod main-0"), ContainSubstring("does not select pod main-1"), ContainSubstring("does not select pod main-2")))
	after := ns.ClaimUIDs(ctx)
	Expect(after).To(HaveLen(3))
	for _, name := range []string{"main-main-0", "main-main-1", "main-main-2"} {
		claim := ns.ClaimNamed(ctx, name)
		Expect(claim.Spec.Resources.Requests.Storage().String()).To(Equal("1Gi"))
		Expect(claim.Spec.StorageClassName).To(HaveValue(Equal("gardener.cloud-fast")))
		Expect(before).NotTo(ContainElement(claim.UID))
	}
	members, err := ns.NewWriteLog(etcd).Members(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(members.Members).To(HaveLen(3))
}

// reportsInvalidSpec checks that the condition Reconciled reports an invalid spec with the message.
func reportsInvalidSpec(etcd *druidv1alpha1.Etcd, message string) func(Gomega) {
	return func(g Gomega) {
		g.Expect(framework.Condition(etcd, "Reconciled")).To(And(HaveField("Reason", "InvalidSpec"), HaveField("Message", ContainSubstring(message))))
	}
}

// expectNoRetries expects that the etcd controller does not retry the rejected spec. It then writes neither the Etcd nor events.
func expectNoRetries(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "InvalidSpec").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).ShouldNot(BeEmpty(), ns.State)
	rejections := len(eventsWithReason(ctx, ns, "InvalidSpec"))
	Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	before := withoutOtherWriters(etcd)
	Consistently(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		g.Expect(withoutOtherWriters(etcd)).To(Equal(before))
		g.Expect(eventsWithReason(ctx, ns, "InvalidSpec")).To(HaveLen(rejections))
	}).WithContext(ctx).WithTimeout(3*time.Second).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
}

// withoutOtherWriters returns a copy of the Etcd without what other controllers than the etcd controller write.
func withoutOtherWriters(etcd *druidv1alpha1.Etcd) *druidv1alpha1.Etcd {
	written := etcd.DeepCopy()
	written.ResourceVersion, written.ManagedFields = "", nil
	written.Status.Members, written.Status.BootstrapWithExistingCluster = nil, nil
	written.Status.Conditions = slices.DeleteFunc(written.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return !slices.Contains(conditions.EtcdTypes(), condition.Type)
	})

	return written
}
