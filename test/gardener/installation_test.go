// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardener_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	gardencorev1 "github.com/gardener/gardener/pkg/apis/core/v1"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	. "github.com/gardener/gardener/pkg/utils/test/matchers"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"
)

// gardenlet is the key of the Deployment of gardenlet. Two of its volumes contain its configuration and its image vector.
var gardenlet = client.ObjectKey{Namespace: "garden", Name: "gardenlet"}

const (
	gardenletConfig = "gardenlet-config"
	gardenletImages = "gardenlet-imagevector-overwrite"

	// nextName is the name of a second ControllerRegistration, for another version of the operator.
	nextName = operatorName + "-next"
	// seedLabel is the label of the Seed that registrations select.
	seedLabel = "example.com/etcd-operator"
)

// setValues changes the values of the operator's chart in a ControllerDeployment.
func setValues(ctx context.Context, name string, change func(values map[string]any)) {
	GinkgoHelper()

	deployment := &gardencorev1.ControllerDeployment{}
	Expect(garden.Get(ctx, client.ObjectKey{Name: name}, deployment)).To(Succeed())

	before, values := deployment.DeepCopy(), map[string]any{}
	Expect(json.Unmarshal(deployment.Helm.Values.Raw, &values)).To(Succeed())
	change(values)
	raw, err := json.Marshal(values)
	Expect(err).NotTo(HaveOccurred())
	deployment.Helm.Values = &apiextensionsv1.JSON{Raw: raw}
	Expect(garden.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
}

// deploy changes the ControllerDeployment to the operator in another checkout, or to the one of this checkout if source is empty.
func deploy(ctx context.Context, source string) {
	GinkgoHelper()

	command := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join("..", "..", "hack", "seed"), ".", "shoots", "deploy", "--source="+source) // #nosec G204 -- a directory of the test
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}

// unregister removes a registration from the garden, and waits until gardenlet has removed its operator from the seed.
func unregister(ctx context.Context, name string) {
	GinkgoHelper()

	registration := &gardencorev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(client.IgnoreNotFound(garden.Delete(ctx, registration))).To(Succeed())
	Eventually(func() error { return garden.Get(ctx, client.ObjectKeyFromObject(registration), registration) }).
		WithContext(ctx).WithTimeout(modeTimeout).Should(BeNotFoundError())
	waitUntilRemoved(ctx, name)
}

// waitUntilRemoved waits until the operator of a registration is not installed.
func waitUntilRemoved(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		installations := &gardencorev1beta1.ControllerInstallationList{}
		g.Expect(garden.List(ctx, installations)).To(Succeed())
		g.Expect(installations.Items).NotTo(ContainElement(HaveField("Spec.RegistrationRef.Name", name)))

		namespaces := &corev1.NamespaceList{}
		g.Expect(seed.List(ctx, namespaces, client.MatchingLabels{v1beta1constants.LabelControllerRegistrationName: name})).To(Succeed())
		g.Expect(namespaces.Items).To(BeEmpty())
	}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

// register adds a registration to the garden. The ControllerDeployment of this name must exist. gardenlet installs it on the seeds with the label, or
// on all seeds if selected is empty.
func register(ctx context.Context, name, selected string) {
	GinkgoHelper()

	deployment := &gardencorev1beta1.ControllerRegistrationDeployment{
		Policy:         new(gardencorev1beta1.ControllerDeploymentPolicyAlways),
		DeploymentRefs: []gardencorev1beta1.DeploymentRef{{Name: name}},
	}
	if selected != "" {
		deployment.SeedSelector = &metav1.LabelSelector{MatchLabels: map[string]string{seedLabel: selected}}
	}

	registration := &gardencorev1beta1.ControllerRegistration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := controllerutil.CreateOrPatch(ctx, garden, registration, func() error {
		metav1.SetMetaDataAnnotation(&registration.ObjectMeta, "security.gardener.cloud/pod-security-enforce", "restricted")
		registration.Spec.Deployment = deployment

		return nil
	})
	Expect(err).NotTo(HaveOccurred())
}

