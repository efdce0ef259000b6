// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"strconv"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

func setOperation(key string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, key, "reconcile")
	}
}

func deleteAll(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicyDeleteAll)
}

// queuedPriorities returns the priorities that requests of the controller have had since the start of this process.
func queuedPriorities() []string {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var priorities []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetName() == "workqueue_depth" && labels["name"] == etcd.ControllerName {
				priorities = append(priorities, labels["priority"])
			}
		}
	}
	return priorities
}

var _ = Describe("The lifecycle of an Etcd", func() {
	It("should create all its objects and report its status", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)

		By("giving the events of the creation a low priority")
		Expect(queuedPriorities()).To(ContainElement(strconv.Itoa(queue.LowPriority)))

		By("writing a ManagedResource with the origin of the operator and the recorded state")
		mr := s.managedResource(ctx, Default)
		Expect(mr.Labels).To(HaveKeyWithValue("origin", "gardener-extension-etcd-druid"))
		Expect(mr.Spec.Class).To(HaveValue(Equal("seed")))
		Expect(fixture.Record(mr)).To(And(HaveField("Size", BeEquivalentTo(1)),
			HaveField("Accepted.Generation", BeEquivalentTo(1)), HaveField("Accepted.Defaults.ImageSets", HaveKeyWithValue("3.4", HaveField("EtcdWrapper", "registry.example.com/etcd-wrapper:v1")))))

		By("waiting for the applied objects")
		for name, obj := range map[string]client.Object{
			"main-config":                    &corev1.ConfigMap{},
			"main-peer":                      &corev1.Service{},
			"main-client":                    &corev1.Service{},
			"druid.gardener.cloud:etcd:main": &rbacv1.Role{},
			"main":                           &policyv1.PodDisruptionBudget{},
		} {
			s.get(ctx, Default, obj, name)
			Expect(metav1.IsControlledBy(obj, s.etcd)).To(BeTrue(), "%T %s", obj, name)
		}
		s.get(ctx, Default, &corev1.ServiceAccount{}, "main")
		s.get(ctx, Default, &rbacv1.RoleBinding{}, "druid.gardener.cloud:etcd:main")
		Expect(s.statefulSet(ctx, Default).Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))

		By("writing the leases")
		lease := &coordinationv1.Lease{}
		s.get(ctx, Default, lease, "main-0")
		Expect(metav1.IsControlledBy(lease, s.etcd)).To(BeTrue())

		By("reporting the status")
		etcd := s.read(ctx, Default)
		Expect(etcd.Finalizers).To(ConsistOf("druid.gardener.cloud/etcd-druid"))
		Expect(etcd.Status.Etcd).To(HaveValue(Equal(druidv1alpha1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "main"})))
		Expect(etcd.Status.Selector).To(HaveValue(Equal("app.kubernetes.io/managed-by=etcd-druid,app.kubernetes.io/part-of=main")))
		Expect(etcd.Status.Replicas).To(BeEquivalentTo(1))
		Expect(etcd.Status.CurrentReplicas).To(BeEquivalentTo(1))
		Expect(etcd.Status.ReadyReplicas).To(BeEquivalentTo(1))
		Expect(etcd.Status.LastOperation.Type).To(BeEquivalentTo("Create"))
		Expect(etcd.Status.Conditions).To(haveCondition("Reconciled", "True", "Reconciled"))

		By("writing nothing without a change")
		expectUnchanged(ctx, etcd, mr)
	})

	It("should report for which pod it waits", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		statefulSets.SetReadinessBlocked(s.namespace, true)
		s.create(ctx)
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.ObservedGeneration).To(BeNil(), "the generation is not rolled out")
			g.Expect(etcd.Status.Ready).To(HaveValue(BeFalse()))
			g.Expect(etcd.Status.LastErrors).To(BeEmpty())
			g.Expect(etcd.Status.LastOperation).To(And(HaveField("Type", BeEquivalentTo("Create")), HaveField("State", BeEquivalentTo("Requeue"))))
			g.Expect(etcd.Status.Conditions).To(haveCondition("Reconciled", "False", "Waiting", "main-0"))
		}).Should(Succeed())

		statefulSets.SetReadinessBlocked(s.namespace, false)
		s.awaitReady(ctx)
	})

	It("should hibernate without pods and wake up with the same volume", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		claim := &corev1.PersistentVolumeClaim{}
		s.get(ctx, Default, claim, "main-main-0")

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 0
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.awaitReady(ctx)
		Expect(s.statefulSet(ctx, Default).Spec.Replicas).To(HaveValue(BeZero()))
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main-0"}, &corev1.Pod{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(s.read(ctx, Default).Status.Replicas).To(BeZero())
		Expect(fixture.Record(s.managedResource(ctx, Default)).Size).To(BeEquivalentTo(1))

		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 1
			setOperation("gardener.cloud/operation")(etcd)
		})
		s.awaitReady(ctx)
		awake := &corev1.PersistentVolumeClaim{}
		s.get(ctx, Default, awake, "main-main-0")
		Expect(awake.UID).To(Equal(claim.UID))
	})

	It("should delete all objects except the volume", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) {
			// Older manifests contain this finalizer. No other controller removes it.
			etcd.Finalizers = []string{"druid.gardener.cloud/etcd"}
		})
		s.awaitReady(ctx)

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		expectGone(ctx, s)
		s.get(ctx, Default, &corev1.PersistentVolumeClaim{}, "main-main-0")
	})

	It("should delete the volume with the retention policy DeleteAll", func(ctx SpecContext) {
		s := create(ctx, deleteAll)
		s.awaitReady(ctx)
		s.get(ctx, Default, &corev1.PersistentVolumeClaim{}, "main-main-0")

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		expectGone(ctx, s)
		claims := &corev1.PersistentVolumeClaimList{}
		Expect(env.Client.List(ctx, claims, client.InNamespace(s.namespace))).To(Succeed())
		Expect(claims.Items).To(BeEmpty())
	})

	It("should create no object but Secrets for an Etcd that was never accepted, and delete it", func(ctx SpecContext) {
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) {
			invalidResources(etcd)
			etcd.Finalizers = []string{"druid.gardener.cloud/etcd-druid"}
		})
		Eventually(func(g Gomega) { g.Expect(s.read(ctx, g).Status.LastErrors).NotTo(BeEmpty()) }).Should(Succeed())
		expectNone(ctx, s, append(objectLists(), &corev1.PersistentVolumeClaimList{})...)

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		expectGone(ctx, s)
	})

	It("should delete the objects that etcd-druid created without a ManagedResource", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		s.create(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Finalizers = []string{"druid.gardener.cloud/etcd-druid"}
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "true")
		})
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-config"}}
		Expect(controllerutil.SetControllerReference(s.etcd, configMap, env.Client.Scheme())).To(Succeed())
		Expect(env.Client.Create(ctx, configMap)).To(Succeed())
		foreign := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main-client"},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}
		Expect(env.Client.Create(ctx, foreign)).To(Succeed())

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), &druidv1alpha1.Etcd{}) }).
			Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(configMap), configMap)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed(), "an object of another owner is kept")
	})

	It("should report for which object a blocked deletion waits", func(ctx SpecContext) {
		s := create(ctx)
		s.awaitReady(ctx)
		pod := s.pod(ctx, Default)
		before := pod.DeepCopy()
		pod.Finalizers = []string{"example.com/hold"}
		Expect(env.Client.Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())

		Expect(env.Client.Delete(ctx, s.etcd)).To(Succeed())
		Eventually(func(g Gomega) {
			etcd := s.read(ctx, g)
			g.Expect(etcd.Status.LastOperation).To(And(HaveField("Type", BeEquivalentTo("Delete")), HaveField("State", BeEquivalentTo("Processing")), HaveField("Description", ContainSubstring("main-0"))))
		}).Should(Succeed())

		Eventually(func() error {
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return client.IgnoreNotFound(err)
			}
			pod.Finalizers = nil
			return env.Client.Update(ctx, pod)
		}).Should(Succeed())
		expectGone(ctx, s)
	})
})

// expectGone waits until the Etcd is deleted, and expects that all its objects except the PersistentVolumeClaims are deleted.
func expectGone(ctx SpecContext, s *testEtcd) {
	GinkgoHelper()
	Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), &druidv1alpha1.Etcd{}) }).
		Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
	expectNone(ctx, s, append(objectLists(), &corev1.SecretList{})...)
}

// objectLists returns the lists of what the operator creates for an Etcd, except Secrets. It omits ConfigMaps, see expectNone.
func objectLists() []client.ObjectList {
	return []client.ObjectList{
		&resourcesv1alpha1.ManagedResourceList{}, &appsv1.StatefulSetList{}, &batchv1.JobList{}, &corev1.PodList{}, &coordinationv1.LeaseList{},
		&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.ServiceList{},
		&corev1.ServiceAccountList{},
	}
}

// expectNone expects that the namespace has no object of the lists and no ConfigMap of the Etcd.
func expectNone(ctx SpecContext, s *testEtcd, lists ...client.ObjectList) {
	GinkgoHelper()
	for _, list := range lists {
		Expect(env.Client.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
		Expect(list).To(HaveField("Items", BeEmpty()), "%T", list)
	}
	Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "main-config"}, &corev1.ConfigMap{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
}
