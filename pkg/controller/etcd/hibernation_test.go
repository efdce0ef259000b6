// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The final snapshot of a hibernation", func() {
	It("is attempted three times, and the cluster then hibernates without it, keeps its volume and wakes up with every write", func() {
		k := reconciledCluster(1, plaintext, withStore)
		claim := find(k, "main-main-0", &corev1.PersistentVolumeClaim{})
		k.SetStoreReachable(false)
		Expect(k.EtcdCluster().Write()).To(Succeed(), "the store lacks this write")
		revision := k.EtcdCluster().Revision()

		attempts := 0
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(k)
		startOperator(k, func(write kube.Write) {
			if write.What == "take a full snapshot" && write.Done {
				attempts++
			}
		}).run()
		Expect(attempts).To(Equal(3))
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
		Expect(k.EtcdObject().Status.Replicas).To(BeZero())
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(
			HaveField("Type", BeEquivalentTo("FinalSnapshotTaken")), HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotFailed"),
			HaveField("Message", ContainSubstring("3 attempts failed, and the volumes are kept")),
		)))

		k.SetStoreReachable(true)
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })(k)
		startOperator(k, nil).run()
		succeeded(1, 2)(k)
		Expect(find(k, "main-main-0", &corev1.PersistentVolumeClaim{}).UID).To(Equal(claim.UID))
		Expect(k.EtcdCluster().Revision()).To(Equal(revision))
	})
})

var _ = Describe("An Etcd that is created without members", func() {
	It("is created with its first wake-up", func() {
		k := newCluster()
		create(0)(k)
		startOperator(k, nil).run()
		Expect(helper.IsCreating(k.EtcdObject())).To(BeFalse(), "no member is awaited")

		operations := 0
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })(k)
		startOperator(k, func(write kube.Write) {
			if write.What != "patch status of Etcd "+k.Etcd.Name || !write.Done {
				return
			}
			operations++
			last := k.EtcdObject().Status.LastOperation
			Expect(last.Type).To(Equal(druidv1alpha1.LastOperationTypeCreate))
			Expect(helper.IsCreating(k.EtcdObject())).To(Equal(last.State != druidv1alpha1.LastOperationStateSucceeded))
		}).run()
		Expect(operations).To(BeNumerically(">", 3))
		Expect(k.EtcdObject().Status.LastOperation.State).To(Equal(druidv1alpha1.LastOperationStateSucceeded))

		update(relabel)(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject().Status.LastOperation.Type).To(Equal(druidv1alpha1.LastOperationTypeReconcile))
	})
})
