// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
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

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("The etcd component of gardenlet", func() {
	DescribeTable("deploys, hibernates, wakes up and destroys an Etcd",
		framework.NeedsSeed("uses the API of Gardener on the seed"),
		func(ctx SpecContext, role string, class gardeneretcd.Class, isBackedUp bool) {
			ns := seed.NewNamespace(ctx, "gardenlet")
			ns.ApplyCluster(ctx, "", nil)
			gardenlet := ns.NewGardenlet(ctx)
			values := gardeneretcd.Values{
				Role: role, Class: class, Replicas: new(int32(1)), StorageCapacity: "1Gi", DefragmentationSchedule: new(notDuringTests()),
				PriorityClassName: "gardener-system-500", RuntimeKubernetesVersion: semver.MustParse("1.34.0"),
				MaintenanceTimeWindow: gardencorev1beta1.MaintenanceTimeWindow{Begin: "010000+0000", End: "020000+0000"},
			}
			var entry string
			if isBackedUp {
				entry = ns.CreateBackupEntry(ctx)
				ns.EventuallySecret(ctx, "etcd-backup")
				values.BackupConfig = &gardeneretcd.BackupConfig{
					Provider: "local", Container: ns.Name, SecretRefName: "etcd-backup", Prefix: entry, FullSnapshotSchedule: notDuringTests(),
					DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 360 * time.Hour},
				}
			}
			component := gardeneretcd.New(logr.Discard(), gardenlet.Client, ns.Name, gardenlet.Secrets, values)

			Expect(component.Deploy(ctx)).To(Succeed())
			Expect(component.Wait(ctx)).To(Succeed(), ns.State)
			etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "etcd-" + role}}
			claims := ns.ClaimUIDs(ctx)

			writeLog := ns.NewWriteLog(etcd)
			writeLog.TLS = gardenlet.Connection(etcd)
			writeLog.Write(ctx, 20)
			Expect(writeLog.TryWrite(ctx, nil)).NotTo(Succeed(), "etcd rejects plaintext")
			out := &bytes.Buffer{}
			streams := genericiooptions.IOStreams{Out: out, ErrOut: out}
			Expect(app.Run(ctx, streams, []string{"ctl", etcd.Name, "-n", ns.Name, "--", "endpoint", "health"})).To(Equal(0), out.String)
			Expect(out.String()).To(ContainSubstring("is healthy"))
			if isBackedUp {
				Eventually(filepath.Glob).WithArguments(filepath.Join(ns.StoreDir(), entry, "etcd-main", "*", "Full-*")).
					WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).ShouldNot(BeEmpty())
			}

			By("hibernating")
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
		},
		Entry("with the class normal, without backups", Label("long"), SpecTimeout(specTimeout), "events", gardeneretcd.ClassNormal, false),
		Entry("with the class important, with backups", SpecTimeout(specTimeout), "main", gardeneretcd.ClassImportant, true),
	)
})