// restore installs the operator and configures gardenlet after the test as they are now. gardenlet's etcd-druid must not change while the operator is
// active.
func restore(ctx context.Context) {
	GinkgoHelper()

	registered, installed := &gardencorev1.ControllerDeployment{}, &appsv1.Deployment{}
	Expect(garden.Get(ctx, client.ObjectKey{Name: operatorName}, registered)).To(Succeed())
	Expect(seed.Get(ctx, gardenlet, installed)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		unregister(ctx, nextName)
		Expect(client.IgnoreNotFound(garden.Delete(ctx, &gardencorev1.ControllerDeployment{ObjectMeta: metav1.ObjectMeta{Name: nextName}}))).To(Succeed())

		found := &gardencorev1.ControllerDeployment{}
		Expect(garden.Get(ctx, client.ObjectKey{Name: operatorName}, found)).To(Succeed())
		found.Helm = registered.Helm
		Expect(garden.Update(ctx, found)).To(Succeed())
		setMode(ctx, "GiveBack")
		register(ctx, operatorName, "")
		expectInstalled(ctx, operatorName)

		deployment := &appsv1.Deployment{}
		Expect(seed.Get(ctx, gardenlet, deployment)).To(Succeed())
		deployment.Spec.Template = installed.Spec.Template
		Expect(seed.Update(ctx, deployment)).To(Succeed())
		waitForGardenlet(ctx)
		Eventually(etcdDruidImage).WithContext(ctx).WithTimeout(modeTimeout).ShouldNot(HavePrefix(localImages))
		reconcileSeed(ctx)

		setMode(ctx, "TakeOver")
		expectActive(ctx, false)
		expectSeed(ctx, true)
	})
}

// expectInstalled waits until gardenlet has installed the operator with the image of the ControllerDeployment, and returns this image.
func expectInstalled(ctx context.Context, name string) string {
	GinkgoHelper()

	values := struct{ Image struct{ Ref string } }{}

	Eventually(func(g Gomega) {
		registered := &gardencorev1.ControllerDeployment{}
		g.Expect(garden.Get(ctx, client.ObjectKey{Name: name}, registered)).To(Succeed())
		g.Expect(json.Unmarshal(registered.Helm.Values.Raw, &values)).To(Succeed())

		installations := &gardencorev1beta1.ControllerInstallationList{}
		g.Expect(garden.List(ctx, installations)).To(Succeed())
		var found []gardencorev1beta1.ControllerInstallation
		for _, installation := range installations.Items {
			if installation.Spec.RegistrationRef.Name == name {
				found = append(found, installation)
			}
		}
		g.Expect(found).To(HaveLen(1))
		for _, expected := range []gardencorev1beta1.Condition{
			{Type: gardencorev1beta1.ControllerInstallationInstalled, Status: gardencorev1beta1.ConditionTrue},
			{Type: gardencorev1beta1.ControllerInstallationHealthy, Status: gardencorev1beta1.ConditionTrue},
			{Type: gardencorev1beta1.ControllerInstallationProgressing, Status: gardencorev1beta1.ConditionFalse},
		} {
			g.Expect(found[0].Status.Conditions).To(ContainElement(And(HaveField("Type", expected.Type), HaveField("Status", expected.Status))))
		}

		deployment := &appsv1.Deployment{}
		g.Expect(seed.Get(ctx, client.ObjectKey{Namespace: "extension-" + found[0].Name, Name: operatorName}, deployment)).To(Succeed())
		g.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal(values.Image.Ref))
		g.Expect(isComplete(deployment)).To(BeTrue(), "%+v", deployment.Status)
	}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())

	return values.Image.Ref
}

// isComplete is true if only pods of the present generation exist, and all of them are ready.
func isComplete(deployment *appsv1.Deployment) bool {
	replicas, status := ptr.Deref(deployment.Spec.Replicas, 1), deployment.Status

	return status.ObservedGeneration == deployment.Generation && status.UpdatedReplicas == replicas && status.ReadyReplicas == replicas && status.Replicas == replicas
}

