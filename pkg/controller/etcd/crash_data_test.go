// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
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
		Entry("after a crash during the deletion of a hibernated cluster, whose volumes are compared with the snapshot", crashCase{
			given: []func(*kube.Cluster){
				create(3, plaintext, withStore, deletingAll),
				update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 }),
			},
			when: deleteEtcd,
			then: func(k *kube.Cluster) {
				Expect(k.EtcdObject()).To(BeNil())
				Expect(k.Claims()).To(BeEmpty())
				Expect(k.JobsCreated).To(Equal(3), "created Jobs")
				Expect(k.PodsCreated).To(Equal(4), "created pods")
			},
		}),
		Entry("after a crash during a restore verification, and during the restore of a cluster with data of one member", crashCase{
			given: []func(*kube.Cluster){three, loseNodes},
			when:  requestRestore(""),
			then:  isRestored(0),
		}),
		Entry("after a crash during the restore of a cluster whose last write the store does not have, as the user accepts", crashCase{
			unforeseen: true,
			given:      []func(*kube.Cluster){three, loseQuorum},
			when:       requestRestore("1"),
			then:       isRestored(1),
		}),
		Entry("after a crash during the recovery of a cluster from its remaining member, as a user chooses", crashCase{
			unplanned: true,
			given:     []func(*kube.Cluster){three, loseQuorum, wait},
			when:      chooseOption("members"),
			then:      isRecovered(1_000_000_002, 3),
		}),
		Entry("after a crash during the recovery of a cluster from its store, as a user chooses", crashCase{
			unplanned: true,
			given:     []func(*kube.Cluster){three, loseQuorum, wait},
			when:      chooseOption("store"),
			then:      isRecovered(1_000_000_001, 2),
		}),
		Entry("after a crash while it releases the volumes with the data before a restore", crashCase{
			given: []func(*kube.Cluster){three, loseNodes, requestRestore("")},
			when:  takeFullSnapshot,
			then: func(k *kube.Cluster) {
				Expect(fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})).Retained).To(BeEmpty())
				volumes := &corev1.PersistentVolumeList{}
				must(k.Client(nil).List(context.Background(), volumes))
				Expect(volumes.Items).To(HaveLen(3), "those of the restored members")
			},
		}),
		Entry("after a crash while a deletion releases the volumes with the data before a restore", crashCase{
			given: []func(*kube.Cluster){create(3, plaintext, withStore, deletingAll), loseNodes, requestRestore("")},
			when:  deleteEtcd,
			then: func(k *kube.Cluster) {
				Expect(k.EtcdObject()).To(BeNil())
				volumes := &corev1.PersistentVolumeList{}
				must(k.Client(nil).List(context.Background(), volumes))
				Expect(volumes.Items).To(BeEmpty())
			},
		}),
		Entry("after a crash during the verification of a restore that would lose the write on a volume that is left", crashCase{
			unforeseen: true,
			given:      []func(*kube.Cluster){three, loseQuorum},
			when:       requestRestore(""),
			then:       refusesRestore,
			// A crash between the record of the result and the removal of the annotation repeats the verification.
			repeatedJobs: 1,
		}),
		Entry("after a crash while it repeats a restore verification that has failed, and that fails again", crashCase{
			unforeseen: true,
			given: []func(*kube.Cluster){three, loseQuorum, func(k *kube.Cluster) {
				k.SetStoreReachable(false)
				requestRestore("")(k)
			}},
			when: func(k *kube.Cluster) {
				ignoresRestore(1)(k)
				requestRestore("")(k)
			},
			then: ignoresRestore(2),
			// A crash between the record of the failure and the removal of the annotation repeats the verification.
			repeatedJobs: 1,
		}),
		Entry("after a crash while three members join an existing cluster", crashCase{
			unplanned: true,
			given:     []func(*kube.Cluster){func(k *kube.Cluster) { k.AddExternalMember("old-0", "10.9.0.1:2379") }},
			when:      create(3, plaintext, joining),
			then:      succeededNextTo(1, 3, 4),
		}),
		Entry("after a crash while the members of the joined cluster are removed", crashCase{
			given: []func(*kube.Cluster){addExisting, create(3, plaintext, joining, withOtherExisting), recordJoin},
			when:  removeExisting,
			then:  hasRemovedExisting(7),
		}),
		Entry("after a crash while the members of the joined cluster are removed, with a store", crashCase{
			given: []func(*kube.Cluster){addExisting, create(3, plaintext, withStore, joining, withOtherExisting), recordJoin},
			when:  removeExisting,
			then:  hasRemovedExisting(7),
		}),
		Entry("after a crash while it frees space in the full databases of three members with a store", crashCase{
			given: []func(*kube.Cluster){three}, when: fillDatabases, then: hasSpace(4),
		}),
		Entry("after a crash while it frees space in the full databases of three members without a store", crashCase{
			given: []func(*kube.Cluster){create(3, plaintext)}, when: fillDatabases, then: hasSpace(4),
		}),
		Entry("after a crash while it replaces the leader of a cluster with a store, which has other data than a quorum", crashCase{
			given: []func(*kube.Cluster){three}, when: changeData("main-0"), then: keepsVolumeOf("main-main-0", 5),
		}),
		Entry("after a crash while it replaces a follower of a cluster without a store, which has other data than a quorum", crashCase{
			given: []func(*kube.Cluster){create(3, plaintext)}, when: changeData("main-2"), then: keepsVolumeOf("main-main-2", 5),
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

// joining lets the members join the cluster of one external member.
func joining(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{
		Members:         []druidv1alpha1.BootstrapExistingMember{{Name: "old-0", PeerURLs: []string{"http://old-0:2380"}}},
		ClientEndpoints: []string{"http://10.9.0.1:2379"},
	}
}

// succeededNextTo expects voting members of the Etcd next to external ones, and as many pods to have been created in all.
func succeededNextTo(external, members, podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		Expect(k.PodsCreated).To(Equal(podsCreated), "created pods")
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), "%+v", k.EtcdObject().Status)
		Expect(k.EtcdCluster().Members()).To(And(HaveLen(external+members), HaveEach(HaveField("Learner", false))))
		Expect(k.EtcdCluster().ID).To(BeEquivalentTo(0xc1), "no other cluster was formed")
	}
}

