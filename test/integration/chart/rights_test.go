// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
	"github.com/gardener/gardener-extension-etcd-druid/test/integration/environment"
)

const name = "gardener-extension-etcd-druid"

// runOperator starts the operator with the ServiceAccount of the chart. The cleanup of the test stops it.
func runOperator(namespace, config string) *gexec.Session {
	GinkgoHelper()

	session, _ := runOperatorAt(namespace, config)

	return session
}

// runOperatorAt starts the operator like runOperator. It also returns the URL of the metrics server.
func runOperatorAt(namespace, config string) (*gexec.Session, string) {
	GinkgoHelper()

	dir, metrics := GinkgoT().TempDir(), environment.FreePort()

	account, err := env.AddUser(envtest.User{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}, nil)
	Expect(err).NotTo(HaveOccurred())

	kubeconfig, err := account.KubeConfig()
	Expect(err).NotTo(HaveOccurred())

	for file, content := range map[string]string{"kubeconfig": string(kubeconfig), "config.yaml": config} {
		Expect(os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600)).To(Succeed())
	}

	session := startCommand(append(os.Environ(), "LEADER_ELECTION_NAMESPACE="+namespace), "--config="+filepath.Join(dir, "config.yaml"), "--kubeconfig="+filepath.Join(dir, "kubeconfig"),
		fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics), fmt.Sprintf("--health-bind-address=127.0.0.1:%d", environment.FreePort()),
		fmt.Sprintf("--webhook-config-server-port=%d", environment.FreePort()), "--webhook-config-cert-dir="+filepath.Join(dir, "certificates"))
	DeferCleanup(func(ctx SpecContext) {
		Eventually(session.Interrupt(), 30*time.Second).Should(gexec.Exit())
		// The garbage collector deletes the webhook configuration with the ClusterRole of the chart. It does not run
		// here, and the webhook configuration would block an operator with another account.
		Expect(client.IgnoreNotFound(env.Client.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}))).To(Succeed())
	})

	return session, fmt.Sprintf("http://127.0.0.1:%d", metrics)
}

// startFakeControllers starts the fake StatefulSet controller and optionally gardener-resource-manager.
func startFakeControllers(withResourceManager bool) {
	GinkgoHelper()

	options := manager.Options{Scheme: app.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"}}
	options.Controller.SkipNameValidation = new(true)

	mgr, err := manager.New(env.ConfigOf("system:serviceaccount:garden:gardener-resource-manager"), options)
	Expect(err).NotTo(HaveOccurred())
	Expect((&environment.StatefulSets{}).AddToManager(mgr, env.Controllers())).To(Succeed())

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})

	if withResourceManager {
		env.AddResourceManager(mgr)
	}

	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	DeferCleanup(func() {
		stop()
		<-done
	})
}

// newEtcd creates an Etcd in its own namespace and requests its reconciliation. The cleanup deletes all its objects, so
// that the operator of the next test finds none.
func newEtcd(ctx context.Context, options ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	GinkgoHelper()

	defaults := []func(*druidv1alpha1.Etcd){fixture.WithNamespace(env.Namespace(ctx, "chart")), fixture.WithAnnotation("druid.gardener.cloud/operation", "reconcile")}
	etcd := fixture.Etcd(append(defaults, options...)...)
	etcd.UID, etcd.Generation = "", 0
	Expect(env.Client.Create(ctx, etcd)).To(Succeed())

	left := client.ObjectKeyFromObject(etcd)
	DeferCleanup(func(ctx SpecContext) {
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: left.Namespace, Name: left.Name}}
		Expect(client.IgnoreNotFound(env.Client.Delete(ctx, etcd))).To(Succeed())
		Expect(client.IgnoreNotFound(env.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	})

	return etcd
}

// change changes the spec of an Etcd and requests its reconciliation.
func change(ctx context.Context, etcd *druidv1alpha1.Etcd, mutate func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()

	_, err := controllerutil.CreateOrPatch(ctx, env.Client, etcd, func() error {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
		mutate(etcd)

		return nil
	})
	Expect(err).NotTo(HaveOccurred())
}

