// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// lastMember is the last used member ID. IDs and addresses of members are unique across all specs.
var lastMember atomic.Uint64

var _ = Describe("Care", func() {
	var (
		etcd     *druidv1alpha1.Etcd
		memberID uint64
		pod      *corev1.Pod
		lease    *coordinationv1.Lease
	)

	labels := func(component string) map[string]string {
		return map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": component,
		}
	}
	meta := func(name, component string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: etcd.Namespace, Labels: labels(component)}
	}
	heartbeat := func(identity string) {
		GinkgoHelper()
		before := lease.DeepCopy()
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &identity, &metav1.MicroTime{Time: clock.Now()}
		Expect(env.Client.Patch(ctx, lease, client.MergeFrom(before))).To(Succeed())
	}
	setReady := func(ready bool) {
		GinkgoHelper()
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		before := pod.DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}, {Type: corev1.ContainersReady, Status: status}}
		pod.Status.PodIPs = []corev1.PodIP{{IP: address(memberID)}}
		pod.Status.PodIP = address(memberID)
		Expect(env.Client.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
	}
	condition := func(conditionType druidv1alpha1.ConditionType) func(Gomega) string {
		return func(g Gomega) string {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			for _, condition := range etcd.Status.Conditions {
				if condition.Type == conditionType {
					return string(condition.Status) + " " + condition.Reason
				}
			}

			return "absent"
		}
	}
	// createHealthyEtcd creates an Etcd with one healthy member and waits until the operator has observed it.
	createHealthyEtcd := func(options ...func(*druidv1alpha1.Etcd)) {
		GinkgoHelper()
		etcd = fixture.Etcd(append([]func(*druidv1alpha1.Etcd){fixture.WithNamespace(env.Namespace(ctx, "care"))}, options...)...)
		etcd.UID, etcd.Generation = "", 0
		Expect(env.Client.Create(ctx, etcd)).To(Succeed())
		memberID = lastMember.Add(1)
		lease = &coordinationv1.Lease{ObjectMeta: meta("test-0", "etcd-member-lease")}
		Expect(env.Client.Create(ctx, lease)).To(Succeed())
		pod = &corev1.Pod{ObjectMeta: meta("test-0", "etcd-statefulset"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}}}
		Expect(env.Client.Create(ctx, pod)).To(Succeed())
		members.AddMember(memberID, "test-0", address(memberID)+":2379")
		setReady(true)
		Eventually(condition("Ready")).Should(Equal("True Quorate"))
	}

	AfterEach(func() {
		members.RemoveMember(memberID)
		Expect(client.IgnoreNotFound(env.Client.Delete(ctx, etcd))).To(Succeed())
	})

	It("reports the status of a healthy member", func() {
		createHealthyEtcd()
		Expect(condition("AllMembersReady")(NewGomega(Fail))).To(Equal("True AllMembersReady"))
		Expect(condition("ClusterIDMismatch")(NewGomega(Fail))).To(Equal("False NoClusterIDMismatchDetected"))
		Expect(condition("SecretsValid")(NewGomega(Fail))).To(Equal("True SecretsValid"))
		Expect(condition("BackupReady")(NewGomega(Fail))).To(Equal("absent"))
		Expect(etcd.Status.Members).To(HaveLen(1))
		Expect(etcd.Status.Members[0].Name).To(Equal("test-0"))
		Expect(*etcd.Status.Members[0].ID).To(Equal(fmt.Sprintf("%x", memberID)))
	})

	It("writes nothing while only leases are renewed", func() {
		createHealthyEtcd()
		heartbeat(fmt.Sprintf("%x:7:Leader", memberID))
		before := etcd.ResourceVersion
		calls := members.Calls()
		Consistently(func(g Gomega) string {
			clock.Step(5 * time.Second)
			heartbeat(fmt.Sprintf("%x:7:Leader", memberID))
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())

			return etcd.ResourceVersion
		}, 6*period, period/3).Should(Equal(before))
		Eventually(members.Calls).Should(BeNumerically(">", calls+4), "the operator reads the status of the members meanwhile")
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.ResourceVersion).To(Equal(before))
	})

	It("reports stopped containers immediately, with an event, and reports when they run again", func() {
		createHealthyEtcd()
		heartbeat(fmt.Sprintf("%x:7:Leader", memberID))
		members.Stop(memberID)
		setReady(false)
		Eventually(condition("Ready")).Should(Equal("False QuorumLost"))
		Expect(etcd.Status.Members[0].Reason).To(Equal("ContainersNotReady"))
		Eventually(func(g Gomega) []string {
			list := &eventsv1.EventList{}
			g.Expect(env.Client.List(ctx, list, client.InNamespace(etcd.Namespace))).To(Succeed())
			var notes []string
			for _, event := range list.Items {
				if event.Regarding.Name == "test" && event.Type == "Warning" {
					notes = append(notes, event.Reason)
				}
			}

			return notes
		}).Should(ContainElement("QuorumLost"))
		members.Start(memberID)
		setReady(true)
		Eventually(condition("Ready")).Should(Equal("True Quorate"))
	})

	It("evaluates the lease if no member responds, and reports an expired lease without an event", func() {
		createHealthyEtcd()
		heartbeat(fmt.Sprintf("%x:7:Leader", memberID))
		members.Stop(memberID)
		Eventually(func(g Gomega) string {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			g.Expect(etcd.Status.Members).To(HaveLen(1))

			return etcd.Status.Members[0].Reason
		}).Should(Equal("LeaseSucceeded"))
		Expect(condition("Ready")(NewGomega(Fail))).To(Equal("True Quorate"))
		clock.Step(2 * time.Minute)
		Eventually(condition("Ready")).Should(Equal("Unknown Unknown"))
		Expect(etcd.Status.Members[0].Reason).To(Equal("LeaseExpired"))
		clock.Step(5 * time.Minute)
		Eventually(condition("Ready")).Should(Equal("False QuorumLost"))
		heartbeat(fmt.Sprintf("%x:7:Leader", memberID))
		Eventually(condition("Ready")).Should(Equal("True Quorate"))
	})

	It("updates the condition when a missing Secret is created", func() {
		createHealthyEtcd(func(etcd *druidv1alpha1.Etcd) {
			fixture.WithStore("S3")(etcd)
		})
		Eventually(condition("SecretsValid")).Should(Equal("False SecretsMissing"))
		Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "etcd-backup", Namespace: etcd.Namespace}})).To(Succeed())
		Eventually(condition("SecretsValid")).Should(Equal("True SecretsValid"))
	})

	It("evaluates snapshots with the leases of the sidecar", func() {
		createHealthyEtcd(fixture.WithLocalStore())
		Eventually(condition("BackupReady")).Should(Equal("Unknown WaitingForFirstSnapshot"))
		for _, name := range []string{"test-full-snap", "test-delta-snap"} {
			Expect(env.Client.Create(ctx, &coordinationv1.Lease{ObjectMeta: meta(name, "etcd-snapshot-lease"), Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new("1"), RenewTime: &metav1.MicroTime{Time: clock.Now()},
			}})).To(Succeed())
		}
		Eventually(condition("BackupReady")).Should(Equal("True BackupSucceeded"))
	})

	It("reports warnings about an unbound PersistentVolumeClaim", func() {
		createHealthyEtcd()
		Expect(env.Client.Create(ctx, statefulSet(etcd.Namespace, labels("etcd-statefulset")))).To(Succeed())
		Eventually(condition("DataVolumesReady")).Should(Equal("True NoWarningsFoundForDataVolumes"))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("test-test-0", ""), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
		delete(claim.Labels, "app.kubernetes.io/component")
		Expect(env.Client.Create(ctx, claim)).To(Succeed())
		Expect(env.Client.Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "claim-", Namespace: etcd.Namespace}, Type: "Warning", Message: "storage class none not found",
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID},
		})).To(Succeed())
		Eventually(condition("DataVolumesReady")).Should(Equal("False FoundWarningsForDataVolumes"))
	})

	It("does not modify conditions of other controllers", func() {
		createHealthyEtcd()
		before := etcd.DeepCopy()
		etcd.Status.Conditions = append(etcd.Status.Conditions, druidv1alpha1.Condition{
			Type: "LastSnapshotCompactionSucceeded", Status: "True", Reason: "None", LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now(),
		})
		Expect(env.Client.Status().Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
		members.Stop(memberID)
		setReady(false)
		heartbeat(fmt.Sprintf("%x:7:Leader", memberID))
		Eventually(condition("Ready")).Should(Equal("False QuorumLost"))
		Expect(condition("LastSnapshotCompactionSucceeded")(NewGomega(Fail))).To(Equal("True None"))
	})

	It("keeps the last status of the condition while the cluster hibernates", func() {
		createHealthyEtcd()
		before := etcd.DeepCopy()
		etcd.Spec.Replicas = 0
		Expect(env.Client.Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
		Eventually(condition("Ready")).Should(Equal("True NotChecked"))
		Expect(etcd.Status.Members).To(BeEmpty())
	})
})

// address returns the pod IP of a member.
func address(memberID uint64) string { return fmt.Sprintf("10.0.0.%d", memberID) }