// addExisting adds the members of the cluster that the Etcd joins. The first one leads.
func addExisting(k *kube.Cluster) {
	for i, name := range []string{"old-0", "old-1", "old-2"} {
		k.AddExternalMember(name, fmt.Sprintf("10.9.0.%d:2379", i+1))
	}
}

// withOtherExisting adds the other two members to the cluster of joining.
func withOtherExisting(etcd *druidv1alpha1.Etcd) {
	existing := etcd.Spec.Etcd.BootstrapWithExistingCluster
	for _, name := range []string{"old-1", "old-2"} {
		existing.Members = append(existing.Members, druidv1alpha1.BootstrapExistingMember{Name: name, PeerURLs: []string{"http://" + name + ":2380"}})
	}
}

// recordJoin records the joined cluster in the status, as the care controller does.
func recordJoin(k *kube.Cluster) {
	etcd := k.EtcdObject().DeepCopy()
	etcd.Status.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: metav1.NewTime(k.Clock.Now())}
	for _, member := range etcd.Spec.Etcd.BootstrapWithExistingCluster.Members {
		etcd.Status.BootstrapWithExistingCluster.Members = append(etcd.Status.BootstrapWithExistingCluster.Members, druidv1alpha1.BootstrapJoinedMember(member))
	}
	must(k.Client(nil).Status().Update(context.Background(), etcd))
}

// removeExisting removes the joined cluster from the spec.
func removeExisting(k *kube.Cluster) {
	update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.BootstrapWithExistingCluster = nil })(k)
}

// hasRemovedExisting expects that only the members of the Etcd are left, and that each of their pods was replaced once.
func hasRemovedExisting(podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(3, podsCreated)(k)
		Expect(k.EtcdCluster().Members()).To(HaveLen(3))
		Expect(k.EtcdObject().Status.BootstrapWithExistingCluster).To(BeNil())
		Expect(fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})).Existing).To(BeNil())
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("ScaleOperationComplete")), HaveField("Reason", "NoScaleOperation"))))
	}
}

// write writes a revision that no snapshot in the store holds.
func write(k *kube.Cluster) { must(k.EtcdCluster().Write()) }

// loseQuorum removes two of three members with their volumes for good. The last revision is not in the store.
func loseQuorum(k *kube.Cluster) {
	write(k)
	loseNodes(k)
}

