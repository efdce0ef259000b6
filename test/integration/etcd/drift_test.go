// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// repairTime is the maximum duration of a repair. Without the operator, gardener-resource-manager repairs once an hour.
const repairTime = 10 * time.Second

const repairsAnnotation = "etcd-druid.extensions.gardener.cloud/repairs"

// createWithStore creates an Etcd with a store and waits until it is reconciled.
func createWithStore(ctx context.Context) *testEtcd {
	GinkgoHelper()
	s := &testEtcd{namespace: env.Namespace(ctx, "drift")}
	Expect(env.Client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "backup"}})).To(Succeed())
	s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("Local")), Container: new("bucket"), Prefix: s.namespace + "/main",
			SecretRef: &corev1.SecretReference{Name: "backup"},
		}
	})
	s.awaitReady(ctx)
	return s
}

// payload returns the name of the Secret of the ManagedResource.
func (s *testEtcd) payload(ctx context.Context) string {
	GinkgoHelper()
	return s.managedResource(ctx, Default).Spec.SecretRefs[0].Name
}

// change patches an object.
func (s *testEtcd) change(ctx context.Context, obj client.Object, mutate func()) {
	GinkgoHelper()
	before := obj.DeepCopyObject().(client.Object)
	mutate()
	Expect(env.Client.Patch(ctx, obj, client.MergeFrom(before))).To(Succeed())
}

