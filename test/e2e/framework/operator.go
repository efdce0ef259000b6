// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Operator is the Deployment of the operator on the seed.
type Operator struct {
	*Framework
	// Deployment is the key of the Deployment.
	Deployment client.ObjectKey
}

// Leases are the names of the Leases that the operator renews periodically: its leader election and its heartbeat.
var Leases = []string{"druid-leader-election", "gardener-extension-heartbeat"}

// User returns the user name of the operator at the API server.
func (o *Operator) User(ctx context.Context) string {
	GinkgoHelper()

	return fmt.Sprintf("system:serviceaccount:%s:%s", o.Deployment.Namespace, o.get(ctx).Spec.Template.Spec.ServiceAccountName)
}

func (o *Operator) get(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()

	deployment := &appsv1.Deployment{}
	Expect(o.Client.Get(ctx, o.Deployment, deployment)).To(Succeed())

	return deployment
}

// ContainerImage returns the reference of the operator's own image.
func (o *Operator) ContainerImage(ctx context.Context) string {
	GinkgoHelper()

	return o.get(ctx).Spec.Template.Spec.Containers[0].Image
}

// pods returns the pods that the selector of the Deployment matches, in any phase.
func (o *Operator) pods(ctx context.Context) ([]corev1.Pod, error) {
	deployment := &appsv1.Deployment{}
	if err := o.Client.Get(ctx, o.Deployment, deployment); err != nil {
		return nil, err
	}

	pods := &corev1.PodList{}
	err := o.Client.List(ctx, pods, client.InNamespace(o.Deployment.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))

	return pods.Items, err
}

// ErrorLog returns the lines in the logs of the running pods that report an error and contain the text.
func (o *Operator) ErrorLog(ctx context.Context, text string) []string {
	GinkgoHelper()

	pods, err := o.pods(ctx)
	Expect(err).NotTo(HaveOccurred())

	var lines []string

	for _, pod := range pods {
		content, err := o.Clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		Expect(err).NotTo(HaveOccurred())

		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, `"level":"error"`) && strings.Contains(line, text) {
				lines = append(lines, line)
			}
		}
	}

	return lines
}

