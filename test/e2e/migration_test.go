// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// This test replaces the operator with another installation. Therefore no other test may run at the same time.
var _ = Describe("The operator on a seed of gardenlet", Serial, func() {
	It("takes over the Etcds from etcd-druid, hands them back, and replaces etcd-druid in its Deployment", framework.NeedsSeed("uses the API of Gardener and deletes all other Etcds"), func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		ns := seed.NewNamespace(ctx, "migration")
		removeLeftovers(ctx, ns)
		ns.ApplyCluster(ctx, "", nil)
		entry := ns.CreateBackupEntry(ctx)
		gardenlet := ns.NewGardenlet(ctx)

		// The test hands back the Etcds of the whole seed, which changes their specs. The next `make up` creates the example again.
		otherEtcds := &druidv1alpha1.EtcdList{}
		DeferCleanup(func(ctx SpecContext) {
			for i := range otherEtcds.Items {
				Expect(ns.Delete(ctx, &otherEtcds.Items[i])).To(Succeed())
			}
		})

		installation := seed.Install(ctx, operator, "extension-"+ns.Name)
		gardenlet.InstallEtcdDruid(ctx, "seed.local/busybox:1", nil)
		DeferCleanup(installation.Remove)

		By("staying standby while etcd-druid runs")
		installation.Apply(ctx, map[string]any{})
		Eventually(installation.Ownership).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).
			Should(And(HaveLen(2), HaveEach(HavePrefix("standby: Deployment garden/etcd-druid"))))
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Spec.Labels, etcd.Spec.Replicas = "main", map[string]string{"app": "main"}, 1
		etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: entry + "/main"}
		ns.Create(ctx, etcd)
		managed := client.ObjectKey{Namespace: ns.Name, Name: "druid-main"}
		isManaged := func() bool {
			return !apierrors.IsNotFound(ns.Client.Get(ctx, managed, &resourcesv1alpha1.ManagedResource{}))
		}
		Consistently(isManaged).WithTimeout(5 * time.Second).WithPolling(framework.PollInterval).Should(BeFalse())

		By("taking over from etcd-druid")
		installation.Apply(ctx, map[string]any{"predecessor": "TakeOver"})
		ns.EventuallyReady(ctx, etcd)
		Expect(isManaged()).To(BeTrue())
		Expect(installation.Ownership(ctx)).To(ContainElement("acting\n"), "one replica of the operator acts")
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		writeLog.TLS, err = ns.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())

		By("reconciling every Etcd on the seed, because the operator hands back all Etcds or none")
		Expect(ns.Client.List(ctx, otherEtcds)).To(Succeed())
		for i := range otherEtcds.Items {
			ns.Patch(ctx, &otherEtcds.Items[i], func(etcd *druidv1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
			})
		}
		for i := range otherEtcds.Items {
			ns.Eventually(ctx, &otherEtcds.Items[i], func(g Gomega) {
				g.Expect(otherEtcds.Items[i].Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"))
				g.Expect(framework.CheckReady(&otherEtcds.Items[i])).To(Succeed())
			})
		}

		pod := ns.Pod(ctx, etcd)

		By("handing back to etcd-druid")
		installation.Apply(ctx, map[string]any{"predecessor": "GiveBack"})
		Eventually(isManaged).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeFalse(), ns.State)
		Eventually(func(g Gomega) {
			deployment := &appsv1.Deployment{}
			g.Expect(ns.Client.Get(ctx, framework.EtcdDruid, deployment)).To(Succeed())
			g.Expect(deployment.Spec.Replicas).To(HaveValue(BeNumerically(">", 0)))
		}).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), "etcd-druid is scaled up again")
		Eventually(installation.Ownership).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).
			Should(And(HaveLen(2), HaveEach(HavePrefix("standby"))))

		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Etcd.ClientUrlTLS).NotTo(BeNil())
		Expect(etcd.Spec.Backup.Store.SecretRef).NotTo(BeNil())
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		writeLog.ExpectComplete(ctx)
		Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed(), "TLS stays enabled")

		By("running in the Deployment of gardenlet, in place of etcd-druid")
		installation.Apply(ctx, map[string]any{
			"replicaCount":              0,
			"additionalServiceAccounts": []any{map[string]any{"namespace": framework.EtcdDruid.Namespace, "name": framework.EtcdDruid.Name}},
		})
		component := gardenlet.InstallEtcdDruid(ctx, operator.ContainerImage(ctx), new(operator.ImageVector(ctx)))
		Expect(component.Wait(ctx)).To(Succeed(), "the Deployment of gardenlet is rolled out")
		Eventually(seed.OwnershipIn).WithContext(ctx).WithArguments(framework.EtcdDruid.Namespace).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).
			Should(ContainElement("acting\n"))
		reconcile := func(mutate func(*druidv1alpha1.Etcd)) {
			GinkgoHelper()
			ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
				mutate(etcd)
			})
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"))
				g.Expect(framework.CheckReady(etcd)).To(Succeed())
			})
		}
		reconcile(func(*druidv1alpha1.Etcd) {})
		Expect(isManaged()).To(BeTrue())
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "the operator adopts the Etcd that it handed back")

		By("changing the Etcd")
		reconcile(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive")) })
		Expect(ns.Pod(ctx, etcd).UID).NotTo(Equal(pod.UID))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// removeLeftovers deletes the Etcds of failed tests. They would block the hand-back, because the operator hands back all Etcds or
// none. Their reports are already written.
func removeLeftovers(ctx context.Context, ns *framework.TestNamespace) {
	GinkgoHelper()
	leftovers := func() []druidv1alpha1.Etcd {
		GinkgoHelper()
		etcds := &druidv1alpha1.EtcdList{}
		Expect(ns.Client.List(ctx, etcds)).To(Succeed())

		return slices.DeleteFunc(etcds.Items, func(etcd druidv1alpha1.Etcd) bool { return !strings.HasPrefix(etcd.Namespace, "e2e-") })
	}
	for _, etcd := range leftovers() {
		before := etcd.DeepCopy()
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/skip-final-snapshot", "")
		Expect(client.IgnoreNotFound(ns.Client.Patch(ctx, &etcd, client.MergeFrom(before)))).To(Succeed())
		Expect(ns.Delete(ctx, &etcd)).To(Succeed())
	}
	Eventually(leftovers).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeEmpty(), "Etcds of failed tests")
}