// loseNodes removes two of three members with their volumes for good. The store has all revisions.
func loseNodes(k *kube.Cluster) {
	k.RemoveNode("n2")
	k.RemoveNode("n3")
}

// requestRestore requests a restore from the store, long after a member was healthy. Accepted is the revision that the user accepts. Empty:
// none.
func requestRestore(accepted string) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		k.Clock.Step(5 * time.Minute)
		etcd := k.EtcdObject().DeepCopy()
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
		if accepted != "" {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/accept-revision", accepted)
		}
		must(k.Client(nil).Update(context.Background(), etcd))
	}
}

// wait lets the pods become older than members may take to start.
func wait(k *kube.Cluster) { k.Clock.Step(5 * time.Minute) }

// chooseOption chooses the option with the source in the condition of the Etcd.
func chooseOption(source string) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		etcd := k.EtcdObject().DeepCopy()
		for _, condition := range etcd.Status.Conditions {
			if condition.Type == druidv1alpha1.ConditionTypeQuorumRecoverable {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/recover", regexp.MustCompile(source+"-[0-9a-f]{8}").FindString(condition.Message))
			}
		}
		must(k.Client(nil).Update(context.Background(), etcd))
	}
}

// isRecovered expects a cluster of three members with the revision, after as many Jobs.
func isRecovered(revision int64, jobsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(3, 10)(k)
		Expect(k.JobsCreated).To(Equal(jobsCreated), "created Jobs")
		Expect(k.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/recover"))
		Expect(k.EtcdObject().Status.Conditions).NotTo(ContainElement(HaveField("Type", druidv1alpha1.ConditionTypeQuorumRecoverable)))
		record := fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{}))
		Expect(record.Retained).To(HaveLen(3), "the volumes stay until the restored cluster has a full snapshot")
		Expect(record.Recovery).To(BeNil())
		Expect(k.EtcdCluster().ID).To(BeEquivalentTo(0xc2), "it is another cluster")
		Expect(k.EtcdCluster().Revision()).To(BeEquivalentTo(revision))
	}
}

// takeFullSnapshot reports a full snapshot of the restored cluster.
func takeFullSnapshot(k *kube.Cluster) {
	k.Clock.Step(5 * time.Minute)
	lease := find(k, k.Etcd.Name+"-full-snap", &coordinationv1.Lease{})
	lease.Spec.RenewTime, lease.Spec.HolderIdentity = &metav1.MicroTime{Time: k.Clock.Now()}, new("1")
	must(k.Client(nil).Update(context.Background(), lease))
	etcd := k.EtcdObject().DeepCopy()
	etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{Type: druidv1alpha1.ConditionTypeBackupReady, Status: druidv1alpha1.ConditionTrue})
	must(k.Client(nil).Status().Update(context.Background(), etcd))
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
	final := fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})).FinalSnapshot
	Expect(final).To(And(HaveField("Snapshot.Revision", BeEquivalentTo(2)), HaveField("Snapshot.PodCreationTime", Not(BeZero()))))
	Expect(final.Snapshot.Store).To(And(Not(BeEmpty()), Equal(final.Store)), "the store is recorded when the snapshot is taken")
	Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("FinalSnapshotTaken")), HaveField("Reason", "SnapshotVerified"))))
}

// isRestored expects a cluster of three members with the revision of the store. Accepted is the revision that the user has accepted. 0: none.
func isRestored(accepted int64) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(3, 10)(k)
		Expect(k.JobsCreated).To(Equal(1), "created Jobs")
		Expect(find(k, k.Etcd.Name+"-verify", &batchv1.Job{}).Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", "succeeded"), "the next restore needs another Job")
		Expect(k.EtcdObject().Annotations).NotTo(Or(HaveKey("druid.gardener.cloud/restore"), HaveKey("druid.gardener.cloud/accept-revision")))
		record := fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{}))
		Expect(record.Retained).To(HaveLen(3), "the volumes stay until the restored cluster has a full snapshot")
		Expect(record.Evidence).To(HaveField("AcceptedRevision", accepted))
		Expect(k.EtcdCluster().ID).To(BeEquivalentTo(0xc2), "it is another cluster")
		Expect(k.EtcdCluster().Revision()).To(BeEquivalentTo(1), "it holds what the store holds")
	}
}