// awaitReconciled waits until the operator has reported that the last change succeeded, as far as it can without etcd: no member is ever healthy.
func awaitReconciled(ctx context.Context, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()

	Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"), "last operation: %+v", etcd.Status.LastOperation)
		g.Expect(*etcd.Status.LastOperation).To(Or(
			HaveField("State", BeEquivalentTo("Succeeded")), HaveField("Description", HavePrefix("Waiting for condition ")),
		))
	}).Should(Succeed())
}

var _ = Describe("The permissions that the chart grants", func() {
	DescribeTable("are sufficient for the whole life of an Etcd, without a forbidden request",
		func(ctx SpecContext, gardener bool) {
			namespace := env.Namespace(ctx, "operator")
			config := env.InstallChart(ctx, namespace, map[string]any{
				"gardener": map[string]any{"enabled": gardener}, "networkPolicies": map[string]any{"enabled": !gardener},
			})
			startFakeControllers(gardener)
			operator := runOperator(namespace, config)

			By("creating a cluster")
			etcd := newEtcd(ctx, func(etcd *druidv1alpha1.Etcd) {
				etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicyDeleteAll)
			})
			awaitReconciled(ctx, etcd)

			Eventually(func() error {
				return env.Client.Get(ctx, client.ObjectKey{Name: name}, &admissionregistrationv1.ValidatingWebhookConfiguration{})
			}).Should(Succeed(), "the API server accepts the webhooks")

			statefulSet := &appsv1.StatefulSet{}
			Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), statefulSet)).To(Succeed())
			pod := &corev1.Pod{}
			Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: "test-0"}, pod)).To(Succeed())

			policies := &networkingv1.NetworkPolicyList{}
			Expect(env.Client.List(ctx, policies, client.InNamespace(etcd.Namespace))).To(Succeed())
			if gardener {
				Expect(policies.Items).To(BeEmpty())
			} else {
				Expect(policies.Items).To(HaveLen(2))
			}

			By("replacing its pod")
			change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["changed"] = "true" })
			awaitReconciled(ctx, etcd)
			Eventually(func(g Gomega) {
				replaced := &corev1.Pod{}
				g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(pod), replaced)).To(Succeed())
				g.Expect(replaced.UID).NotTo(Equal(pod.UID))
			}).Should(Succeed())

			By("changing an immutable field of the StatefulSet")
			change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi")) })
			awaitReconciled(ctx, etcd)

			By("hibernating it")
			change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })
			awaitReconciled(ctx, etcd)

			By("deleting it with its volume")
			Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
			Eventually(func(g Gomega) {
				g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Satisfy(apierrors.IsNotFound), "last operation: %+v", etcd.Status.LastOperation)
			}, time.Minute).Should(Succeed())

			Expect(operator).NotTo(gexec.Exit())
			Expect(operator.Out).NotTo(gbytes.Say("forbidden"))
			Expect(operator.Err).NotTo(gbytes.Say("forbidden"))
		},
		Entry("in a Gardener seed with gardener-resource-manager", true, SpecTimeout(3*time.Minute)),
		Entry("outside of Gardener, with the embedded resource manager", false, SpecTimeout(3*time.Minute)),
	)

	It("are sufficient to delete NetworkPolicies that are disabled again", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "operator")
		values := func(enabled bool) map[string]any {
			return map[string]any{
				"gardener": map[string]any{"enabled": false}, "networkPolicies": map[string]any{"enabled": enabled},
			}
		}
		startFakeControllers(false)
		operator := runOperator(namespace, env.InstallChart(ctx, namespace, values(true)))
		etcd := newEtcd(ctx)
		policies := func(g Gomega) []networkingv1.NetworkPolicy {
			list := &networkingv1.NetworkPolicyList{}
			g.Expect(env.Client.List(ctx, list, client.InNamespace(etcd.Namespace))).To(Succeed())

			return list.Items
		}
		awaitReconciled(ctx, etcd)
		Expect(policies(Default)).To(HaveLen(2))
		Eventually(operator.Interrupt(), 30*time.Second).Should(gexec.Exit())

		operator = runOperator(namespace, env.InstallChart(ctx, namespace, values(false)))
		Eventually(policies, time.Minute).Should(BeEmpty())
		change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["changed"] = "true" })
		awaitReconciled(ctx, etcd)

		Expect(operator).NotTo(gexec.Exit())
		Expect(operator.Out).NotTo(gbytes.Say("forbidden"))
		Expect(operator.Err).NotTo(gbytes.Say("forbidden"))
	}, SpecTimeout(3*time.Minute))
})
