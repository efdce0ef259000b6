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

// objectStoreManifest is the manifest of the object store. Users of the local seed apply the same manifest.
var objectStoreManifest = filepath.Join("..", "..", "hack", "seed", "object-store.yaml")

// StartObjectStore creates the object store and waits until it is available.
func (ns *TestNamespace) StartObjectStore(ctx context.Context) *ObjectStore {
	GinkgoHelper()
	requireSeed()
	ns.Create(ctx, ReadManifest(objectStoreManifest)...)

	store := &ObjectStore{ns: ns, SecretName: "etcd-backup"}
	store.eventuallyHasReplicas(ctx, 1)

	return store
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
	Expect(o.ns.Client.Get(ctx, client.ObjectKey{Namespace: o.ns.Name, Name: "object-store"}, claim)).To(Succeed())

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
	Expect(o.ns.Client.Get(ctx, client.ObjectKey{Namespace: o.ns.Name, Name: "object-store"}, deployment)).To(Succeed())

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
