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
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// Crash cases of the steps that stop members, delete data or expand volumes. test/kube checks the preconditions of these steps at each
// write: see checkStop, checkStored, checkClaim, checkLease and restore there.
var _ = Describe("An operator that crashes at any of its writes", func() {
	var (
		single = create(1, plaintext, withStore, deletingAll)
		three  = create(3, plaintext, withStore)
	)

	DescribeTable("reaches the same end state", killedEverywhere,
		Entry("after a crash during the final snapshot of a hibernation", crashCase{
			given: []func(*kube.Cluster){three},
			when: func(k *kube.Cluster) {
				write(k)
				update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(k)
			},
			then: hibernatesWithSnapshot,
		}),
		Entry("after a crash during the final snapshot of a deletion", crashCase{
			given: []func(*kube.Cluster){single},
			when: func(k *kube.Cluster) {
				write(k)
				deleteEtcd(k)
			},
			then: func(k *kube.Cluster) {
				Expect(k.EtcdObject()).To(BeNil())
				Expect(k.Claims()).To(BeEmpty())
				Expect(k.PodsCreated).To(Equal(1), "created pods")
			},
		}),
		Entry("after a crash during a restore verification, and during the restore of a cluster with data of one member", crashCase{
			given: []func(*kube.Cluster){three, loseQuorum},
			when:  requestRestore,
			then:  isRestored(10, 1),
		}),
		Entry("after a crash while it repeats a restore verification that has failed, and that fails again", crashCase{
			unforeseen: true,
			given: []func(*kube.Cluster){three, loseQuorum, func(k *kube.Cluster) {
				k.SetStoreReachable(false)
				requestRestore(k)
			}},
			when: func(k *kube.Cluster) {
				ignoresRestore(1)(k)
				requestRestore(k)
			},
			then: ignoresRestore(2),
			// A crash between the record of the failure and the removal of the annotation repeats the verification.
			repeatedJobs: 1,
		}),
		Entry("after a crash while a quota rejects the expansion of two of three volumes", crashCase{
			unforeseen: true,
			given:      []func(*kube.Cluster){create(3, plaintext, withExpandableVolumes)},
			when: func(k *kube.Cluster) {
				limitStorage("64Gi")(k)
				update(func(etcd *druidv1alpha1.Etcd) {
					resizeVolumes(etcd)
					relabel(etcd)
				})(k)
			},
			then: hasRejectedExpansions,
		}),
	)
})

// write writes a revision that no snapshot in the store holds.
func write(k *kube.Cluster) { must(k.EtcdCluster().Write()) }

// loseQuorum removes two of three members with their volumes for good. The last revision is not in the store.
func loseQuorum(k *kube.Cluster) {
	write(k)
	k.RemoveNode("n2")
	k.RemoveNode("n3")
}

// requestRestore requests a restore from the store, long after a member was healthy.
func requestRestore(k *kube.Cluster) {
	k.Clock.Step(5 * time.Minute)
	etcd := k.EtcdObject().DeepCopy()
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
	must(k.Client(nil).Update(context.Background(), etcd))
}

// limitStorage limits the storage that the claims of the namespace may request together.
func limitStorage(limit string) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "storage"}}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse(limit)}
		must(k.Client(nil).Create(context.Background(), quota))
	}
}

// find reads an object in the namespace of the Etcd.
func find[T client.Object](k *kube.Cluster, name string, into T) T {
	GinkgoHelper()
	Expect(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: name}, into)).To(Succeed())
	return into
}

// hibernatesWithSnapshot expects the members to be stopped with a snapshot of the last revision.
func hibernatesWithSnapshot(k *kube.Cluster) {
	GinkgoHelper()
	succeeded(0, 4)(k)
	Expect(fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})).FinalSnapshot).To(HaveField("Snapshot.Revision", BeEquivalentTo(2)))
	Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("FinalSnapshotTaken")), HaveField("Reason", "SnapshotVerified"))))
}

// isRestored expects a cluster of three members with the revision of the store, and as many pods and Jobs to have been made in all.
func isRestored(podsCreated, jobsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(3, podsCreated)(k)
		Expect(k.JobsCreated).To(Equal(jobsCreated), "created Jobs")
		Expect(k.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/restore"))
		Expect(k.EtcdCluster().ID).To(BeEquivalentTo(0xc2), "it is another cluster")
		Expect(k.EtcdCluster().Revision()).To(BeEquivalentTo(1), "it holds what the store holds")
	}
}

// ignoresRestore expects a restore verification that has failed and was reported, and no other change. jobsCreated is the number of
// verifications.
func ignoresRestore(jobsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		Expect(k.JobsCreated).To(Equal(jobsCreated), "created Jobs")
		Expect(k.PodsCreated).To(Equal(6), "created pods")
		job := find(k, k.Etcd.Name+"-verify", &batchv1.Job{})
		Expect(job.Status.Conditions).To(ConsistOf(HaveField("Type", batchv1.JobFailed)))
		Expect(job.Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", "failed"))
		Expect(k.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/restore"))
		Expect(k.Claims()).To(HaveLen(3))
		Expect(k.EtcdCluster().ID).To(BeEquivalentTo(0xc1))
	}
}

// hasRejectedExpansions expects one volume to be expanded and the other expansions to be reported as rejected. It expects the remaining
// part of the generation to be rolled out. When the quota is raised, the other volumes are expanded, too.
func hasRejectedExpansions(k *kube.Cluster) {
	GinkgoHelper()
	Expect(k.PodsCreated).To(Equal(7), "created pods")
	Expect(requestsOf(k)).To(Equal([]string{"32Gi", "16Gi", "16Gi"}))
	Expect(templateRequestOf(k)).To(Equal("16Gi"))
	Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", And(
		ContainSubstring("main-main-1"), ContainSubstring("exceeded quota: storage, requested: requests.storage=16Gi, used: requests.storage=64Gi, limited: requests.storage=64Gi")))))
	pods := &corev1.PodList{}
	must(k.Client(nil).List(context.Background(), pods))
	Expect(pods.Items).To(And(HaveLen(3), HaveEach(HaveField("Labels", HaveKeyWithValue("role", "other")))))

	raised := k.Fork()
	must(raised.Client(nil).Delete(context.Background(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "storage"}}))
	startOperator(raised, nil).run()
	succeeded(3, 7)(raised)
	Expect(requestsOf(raised)).To(HaveEach("32Gi"))
	Expect(templateRequestOf(raised)).To(Equal("32Gi"))
}

// requestsOf are the sizes that the claims request, in the order of their names.
func requestsOf(k *kube.Cluster) []string {
	claims := &corev1.PersistentVolumeClaimList{}
	must(k.Client(nil).List(context.Background(), claims))
	var sizes []string
	for _, claim := range claims.Items {
		sizes = append(sizes, claim.Spec.Resources.Requests.Storage().String())
	}
	return sizes
}

// templateRequestOf is the size that the claim template of the StatefulSet requests.
func templateRequestOf(k *kube.Cluster) string {
	GinkgoHelper()
	return find(k, k.Etcd.Name, &appsv1.StatefulSet{}).Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()
}