var _ = Describe("Drift", func() {
	It("should immediately recreate objects that a user deletes", func(ctx SpecContext) {
		s := createWithStore(ctx)
		for _, deleted := range []struct {
			obj  client.Object
			name string
		}{
			{&coordinationv1.Lease{}, "main-0"},
			{&coordinationv1.Lease{}, "main-full-snap"},
			{&coordinationv1.Lease{}, "main-delta-snap"},
			{&corev1.Secret{}, s.payload(ctx)},
			{&corev1.Service{}, "main-client"},
			{&corev1.Service{}, "main-peer"},
			{&corev1.ConfigMap{}, "main-config"},
			{&corev1.ServiceAccount{}, "main"},
			{&rbacv1.Role{}, "druid.gardener.cloud:etcd:main"},
			{&rbacv1.RoleBinding{}, "druid.gardener.cloud:etcd:main"},
			{&policyv1.PodDisruptionBudget{}, "main"},
			{&appsv1.StatefulSet{}, "main"},
		} {
			By(fmt.Sprintf("deleting %T %s", deleted.obj, deleted.name))
			s.get(ctx, Default, deleted.obj, deleted.name)
			uid := deleted.obj.GetUID()
			Expect(env.Client.Delete(ctx, deleted.obj)).To(Succeed())
			Eventually(func(g Gomega) {
				again := deleted.obj.DeepCopyObject().(client.Object)
				s.get(ctx, g, again, deleted.name)
				g.Expect(again.GetUID()).NotTo(Equal(uid))
			}, repairTime).Should(Succeed(), "%T %s was not recreated", deleted.obj, deleted.name)
			s.awaitReady(ctx)
		}
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-full-snap")
		Expect(metav1.IsControlledBy(lease, s.read(ctx, Default))).To(BeTrue())
		Expect(lease.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "main"))
		s.expectEvent(ctx, "Normal RepairingDrift: Recreated what was deleted: Lease main-0 is gone")
	})

	It("should immediately repair objects that a user changes", func(ctx SpecContext) {
		s := createWithStore(ctx)
		service, peer, configMap, account := &corev1.Service{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{}
		role, binding, budget, statefulSet := &rbacv1.Role{}, &rbacv1.RoleBinding{}, &policyv1.PodDisruptionBudget{}, &appsv1.StatefulSet{}
		mr := &resourcesv1alpha1.ManagedResource{}
		for _, changed := range []struct {
			obj       client.Object
			name      string
			change    func()
			unchanged func(Gomega)
		}{
			{service, "main-client", func() { service.Spec.Selector["x"] = "y" }, func(g Gomega) { g.Expect(service.Spec.Selector).NotTo(HaveKey("x")) }},
			{peer, "main-peer", func() { peer.Labels["app.kubernetes.io/part-of"] = "x" }, func(g Gomega) { g.Expect(peer.Labels).To(HaveKeyWithValue("app.kubernetes.io/part-of", "main")) }},
			{configMap, "main-config", func() { configMap.Data["etcd.conf.yaml"] = "{}" }, func(g Gomega) { g.Expect(configMap.Data["etcd.conf.yaml"]).To(ContainSubstring("initial-cluster")) }},
			{account, "main", func() { account.AutomountServiceAccountToken = new(true) }, func(g Gomega) { g.Expect(account.AutomountServiceAccountToken).To(HaveValue(BeFalse())) }},
			{role, "druid.gardener.cloud:etcd:main", func() { role.Rules = nil }, func(g Gomega) { g.Expect(role.Rules).To(HaveLen(2)) }},
			{binding, "druid.gardener.cloud:etcd:main", func() { binding.Subjects[0].Name = "x" }, func(g Gomega) { g.Expect(binding.Subjects).To(ConsistOf(HaveField("Name", "main"))) }},
			{budget, "main", func() { budget.Spec.MinAvailable = new(intstr.FromInt32(1)) }, func(g Gomega) { g.Expect(budget.Spec.MinAvailable.IntValue()).To(BeZero()) }},
			{statefulSet, "main", func() { statefulSet.Spec.Template.Spec.PriorityClassName = "x" }, func(g Gomega) { g.Expect(statefulSet.Spec.Template.Spec.PriorityClassName).To(BeEmpty()) }},
			{mr, "druid-main", func() { mr.Spec.KeepObjects = new(true) }, func(g Gomega) { g.Expect(mr.Spec.KeepObjects).To(HaveValue(BeFalse())) }},
		} {
			By(fmt.Sprintf("changing %T %s", changed.obj, changed.name))
			s.get(ctx, Default, changed.obj, changed.name)
			s.change(ctx, changed.obj, changed.change)
			Eventually(func(g Gomega) {
				s.get(ctx, g, changed.obj, changed.name)
				changed.unchanged(g)
			}, repairTime).Should(Succeed(), "%T %s was not repaired", changed.obj, changed.name)
			s.awaitReady(ctx)
		}
		s.expectEvent(ctx, "Normal RepairingDrift: Requesting ManagedResource druid-main to be applied again: Service main-client differs from its rendering in spec.selector.x")
	})

	It("should repair an object at most once in five minutes if another writer keeps changing it, and report it", func(ctx SpecContext) {
		s := createWithStore(ctx)
		service := &corev1.Service{}
		otherWriter := func(g Gomega) {
			s.get(ctx, g, service, "main-client")
			if service.Spec.Selector["x"] == "" {
				before := service.DeepCopy()
				service.Spec.Selector["x"] = "y"
				g.Expect(env.Client.Patch(ctx, service, client.MergeFrom(before))).To(Succeed())
			}
		}
		otherWriter(Default)
		Eventually(func(g Gomega) {
			s.get(ctx, g, service, "main-client")
			g.Expect(service.Spec.Selector).NotTo(HaveKey("x"))
			g.Expect(s.managedResource(ctx, g).Annotations[repairsAnnotation]).To(ContainSubstring("Service/main-client"))
		}, repairTime).Should(Succeed())
		s.awaitReady(ctx)

		By("setting the time of the last repair back by one minute, as if the other writer had waited")
		mr := s.managedResource(ctx, Default)
		at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second).Format(time.RFC3339)
		repairs := strings.Split(mr.Annotations[repairsAnnotation], `"at":`)[0] + fmt.Sprintf(`"at":{"Service/main-client":%q}}`, at)
		s.change(ctx, mr, func() { mr.Annotations[repairsAnnotation] = repairs })
		Eventually(func(g Gomega) { // the operator does not watch this annotation, and the caches are not ordered
			shown := &resourcesv1alpha1.ManagedResource{}
			g.Expect(cached.Get(ctx, client.ObjectKeyFromObject(mr), shown)).To(Succeed())
			g.Expect(shown.Annotations).To(HaveKeyWithValue(repairsAnnotation, repairs))
		}).Should(Succeed())
		Eventually(func(g Gomega) {
			otherWriter(g)
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "Waiting",
				"Service main-client differs from its rendering in spec.selector.x although the operator repaired it at "+at))
		}, repairTime).Should(Succeed())
		s.expectEvent(ctx, "Warning DriftNotRepaired: Waiting to repair again: Service main-client differs")
		Consistently(func(g Gomega) {
			otherWriter(g)
			g.Expect(s.managedResource(ctx, g).Annotations).To(HaveKeyWithValue(repairsAnnotation, repairs))
		}, 2*time.Second).Should(Succeed())

		By("repairing other objects")
		role := &rbacv1.Role{}
		s.get(ctx, Default, role, "druid.gardener.cloud:etcd:main")
		s.change(ctx, role, func() { role.Rules = nil })
		Eventually(func(g Gomega) {
			s.get(ctx, g, role, "druid.gardener.cloud:etcd:main")
			g.Expect(role.Rules).To(HaveLen(2))
		}, repairTime).Should(Succeed())
	})

	It("should recreate a Lease at most once in five minutes", func(ctx SpecContext) {
		s := createWithStore(ctx)
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-0")
		uid := lease.UID
		Expect(env.Client.Delete(ctx, lease)).To(Succeed())
		Eventually(func(g Gomega) {
			again := &coordinationv1.Lease{}
			s.get(ctx, g, again, "main-0")
			g.Expect(again.UID).NotTo(Equal(uid))
			g.Expect(s.managedResource(ctx, g).Annotations[repairsAnnotation]).To(ContainSubstring("Lease/main-0"))
		}, repairTime).Should(Succeed())
		Eventually(func(g Gomega) { // with an old record the operator would recreate the Lease once more
			shown := &resourcesv1alpha1.ManagedResource{}
			g.Expect(cached.Get(ctx, client.ObjectKeyFromObject(s.managedResource(ctx, g)), shown)).To(Succeed())
			g.Expect(shown.Annotations[repairsAnnotation]).To(ContainSubstring("Lease/main-0"))
		}).Should(Succeed())
		Expect(env.Client.Delete(ctx, lease)).To(Succeed())
		s.expectEvent(ctx, "Warning DriftNotRepaired: Waiting to repair again: Lease main-0 is gone")
		Expect(client.IgnoreNotFound(env.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease))).To(Succeed())
		Expect(s.read(ctx, Default).Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	})

	It("should request one full snapshot for a recreated full snapshot Lease", func(ctx SpecContext) {
		s := createWithStore(ctx)
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-full-snap")
		pod := s.pod(ctx, Default)
		Eventually(func() bool { return time.Now().Truncate(time.Second).After(pod.CreationTimestamp.Time) }, repairTime).Should(BeTrue())
		Expect(env.Client.Delete(ctx, lease)).To(Succeed())
		tasks := &druidv1alpha1.EtcdOpsTaskList{}
		Eventually(func(g Gomega) {
			g.Expect(env.Client.List(ctx, tasks, client.InNamespace(s.namespace))).To(Succeed())
			g.Expect(tasks.Items).To(HaveLen(1))
		}, repairTime).Should(Succeed())
		Expect(tasks.Items[0].Name).To(HavePrefix("main-full-snap-"))
		Expect(tasks.Items[0].Spec.Config.OnDemandSnapshot).To(HaveField("Type", druidv1alpha1.OnDemandSnapshotTypeFull))
		s.expectEvent(ctx, "Normal SnapshotLeaseRecreated: Lease main-full-snap was recreated and records no snapshot")

		pod = s.pod(ctx, Default)
		s.change(ctx, pod, func() { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "example.com/trigger", "1") })
		Consistently(func(g Gomega) {
			g.Expect(env.Client.List(ctx, tasks, client.InNamespace(s.namespace))).To(Succeed())
			g.Expect(tasks.Items).To(HaveLen(1))
		}, time.Second).Should(Succeed())
	})

	It("should send no requests except reads of Secrets when an event changes nothing", func(ctx SpecContext) {
		s := createWithStore(ctx)
		mr, etcd := s.managedResource(ctx, Default), s.read(ctx, Default)
		Expect(mr.Annotations).NotTo(HaveKey(repairsAnnotation), "the creation of a cluster is not drift")
		Eventually(func(g Gomega) { // wait until all objects were compared
			before := sent.in(s.namespace)
			g.Consistently(func() []string { return sent.in(s.namespace) }, time.Second).Should(Equal(before))
		}).Should(Succeed())
		before := len(sent.in(s.namespace))
		// split separates the reads of Secrets, which each reconciliation sends, from the other requests.
		split := func() (secrets, others []string) {
			for _, request := range sent.in(s.namespace)[before:] {
				if strings.HasPrefix(request, "GET ") && strings.Contains(request, "/secrets") {
					secrets = append(secrets, request)
				} else {
					others = append(others, request)
				}
			}
			return secrets, others
		}
		for i := range 5 {
			reads, _ := split()
			lease, pod := &coordinationv1.Lease{}, s.pod(ctx, Default)
			s.get(ctx, Default, lease, "main-0")
			s.change(ctx, lease, func() { // like the sidecar
				lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("main-0:Leader"), &metav1.MicroTime{Time: time.Now()}
			})
			s.change(ctx, pod, func() { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "example.com/trigger", fmt.Sprint(i)) })
			Eventually(func() int { now, _ := split(); return len(now) }).Should(BeNumerically(">", len(reads)), "a reconciliation after change %d", i)
		}
		expectUnchanged(ctx, mr, etcd)
		_, requests := split()
		Expect(requests).To(BeEmpty(), "requests of the operator")
	})
})
