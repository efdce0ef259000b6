// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/chartrenderer"
	gardenerutils "github.com/gardener/gardener/pkg/utils/gardener"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Installation is an installation of the operator by gardenlet from the ControllerRegistration.
type Installation struct {
	*Framework
	// Namespace is the namespace of the extension. The ManagedResource in the namespace garden has the same name.
	Namespace string

	chart      []byte
	name       string
	baseValues map[string]any
}

// Install prepares the installation of the operator by gardenlet from the example ControllerRegistration. It scales the
// installed operator down. The cleanup restores that operator with its permissions.
func (f *Framework) Install(ctx context.Context, operator *Operator, namespace string) *Installation {
	GinkgoHelper()

	manifest, err := os.ReadFile(filepath.Join("..", "..", "example", "controller-registration.yaml"))
	Expect(err).NotTo(HaveOccurred())

	documents := bytes.Split(manifest, []byte("\n---\n"))
	deployment, registration := &gardencorev1.ControllerDeployment{}, &gardencorev1beta1.ControllerRegistration{}
	Expect(yaml.UnmarshalStrict(documents[1], deployment)).To(Succeed())
	Expect(yaml.UnmarshalStrict(documents[2], registration)).To(Succeed())

	Expect(gardenerutils.ReconcileGardenNamespace(ctx, f.Client, "garden", zones, true, nil)).To(Succeed())
	Expect(client.IgnoreAlreadyExists(f.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace,
		Labels: map[string]string{
			v1beta1constants.GardenRole: v1beta1constants.GardenRoleExtension, v1beta1constants.LabelControllerRegistrationName: registration.Name,
			resourcesv1alpha1.HighAvailabilityConfigConsider: "true",
		},
		Annotations: map[string]string{resourcesv1alpha1.HighAvailabilityConfigZones: strings.Join(zones, ",")},
	}}))).To(Succeed())

	installed := operator.get(ctx)
	installation := &Installation{Framework: f, Namespace: namespace, chart: deployment.Helm.RawChart, name: registration.Name, baseValues: map[string]any{
		"image":                map[string]any{"ref": operator.ContainerImage(ctx)},
		"imageVectorOverwrite": operator.ImageVector(ctx),
		"protection":           map[string]any{"exemptUsers": []any{exemptUser}, "drainers": []any{drainer}},
		"gardener":             map[string]any{"version": "v1.150.0", "seed": map[string]any{"name": "seed", "clusterIdentity": "seed"}, "garden": map[string]any{"clusterIdentity": "garden"}},
	}}

	operator.suspend(ctx, installed)

	return installation
}

// suspend scales the operator down. Its cleanup restores the cluster-scoped objects that have the same name in every
// installation. They are the operator's ClusterRole and its binding, and the policies that protect the objects of Etcds.
func (o *Operator) suspend(ctx context.Context, installed *appsv1.Deployment) {
	GinkgoHelper()

	shared := []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}}
	for _, object := range shared {
		Expect(o.Client.Get(ctx, client.ObjectKey{Name: "extensions.gardener.cloud:" + operatorName}, object)).To(Succeed())
	}

	policies := o.policies(ctx)
	Expect(policies).NotTo(BeEmpty(), "the seed protects the objects of Etcds")
	shared = append(shared, policies...)

	o.scale(ctx, 0)
	DeferCleanup(func(ctx SpecContext) {
		for _, object := range shared {
			object.SetResourceVersion("")
			object.SetUID("")
			Expect(client.IgnoreNotFound(o.Client.Delete(ctx, object.DeepCopyObject().(client.Object)))).To(Succeed())
			Expect(o.Client.Create(ctx, object)).To(Succeed())
		}

		o.scale(ctx, *installed.Spec.Replicas)
		o.EventuallyLeading(ctx)
	})
}

// policies returns the admission policies of the chart. The binding of each policy follows it.
func (o *Operator) policies(ctx context.Context) []client.Object {
	GinkgoHelper()

	list := &admissionregistrationv1.ValidatingAdmissionPolicyList{}
	Expect(o.Client.List(ctx, list)).To(Succeed())

	var objects []client.Object

	for i := range list.Items {
		policy := &list.Items[i]
		if !strings.HasPrefix(policy.Name, operatorName+"-") {
			continue
		}

		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
		Expect(o.Client.Get(ctx, client.ObjectKeyFromObject(policy), binding)).To(Succeed())
		objects = append(objects, policy, binding)
	}

	return objects
}

func (o *Operator) scale(ctx context.Context, replicas int32) {
	GinkgoHelper()

	deployment := o.get(ctx)
	before := deployment.DeepCopy()
	deployment.Spec.Replicas = &replicas
	Expect(o.Client.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
	Eventually(func() (int32, error) {
		err := o.Client.Get(ctx, o.Deployment, deployment)

		return deployment.Status.Replicas, err
	}).WithContext(ctx).WithTimeout(ReconcileTimeout).WithPolling(PollInterval).Should(Equal(replicas))
}

// Apply renders the chart with these values and writes the ManagedResource, like gardenlet. It retries on conflicts,
// because gardener-resource-manager writes the same object.
func (i *Installation) Apply(ctx context.Context, values map[string]any) {
	GinkgoHelper()

	merged := map[string]any{}
	for _, source := range []map[string]any{i.baseValues, values} {
		for key, value := range source {
			merged[key] = value
		}
	}

	rendered, err := chartrenderer.NewWithServerVersion(&version.Info{GitVersion: "v1.36.0"}).RenderArchive(i.chart, i.name, i.Namespace, merged)
	Expect(err).NotTo(HaveOccurred())
	Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		return managedresources.Create(ctx, i.Client, "garden", i.Namespace, nil, false, "seed", rendered.AsSecretData(), nil, nil, nil)
	})).To(Succeed())
}

// Remove deletes the installation and waits until all its objects are deleted.
func (i *Installation) Remove(ctx context.Context) {
	GinkgoHelper()
	Expect(managedresources.Delete(ctx, i.Client, "garden", i.Namespace, false)).To(Succeed())
	Expect(managedresources.WaitUntilDeleted(ctx, i.Client, "garden", i.Namespace)).To(Succeed())
	Expect(client.IgnoreNotFound(i.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: i.Namespace}}))).To(Succeed())
}

// Ownership returns the response of each pod of the installation at /ownership: whether it acts or is standby.
func (i *Installation) Ownership(ctx context.Context) []string {
	return i.OwnershipIn(ctx, i.Namespace)
}

// OwnershipIn returns the response of each pod in the namespace at /ownership.
func (f *Framework) OwnershipIn(ctx context.Context, namespace string) []string {
	pods := &corev1.PodList{}
	if err := f.Client.List(ctx, pods, client.InNamespace(namespace)); err != nil {
		return []string{err.Error()}
	}

	var responses []string

	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}

		responses = append(responses, httpGet(ctx, fmt.Sprintf("http://%s:8080/ownership", pod.Status.PodIP)))
	}

	return responses
}

func httpGet(ctx context.Context, url string) string {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()

	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}

	return string(body)
}
