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

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
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
	It("takes over the Etcds from etcd-druid under load, hands them back, and replaces etcd-druid in its Deployment", framework.NeedsSeed("uses the API of Gardener and deletes all other Etcds"), func(ctx SpecContext) {
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
		values := gardeneretcd.Values{
			Role: "main", Class: gardeneretcd.ClassImportant, Replicas: new(int32(3)), HighAvailabilityEnabled: true, StorageCapacity: "1Gi", DefragmentationSchedule: new(notDuringTests()),
			PriorityClassName: "gardener-system-500", RuntimeKubernetesVersion: semver.MustParse("1.34.0"),
			MaintenanceTimeWindow: gardencorev1beta1.MaintenanceTimeWindow{Begin: "010000+0000", End: "020000+0000"},
			BackupConfig: &gardeneretcd.BackupConfig{
				Provider: "local", Container: ns.Name, SecretRefName: "etcd-backup", Prefix: entry, FullSnapshotSchedule: notDuringTests(),
				DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 360 * time.Hour},
			},
		}
		component := gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, values)
		Expect(component.Deploy(ctx)).To(Succeed())
		adopted := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "etcd-main"}}
		eventuallyRuns := createWithEtcdDruid(ctx, ns, operator, adopted)

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

		By("waiting until the three members run")
		eventuallyRuns()
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		Expect(managed()).To(BeEmpty())
		adoptedLog := ns.NewWriteLog(adopted)
		adoptedLog.TLS = gardenlet.Connection(adopted)
		adoptedLog.Write(ctx, 20)
		planAdoption(ctx, ns, adopted)

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
		Expect(managed()).To(ConsistOf("druid-main"), "gardenlet has not requested the adoption")
		expectUntouched(ctx, ns, before, "main-0")
		Expect(installation.Ownership(ctx)).To(ContainElement("acting\n"), "one replica of the operator acts")
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		writeLog.TLS, err = ns.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())

		By("adopting the three members when gardenlet reconciles them")
		workload.StartPhase(adoptionPhase)
		Expect(component.Deploy(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		workload.AwaitWrites(ctx)
		workload.StartPhase("after the adoption")
		Expect(managed()).To(ConsistOf("druid-main", "druid-etcd-main"))
		Expect(replacedInOrder(ctx, ns, before)).To(ContainElements("etcd-main-0", "etcd-main-1", "etcd-main-2"))
		for name, uid := range claims {
			Expect(ns.ClaimUIDs(ctx)).To(HaveKeyWithValue(name, uid))
		}
		adoptedLog.Write(ctx, 1)
		ns.Patch(ctx, adopted, fixture.WithAnnotation("druid.gardener.cloud/run-task", "full-snapshot"))
		eventuallySnapshot(ctx, ns, adopted, "etcd-main-full-snap", adoptedLog.Revision)
		Expect(fullSnapshots()).To(And(ContainElements(snapshotsBefore), HaveLen(len(snapshotsBefore)+1)), "the store stays the same")

		By("rolling out a new peer CA")
		mounted := ns.MountedSecrets(ctx, adopted)
		gardenlet.RotatePeerCA(ctx)
		component = gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, values)
		workload.StartPhase("new peer CA: bundle")
		Expect(component.RolloutPeerCA(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		for _, volumes := range ns.MountedSecrets(ctx, adopted) {
			Expect(volumes["etcd-peer-ca"]).NotTo(Equal(mounted[0]["etcd-peer-ca"]))
			Expect(volumes["etcd-peer-server-tls"]).To(Equal(mounted[0]["etcd-peer-server-tls"]), "the certificates change after the bundle")
		}

		By("rolling out the certificates of the new peer CA")
		workload.StartPhase("new peer CA: certificates")
		Expect(component.Deploy(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		for _, volumes := range ns.MountedSecrets(ctx, adopted) {
			Expect(volumes["etcd-peer-server-tls"]).NotTo(Equal(mounted[0]["etcd-peer-server-tls"]))
		}

		By("reconciling every Etcd on the seed, because the operator hands back all Etcds or none")
		Expect(ns.Client.List(ctx, allEtcds)).To(Succeed())
		for i := range allEtcds.Items {
			ns.Patch(ctx, &allEtcds.Items[i], func(etcd *druidv1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
			})
		}
		for i := range allEtcds.Items {
			ns.Eventually(ctx, &allEtcds.Items[i], func(g Gomega) {
				g.Expect(allEtcds.Items[i].Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"))
				g.Expect(framework.CheckReady(&allEtcds.Items[i])).To(Succeed())
			})
		}

		By("handing back to etcd-druid")
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(adopted), adopted)).To(Succeed())
		reconciled := adopted.DeepCopy()
		before = podsByName(ctx, ns)
		identities := identitiesFor(ctx, ns, etcdDruidOf(ctx, operator, adopted))
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
		expectUntouched(ctx, ns, before, "")
		Expect(identitiesFor(ctx, ns, etcdDruidOf(ctx, operator, adopted))).To(Equal(identities), "no object is replaced")
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(adopted), adopted)).To(Succeed())
		if framework.EtcdVersion() == "3.5" {
			reconciled.Spec.Etcd.Image, reconciled.Spec.Backup.Image = new(operator.Image(ctx, "etcd-wrapper-next")), new(operator.Image(ctx, "etcd-backup-restore-next"))
		}
		Expect(adopted.Spec).To(Equal(reconciled.Spec))
		Expect(adopted.Annotations).To(Equal(reconciled.Annotations))
		// The etcd-druid of this test serves no webhooks, which the API server would call.
		webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}}
		Expect(client.IgnoreNotFound(ns.Client.Delete(ctx, webhooks))).To(Succeed())
		for _, handedBack := range []*druidv1alpha1.Etcd{adopted, etcd} {
			Expect(framework.Condition(handedBack, "Progressing").Status).To(BeEmpty(), "etcd-druid would keep the condition")
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
		Expect(managed()).To(ConsistOf("druid-main"))
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "the operator adopts the Etcd that it handed back")

		By("changing the Etcd")
		reconcile(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive")) })
		Expect(ns.Pod(ctx, etcd).UID).NotTo(Equal(pod.UID))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout+specTimeout/2))
})

// notDuringTests returns a cron schedule that is due once a day, and not in the next hours.
func notDuringTests() string {
	return fmt.Sprintf("0 %d * * *", time.Now().UTC().Add(12*time.Hour).Hour())
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