// configureGardenlet changes the file in a volume of gardenlet, and restarts gardenlet. The ConfigMaps of its chart are immutable.
func configureGardenlet(ctx context.Context, volume string, change func(content map[string]any)) {
	GinkgoHelper()

	deployment := &appsv1.Deployment{}
	Expect(seed.Get(ctx, gardenlet, deployment)).To(Succeed())
	before := deployment.DeepCopy()

	for _, v := range deployment.Spec.Template.Spec.Volumes {
		if v.Name != volume {
			continue
		}

		source := &corev1.ConfigMap{}
		Expect(seed.Get(ctx, client.ObjectKey{Namespace: gardenlet.Namespace, Name: v.ConfigMap.Name}, source)).To(Succeed())
		changed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: gardenlet.Namespace, GenerateName: volume + "-"}, Data: map[string]string{}}

		for name, text := range source.Data {
			content := map[string]any{}
			Expect(yaml.Unmarshal([]byte(text), &content)).To(Succeed())
			change(content)
			encoded, err := yaml.Marshal(content)
			Expect(err).NotTo(HaveOccurred())
			changed.Data[name] = string(encoded)
		}

		Expect(seed.Create(ctx, changed)).To(Succeed())
		v.ConfigMap.Name = changed.Name // of deployment, since ConfigMap is a pointer
	}

	Expect(deployment.Spec).NotTo(Equal(before.Spec), "gardenlet has no volume %s", volume)
	Expect(seed.Patch(ctx, deployment, client.StrategicMergeFrom(before))).To(Succeed())
	waitForGardenlet(ctx)
}

// localImages is the prefix of the images that this machine has built. KWOK simulates pods with other images.
const localImages = "seed.local/"

// etcdDruidImage returns the image of gardenlet's etcd-druid.
func etcdDruidImage(ctx context.Context) (string, error) {
	deployment := &appsv1.Deployment{}
	if err := seed.Get(ctx, etcdDruid, deployment); err != nil {
		return "", err
	}

	return deployment.Spec.Template.Spec.Containers[0].Image, nil
}

func waitForGardenlet(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(seed.Get(ctx, gardenlet, deployment)).To(Succeed())
		g.Expect(isComplete(deployment)).To(BeTrue(), "%+v", deployment.Status)
	}).WithContext(ctx).WithTimeout(modeTimeout).Should(Succeed())
}

// expireSoon changes what the secrets manager of gardenlet knows about the certificates of the members: they expire in five days. It renews a
// certificate ten days before.
func expireSoon(ctx context.Context, namespace string) {
	GinkgoHelper()

	secrets, changed := &corev1.SecretList{}, 0
	Expect(seed.List(ctx, secrets, client.InNamespace(namespace), client.MatchingLabels{secretsmanager.LabelKeyManagedBy: secretsmanager.LabelValueSecretsManager})).To(Succeed())

	for _, secret := range secrets.Items {
		if !strings.HasPrefix(secret.Labels[secretsmanager.LabelKeyName], "etcd-server-") {
			continue
		}

		before := secret.DeepCopy()
		secret.Labels[secretsmanager.LabelKeyValidUntilTime] = strconv.FormatInt(time.Now().Add(5*24*time.Hour).Unix(), 10)
		Expect(seed.Patch(ctx, &secret, client.MergeFrom(before))).To(Succeed())

		changed++
	}

	Expect(changed).To(BeNumerically(">=", 2), "each Etcd has a certificate")
}

// ensureSeed makes gardenlet register its Seed, which it does only when it starts, and waits until the Seed is complete.
func ensureSeed(ctx context.Context) {
	GinkgoHelper()

	if err := garden.Get(ctx, client.ObjectKey{Name: seedName}, &gardencorev1beta1.Seed{}); err != nil {
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(seed.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(gardenlet.Namespace), client.MatchingLabels{"app": "gardener", "role": "gardenlet"})).To(Succeed())
	}

	Eventually(func(g Gomega) {
		object := &gardencorev1beta1.Seed{}
		g.Expect(garden.Get(ctx, client.ObjectKey{Name: seedName}, object)).To(Succeed())
		g.Expect(object.Status.LastOperation).NotTo(BeNil())
		g.Expect(object.Status.LastOperation.State).To(Equal(gardencorev1beta1.LastOperationStateSucceeded), object.Status.LastOperation.Description)
	}).WithContext(ctx).WithTimeout(reconcileTimeout).Should(Succeed())
}
