// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withQuota sets the quota of the database.
func withQuota(quota string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Quota = new(resource.MustParse(quota)) }
}

var _ = Describe("A full database", func() {
	const spaceTimeout = 2 * time.Minute

	DescribeTable("accepts writes within two minutes, and loses no lease and no acknowledged write",
		func(ctx SpecContext, replicas int32, version string) {
			ns := seed.NewNamespace(ctx, "space")
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(replicas), withLocalStore(ns), withQuota("64Mi"))
			etcd.Spec.Etcd.Version = &version
			ns.Create(ctx, etcd)
			ns.EventuallyReady(ctx, etcd)
			pods := podStates(ctx, ns)
			writeLog := ns.NewWriteLog(etcd)
			writeLog.Write(ctx, 100)
			leases := writeLog.HoldLeases(ctx, 5, 10*time.Second)

			By("overwriting one key until the history fills the database")
			writeLog.Fill(ctx, func(int) string { return "/registry/leases/holder" })
			took := writeLog.EventuallyAccepts(ctx, spaceTimeout)
			AddReportEntry(fmt.Sprintf("%d members with etcd %s accepted writes after %s", replicas, version, took.Round(100*time.Millisecond)), ReportEntryVisibilityAlways)

			leases.ExpectAlive(ctx)
			writeLog.Write(ctx, 100)
			writeLog.ExpectComplete(ctx)
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "DatabaseSpaceAvailable")).To(HaveField("Reason", "SpaceAvailable"))
				g.Expect(framework.CheckReady(etcd)).To(Succeed())
			})
			Expect(podStates(ctx, ns)).To(Equal(pods), "no pod is replaced, restarted or not ready")
			leases.ExpectAlive(ctx)
			if replicas == 1 {
				expectPlannedDefragmentation(ctx, ns, etcd, writeLog)
			}
		},
		Entry("with three members of etcd 3.4", SpecPriority(8), int32(3), "3.4", SpecTimeout(specTimeout)),
		Entry("with three members of etcd 3.5", Label("long"), int32(3), "3.5", SpecTimeout(specTimeout)),
		Entry("with a single member", Label("long"), int32(1), "3.4", SpecTimeout(specTimeout)),
	)

	It("is reported with the prefix of its keys if these need too much, until the quota is larger", Label("long"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "space-keys")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withQuota("64Mi"))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 100)
		writeLog.Fill(ctx, func(number int) string { return fmt.Sprintf("/registry/events/default/%d", number) })
		events := writeLog.Count(ctx, "/registry/events/")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DatabaseSpaceAvailable")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "FreeingSpaceBlocked"),
				HaveField("Message", ContainSubstring(fmt.Sprintf("The prefixes with most keys: /registry/events/ has %d, ", events)))))
		})
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Quota = new(resource.MustParse("256Mi")) })
		writeLog.EventuallyAccepts(ctx, 3*time.Minute)
		writeLog.ExpectComplete(ctx)
		ns.EventuallyReady(ctx, etcd)
	}, SpecTimeout(specTimeout))
})

// expectPlannedDefragmentation fragments a database with a quota of 64Mi, and opens a window for its defragmentation.
func expectPlannedDefragmentation(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, writeLog *framework.WriteLog) {
	GinkgoHelper()

	const inWindow, limit = "main-defragmentation-planned-", 64 << 20 / 10 * 8 // the operator defragments a larger file if a tenth of it is free

	By("refusing a defragmentation that takes longer than the budget")
	pod := ns.Pod(ctx, etcd)
	writeLog.Fragment(ctx, limit)
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/defragmentation-stall-budget", "1ns")
		etcd.Spec.Etcd.DefragmentationSchedule = new("* * * * *")
	})
	ns.Eventually(ctx, etcd, func(g Gomega) {
		writeLog.Write(ctx, 1) // etcd reports what a compaction has freed after a later write, when no snapshot reads the database
		g.Expect(framework.Condition(etcd, "DatabaseSpaceAvailable")).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "DefragmentationRefused")))
	})

	By("defragmenting the member within the budget")
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
		delete(etcd.Annotations, "druid.gardener.cloud/defragmentation-stall-budget")
	})
	tasks := &druidv1alpha1.EtcdOpsTaskList{}
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.List(ctx, tasks, client.InNamespace(ns.Name))).To(Succeed())
		g.Expect(tasks.Items).To(ContainElement(And(
			HaveField("Name", HavePrefix(inWindow)), HaveField("Status.State", HaveValue(BeEquivalentTo("Succeeded"))),
			HaveField("Status.Members", ConsistOf(And(HaveField("SizeBytesBefore", BeNumerically(">", limit)), HaveField("SizeBytesAfter", BeNumerically("<", limit/2))))),
		)))
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "DatabaseSpaceAvailable").Reason).To(Equal("SpaceAvailable"))
		g.Expect(framework.CheckReady(etcd)).To(Succeed())
	})
	Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
	writeLog.ExpectComplete(ctx)
}
