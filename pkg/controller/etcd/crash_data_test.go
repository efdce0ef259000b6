// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/world"
)

// Crash cases of the steps that stop members or delete data. test/world checks the preconditions of these steps at each
// write: see checkStop and checkStored there.
var _ = Describe("An operator that crashes at any of its writes", func() {
	var (
		single = create(1, plaintext, withStore, deletingAll)
		three  = create(3, plaintext, withStore)
	)

	DescribeTable("reaches the same end state", killedEverywhere,
		Entry("after a crash during the final snapshot of a hibernation", story{
			given: []func(*world.World){three},
			when: func(w *world.World) {
				write(w)
				update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(w)
			},
			then: hibernatesWithSnapshot,
		}),
		Entry("after a crash during the final snapshot of a deletion", story{
			given: []func(*world.World){single},
			when: func(w *world.World) {
				write(w)
				deleteEtcd(w)
			},
			then: func(w *world.World) {
				Expect(w.EtcdObject()).To(BeNil())
				Expect(w.Claims()).To(BeEmpty())
				Expect(w.PodsMade).To(Equal(1), "pods made")
			},
		}),
	)
})

// write writes a revision that no snapshot in the store holds.
func write(w *world.World) { must(w.Cluster().Write()) }

// find reads an object in the namespace of the Etcd.
func find[T client.Object](w *world.World, name string, into T) T {
	GinkgoHelper()
	Expect(w.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: w.Etcd.Namespace, Name: name}, into)).To(Succeed())
	return into
}

// hibernatesWithSnapshot expects the members to be stopped with a snapshot of the last revision.
func hibernatesWithSnapshot(w *world.World) {
	GinkgoHelper()
	succeeded(0, 4)(w)
	Expect(find(w, "druid-"+w.Etcd.Name, &resourcesv1alpha1.ManagedResource{}).Annotations).To(HaveKeyWithValue(
		"etcd-druid.extensions.gardener.cloud/final-snapshot", ContainSubstring(`"revision":2`)))
	Expect(w.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("FinalSnapshotTaken")), HaveField("Reason", "SnapshotVerified"))))
}
