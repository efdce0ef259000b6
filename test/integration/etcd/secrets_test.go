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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	secretcontroller "github.com/gardener/gardener-extension-etcd-druid/pkg/controller/secret"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The controller of Secrets", func() {
	It("should send no request when an event changes nothing, also of a Secret that a secrets manager owns", func(ctx SpecContext) {
		namespace, protected := env.Namespace(ctx, "finalizers"), []string{druidv1alpha1.EtcdFinalizerName}
		// The Etcd is suspended, and the operator of this suite adds no finalizer to it. It is not reconciled otherwise.
		etcd := newEtcd(namespace, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "true")
			etcd.Finalizers = protected
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
				Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: namespace + "/main",
				SecretRef: &corev1.SecretReference{Name: "creds"},
			}
			etcd.Spec.Etcd.ClientUrlTLS = &druidv1alpha1.TLSConfig{ServerTLSSecretRef: corev1.SecretReference{Name: "server"}, ClientTLSSecretRef: corev1.SecretReference{Name: "client"}}
		})
		creds := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "creds"}}
		managed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "server", Labels: map[string]string{"managed-by": "secrets-manager"}}}
		for _, object := range []client.Object{etcd, creds, managed} {
			Expect(env.Client.Create(ctx, object)).To(Succeed())
		}

		own := &requests{}
		caches := app.CacheOptions()
		caches.DefaultNamespaces = map[string]cache.Config{namespace: {}}
		mgr, err := newManagerWith(own.record(env.Config), manager.Options{Scheme: app.NewScheme(), Cache: caches, Client: app.ClientOptions()})
		Expect(err).NotTo(HaveOccurred())
		Expect(secretcontroller.AddToManager(context.Background(), mgr, secretcontroller.AddOptions{
			Controller: controller.Options{MaxConcurrentReconciles: 1}, CopyTasks: true,
		})).To(Succeed())
		DeferCleanup(start(mgr))
		finalizersOf := func(g Gomega, secret *corev1.Secret) []string {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())

			return secret.Finalizers
		}

		By("adding no finalizer while only a spec that is not accepted names the Secret")
		Consistently(finalizersOf).WithArguments(creds).WithTimeout(2 * time.Second).Should(BeEmpty())

		By("adding it when the operator records that the generation is accepted")
		resource := &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "druid-main", Labels: map[string]string{"origin": "gardener-extension-etcd-druid"}},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: new("none"), SecretRefs: []corev1.LocalObjectReference{}},
		}
		Expect(env.Client.Create(ctx, resource)).To(Succeed())
		accept := func(spec *druidv1alpha1.EtcdSpec) {
			GinkgoHelper()
			patch := client.MergeFrom(resource.DeepCopy())
			fixture.SetRecord(resource, func(recorded *state.State) { recorded.Accepted = &state.Accepted{Generation: 1, Spec: spec} })
			Expect(env.Client.Patch(ctx, resource, patch)).To(Succeed())
		}
		accept(&etcd.Spec)
		Eventually(finalizersOf).WithArguments(creds).Should(Equal(protected))

		By("adding it to a Secret that is created afterwards")
		late := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "client"}}
		Expect(env.Client.Create(ctx, late)).To(Succeed())
		Eventually(finalizersOf).WithArguments(late).Should(Equal(protected))
		untilIdle := func() []string {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				before := own.in(namespace)
				g.Consistently(func() []string { return own.in(namespace) }, time.Second).Should(Equal(before))
			}).Should(Succeed())

			return own.in(namespace)
		}
		before := untilIdle()

		By("changing the annotations of both Secrets")
		for i := range 10 {
			for _, secret := range []*corev1.Secret{creds, managed} {
				patch := client.MergeFrom(secret.DeepCopy())
				metav1.SetMetaDataAnnotation(&secret.ObjectMeta, "example.com/round", fmt.Sprint(i))
				Expect(env.Client.Patch(ctx, secret, patch)).To(Succeed())
			}
		}
		Expect(untilIdle()[len(before):]).To(BeEmpty())

		By("reading the users from the API server once, before it removes the finalizer")
		other := etcd.Spec.DeepCopy()
		other.Backup.Store.SecretRef.Name = "other"
		accept(other)
		Eventually(finalizersOf).WithArguments(creds).Should(BeEmpty())
		for _, request := range untilIdle()[len(before):] {
			Expect(strings.HasPrefix(request, "GET ") && strings.Contains(request, "/secrets")).To(BeFalse(), request)
		}
	})

	It("should release the Secrets of an Etcd whose finalizer a user has removed", func(ctx SpecContext) {
		namespace, protected := env.Namespace(ctx, "finalizers"), []string{druidv1alpha1.EtcdFinalizerName}
		etcd := newEtcd(namespace, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "true")
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{SecretRef: &corev1.SecretReference{Name: "creds"}}
		})
		resource := &resourcesv1alpha1.ManagedResource{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "druid-main", Labels: map[string]string{"origin": "gardener-extension-etcd-druid"}},
			Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: new("none"), SecretRefs: []corev1.LocalObjectReference{}},
		}
		fixture.SetRecord(resource, func(recorded *state.State) { recorded.Accepted = &state.Accepted{Generation: 1, Spec: &etcd.Spec} })
		creds := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "creds"}}
		for _, object := range []client.Object{creds, resource, etcd} {
			Expect(env.Client.Create(ctx, object)).To(Succeed())
		}
		finalizers := func(g Gomega) []string {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(creds), creds)).To(Succeed())

			return creds.Finalizers
		}
		Consistently(finalizers).WithTimeout(time.Second).Should(BeEmpty(), "the operator does not reconcile the Etcd")

		By("adding it to the Etcd")
		Expect(env.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["druid.gardener.cloud/etcd-druid"]}}`)))).To(Succeed())
		Eventually(finalizers).Should(Equal(protected))

		By("removing it, and deleting the Etcd")
		Expect(env.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(finalizers).WithTimeout(30 * time.Second).Should(BeEmpty())
	})
})
