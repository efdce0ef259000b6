// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

var _ = Describe("An operator that watches some namespaces", func() {
	It("reconciles Etcds in these namespaces with Roles alone, and ignores other namespaces", func(ctx SpecContext) {
		withExtensions := env
		env = environment.StartWithoutExtensions()
		DeferCleanup(func() { env = withExtensions })
		namespace, watched := env.Namespace(ctx, "operator"), env.Namespace(ctx, "watched")
		config := env.InstallChart(ctx, namespace, map[string]any{
			"gardener":        map[string]any{"enabled": false},
			"watchNamespaces": []any{watched},
		})
		startFakeControllers(false)
		operator := runOperator(namespace, config)

		By("ignoring an Etcd in another namespace, and not protecting its objects")
		ignored := newEtcd(ctx, fixture.WithName("ignored"))
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ignored.Namespace, Name: "ignored-config", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "ignored",
		}}}
		issued := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ignored.Namespace, Name: "ignored-ca", Labels: map[string]string{
			"managed-by": "secrets-manager", "manager-identity": "etcd-druid-ignored",
		}}}
		Expect(env.Client.Create(ctx, configMap)).To(Succeed())
		Expect(env.Client.Create(ctx, issued)).To(Succeed())

		By("reconciling an Etcd in a watched namespace")
		etcd := newEtcd(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Namespace = watched
			etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicyDeleteAll)
		})
		awaitReconciled(ctx, etcd)
		change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["changed"] = "true" })
		awaitReconciled(ctx, etcd)
		Expect(client.IgnoreNotFound(env.Client.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: watched, Name: "test-config"}}))).
			To(MatchError(apierrors.IsForbidden, "is forbidden"), "the objects of the Etcd are protected")
		change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
		awaitReconciled(ctx, etcd)
		Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd) }, time.Minute).Should(MatchError(apierrors.IsNotFound, "is not found"))

		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(ignored), ignored)).To(Succeed())
		Expect(ignored.Finalizers).To(BeEmpty())
		Expect(ignored.Status.ObservedGeneration).To(BeNil())
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: ignored.Namespace, Name: "druid-ignored"}, &resourcesv1alpha1.ManagedResource{})).To(MatchError(apierrors.IsNotFound, "is not found"))
		Expect(env.Client.Delete(ctx, configMap)).To(Succeed(), "the policies do not select this namespace")
		Expect(env.Client.Delete(ctx, issued)).To(Succeed(), "the webhook does not select this namespace")

		Expect(operator).NotTo(gexec.Exit())
		Expect(operator.Out).NotTo(gbytes.Say("forbidden"))
		Expect(operator.Err).NotTo(gbytes.Say("forbidden"))
		Expect(operator.Err).NotTo(gbytes.Say("unknown namespace"))
	}, SpecTimeout(4*time.Minute))
})
