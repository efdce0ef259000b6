// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// withLabelsOfEtcd are labels that any user can set.
var withLabelsOfEtcd = map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "main"}

var _ = Describe("An object of others with a name that the Etcd needs", func() {
	ctx := context.Background()

	DescribeTable("is neither changed nor deleted, and the Etcd is refused", func(obj client.Object, name, message string, labels map[string]string) {
		k := kube.New(scheme)
		c := k.Client(nil)
		obj = obj.DeepCopyObject().(client.Object)
		obj.SetNamespace(k.Etcd.Namespace)
		obj.SetName(name)
		obj.SetLabels(labels)
		must(c.Create(ctx, obj))
		before := read(ctx, k, obj)

		create(3, plaintext, deletingAll)(k)
		o := startOperator(k, nil)
		o.run()
		status := k.EtcdObject().Status
		Expect(status.LastErrors).To(ConsistOf(HaveField("Description", And(ContainSubstring(message+" in namespace"), ContainSubstring("does not belong to this Etcd")))))
		Expect(status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Reason", "InvalidSpec"))))
		Expect(o.due).NotTo(BeZero(), "no watch reports that the object is gone")
		Expect(c.Get(ctx, client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-main"}, &resourcesv1alpha1.ManagedResource{})).NotTo(Succeed(), "gardener-resource-manager would apply it")
		Expect(k.PodsCreated).To(BeZero())
		Expect(read(ctx, k, obj)).To(Equal(before))

		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(read(ctx, k, obj)).To(Equal(before))
	},
		Entry("a ServiceAccount", &corev1.ServiceAccount{}, "main", "ServiceAccount main", nil),
		Entry("a ServiceAccount with the labels of the Etcd", &corev1.ServiceAccount{}, "main", "ServiceAccount main", withLabelsOfEtcd),
		Entry("a Role", &rbacv1.Role{}, "druid.gardener.cloud:etcd:main", "Role druid.gardener.cloud:etcd:main", nil),
		Entry("a RoleBinding", &rbacv1.RoleBinding{}, "druid.gardener.cloud:etcd:main", "RoleBinding druid.gardener.cloud:etcd:main", nil),
		Entry("a ConfigMap", &corev1.ConfigMap{}, "main-config", "ConfigMap main-config", nil),
		Entry("the Service for clients", &corev1.Service{}, "main-client", "Service main-client", nil),
		Entry("the Service for peers", &corev1.Service{}, "main-peer", "Service main-peer", nil),
		Entry("a PodDisruptionBudget", &policyv1.PodDisruptionBudget{}, "main", "PodDisruptionBudget main", nil),
		Entry("a StatefulSet", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0))}}, "main", "StatefulSet main", nil),
		Entry("a StatefulSet with the labels of the Etcd", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0))}}, "main", "StatefulSet main", withLabelsOfEtcd),
		Entry("a StatefulSet that an object of another kind controls", &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Database", Name: "main", UID: "database", Controller: new(true)}}},
			Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(0))},
		}, "main", "StatefulSet main", withLabelsOfEtcd),
		Entry("the Lease of a member", &coordinationv1.Lease{}, "main-2", "Lease main-2", nil),
		Entry("the Lease of a member with the labels of the Etcd", &coordinationv1.Lease{}, "main-0", "Lease main-0", withLabelsOfEtcd),
		Entry("the claim of a member", &corev1.PersistentVolumeClaim{}, "main-main-1", "PersistentVolumeClaim main-main-1", nil),
	)

	It("is refused where it is the Secret for applications", func() {
		k := kube.New(scheme)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "main-connection", Labels: map[string]string{
			"app.kubernetes.io/part-of": "main", "app.kubernetes.io/component": "etcd-connection",
		}}}
		must(k.Client(nil).Create(ctx, secret))
		before := read(ctx, k, secret)
		create(1)(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring("Secret main-connection in namespace"))))
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(read(ctx, k, secret)).To(Equal(before))
	})

	It("is refused where a cluster that runs is to use it from now on, and the cluster stays as it is", func() {
		k := reconciledCluster(1, plaintext)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "main-full-snap"}}
		must(k.Client(nil).Create(ctx, lease))
		update(withStore)(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring("Lease main-full-snap in namespace"))))
		Expect(k.PodsCreated).To(Equal(1))
		Expect(k.Client(nil).Delete(ctx, lease)).To(Succeed())
		startOperator(k, nil).run()
		Expect(k.EtcdObject().Status.LastErrors).To(BeEmpty())
	})

	It("stays where it has taken the place of the Etcd's before the deletion", func() {
		k := reconciledCluster(1, plaintext)
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "main"}}
		must(k.Client(nil).Delete(ctx, account))
		must(k.Client(nil).Create(ctx, account.DeepCopy()))
		before := read(ctx, k, account)
		deleteEtcd(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(read(ctx, k, account)).To(Equal(before))
	})

	It("is taken over where a previous Etcd of the name has left it", func() {
		k := kube.New(scheme)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "main-config", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: druidv1alpha1.SchemeGroupVersion.String(), Kind: "Etcd", Name: "main", UID: "earlier", Controller: new(true)},
		}}}
		must(k.Client(nil).Create(ctx, config))
		create(1, plaintext)(k)
		startOperator(k, nil).run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	})
})

// read returns an object as the API server has it, without what Kubernetes writes into a StatefulSet.
func read(ctx context.Context, k *kube.Cluster, obj client.Object) client.Object {
	GinkgoHelper()
	found := obj.DeepCopyObject().(client.Object)
	Expect(k.Client(nil).Get(ctx, client.ObjectKeyFromObject(obj), found)).To(Succeed())
	if statefulSet, is := found.(*appsv1.StatefulSet); is {
		statefulSet.Status, statefulSet.ResourceVersion = appsv1.StatefulSetStatus{}, ""
	}
	return found
}
