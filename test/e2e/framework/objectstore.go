// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// ObjectStore is an object store with the S3 API in the namespace of a test. It has the buckets test, source and
// target.
type ObjectStore struct {
	ns *TestNamespace
	// SecretName is the name of the Secret with the credentials. They are valid for the providers S3, OCS and ECS.
	SecretName string
}

// objectStoreName is the name of the Service, the Deployment and the claim of the object store.
const objectStoreName = "object-store"

// objectStoreManifest is the manifest of the object store. Users of the local seed apply the same manifest.
var objectStoreManifest = filepath.Join("..", "..", "hack", "seed", "object-store.yaml")

// StartObjectStore creates the object store and waits until it is available.
func (ns *TestNamespace) StartObjectStore(ctx context.Context) *ObjectStore {
	GinkgoHelper()

	return ns.startObjectStore(ctx, ReadManifest(objectStoreManifest))
}

// StartObjectStoreWithTLS creates an object store that accepts only HTTPS, and waits until it is available. The Secret contains its
// CA certificate.
func (ns *TestNamespace) StartObjectStoreWithTLS(ctx context.Context) *ObjectStore {
	GinkgoHelper()

	authority := NewAuthority("object-store")
	server := authority.Server("object-store-tls", objectStoreName)
	objects := []client.Object{server}

	for _, object := range ReadManifest(objectStoreManifest) {
		content := object.(*unstructured.Unstructured).Object

		switch object.GetObjectKind().GroupVersionKind().Kind {
		case "Secret":
			secret := convert(content, &corev1.Secret{})
			secret.StringData["endpoint"] = "https://" + objectStoreName + ":7070"
			secret.StringData["trustedCaCert"] = string(authority.Bundle("").Data["ca.crt"])
			objects = append(objects, secret)
		case "Deployment":
			deployment := convert(content, &appsv1.Deployment{})
			pod := &deployment.Spec.Template.Spec
			pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: server.Name}}})
			container := &pod.Containers[0]
			container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "tls", MountPath: "/tls"})
			container.Env = append(container.Env, corev1.EnvVar{Name: "VGW_CERT", Value: "/tls/tls.crt"}, corev1.EnvVar{Name: "VGW_KEY", Value: "/tls/tls.key"})
			objects = append(objects, deployment)
		default:
			objects = append(objects, object)
		}
	}

	return ns.startObjectStore(ctx, objects)
}

func (ns *TestNamespace) startObjectStore(ctx context.Context, objects []client.Object) *ObjectStore {
	GinkgoHelper()
	requireSeed()
	ns.Create(ctx, objects...)

	store := &ObjectStore{ns: ns, SecretName: "etcd-backup"}
	store.eventuallyHasReplicas(ctx, 1)

	return store
}

// convert returns the object with the content.
func convert[T any](content map[string]any, object *T) *T {
	GinkgoHelper()
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, object)).To(Succeed())

	return object
}

// Spec returns a store of an Etcd with the provider S3, OCS or ECS.
func (o *ObjectStore) Spec(provider druidv1alpha1.StorageProvider, bucket, prefix string) *druidv1alpha1.StoreSpec {
	return &druidv1alpha1.StoreSpec{Provider: &provider, Container: &bucket, Prefix: prefix, SecretRef: &corev1.SecretReference{Name: o.SecretName}}
}

// Stop scales the store down and waits until its pod is deleted. The store keeps its data.
func (o *ObjectStore) Stop(ctx context.Context) {
	GinkgoHelper()
	o.scale(ctx, 0)
}

// Start scales the store up again and waits until it is available.
func (o *ObjectStore) Start(ctx context.Context) {
	GinkgoHelper()
	o.scale(ctx, 1)
}

// Dir returns the directory on the node that is the bucket.
func (o *ObjectStore) Dir(ctx context.Context, bucket string) string {
	GinkgoHelper()

	claim := &corev1.PersistentVolumeClaim{}
	Expect(o.ns.Client.Get(ctx, client.ObjectKey{Namespace: o.ns.Name, Name: objectStoreName}, claim)).To(Succeed())

	volume := &corev1.PersistentVolume{}
	Expect(o.ns.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
	Expect(volume.Spec.HostPath).NotTo(BeNil(), "volumes of the local seed are directories")

	return filepath.Join(volume.Spec.HostPath.Path, bucket)
}

func (o *ObjectStore) scale(ctx context.Context, replicas int32) {
	GinkgoHelper()

	deployment := o.deployment(ctx)
	before := deployment.DeepCopy()
	deployment.Spec.Replicas = &replicas
	Expect(o.ns.Client.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
	o.eventuallyHasReplicas(ctx, replicas)
}

func (o *ObjectStore) eventuallyHasReplicas(ctx context.Context, replicas int32) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		deployment := o.deployment(ctx)
		g.Expect(deployment.Status.ObservedGeneration).To(Equal(deployment.Generation))
		g.Expect(deployment.Status.AvailableReplicas).To(Equal(replicas))
		g.Expect(deployment.Status.Replicas).To(Equal(replicas))
	}).WithContext(ctx).WithTimeout(ReadyTimeout).WithPolling(PollInterval).Should(Succeed(), o.ns.State)
}

func (o *ObjectStore) deployment(ctx context.Context) *appsv1.Deployment {
	GinkgoHelper()

	deployment := &appsv1.Deployment{}
	Expect(o.ns.Client.Get(ctx, client.ObjectKey{Namespace: o.ns.Name, Name: objectStoreName}, deployment)).To(Succeed())

	return deployment
}

// ReadManifest returns the objects of a manifest.
func ReadManifest(path string) []client.Object {
	GinkgoHelper()

	manifest, err := os.ReadFile(path) // #nosec G304 -- a file of the repository
	Expect(err).NotTo(HaveOccurred())

	var objects []client.Object

	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), len(manifest))

	for {
		object := &unstructured.Unstructured{}

		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}

		Expect(err).NotTo(HaveOccurred())

		objects = append(objects, object)
	}
}
