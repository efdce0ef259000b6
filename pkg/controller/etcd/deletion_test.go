// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("A deletion", func() {
	ctx := context.Background()

	// reconcile lets the operator reconcile for five minutes.
	reconcile := func(k *kube.Cluster) *operator {
		o := startOperator(k, nil)
		for range 300 {
			if !o.due.IsZero() && !o.due.After(k.Clock.Now()) {
				o.reconcileOnce()
			}
			if k.Tick() {
				o.due = k.Clock.Now()
			}
		}
		return o
	}
	podsNamed := func(k *kube.Cluster, name string) []corev1.Pod {
		GinkgoHelper()
		list := &corev1.PodList{}
		Expect(k.Client(nil).List(ctx, list)).To(Succeed())
		var found []corev1.Pod
		for _, pod := range list.Items {
			if pod.Name == name {
				found = append(found, pod)
			}
		}
		return found
	}
	labelsOfPods := func() map[string]string {
		labels := maps.Clone(withLabelsOfEtcd)
		labels["app.kubernetes.io/component"] = "etcd-statefulset"
		return labels
	}
	// foreign is a StatefulSet of another party, of which pods and claims have the labels of the Etcd.
	foreign := func(owners ...metav1.OwnerReference) *appsv1.StatefulSet {
		labels := labelsOfPods()
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", OwnerReferences: owners}}
		set.Spec.Replicas = new(int32(1))
		set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		set.Spec.Template.Labels = labels
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "registry.example.com/app:v1"}}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "main"}}}
		return set
	}

	It("ends where the StatefulSet has lost its owner reference", func() {
		k := reconciledCluster(3, plaintext)
		made := k.PodsCreated
		set := &appsv1.StatefulSet{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main"}, set)).To(Succeed())
		set.OwnerReferences = nil
		Expect(k.Client(nil).Update(ctx, set)).To(Succeed())
		deleteEtcd(k)
		o := reconcile(k)
		Expect(k.PodsCreated).To(Equal(made), "no pod is created again")
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Client(nil).Get(ctx, client.ObjectKeyFromObject(set), set)).NotTo(Succeed())
		Expect(o.events).To(ContainElement(ContainSubstring("StatefulSet main")))
	})

	It("spares the pods and claims of a StatefulSet of others, though they have the labels of the Etcd, and says so", func() {
		k := kube.New(scheme)
		must(k.Client(nil).Create(ctx, foreign()))
		for range 10 {
			k.Tick()
		}
		before := podsNamed(k, "main-0")
		Expect(before).To(HaveLen(1))
		create(1, plaintext, deletingAll)(k)
		reconcile(k)
		deleteEtcd(k)
		o := reconcile(k)
		Expect(podsNamed(k, "main-0")).To(HaveExactElements(HaveField("UID", before[0].UID)))
		claim := &corev1.PersistentVolumeClaim{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-main-0"}, claim)).To(Succeed())
		Expect(claim.DeletionTimestamp).To(BeNil())
		Expect(k.EtcdObject()).To(BeNil())
		Expect(o.events).To(ContainElement(And(HavePrefix("PodsKept: "), ContainSubstring("main-0"), ContainSubstring("StatefulSet main"))))
	})

	It("deletes no payload that belongs to another Etcd or to nothing", func() {
		k := reconciledCluster(1, plaintext)
		labels := map[string]string{"origin": "gardener-extension-etcd-druid", "app.kubernetes.io/part-of": "main"}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "precious", Labels: labels}}
		must(k.Client(nil).Create(ctx, secret))
		deleteEtcd(k)
		reconcile(k)
		Expect(k.EtcdObject()).To(BeNil())
		Expect(k.Client(nil).Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		list := &corev1.SecretList{}
		Expect(k.Client(nil).List(ctx, list, client.MatchingLabels(labels))).To(Succeed())
		Expect(list.Items).To(HaveLen(1), "the payloads are gone")
	})
})
