// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/world"
)

// Crash cases of the steps that stop members or delete data. test/world checks the preconditions of these steps at each
// write: see checkStop, checkStored, checkClaim, checkLease and restore there.
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
		Entry("after a crash during a restore verification, and during the restore of a cluster with data of one member", story{
			given: []func(*world.World){three, loseQuorum},
			when:  requestRestore,
			then:  isRestored(10, 1),
		}),
		Entry("after a crash while it repeats a restore verification that has failed, and that fails again", story{
			given: []func(*world.World){three, loseQuorum, func(w *world.World) {
				w.SetStoreReachable(false)
				requestRestore(w)
			}},
			when: func(w *world.World) {
				ignoresRestore(1)(w)
				requestRestore(w)
			},
			then: ignoresRestore(2),
			// A crash between the record of the failure and the removal of the annotation repeats the verification.
			repeatedJobs: 1,
		}),
	)
})

// write writes a revision that no snapshot in the store holds.
func write(w *world.World) { must(w.Cluster().Write()) }

// loseQuorum removes two of three members with their volumes for good. The last revision is not in the store.
func loseQuorum(w *world.World) {
	write(w)
	w.RemoveNode("n2")
	w.RemoveNode("n3")
}

// requestRestore requests a restore from the store, long after a member was healthy.
func requestRestore(w *world.World) {
	w.Clock.Step(5 * time.Minute)
	etcd := w.EtcdObject().DeepCopy()
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
	must(w.Client(nil).Update(context.Background(), etcd))
}

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

// isRestored expects a cluster of three members with the revision of the store, and as many pods and Jobs to have been made in all.
func isRestored(podsMade, jobsMade int) func(*world.World) {
	return func(w *world.World) {
		GinkgoHelper()
		succeeded(3, podsMade)(w)
		Expect(w.JobsMade).To(Equal(jobsMade), "Jobs made")
		Expect(w.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/restore"))
		Expect(w.Cluster().ID).To(BeEquivalentTo(0xc2), "it is another cluster")
		Expect(w.Cluster().Revision()).To(BeEquivalentTo(1), "it holds what the store holds")
	}
}

// ignoresRestore expects a restore verification that has failed and was reported, and no other change. jobsMade is the number of
// verifications.
func ignoresRestore(jobsMade int) func(*world.World) {
	return func(w *world.World) {
		GinkgoHelper()
		Expect(w.JobsMade).To(Equal(jobsMade), "Jobs made")
		Expect(w.PodsMade).To(Equal(6), "pods made")
		job := find(w, w.Etcd.Name+"-rehearsal", &batchv1.Job{})
		Expect(job.Status.Conditions).To(ConsistOf(HaveField("Type", batchv1.JobFailed)))
		Expect(job.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", "failed"))
		Expect(w.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/restore"))
		Expect(w.Claims()).To(HaveLen(3))
		Expect(w.Cluster().ID).To(BeEquivalentTo(0xc1))
	}
}
