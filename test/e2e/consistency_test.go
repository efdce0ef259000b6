// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A changed value in the database of a member", func() {
	const key, untouchedTime = "write/000007", 5 * time.Second
	change := func(ctx context.Context, ns *framework.TestNamespace, name string) {
		GinkgoHelper()
		pod := podsByName(ctx, ns)[name]
		ns.ChangeValue(ctx, &pod, "main-"+name, key)
	}
	// changeTwo changes two members, one after the other, so that the quorum stays. The operator must not replace the first one meanwhile.
	changeTwo := func(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
		GinkgoHelper()
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, "true")
		})
		change(ctx, ns, "main-0")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Message", ContainSubstring("main-0 has hash")), "all members are healthy again")
		})
		change(ctx, ns, "main-2")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Message", ContainSubstring("No quorum of all voting members has the same data, and the operator changes nothing")))
		})
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			delete(etcd.Annotations, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation)
		})
	}

	It("is replaced with the data of the quorum, and is reported and not touched if no quorum has the same data", SpecPriority(7), framework.NeedsSeed("crashes processes and changes databases on volumes"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "inconsistent")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		began := time.Now()
		measure := func(what string) {
			AddReportEntry(what+" after "+time.Since(began).Round(100*time.Millisecond).String(), ReportEntryVisibilityAlways)
			began = time.Now()
		}

		By("changing the value in one member")
		claim, others := ns.ClaimNamed(ctx, "main-main-1"), podsByName(ctx, ns)
		volume := &corev1.PersistentVolume{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
		change(ctx, ns, "main-1")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(And(
				HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "DifferentData"),
				HaveField("Message", ContainSubstring("The operator replaces main-1 with the data of the quorum"))))
		})
		measure("The member was named")
		writeLog.Write(ctx, 20)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Status", BeEquivalentTo("True")))
		})
		measure("The member was replaced")
		ns.EventuallyReady(ctx, etcd)
		writeLog.ExpectComplete(ctx)
		Expect(ns.ClaimNamed(ctx, "main-main-1").UID).NotTo(Equal(claim.UID))
		for _, name := range []string{"main-0", "main-2"} {
			Expect(podsByName(ctx, ns)[name].UID).To(Equal(others[name].UID))
		}
		Expect(eventsWithReason(ctx, ns, "ExcludedMember")).To(ContainElement(ContainSubstring("Service main-client does not select pod main-1 any more")))

		By("inspecting the volume with the changed value")
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(volume), volume)).To(Succeed())
		Expect(volume.Spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimRetain))
		Expect(volume.Labels).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/retained-for-uid", string(etcd.UID)))
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(ns.Admin.Delete(ctx, volume))).To(Succeed()) })
		Expect(ns.ValueOn(volume, key)).To(MatchRegexp("^1+$"), "the evidence is kept")

		By("changing the value in two members, each to another one")
		began = time.Now()
		pods, claims := podsByName(ctx, ns), ns.ClaimUIDs(ctx)
		changeTwo(ctx, ns, etcd)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Reconciled")).To(HaveField("Message", ContainSubstring("a user to decide which data is correct")))
		})
		measure("The difference without a majority was reported")
		Consistently(func(g Gomega) {
			g.Expect(ns.ClaimUIDs(ctx)).To(Equal(claims))
			for name, pod := range podsByName(ctx, ns) {
				g.Expect(pod.UID).To(Equal(pods[name].UID))
				g.Expect(pod.Labels).To(HaveKeyWithValue("app.kubernetes.io/name", "main"))
			}
		}).WithContext(ctx).WithTimeout(untouchedTime).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	}, SpecTimeout(specTimeout))

	It("is replaced while etcd rejects all writes, which then ends, and without a majority after a user has decided", Label("long"), framework.NeedsSeed("crashes processes and changes databases on volumes"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "inconsistent-long")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)

		By("changing the value in one member and raising the alarm CORRUPT")
		change(ctx, ns, "main-1")
		writeLog.RaiseCorrupt(ctx)
		Expect(writeLog.WriteUntilRejected(ctx)).To(MatchError(ContainSubstring("corrupt")))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Message", ContainSubstring("The operator replaces main-1 with the data of the quorum")))
		})
		took := writeLog.EventuallyAccepts(ctx, framework.ReadyTimeout)
		AddReportEntry("etcd accepted writes "+took.Round(100*time.Millisecond).String()+" after the member was named", ReportEntryVisibilityAlways)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Status", BeEquivalentTo("True")))
		})
		ns.EventuallyReady(ctx, etcd)
		writeLog.ExpectComplete(ctx)

		By("changing the value in two members, and following the runbook")
		changeTwo(ctx, ns, etcd)
		pods := podsByName(ctx, ns)
		first, correct, last := pods["main-0"], pods["main-1"], pods["main-2"]
		writeLog.MoveLeaderTo(ctx, &correct, &first, &last)
		ns.Follow(ctx, "operations/recover-a-member.md", "The data is corrupt", map[string]string{"NAMESPACE": ns.Name, "NAME": "main", "ORDINAL": "2"})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Message", ContainSubstring("The operator replaces main-0 with the data of the quorum")))
		})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "DataConsistent")).To(HaveField("Status", BeEquivalentTo("True")))
		})
		ns.EventuallyReady(ctx, etcd)
		Expect(podsByName(ctx, ns)["main-1"].UID).To(Equal(correct.UID))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})