// refusesRestore expects a restore that was ignored, since the store has a lower revision than the volume that is left.
func refusesRestore(k *kube.Cluster) {
	GinkgoHelper()
	Expect(k.PodsCreated).To(Equal(6), "created pods")
	Expect(find(k, k.Etcd.Name+"-verify", &batchv1.Job{}).Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", "succeeded"))
	Expect(k.EtcdObject().Annotations).NotTo(HaveKey("druid.gardener.cloud/restore"))
	Expect(k.Claims()).To(HaveLen(3))
	Expect(k.EtcdCluster().ID).To(BeEquivalentTo(0xc1))
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

// fillDatabases lets the databases of all members reach their quota of 8Gi after a write. Two members, one of which does not exist any more, have raised
// the alarm.
func fillDatabases(k *kube.Cluster) {
	write(k)
	for _, member := range k.EtcdCluster().Members() {
		k.EtcdCluster().SetDatabase(member.ID, 8<<30, 7<<30, 4<<30)
	}
	k.EtcdCluster().Raise(etcdcluster.Alarm{MemberID: k.EtcdCluster().Leader(), Type: etcdcluster.AlarmNoSpace})
	k.EtcdCluster().Raise(etcdcluster.Alarm{MemberID: 0xdead, Type: etcdcluster.AlarmNoSpace})
}

// changeData changes the data of a member, and records what the care controller records after three comparisons.
func changeData(name string) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		members := k.EtcdCluster().Members()
		changed := members[slices.IndexFunc(members, func(m etcdcluster.ListedMember) bool { return m.Name == name })]
		k.EtcdCluster().SetHash(changed.ID, 7)
		found := &state.Inconsistency{Since: k.Clock.Now().Add(-2 * time.Minute), At: k.Clock.Now(), Revision: k.EtcdCluster().Revision(), Comparisons: 3}
		for _, member := range members {
			found.Members = append(found.Members, state.MemberHash{Name: member.Name, ID: etcdcluster.FormatID(member.ID), Hash: k.EtcdCluster().Hash(member.ID)})
		}
		mr := find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})
		annotations, err := state.Update(mr.Annotations, func(s *state.State) { s.Inconsistency = found })
		must(err)
		mr.Annotations = annotations
		must(k.Client(nil).Update(context.Background(), mr))
	}
}

// keepsVolumeOf expects voting members with the same data, and that the previous volume of a claim stays.
func keepsVolumeOf(claim string, podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		succeeded(3, podsCreated)(k)
		for _, member := range k.EtcdCluster().Members() {
			Expect(k.EtcdCluster().Hash(member.ID)).To(BeZero())
		}
		current := find(k, claim, &corev1.PersistentVolumeClaim{})
		volumes := &corev1.PersistentVolumeList{}
		must(k.Client(nil).List(context.Background(), volumes))
		Expect(volumes.Items).To(HaveLen(4))
		Expect(volumes.Items).To(ContainElement(And(
			HaveField("Spec.ClaimRef.Name", claim), HaveField("Spec.ClaimRef.UID", Not(Equal(current.UID))), HaveField("Spec.PersistentVolumeReclaimPolicy", BeEquivalentTo("Retain")),
		)))
		Expect(fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})).Retained).To(BeEmpty(), "a user deletes the volume")
	}
}

// hasSpace expects members that accept writes, and whose pods were not replaced.
func hasSpace(podsCreated int) func(*kube.Cluster) {
	return func(k *kube.Cluster) {
		GinkgoHelper()
		Expect(k.EtcdCluster().Alarms()).To(BeEmpty())
		for _, member := range k.EtcdCluster().Members() {
			Expect(k.EtcdCluster().DatabaseSize(member.ID)).To(BeEquivalentTo(4 << 30))
		}
		Expect(k.EtcdCluster().Compacted()).NotTo(BeZero())
		succeeded(3, podsCreated)(k)
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		must(k.Client(nil).List(context.Background(), tasks))
		snapshots := 0
		if k.EtcdObject().Spec.Backup.Store != nil {
			snapshots = 1
		}
		Expect(tasks.Items).To(HaveLen(snapshots), "tasks that take a full snapshot")
		Expect(fixture.Record(find(k, "druid-"+k.Etcd.Name, &resourcesv1alpha1.ManagedResource{})).Space.IsActive()).To(BeFalse())
	}
}
