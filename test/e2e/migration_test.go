// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/handback"
)

// This test replaces the operator with another installation. Therefore no other test may run at the same time, or after it.
var _ = Describe("The operator on a seed of gardenlet", quiet, Serial, SpecPriority(-1), func() {
	It("takes over the Etcds from etcd-druid under load, hands them back, and replaces etcd-druid in its Deployment", gate, framework.NeedsSeed("uses the API of Gardener and deletes all other Etcds"), func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		ns := seed.NewNamespace(ctx, "migration")
		removeLeftovers(ctx, ns)
		ns.ApplyCluster(ctx, "", nil)
		entry := ns.CreateBackupEntry(ctx)
		gardenlet := ns.NewGardenlet(ctx)

		// The test hands back the Etcds of the whole seed, which changes their specs. The next `make up` creates the example again.
		allEtcds := &druidv1alpha1.EtcdList{}
		DeferCleanup(func(ctx SpecContext) {
			for i := range allEtcds.Items {
				Expect(ns.Delete(ctx, &allEtcds.Items[i])).To(Succeed())
			}
		})

		installation := seed.Install(ctx, operator, "extension-"+ns.Name)

		By("running three members like gardenlet and etcd-druid")
		ns.EventuallySecret(ctx, "etcd-backup")
		component := gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, gardenletValues(ns, 3, entry))
		Expect(component.Deploy(ctx)).To(Succeed())
		adopted := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "etcd-main"}}
		eventuallyRuns := createWithEtcdDruid(ctx, ns, operator, adopted)

		By("running one member like etcd-druid")
		one := fixture.Etcd(fixture.WithName("one"), withLocalStore(ns), func(etcd *druidv1alpha1.Etcd) {
			store := adopted.Spec.Backup.Store.DeepCopy()
			store.Prefix = entry + "/one" // gardener-resource-manager rejects a prefix without the namespace
			etcd.Spec.Backup.Store = store
		})
		ns.Create(ctx, one)
		eventuallyOneRuns := createWithEtcdDruid(ctx, ns, operator, one)

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
		managed := func() []string { return managedResources(ctx, ns) }
		Consistently(managed).WithTimeout(5 * time.Second).WithPolling(framework.PollInterval).Should(BeEmpty())

		By("waiting until the members run")
		eventuallyRuns()
		eventuallyOneRuns()
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		Expect(managed()).To(BeEmpty())
		adoptedLog := ns.NewWriteLog(adopted)
		adoptedLog.TLS = gardenlet.Connection(adopted)
		adoptedLog.Write(ctx, 20)
		oneLog := ns.NewWriteLog(one)
		oneLog.Write(ctx, 20)
		planAdoption(ctx, ns, adopted)
		Expect(planAdoption(ctx, ns, one)).To(ContainSubstring("delete pod one-0"))

		By("taking over from etcd-druid")
		before, claims := podsByName(ctx, ns), ns.ClaimUIDs(ctx)
		fullSnapshots := func() []string {
			files, err := filepath.Glob(filepath.Join(ns.StoreDir(), entry, adopted.Name, "*", "Full-*"))
			Expect(err).NotTo(HaveOccurred())

			return files
		}
		snapshotsBefore := fullSnapshots()
		workload := ns.StartWorkloadWith(ctx, adopted, adoptedLog.TLS, "takeover before the adoption")
		installation.Apply(ctx, map[string]any{"predecessor": "TakeOver"})
		ns.EventuallyReady(ctx, etcd)
		Expect(managed()).To(ConsistOf("druid-main"), "gardenlet has not requested an adoption")
		expectUntouched(ctx, ns, before, "main-0")
		Expect(installation.Ownership(ctx)).To(ContainElement("acting\n"), "one replica of the operator acts")
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		writeLog.TLS, err = ns.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())

		By("adopting the three members when gardenlet reconciles them, and the single one when a user does")
		workload.StartPhase(adoptionPhase)
		Expect(component.Deploy(ctx)).To(Succeed())
		ns.Patch(ctx, one, requestReconciliation)
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		eventuallyReconciled(ctx, ns, one)
		workload.AwaitWrites(ctx)
		workload.StartPhase("after the adoption")
		Expect(managed()).To(ConsistOf("druid-main", "druid-etcd-main", "druid-one"))
		Expect(replacedInOrder(ctx, ns, before)).To(ConsistOf("etcd-main-0", "etcd-main-1", "etcd-main-2", "one-0", "main-0"), "main-0 is new")
		for name, uid := range claims {
			Expect(ns.ClaimUIDs(ctx)).To(HaveKeyWithValue(name, uid))
		}
		adoptedLog.Write(ctx, 1)
		ns.Patch(ctx, adopted, fixture.WithAnnotation("druid.gardener.cloud/run-task", "full-snapshot"))
		eventuallySnapshot(ctx, ns, adopted, "etcd-main-full-snap", adoptedLog.Revision)
		Expect(fullSnapshots()).To(And(ContainElements(snapshotsBefore), HaveLen(len(snapshotsBefore)+1)), "the store stays the same")
		oneLog.ExpectComplete(ctx)
		oneLog.Write(ctx, 1)
		eventuallySnapshot(ctx, ns, one, "one-delta-snap", oneLog.Revision)

		By("reconciling every Etcd on the seed, because the operator hands back all Etcds or none")
		Expect(ns.Client.List(ctx, allEtcds)).To(Succeed())
		for i := range allEtcds.Items {
			ns.Patch(ctx, &allEtcds.Items[i], requestReconciliation)
		}
		for i := range allEtcds.Items {
			eventuallyReconciled(ctx, ns, &allEtcds.Items[i])
		}

		By("handing back to etcd-druid")
		reconciled, identities := map[string]*druidv1alpha1.Etcd{}, map[string]map[string]types.UID{}
		for _, etcd := range []*druidv1alpha1.Etcd{adopted, one} {
			Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			reconciled[etcd.Name], identities[etcd.Name] = etcd.DeepCopy(), identitiesFor(ctx, ns, etcdDruidOf(ctx, operator, etcd))
		}
		before = podsByName(ctx, ns)
		workload.StartPhase("hand-back")
		installation.Apply(ctx, map[string]any{"predecessor": "GiveBack"})
		Eventually(managed).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeEmpty(), ns.State)
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
		writeLog.ExpectComplete(ctx)
		Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed(), "TLS stays enabled")

		By("comparing what is left with what etcd-druid expects")
		phases := workload.Stop(ctx) // verifies that no acknowledged write is lost
		adoptedLog.ExpectComplete(ctx)
		oneLog.ExpectComplete(ctx)
		expectUntouched(ctx, ns, before, "")
		for _, etcd := range []*druidv1alpha1.Etcd{adopted, one} {
			expected := reconciled[etcd.Name]
			expected.Spec.Etcd.Version = nil // etcd-druid does not know the field
			if framework.EtcdVersion() == "3.5" {
				expected.Spec.Etcd.Image, expected.Spec.Backup.Image = new(operator.Image(ctx, "etcd-wrapper-next")), new(operator.Image(ctx, "etcd-backup-restore-next"))
			}
			Expect(identitiesFor(ctx, ns, etcdDruidOf(ctx, operator, etcd))).To(Equal(identities[etcd.Name]), "no object is replaced")
			Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			Expect(etcd.Spec).To(Equal(expected.Spec))
			Expect(etcd.Annotations).To(Equal(expected.Annotations))
		}
		// The etcd-druid of this test serves no webhooks, which the API server would call.
		webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}}
		Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, webhooks))).To(Succeed())
		for _, handedBack := range []*druidv1alpha1.Etcd{adopted, one, etcd} {
			Expect(framework.Condition(handedBack, "Reconciled").Status).To(BeEmpty(), "etcd-druid would keep the condition")
			Expect(handback.Check(ctx, ns.Client, etcdDruidOf(ctx, operator, handedBack))).To(Succeed(), handedBack.Name)
		}
		expectAdoptionGaps(phases)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			g.Expect(statefulSet.Status.ReadyReplicas).To(Equal(etcd.Spec.Replicas), "the new StatefulSet manages the pod of the one that was replaced")
		})

		By("running in the Deployment of gardenlet, in place of etcd-druid")
		pod := ns.Pod(ctx, etcd)
		installation.Apply(ctx, map[string]any{
			"replicaCount":              0,
			"additionalServiceAccounts": []any{map[string]any{"namespace": framework.EtcdDruid.Namespace, "name": framework.EtcdDruid.Name}},
		})
		deployment := gardenlet.InstallEtcdDruid(ctx, operator.ContainerImage(ctx), new(operator.ImageVector(ctx)))
		Expect(deployment.Wait(ctx)).To(Succeed(), "the Deployment of gardenlet is rolled out")
		Eventually(seed.OwnershipIn).WithContext(ctx).WithArguments(framework.EtcdDruid.Namespace).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).
			Should(ContainElement("acting\n"))
		ns.Patch(ctx, etcd, requestReconciliation)
		eventuallyReconciled(ctx, ns, etcd)
		Expect(managed()).To(ConsistOf("druid-main"))
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "the operator adopts the Etcd that it handed back")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout+specTimeout/2))
})

