// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// singleMembers connects to members of single-member clusters at revision 42, by their addresses.
type singleMembers struct{ members sync.Map }

func (s *singleMembers) Connect(_ context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	member, _ := s.members.LoadOrStore(target.Address, &singleMember{})

	return member.(*singleMember), nil
}
func (*singleMembers) Disconnect(etcdclient.Target) {}

type singleMember struct{ rejectsWrites atomic.Bool }

func (m *singleMember) Status(context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	var alarms []etcdcluster.Alarm
	if m.rejectsWrites.Load() {
		alarms = append(alarms, etcdcluster.WriteRejection)
	}

	return etcdcluster.EndpointStatus{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, ClusterID: 1}, alarms, nil
}
func (*singleMember) Read(context.Context) (etcdclient.ResponseHeader, error) {
	return etcdclient.ResponseHeader{MemberID: 1, ClusterID: 1}, nil
}
func (m *singleMember) EndpointStatus(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	return m.Status(ctx)
}
func (*singleMember) MemberList(context.Context) ([]etcdcluster.ListedMember, error) {
	return []etcdcluster.ListedMember{{ID: 1, Name: "main-0"}}, nil
}
func (*singleMember) Revision(context.Context) (int64, error) { return 42, nil }
func (m *singleMember) RejectWrites(context.Context) (int64, error) {
	m.rejectsWrites.Store(true)

	return 42, nil
}
func (m *singleMember) AllowWrites(context.Context) error {
	m.rejectsWrites.Store(false)

	return nil
}
func (*singleMember) Defragment(context.Context) error { return nil }
func (*singleMember) Promote(context.Context, uint64) error {
	return errors.New("there is no learner")
}

// RemoveMember implements etcdclient.Client.
func (*singleMember) RemoveMember(context.Context, uint64) error {
	return errors.New("not implemented")
}

// HashKV implements etcdclient.Client.
func (*singleMember) HashKV(context.Context, int64) (uint32, int64, error) {
	return 0, 0, errors.New("not implemented")
}

// Compact implements etcdclient.Client.
func (*singleMember) Compact(context.Context, int64) error { return errors.New("not implemented") }

// Disarm implements etcdclient.Client.
func (*singleMember) Disarm(context.Context, etcdcluster.Alarm) error {
	return errors.New("not implemented")
}

// CountKeys implements etcdclient.Client.
func (*singleMember) CountKeys(context.Context) ([]etcdcluster.KeyCount, error) {
	return nil, errors.New("not implemented")
}

func (*singleMember) UpdatePeerURLs(context.Context, uint64, []string) error {
	return errors.New("not implemented")
}

// ClusterVersion implements etcdclient.Client.
func (*singleMember) ClusterVersion(context.Context) (string, error) { return "3.4.0", nil }

func (*singleMember) Health(context.Context) error { return nil }

// IsAuthEnabled implements etcdclient.Client.
func (*singleMember) IsAuthEnabled(context.Context) (bool, error) { return false, nil }

func (*singleMember) MoveLeader(context.Context, uint64) error {
	return errors.New("there is no other member")
}

// withStore sets a Local store. Etcds of other namespaces have another prefix.
func withStore(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: etcd.Namespace + "/some/prefix"}
}

func hibernate(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Replicas = 0
	setOperation("gardener.cloud/operation")(etcd)
}

