// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"encoding/json"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// userOf returns a client of a user who can write only Secrets and ManagedResources, including their status, in one namespace.
func userOf(ctx context.Context, namespace string) client.Client {
	GinkgoHelper()

	name := "user-of-" + namespace
	user, err := env.AddUser(envtest.User{Name: name, Groups: []string{"system:authenticated"}}, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(env.Client.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
		{APIGroups: []string{"resources.gardener.cloud"}, Resources: []string{"managedresources", "managedresources/status"}, Verbs: []string{"*"}},
	}})).To(Succeed())
	Expect(env.Client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	})).To(Succeed())
	c, err := client.New(user.Config(), client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())

	return c
}

var _ = Describe("The embedded resource manager", func() {
	var (
		etcd *druidv1alpha1.Etcd
		user client.Client
		// other is a namespace in which the user has no permissions.
		other string

		operator          *gexec.Session
		namespace, config string
	)

	BeforeEach(func(ctx SpecContext) {
		namespace = env.Namespace(ctx, "operator")
		config = env.InstallChart(ctx, namespace, map[string]any{"gardener": map[string]any{"enabled": false}})
		startFakeControllers(false)
		operator = runOperator(namespace, config)
		other = env.Namespace(ctx, "other")
		etcd = newEtcd(ctx)
		awaitReconciled(ctx, etcd)

		By("disabling the protection, and the reconciliation, which would undo changes of the user")
		Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			fixture.WithAnnotation("druid.gardener.cloud/disable-etcd-component-protection", "")(etcd)
			fixture.WithAnnotation("druid.gardener.cloud/suspend-etcd-spec-reconcile", "")(etcd)

			return env.Client.Update(ctx, etcd)
		})).To(Succeed())
		user = userOf(ctx, etcd.Namespace)
	}, NodeTimeout(2*time.Minute))

	planted := func(ctx context.Context, namespace string) func() error {
		return func() error {
			return env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "planted"}, &corev1.ConfigMap{})
		}
	}
	// payload is a Secret with a ConfigMap.
	payload := func(name, namespace string) *corev1.Secret {
		manifest, err := json.Marshal(&corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "planted", Labels: map[string]string{"a": "b"}},
		})
		Expect(err).NotTo(HaveOccurred())

		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: name}, Data: map[string][]byte{"manifest": manifest}}
	}
	managedResource := func(ctx context.Context, c client.Reader) *resourcesv1alpha1.ManagedResource {
		GinkgoHelper()
		mr := &resourcesv1alpha1.ManagedResource{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "druid-test"}, mr)).To(Succeed())

		return mr
	}
	// resume ends the suspension of the Etcd.
	resume := func(ctx context.Context) {
		GinkgoHelper()
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		before := etcd.DeepCopy()
		delete(etcd.Annotations, "druid.gardener.cloud/suspend-etcd-spec-reconcile")
		Expect(env.Client.Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
	}
	// change changes the ManagedResource of the Etcd and requests its application.
	change := func(ctx context.Context, mutate func(*resourcesv1alpha1.ManagedResource)) {
		GinkgoHelper()
		Eventually(func() error {
			mr := managedResource(ctx, user)
			mutate(mr)
			metav1.SetMetaDataAnnotation(&mr.ObjectMeta, "gardener.cloud/operation", "reconcile")

			return user.Update(ctx, mr)
		}).Should(Succeed(), "the protection notices the annotation of the Etcd")
	}

	It("does not apply a ManagedResource of another user into a namespace in which that user has no permissions", func(ctx SpecContext) {
		Expect(user.Create(ctx, payload("payload", other))).To(Succeed())
		for name, labels := range map[string]map[string]string{"own": nil, "druid-other": {"origin": "gardener-extension-etcd-druid"}} {
			Expect(user.Create(ctx, &resourcesv1alpha1.ManagedResource{
				ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: name, Labels: labels},
				Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: new("seed"), SecretRefs: []corev1.LocalObjectReference{{Name: "payload"}}},
			})).To(Succeed())
		}
		Consistently(planted(ctx, other), 3*time.Second).Should(MatchError(apierrors.IsNotFound, "is not found"))
	}, SpecTimeout(3*time.Minute))

	It("does not apply another payload to which a user lets the ManagedResource of an unprotected Etcd refer", func(ctx SpecContext) {
		Expect(user.Create(ctx, payload("payload", etcd.Namespace))).To(Succeed())
		change(ctx, func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.SecretRefs[0].Name = "payload" })
		Consistently(func(g Gomega) {
			g.Expect(planted(ctx, etcd.Namespace)()).To(MatchError(apierrors.IsNotFound, "is not found"))
			statefulSet := &appsv1.StatefulSet{}
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			g.Expect(statefulSet.DeletionTimestamp).To(BeNil())
		}, 3*time.Second).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("does not apply a payload that a user has replaced under its name, and reports it", func(ctx SpecContext) {
		forged := payload(managedResource(ctx, user).Spec.SecretRefs[0].Name, etcd.Namespace)
		Eventually(func() error {
			return user.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: forged.Namespace, Name: forged.Name}})
		}).Should(Succeed(), "the protection notices the annotation of the Etcd")
		Expect(user.Create(ctx, forged)).To(Succeed())
		change(ctx, func(*resourcesv1alpha1.ManagedResource) {})
		Eventually(func(g Gomega) {
			g.Expect(managedResource(ctx, user).Status.Conditions).To(ContainElement(And(
				HaveField("Type", BeEquivalentTo("ResourcesApplied")), HaveField("Status", BeEquivalentTo("False")),
				HaveField("Message", ContainSubstring("delete Secret "+forged.Namespace+"/"+forged.Name)),
			)))
		}).Should(Succeed())
		Expect(planted(ctx, etcd.Namespace)()).To(MatchError(apierrors.IsNotFound, "is not found"))

		By("applying it after the operator has written it again")
		Expect(user.Delete(ctx, forged)).To(Succeed())
		resume(ctx)
		Eventually(func(g Gomega) {
			g.Expect(managedResource(ctx, user).Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("ResourcesApplied")), HaveField("Status", BeEquivalentTo("True")))))
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("applies no payload after a restart before the operator has rendered it, and then repairs the objects", func(ctx SpecContext) {
		name := managedResource(ctx, user).Spec.SecretRefs[0].Name
		rendered := &corev1.Secret{}
		Expect(user.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, rendered)).To(Succeed())
		Eventually(operator.Interrupt(), 30*time.Second).Should(gexec.Exit())
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: "test-client"}}
		Eventually(func() error { return env.Client.Delete(ctx, service) }).Should(Succeed(), "the protection notices the annotation of the Etcd")
		Expect(user.Delete(ctx, rendered)).To(Succeed())
		forged := payload(name, etcd.Namespace)
		Expect(user.Create(ctx, forged)).To(Succeed())
		change(ctx, func(*resourcesv1alpha1.ManagedResource) {})

		operator = runOperator(namespace, config)
		Eventually(operator.Err, time.Minute).Should(gbytes.Say("ManagedResource is not applied"))
		Consistently(planted(ctx, etcd.Namespace), 2*time.Second).Should(MatchError(apierrors.IsNotFound, "is not found"))

		By("reconciling the Etcd again")
		Expect(user.Delete(ctx, forged)).To(Succeed())
		resume(ctx)
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(service), service) }).Should(Succeed())
		Expect(planted(ctx, etcd.Namespace)()).To(MatchError(apierrors.IsNotFound, "is not found"))
	}, SpecTimeout(3*time.Minute))

	It("deletes no object that a user adds to the status of the ManagedResource", func(ctx SpecContext) {
		victims := []*corev1.ConfigMap{
			{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "victim"}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: "victim"}},
		}
		for _, victim := range victims {
			Expect(env.Client.Create(ctx, victim)).To(Succeed())
		}
		Eventually(func() error {
			mr := managedResource(ctx, user)
			for _, victim := range victims {
				mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{ObjectReference: corev1.ObjectReference{
					APIVersion: "v1", Kind: "ConfigMap", Namespace: victim.Namespace, Name: victim.Name,
				}})
			}

			return user.Status().Update(ctx, mr)
		}).Should(Succeed())
		change(ctx, func(*resourcesv1alpha1.ManagedResource) {})
		Eventually(func(g Gomega) {
			mr := managedResource(ctx, user)
			g.Expect(mr.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
			for _, reference := range mr.Status.Resources {
				g.Expect(reference.Name).NotTo(Equal("victim"))
			}
		}).Should(Succeed(), "it is applied")
		for _, victim := range victims {
			Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(victim), victim)).To(Succeed())
			Expect(victim.DeletionTimestamp).To(BeNil())
		}
	}, SpecTimeout(3*time.Minute))
})