// Kill deletes the pods of the operator without a grace period. This simulates a crash. The operator does not release its
// leader election Lease.
func (o *Operator) Kill(ctx context.Context) {
	GinkgoHelper()

	pods, err := o.pods(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(pods).NotTo(BeEmpty(), "the operator has no pods")

	for i := range pods {
		Expect(client.IgnoreNotFound(o.Client.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
}

// EventuallyLeading waits until the Deployment is rolled out and one of its pods holds the leader election Lease.
func (o *Operator) EventuallyLeading(ctx context.Context) {
	GinkgoHelper()
	Eventually(o.checkLeading).WithContext(ctx).WithTimeout(2 * time.Minute).WithPolling(PollInterval).Should(Succeed())
}

func (o *Operator) checkLeading(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	if err := o.Client.Get(ctx, o.Deployment, deployment); err != nil {
		return err
	}

	status := deployment.Status
	if replicas := *deployment.Spec.Replicas; status.ObservedGeneration != deployment.Generation || status.Replicas != replicas ||
		status.UpdatedReplicas != replicas || status.AvailableReplicas != replicas {
		return fmt.Errorf("the Deployment %s is not rolled out: %d pods, %d updated and %d available of %d", o.Deployment, status.Replicas, status.UpdatedReplicas, status.AvailableReplicas, replicas)
	}

	lease := &coordinationv1.Lease{}
	if err := o.Client.Get(ctx, client.ObjectKey{Namespace: o.Deployment.Namespace, Name: Leases[0]}, lease); err != nil {
		return err
	}

	pods, err := o.pods(ctx)
	if err != nil {
		return err
	}

	holder := lease.Spec.HolderIdentity
	if holder == nil || !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.DeletionTimestamp == nil && strings.HasPrefix(*holder, pod.Name) }) {
		return fmt.Errorf("lease %s is not held by a pod of the operator yet", lease.Name)
	}

	return nil
}

// Restart restarts the pods of the operator and waits until a new one holds the leader election Lease.
func (o *Operator) Restart(ctx context.Context) {
	GinkgoHelper()

	deployment := o.get(ctx)
	before := deployment.DeepCopy()

	metav1.SetMetaDataAnnotation(&deployment.Spec.Template.ObjectMeta, "kubectl.kubernetes.io/restartedAt", time.Now().UTC().Format(time.RFC3339Nano))
	Expect(o.Client.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
	o.EventuallyLeading(ctx)
}

const imageVectorKey = "images_overwrite.yaml"

// ImageVector returns the image vector overwrite of the operator.
func (o *Operator) ImageVector(ctx context.Context) string {
	GinkgoHelper()

	return o.imageVector(ctx).Data[imageVectorKey]
}

// imageVector returns the ConfigMap with the image vector overwrite.
func (o *Operator) imageVector(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()

	configMap := o.findImageVector(ctx)
	Expect(configMap).NotTo(BeNil(), "the operator mounts no ConfigMap with the key "+imageVectorKey+", in which the seed configures the images")

	return configMap
}

// findImageVector returns nil if the chart was installed without an overwrite.
func (o *Operator) findImageVector(ctx context.Context) *corev1.ConfigMap {
	GinkgoHelper()

	for _, volume := range o.get(ctx).Spec.Template.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}

		configMap := &corev1.ConfigMap{}
		Expect(o.Client.Get(ctx, client.ObjectKey{Namespace: o.Deployment.Namespace, Name: volume.ConfigMap.Name}, configMap)).To(Succeed())

		if _, ok := configMap.Data[imageVectorKey]; ok {
			return configMap
		}
	}

	return nil
}

// Image returns the reference of an image of the operator's image vector: that of the overwrite, else the published image.
func (o *Operator) Image(ctx context.Context, name string) string {
	GinkgoHelper()

	sources := []string{readFile(filepath.Join("..", "..", "imagevector", "images.yaml"))}
	if configMap := o.findImageVector(ctx); configMap != nil {
		sources = append([]string{configMap.Data[imageVectorKey]}, sources...)
	}

	for _, source := range sources {
		if reference := imageIn(source, name); reference != "" {
			return reference
		}
	}

	Fail("the image vector has no image " + name)

	return ""
}

// imageIn returns the reference of the image in the image vector. Empty means that the image vector has no such image.
func imageIn(vector, name string) string {
	GinkgoHelper()

	var parsed struct {
		Images []struct{ Name, Ref, Repository, Tag string } `json:"images"`
	}
	Expect(yaml.Unmarshal([]byte(vector), &parsed)).To(Succeed())

	for _, image := range parsed.Images {
		if image.Name == name {
			return cmp.Or(image.Ref, image.Repository+":"+image.Tag)
		}
	}

	return ""
}

func readFile(path string) string {
	GinkgoHelper()

	content, err := os.ReadFile(path) // #nosec G304 -- a file of the repository
	Expect(err).NotTo(HaveOccurred())

	return string(content)
}

// OverrideImage replaces an image of the operator's image vector. The operator uses the image after its next start.
// undo restores the previous image vector.
func (o *Operator) OverrideImage(ctx context.Context, name, ref string) (undo func(context.Context)) {
	GinkgoHelper()
	requireSeed()

	content := o.ImageVector(ctx)

	var vector struct {
		Images []map[string]any `json:"images"`
	}
	Expect(yaml.Unmarshal([]byte(content), &vector)).To(Succeed())

	vector.Images = slices.DeleteFunc(vector.Images, func(image map[string]any) bool { return image["name"] == name })
	vector.Images = append(vector.Images, map[string]any{"name": name, "ref": ref})

	changed, err := yaml.Marshal(vector)
	Expect(err).NotTo(HaveOccurred())
	o.writeImageVector(ctx, string(changed))

	return func(ctx context.Context) {
		GinkgoHelper()
		o.writeImageVector(ctx, content)
	}
}

func (o *Operator) writeImageVector(ctx context.Context, content string) {
	GinkgoHelper()

	configMap := o.imageVector(ctx)
	before := configMap.DeepCopy()
	configMap.Data[imageVectorKey] = content
	Expect(o.Client.Patch(ctx, configMap, client.MergeFrom(before))).To(Succeed())
}
