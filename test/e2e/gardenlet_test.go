// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/Masterminds/semver/v3"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("The etcd component of gardenlet", func() {
	It("deploys, hibernates, wakes up and destroys an Etcd next to an Etcd with ten lines", gate, framework.NeedsSeed("uses the API of Gardener on the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "gardenlet")
		ns.ApplyCluster(ctx, "", nil)
		gardenlet := ns.NewGardenlet(ctx)
		entry := ns.CreateBackupEntry(ctx)
		tenLines := createTenLines(ctx, ns, entry)

		ns.EventuallySecret(ctx, "etcd-backup")
		values := gardenletValues(ns, 1, entry)
		component := gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, values)
		Expect(component.Deploy(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "etcd-main"}}

		writeLog := ns.NewWriteLog(etcd)
		writeLog.TLS = gardenlet.Connection(etcd)
		writeLog.Write(ctx, 20)
		Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed(), "etcd rejects plaintext")
		out := &bytes.Buffer{}
		streams := genericiooptions.IOStreams{Out: out, ErrOut: out}
		Expect(app.Run(ctx, streams, []string{"ctl", etcd.Name, "-n", ns.Name, "--", "endpoint", "health"})).To(Equal(0), out.String)
		Expect(out.String()).To(ContainSubstring("is healthy"))
		Eventually(filepath.Glob).WithArguments(filepath.Join(ns.StoreDir(), entry, "etcd-main", "*", "Full-*")).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).ShouldNot(BeEmpty())

		By("connecting to the Etcd with ten lines")
		expectConfigured(ctx, ns, tenLines)

		By("hibernating")
		claims := ns.ClaimUIDs(ctx)
		Eventually(component.Scale).WithArguments(ctx, int32(0)).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		Eventually(func() bool { _, found := ns.FindPod(ctx, etcd); return found }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeFalse(), ns.State)

		By("waking up")
		Eventually(component.Scale).WithArguments(ctx, int32(1)).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		writeLog.ExpectComplete(ctx)
		Expect(ns.ClaimUIDs(ctx)).To(Equal(claims), "the claim is the same")

		By("deploying again without a change")
		pod := ns.Pod(ctx, etcd)
		Expect(pod.Spec.Affinity).To(HaveField("NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms", HaveEach(
			HaveField("MatchExpressions", ContainElement(HaveField("Key", "topology.kubernetes.io/zone"))))), "a webhook of gardener-resource-manager restricts the zones")
		Expect(component.Deploy(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))

		By("destroying")
		Expect(component.Destroy(ctx)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, etcd) }).
			WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue(), ns.State)
	}, SpecTimeout(specTimeout))

	It("rolls out a new peer CA to three members, first the bundle and then the certificates", framework.NeedsSeed("uses the API of Gardener on the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "gardenlet-ca")
		ns.ApplyCluster(ctx, "", nil)
		gardenlet := ns.NewGardenlet(ctx)
		values := gardenletValues(ns, 3, "")
		component := gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, values)
		Expect(component.Deploy(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "etcd-main"}}
		ns.EventuallyReady(ctx, etcd)
		mounted := ns.MountedSecrets(ctx, etcd)
		Expect(mounted).To(HaveLen(3))
		workload := ns.StartWorkloadWith(ctx, etcd, gardenlet.Connection(etcd), "new peer CA: bundle")

		By("rolling out the bundle")
		gardenlet.RotatePeerCA(ctx)
		component = gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, values)
		Expect(component.RolloutPeerCA(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		for _, volumes := range ns.MountedSecrets(ctx, etcd) {
			Expect(volumes["etcd-peer-ca"]).NotTo(Equal(mounted[0]["etcd-peer-ca"]))
			Expect(volumes["etcd-peer-server-tls"]).To(Equal(mounted[0]["etcd-peer-server-tls"]), "the certificates change after the bundle")
		}

		By("rolling out the certificates")
		workload.StartPhase("new peer CA: certificates")
		Expect(component.Deploy(ctx)).To(Succeed())
		Expect(component.Wait(ctx)).To(Succeed(), ns.State)
		for _, volumes := range ns.MountedSecrets(ctx, etcd) {
			Expect(volumes["etcd-peer-server-tls"]).NotTo(Equal(mounted[0]["etcd-peer-server-tls"]))
		}
		expectShortGaps(workload.Stop(ctx))
	}, SpecTimeout(specTimeout))
})

// gardenletValues returns the values of the component main with this number of members. The prefix of its store is that of the
// BackupEntry. An empty entry means no store.
func gardenletValues(ns *framework.TestNamespace, replicas int32, entry string) gardeneretcd.Values {
	values := gardeneretcd.Values{
		Role: "main", Class: gardeneretcd.ClassImportant, Replicas: &replicas, HighAvailabilityEnabled: replicas > 1, StorageCapacity: "1Gi",
		DefragmentationSchedule: new(notDuringTests()), PriorityClassName: "gardener-system-500", RuntimeKubernetesVersion: semver.MustParse("1.34.0"),
		MaintenanceTimeWindow: gardencorev1beta1.MaintenanceTimeWindow{Begin: "010000+0000", End: "020000+0000"},
	}
	if entry != "" {
		values.BackupConfig = &gardeneretcd.BackupConfig{
			Provider: "local", Container: ns.Name, SecretRefName: "etcd-backup", Prefix: entry, FullSnapshotSchedule: notDuringTests(),
			DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 360 * time.Hour},
		}
	}

	return values
}

// createTenLines creates the Etcd with ten lines, with a prefix in the bucket of the BackupEntry.
func createTenLines(ctx context.Context, ns *framework.TestNamespace, entry string) *druidv1alpha1.Etcd {
	GinkgoHelper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "example", "35-etcd-gardener.yaml"))
	Expect(err).NotTo(HaveOccurred())
	etcd := &druidv1alpha1.Etcd{}
	Expect(yaml.UnmarshalStrict(manifest, etcd)).To(Succeed())
	etcd.Spec.Backup.Store.Prefix = entry + "/main" // gardener-resource-manager rejects an empty prefix
	ns.Create(ctx, etcd)

	return etcd
}

// expectConfigured waits until the Etcd with ten lines is ready, and expects TLS and snapshots in the bucket of the BackupEntry.
func expectConfigured(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	ns.EventuallyReady(ctx, etcd)
	Expect(framework.Condition(etcd, "StoreResolved").Message).To(ContainSubstring(etcd.Spec.Backup.Store.Prefix))
	Expect(framework.Condition(etcd, "SecretsValid").Reason).To(BeEquivalentTo("SecretsValid"))

	writeLog := ns.NewWriteLog(etcd)
	writeLog.Write(ctx, 10)
	writeLog.ExpectComplete(ctx)
	connection, err := ns.Connection(ctx, etcd)
	Expect(err).NotTo(HaveOccurred())
	anonymous := &tls.Config{ServerName: connection.ServerName, RootCAs: connection.RootCAs, MinVersion: tls.VersionTLS12}
	Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed(), "plaintext")
	Expect(writeLog.TryWrite(ctx, anonymous)).NotTo(Succeed(), "without a client certificate")
	Eventually(latestSnapshot).WithContext(ctx).WithArguments(ns, etcd, anonymous).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).
		Should(Equal(http.StatusOK), "the sidecar uses TLS too")

	eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
	Expect(filepath.Glob(filepath.Join(ns.StoreDir(), etcd.Spec.Backup.Store.Prefix, "*", "Full-*"))).NotTo(BeEmpty())
}
