// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// test/kube reports a violation if a claim is deleted while the store lacks a revision, see checkStored there.
var _ = Describe("The deletion of an Etcd with its volumes", func() {
	It("loses no write that etcd acknowledges until the members have stopped", func() {
		k := reconciledCluster(3, plaintext, withStore, deletingAll)
		acknowledged := 0
		// A client writes before and after each write of the operator.
		o := startOperator(k, func(kube.Write) {
			if k.EtcdCluster().Write() == nil {
				acknowledged++
			}
		})
		deleteEtcd(k)
		o.run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Claims()).To(BeEmpty())
		Expect(acknowledged).To(BeNumerically(">", 3), "the client wrote meanwhile")
		Expect(k.Violations).To(BeEmpty())
		Expect(o.events).To(ContainElement(MatchRegexp(`DeletingVolumes: .*etcd has rejected all writes since revision \d+, and the store has every write before`)))
	})

	It("waits and lets clients write if the store does not take their last writes", func() {
		k := reconciledCluster(1, plaintext, withStore, deletingAll)
		isRefusing, isWriting := true, true
		o := startOperator(k, func(write kube.Write) {
			if isWriting {
				_ = k.EtcdCluster().Write()
			}
			if write.What == "reject writes" || write.What == "allow writes" {
				k.SetStoreReachable(!isRefusing || write.What == "allow writes")
			}
		})
		deleteEtcd(k)
		o.run()
		Expect(k.EtcdObject()).NotTo(BeNil())
		Expect(k.Claims()).NotTo(BeEmpty())
		Expect(k.EtcdCluster().Write()).To(Succeed(), "the members accept writes while the deletion waits")
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(
			HaveField("Type", BeEquivalentTo("FinalSnapshotTaken")), HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("etcd is at revision")),
		)))

		isRefusing = false
		o.run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Violations).To(BeEmpty())
	})

	// hibernated returns a hibernated cluster in which a client wrote after the last read of a quorum.
	hibernated := func() *kube.Cluster {
		GinkgoHelper()
		k, isWriting := reconciledCluster(3, plaintext, withStore, deletingAll), true
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(k)
		isRendered := func() bool {
			return *fixture.Record(find(k, "druid-main", &resourcesv1alpha1.ManagedResource{})).Replicas == 0
		}
		startOperator(k, func(write kube.Write) {
			if isWriting && write.Done && isRendered() && k.EtcdCluster().Write() == nil {
				isWriting = false
			}
		}).run()
		Expect(isWriting).To(BeFalse(), "the client wrote")
		Expect(fixture.Record(find(k, "druid-main", &resourcesv1alpha1.ManagedResource{}))).To(And(
			HaveField("FinalSnapshot.Snapshot.Revision", BeEquivalentTo(1)), HaveField("Evidence.HighestRevision", BeEquivalentTo(1)),
		))
		k.Violations = nil // a hibernation may stop members whose last writes are only on the volumes, which it keeps
		return k
	}

	It("waits if a volume has writes after the snapshot of a hibernation, and names its revision", func(ctx SpecContext) {
		k := hibernated()
		deleteEtcd(k)
		checked := func(kube.Write) {}
		o := startOperator(k, checked)
		o.run()
		Expect(k.Violations).To(BeEmpty())
		Expect(k.Claims()).To(HaveLen(3))
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(
			HaveField("Type", BeEquivalentTo("FinalSnapshotTaken")), HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotFailed"),
			HaveField("Message", And(
				HavePrefix("Waiting for the annotation druid.gardener.cloud/skip-final-snapshot: "), ContainSubstring("the snapshot from before the hibernation holds revision 1"),
				ContainSubstring("the volume of claim main-main-0 has revision 2"), ContainSubstring("no member starts while the Etcd is being deleted"),
			)),
		)))

		skipped := k.EtcdObject().DeepCopy()
		metav1.SetMetaDataAnnotation(&skipped.ObjectMeta, "druid.gardener.cloud/skip-final-snapshot", "")
		Expect(k.Client(nil).Update(ctx, skipped)).To(Succeed())
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Claims()).To(BeEmpty())
		jobs := &batchv1.JobList{}
		Expect(k.Client(nil).List(ctx, jobs)).To(Succeed())
		Expect(jobs.Items).To(BeEmpty())
	})

	DescribeTable("ends also while clients write and the sidecar takes no delta snapshots",
		func(change func(*druidv1alpha1.Etcd)) {
			k := reconciledCluster(1, plaintext, withStore, deletingAll, change)
			k.RefuseDeltaSnapshots(true)
			o := startOperator(k, func(kube.Write) { _ = k.EtcdCluster().Write() })
			deleteEtcd(k)
			o.run()
			Expect(k.EtcdObject()).To(BeNil())
			Expect(k.Claims()).To(BeEmpty())
			Expect(k.Violations).To(BeEmpty())
			Expect(o.events).To(ContainElement(MatchRegexp(`DeletingVolumes: .*etcd has rejected all writes since revision \d+, and the store has every write before`)))
		},
		Entry("although the spec enables them", func(*druidv1alpha1.Etcd) {}),
		Entry("because the spec disables them", func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{} }),
	)

	It("lets clients write between the attempts without delta snapshots", func() {
		k := reconciledCluster(1, plaintext, withStore, deletingAll, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{} })
		k.SetStoreReachable(false)
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).NotTo(BeNil())
		Expect(k.EtcdCluster().Write()).To(Succeed())
	})

	It("lets clients write while it waits until a user accepts a rollback", func(ctx SpecContext) {
		k := reconciledCluster(1, plaintext, withStore, deletingAll)
		mr := find(k, "druid-main", &resourcesv1alpha1.ManagedResource{})
		var err error
		mr.Annotations, err = state.Update(mr.Annotations, func(s *state.State) {
			s.Evidence = &state.Evidence{HighestRevision: 1000, RolledBack: &state.RolledBack{Revision: 1, At: k.Clock.Now()}}
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(k.Client(nil).Update(ctx, mr)).To(Succeed())
		k.EtcdCluster().RejectWrites() // the rollback was found after the final snapshot
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(HaveField("Reason", "SnapshotRolledBack")))
		Expect(k.EtcdCluster().Write()).To(Succeed())
	})

	It("takes a snapshot of the writes before an interruption, in which no alarm is recorded", func() {
		k := reconciledCluster(1, plaintext, withStore, deletingAll)
		deleteEtcd(k)
		k.EtcdCluster().RejectWrites() // an earlier attempt was interrupted
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Violations).To(BeEmpty())
	})

	It("keeps a volume with wrong data, although it deletes all others, and names it", func(ctx SpecContext) {
		k := reconciledCluster(3, plaintext, withStore, deletingAll)
		claim := find(k, "main-main-1", &corev1.PersistentVolumeClaim{})
		volume := &corev1.PersistentVolume{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
		volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		metav1.SetMetaDataLabel(&volume.ObjectMeta, "etcd-druid.extensions.gardener.cloud/retained-for-uid", string(k.EtcdObject().UID))
		Expect(k.Client(nil).Update(ctx, volume)).To(Succeed())
		mr := find(k, "druid-main", &resourcesv1alpha1.ManagedResource{})
		var err error
		mr.Annotations, err = state.Update(mr.Annotations, func(s *state.State) {
			s.Retained = []state.RetainedVolume{{Name: volume.Name, UID: volume.UID, Claim: claim.Name, ClaimUID: claim.UID, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete, Kept: true}}
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(k.Client(nil).Update(ctx, mr)).To(Succeed())
		deleteEtcd(k)
		o := startOperator(k, nil)
		o.run()
		Expect(k.EtcdObject()).To(BeNil())
		volumes := &corev1.PersistentVolumeList{}
		Expect(k.Client(nil).List(ctx, volumes)).To(Succeed())
		Expect(volumes.Items).To(ConsistOf(HaveField("Name", volume.Name)))
		Expect(o.events).To(ContainElement(MatchRegexp(`VolumesRetained: .*: ` + volume.Name + ` \(of claim main-main-1, reclaim policy before: Delete\)`)))
	})

	DescribeTable("decides about the volumes with the data before a restore",
		func(ctx SpecContext, isSkipped bool, expectedVolumes int, event string) {
			k := reconciledCluster(3, plaintext, withStore, deletingAll)
			o := startOperator(k, nil)
			loseNodes(k)
			o.run()
			requestRestore("")(k)
			o.run()
			Expect(fixture.Record(find(k, "druid-main", &resourcesv1alpha1.ManagedResource{})).Retained).To(HaveLen(3))
			deleted := k.EtcdObject().DeepCopy()
			if isSkipped {
				metav1.SetMetaDataAnnotation(&deleted.ObjectMeta, "druid.gardener.cloud/skip-final-snapshot", "")
				Expect(k.Client(nil).Update(ctx, deleted)).To(Succeed())
			}
			deleteEtcd(k)
			o.run()
			Expect(k.EtcdObject()).To(BeNil())
			volumes := &corev1.PersistentVolumeList{}
			Expect(k.Client(nil).List(ctx, volumes, client.HasLabels{"etcd-druid.extensions.gardener.cloud/retained-for-uid"})).To(Succeed())
			Expect(volumes.Items).To(HaveLen(expectedVolumes))
			Expect(o.events).To(ContainElement(MatchRegexp(event)))
			if !isSkipped {
				Expect(o.events).NotTo(ContainElement(ContainSubstring("VolumesRetained")))
				Expect(k.Client(nil).List(ctx, volumes)).To(Succeed())
				Expect(volumes.Items).To(BeEmpty(), "the reclaim policy is Delete again")
			}
		},
		Entry("it releases them after a final snapshot of all writes", false, 0, `ReleasedVolume: .* has the reclaim policy Delete again: the Etcd is deleted with its volumes`),
		Entry("it keeps them without a final snapshot, and names them", true, 3, `VolumesRetained: .*kubectl get pv -l etcd-druid.extensions.gardener.cloud/retained-for-uid=.* lists them.*: pv-.* \(of claim main-main-0, reclaim policy before: Delete\)`),
	)
})