var _ = Describe("Etcd with a store", func() {
	BeforeEach(func() {
		sidecars.Fail(nil)
		sidecars.SetRevision(42)
	})

	conditionOf := func(ctx context.Context, g Gomega, s *testEtcd) []druidv1alpha1.Condition {
		return s.read(ctx, g).Status.Conditions
	}

	It("should stop its member after a verified snapshot, and record the snapshot until the member runs again", func(ctx SpecContext) {
		s := create(ctx, withStore)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		release := sidecars.Hold()
		DeferCleanup(release)
		s.update(ctx, hibernate)
		Eventually(func(g Gomega) {
			g.Expect(conditionOf(ctx, g, s)).To(haveCondition("FinalSnapshotTaken", "Unknown", "SnapshotPending", "attempt 1 of 3"))
		}).Should(Succeed())
		expectUnchanged(ctx, s.pod(ctx, Default), s.managedResource(ctx, Default))

		release()
		s.awaitReady(ctx)
		Expect(sidecars.SnapshotRequests()).To(Equal(before + 1))
		Expect(conditionOf(ctx, Default, s)).To(haveCondition("FinalSnapshotTaken", "True", "SnapshotVerified", "full snapshot Full-00000000-00000042", "revision 42"))
		Expect(fixture.Record(s.managedResource(ctx, Default)).FinalSnapshot).To(And(
			HaveField("Generation", BeEquivalentTo(2)), HaveField("Snapshot.Name", HavePrefix("Full-00000000-00000042-"))))
		s.expectEvent(ctx, "Normal FullSnapshotTaken: Took and verified full snapshot")
		s.expectEvent(ctx, "Normal Hibernating: The members are stopped with full snapshot")

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 1
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.awaitReady(ctx)
		Expect(conditionOf(ctx, Default, s)).NotTo(ContainElement(HaveField("Type", BeEquivalentTo("FinalSnapshotTaken"))))
		Expect(fixture.Record(s.managedResource(ctx, Default)).FinalSnapshot).To(BeNil())
	})

	It("should request the snapshot again if the operator restarted during the request", func(ctx SpecContext) {
		s := create(ctx, withStore)
		s.awaitReady(ctx)
		release := sidecars.Hold()
		DeferCleanup(release)
		before := sidecars.SnapshotRequests()
		s.update(ctx, hibernate)
		Eventually(sidecars.SnapshotRequests).Should(Equal(before + 1))

		stopOperator()
		Expect(fixture.Record(s.managedResource(ctx, Default)).Replicas).To(HaveValue(BeEquivalentTo(1)))
		stopOperator = startOperator("v1", false)
		Eventually(sidecars.SnapshotRequests).Should(Equal(before + 2))
		release()
		s.awaitReady(ctx)
		Expect(conditionOf(ctx, Default, s)).To(haveCondition("FinalSnapshotTaken", "True", "SnapshotVerified"))
	})

	It("should hibernate immediately if an annotation skips the snapshot", func(ctx SpecContext) {
		s := create(ctx, withStore)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/skip-final-snapshot", "")
			hibernate(etcd)
		})
		s.awaitReady(ctx)
		Expect(sidecars.SnapshotRequests()).To(Equal(before))
		Expect(conditionOf(ctx, Default, s)).To(haveCondition("FinalSnapshotTaken", "False", "SnapshotSkipped"))
	})

	It("should not delete volumes before a verified snapshot", func(ctx SpecContext) {
		s := create(ctx, withStore, deleteAll)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		release := sidecars.Hold()
		DeferCleanup(release)
		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(sidecars.SnapshotRequests).Should(Equal(before + 1))
		expectUnchanged(ctx, s.pod(ctx, Default), s.managedResource(ctx, Default))

		release()
		expectGone(ctx, s)
		s.expectEvent(ctx, "Normal DeletingVolumes: The volumes are deleted with full snapshot Full-00000000-00000042")
	})

	It("should not delete volumes whose claims have labels of old versions before a verified snapshot", func(ctx SpecContext) {
		s := create(ctx, withStore, deleteAll)
		s.awaitReady(ctx)
		claim := &corev1.PersistentVolumeClaim{}
		s.get(ctx, Default, claim, "main-main-0")
		former := claim.DeepCopy()
		claim.Labels = map[string]string{"name": "etcd", "instance": "main"}
		claim.Finalizers = nil // no controller would remove it, because claims are identified by their labels here
		Expect(env.Client.Patch(ctx, claim, client.MergeFrom(former))).To(Succeed())
		before := sidecars.SnapshotRequests()
		release := sidecars.Hold()
		DeferCleanup(release)
		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(sidecars.SnapshotRequests).Should(Equal(before + 1))
		s.get(ctx, Default, claim, "main-main-0")
		Expect(claim.DeletionTimestamp).To(BeNil())

		release()
		expectGone(ctx, s)
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
	})

	It("should take the snapshot after its Jobs are deleted", func(ctx SpecContext) {
		s := create(ctx, withStore, deleteAll)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		job := &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.namespace, Name: "main-compactor", Finalizers: []string{"example.org/dead-node"},
				Labels:          map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.etcd, druidv1alpha1.SchemeGroupVersion.WithKind("Etcd"))},
			},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "compact", Image: "x"}},
			}}},
		}
		Expect(env.Client.Create(ctx, job)).To(Succeed())
		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.LastOperation).To(HaveField("Description", ContainSubstring("Jobs main-compactor to be gone")))
		}).Should(Succeed())
		Expect(sidecars.SnapshotRequests()).To(Equal(before))
		expectUnchanged(ctx, s.pod(ctx, Default), s.managedResource(ctx, Default))

		Expect(env.Client.Patch(ctx, job, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		expectGone(ctx, s)
		Expect(sidecars.SnapshotRequests()).To(Equal(before + 1))
	})

	It("should take another snapshot if the members were not stopped after the last one", func(ctx SpecContext) {
		s := create(ctx, withStore, deleteAll)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		stopOperator()
		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		etcd := s.read(ctx, Default)
		stale := metav1.NewTime(time.Now().Add(-24 * time.Hour))
		etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{
			Type: "FinalSnapshotTaken", Status: "True", Reason: "DeletionApproved", Message: "of yesterday", LastTransitionTime: stale, LastUpdateTime: stale,
		})
		Expect(env.Client.Status().Update(ctx, etcd)).To(Succeed())
		stopOperator = startOperator("v1", false)
		expectGone(ctx, s)
		Expect(sidecars.SnapshotRequests()).To(Equal(before + 1))
	})

	It("should report the running attempt and the error of the previous attempt", func(ctx SpecContext) {
		s := create(ctx, withStore)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		sidecars.Fail(fmt.Errorf("%w: 500", sidecar.ErrRefused))
		s.update(ctx, hibernate)
		reportsAttempts := func(g Gomega) {
			g.Expect(conditionOf(ctx, g, s)).To(haveCondition("FinalSnapshotTaken", "False", "SnapshotFailed", "sidecar refuses: 500", "attempt 2 of 3"))
		}
		Eventually(reportsAttempts).Should(Succeed())
		sidecars.Fail(nil)
		release := sidecars.Hold()
		DeferCleanup(release)
		Eventually(sidecars.SnapshotRequests).WithTimeout(time.Minute).Should(BeNumerically(">", before+1))
		// An event triggers a reconciliation during the attempt.
		Expect(env.Client.Patch(ctx, s.pod(ctx, Default), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"network":"10.0.0.1"}}}`)))).To(Succeed())
		Consistently(reportsAttempts).WithTimeout(2 * time.Second).Should(Succeed())
		release()
		s.awaitReady(ctx)
	})

	DescribeTable("should keep its volumes if",
		func(ctx SpecContext, change func(), message string) {
			s := create(ctx, withStore, deleteAll)
			s.awaitReady(ctx)
			change()
			Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
			Eventually(func(g Gomega) {
				etcd := s.read(ctx, g)
				g.Expect(etcd.Status.Conditions).To(haveCondition("FinalSnapshotTaken", "False", "SnapshotFailed", message))
				g.Expect(etcd.Status.LastOperation).To(And(HaveField("Type", BeEquivalentTo("Delete")), HaveField("State", BeEquivalentTo("Processing")), HaveField("Description", ContainSubstring("skip-final-snapshot"))))
			}).Should(Succeed())
			expectUnchanged(ctx, s.pod(ctx, Default), s.managedResource(ctx, Default))
			s.expectEvent(ctx, "Warning FullSnapshotFailed: Attempt 1: ")

			By("continuing after the annotation is set")
			s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/skip-final-snapshot", "")
			})
			expectGone(ctx, s)
			s.expectEvent(ctx, "Normal DeletingVolumes: The volumes are deleted with no full snapshot: the annotation")
		},
		Entry("the store is unavailable", func() { sidecars.Fail(fmt.Errorf("%w: 500", sidecar.ErrRefused)) }, "sidecar refuses: 500"),
		Entry("a snapshot lacks acknowledged revisions", func() { sidecars.SetRevision(41) }, "it ends with revision 41, and etcd was at 42 before"),
	)

	It("should delete the volumes of a hibernated cluster with the snapshot from before the hibernation", func(ctx SpecContext) {
		s := create(ctx, withStore, deleteAll)
		s.awaitReady(ctx)
		s.update(ctx, hibernate)
		s.awaitReady(ctx)
		before := sidecars.SnapshotRequests()
		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		expectGone(ctx, s)
		Expect(sidecars.SnapshotRequests()).To(Equal(before))
	})

	It("should not attempt a snapshot in a terminating namespace, and report it", func(ctx SpecContext) {
		s := create(ctx, withStore, deleteAll)
		s.awaitReady(ctx)
		sidecars.Fail(sidecar.ErrRefused)
		before := sidecars.SnapshotRequests()
		// No namespace controller runs here, so the namespace stays in phase Terminating.
		Expect(env.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})).To(Succeed())
		Eventually(func(g Gomega) {
			namespace := &corev1.Namespace{}
			g.Expect(env.Client.Get(ctx, client.ObjectKey{Name: s.namespace}, namespace)).To(Succeed())
			g.Expect(namespace.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		expectGone(ctx, s)
		Expect(sidecars.SnapshotRequests()).To(Equal(before))
		Eventually(func(g Gomega) {
			events := &corev1.EventList{}
			g.Expect(env.Client.List(ctx, events, client.InNamespace("default"))).To(Succeed())
			g.Expect(events.Items).To(ContainElement(And(
				HaveField("InvolvedObject.Name", s.namespace), HaveField("Reason", "FinalSnapshotSkipped"),
				HaveField("Message", "Etcd main is deleted with no full snapshot: the namespace is being deleted"),
			)))
		}).Should(Succeed())
	})
})