// requestReconciliation sets the annotation with which a user requests the reconciliation of an Etcd.
func requestReconciliation(etcd *druidv1alpha1.Etcd) {
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
}

// eventuallyReconciled waits until the request is fulfilled and the Etcd is ready.
func eventuallyReconciled(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(etcd.Annotations).NotTo(HaveKey(operationAnnotation))
		g.Expect(framework.CheckReady(etcd)).To(Succeed())
	})
}

// managedResources returns the names of the ManagedResources in the namespace.
func managedResources(ctx context.Context, ns *framework.TestNamespace) []string {
	GinkgoHelper()
	list := &resourcesv1alpha1.ManagedResourceList{}
	Expect(ns.Client.List(ctx, list, client.InNamespace(ns.Name))).To(Succeed())
	var names []string
	for _, resource := range list.Items {
		names = append(names, resource.Name)
	}

	return names
}

// identitiesFor returns the UIDs of the objects that etcd-druid renders.
func identitiesFor(ctx context.Context, ns *framework.TestNamespace, druid fixture.EtcdDruid) map[string]types.UID {
	GinkgoHelper()
	uids := map[string]types.UID{}
	for _, object := range druid.Objects() {
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		uids[fmt.Sprintf("%T %s", object, object.GetName())] = object.GetUID()
	}

	return uids
}

// adoptionBound bounds the time without writes through the Service while the pods of etcd-druid are replaced. They stop without a pause. A new
// connection can reach a stopping pod, and gRPC then waits a second before it tries again.
const adoptionBound = 3 * time.Second

// adoptionPhase is the phase of the workload in which the pods are replaced.
const adoptionPhase = "adoption"

// expectAdoptionGaps limits the gaps of all phases. Only the adoption restarts members. A client of all members has no longer gap then, because
// the leader moves before its pod stops.
func expectAdoptionGaps(phases []framework.PhaseStats) {
	GinkgoHelper()
	for _, stats := range phases {
		if stats.Phase == adoptionPhase {
			expectWithin("the longest time without writes in the adoption:", stats.WriteGap, adoptionBound)
		} else {
			expectNoFailures([]framework.PhaseStats{stats})
			expectBelow(stats.WriteGap, time.Second, stats.String())
		}
		expectBelow(stats.MembersGap, time.Second, stats.String())
	}
}

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
		ns.DeleteWithoutSnapshot(ctx, &etcd)
	}
	Eventually(leftovers).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeEmpty(), "Etcds of failed tests")
}
