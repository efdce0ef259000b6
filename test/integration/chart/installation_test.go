// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	"github.com/gardener/gardener/pkg/utils"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// registration returns the objects that an administrator applies to the garden cluster.
func registration() (*gardencorev1.ControllerDeployment, *gardencorev1beta1.ControllerRegistration) {
	GinkgoHelper()

	manifest, err := os.ReadFile(filepath.Join("..", "..", "..", "example", "controller-registration.yaml"))
	Expect(err).NotTo(HaveOccurred())
	documents := bytes.Split(manifest, []byte("\n---\n"))
	Expect(documents).To(HaveLen(3), "a comment, a ControllerDeployment and a ControllerRegistration")

	deployment, registration := &gardencorev1.ControllerDeployment{}, &gardencorev1beta1.ControllerRegistration{}
	Expect(yaml.UnmarshalStrict(documents[1], deployment)).To(Succeed())
	Expect(yaml.UnmarshalStrict(documents[2], registration)).To(Succeed())

	return deployment, registration
}

// installAsGardenlet installs the chart as gardenlet does for a ControllerInstallation. It creates a namespace with labels, and a
// ManagedResource with the rendered chart in the namespace garden. The values of Gardener override those of the ControllerDeployment.
func installAsGardenlet(ctx context.Context) string {
	GinkgoHelper()

	deployment, registration := registration()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "extension-" + registration.Name + "-", Labels: map[string]string{
		"gardener.cloud/role":                                        "extension",
		"controllerregistration.core.gardener.cloud/name":            registration.Name,
		"high-availability-config.resources.gardener.cloud/consider": "true",
		"pod-security.kubernetes.io/enforce":                         registration.Annotations["security.gardener.cloud/pod-security-enforce"],
		"pod-security.kubernetes.io/enforce-version":                 "latest",
	}}}
	Expect(env.Client.Create(ctx, namespace)).To(Succeed())

	values, injected := map[string]any{}, map[string]any{"gardener": map[string]any{
		"version":   "v1.150.0",
		"garden":    map[string]any{"clusterIdentity": "garden"},
		"gardenlet": map[string]any{"featureGates": map[string]bool{"DefaultSeccompProfile": true}},
		"seed": map[string]any{
			"name": "seed", "clusterIdentity": "seed", "annotations": map[string]string{}, "labels": map[string]string{"a": "b"}, "provider": "local", "region": "local",
			"volumeProvider": "", "volumeProviders": nil, "protected": false, "visible": true, "taints": nil, "networks": gardencorev1beta1.SeedNetworks{Pods: "10.1.0.0/16"}, "blockCIDRs": nil,
			"spec": gardencorev1beta1.SeedSpec{},
		},
	}}
	Expect(json.Unmarshal(deployment.Helm.Values.Raw, &values)).To(Succeed())

	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.35.0"}).
		RenderArchive(deployment.Helm.RawChart, registration.Name, namespace.Name, utils.MergeMaps(values, injected))
	Expect(err).NotTo(HaveOccurred())
	Expect(managedresources.Create(ctx, env.Client, "garden", namespace.Name, nil, false, "seed", rendered.AsSecretData(), nil, nil, nil)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		// Otherwise the resource manager of the next test would apply the ManagedResource again.
		Expect(managedresources.SetKeepObjects(ctx, env.Client, "garden", namespace.Name, true)).To(Succeed())
		Expect(managedresources.DeleteForSeed(ctx, env.Client, "garden", namespace.Name)).To(Succeed())
		Expect(managedresources.WaitUntilDeleted(ctx, env.Client, "garden", namespace.Name)).To(Succeed())
	})
	return namespace.Name
}

var _ = Describe("The registration", func() {
	It("installs an operator that reconciles Etcds, in the same way as gardenlet", func(ctx SpecContext) {
		startFakeControllers(true)
		namespace := installAsGardenlet(ctx)

		By("waiting for gardener-resource-manager")
		deployment := &appsv1.Deployment{}
		Eventually(func(g Gomega) {
			g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, deployment)).To(Succeed())
		}).Should(Succeed())
		env.AwaitTrust(ctx, namespace, name, "")
		Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
		Expect(deployment.Labels).To(HaveKey("high-availability-config.resources.gardener.cloud/type"))
		Expect(deployment.Spec.Template.Spec.ServiceAccountName).To(Equal(name), "the ServiceAccount with which the test runs the operator")

		By("creating its pods under the Pod Security Standard of the namespace")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "dry-run"}, Spec: deployment.Spec.Template.Spec}
		pod.Spec.PriorityClassName, pod.Spec.ServiceAccountName = "", "" // other components create them
		Expect(env.Client.Create(ctx, pod, client.DryRunAll)).To(Succeed())

		By("reconciling an Etcd")
		config := &corev1.ConfigMap{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name + "-config"}, config)).To(Succeed())
		operator := runOperator(namespace, config.Data["config.yaml"])
		etcd := newEtcd(ctx)
		awaitReconciled(ctx, etcd)

		service := &corev1.Service{}
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.Name + "-client"}, service)).To(Succeed())
		Expect(service.Annotations["networking.resources.gardener.cloud/namespace-selectors"]).To(ContainSubstring("controllerregistration.core.gardener.cloud/name"), "the operator can reach the members")
		Expect(operator.Err).NotTo(gbytes.Say("forbidden"))

		Expect(env.Client.Delete(ctx, etcd)).To(Succeed())
		Eventually(func() error { return env.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd) }).Should(MatchError(apierrors.IsNotFound, "is not found"))
	}, SpecTimeout(4*time.Minute))
})
