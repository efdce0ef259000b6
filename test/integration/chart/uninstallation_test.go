// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The uninstallation", func() {
	It("releases the Secrets of an Etcd that stays, after the operator has stopped", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "operator")
		config := env.InstallChart(ctx, namespace, map[string]any{"gardener": map[string]any{"enabled": false}})
		startFakeControllers(false)
		operator := runOperator(namespace, config)

		By("protecting a Secret")
		etcd := newEtcd(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}
			etcd.Spec.Etcd.PeerUrlTLS.TLSCASecretRef.Name = "peer-ca"
			etcd.Spec.Etcd.PeerUrlTLS.ServerTLSSecretRef.Name = "peer-server"
		})
		var secrets []*corev1.Secret
		data := fixture.Certificates(etcd.Name, etcd.Namespace)
		for _, name := range []string{"peer-ca", "peer-server"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: name}, Data: data}
			Expect(env.Client.Create(ctx, secret)).To(Succeed())
			secrets = append(secrets, secret)
		}
		for _, secret := range secrets {
			Eventually(func(g Gomega) {
				g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
				g.Expect(secret.Finalizers).To(ConsistOf("druid.gardener.cloud/etcd-druid"))
			}).Should(Succeed())
		}

		By("running the Job that helm runs before it deletes anything")
		deployment := &appsv1.Deployment{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)).To(Succeed())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "operator", Labels: deployment.Spec.Template.Labels}}
		pod.Spec.Containers = []corev1.Container{{Name: "operator", Image: "operator"}}
		Expect(env.Client.Create(ctx, pod)).To(Succeed())
		hook := releaseSecrets(namespace)
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
			g.Expect(deployment.Spec.Replicas).To(HaveValue(BeZero()))
		}).Should(Succeed())
		Consistently(hook, 3*time.Second).ShouldNot(gexec.Exit(), "a pod of the operator still runs")
		Eventually(operator.Interrupt(), 30*time.Second).Should(gexec.Exit())
		Expect(env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(hook, 30*time.Second).Should(gexec.Exit(0))
		Expect(hook.Err).NotTo(gbytes.Say("forbidden"))

		By("deleting the Secrets without an operator")
		for _, secret := range secrets {
			Expect(env.Client.Delete(ctx, secret)).To(Succeed())
			Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}

		By("repeating the Job")
		Eventually(releaseSecrets(namespace), 30*time.Second).Should(gexec.Exit(0))
	}, SpecTimeout(3*time.Minute))
})

// releaseSecrets runs the command of the Job that helm runs, with the ServiceAccount of the chart.
func releaseSecrets(namespace string) *gexec.Session {
	GinkgoHelper()

	account, err := env.AddUser(envtest.User{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}, nil)
	Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := account.KubeConfig()
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())

	return startCommand(os.Environ(), "release-secrets", "--kubeconfig="+path, "--namespace="+namespace)
}
