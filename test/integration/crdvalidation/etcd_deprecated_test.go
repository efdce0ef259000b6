// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
)

var _ = Describe("A manifest with deprecated fields", func() {
	It("is accepted, keeps all fields, and causes a warning for each deprecated field", func() {
		manifest := readManifest("../../../example/40-etcd-deprecated-fields.yaml")
		manifest.SetNamespace(namespace)
		applied := manifest.DeepCopy()

		Eventually(func() []string {
			warnings.reset()
			Expect(c.Create(ctx, manifest.DeepCopy(), client.DryRunAll, client.FieldValidation("Strict"))).To(Succeed())
			return warnings.all()
		}, "30s", "200ms").ShouldNot(BeEmpty(), "the API server enforces the policy some time after it is stored")
		warnings.reset()
		Expect(c.Create(ctx, applied, client.FieldValidation("Strict"))).To(Succeed())

		Expect(applied.Object["spec"]).To(Equal(manifest.Object["spec"]))
		Expect(applied.GetFinalizers()).To(Equal([]string{"druid.gardener.cloud/etcd"}))
		Expect(warnings.all()).To(ConsistOf(
			ContainSubstring("spec.store is deprecated: use spec.backup.store"),
			ContainSubstring("spec.tlsServerSecret is deprecated: use spec.etcd.clientUrlTls.serverTLSSecretRef"),
			ContainSubstring("spec.tlsClientSecret is deprecated: use spec.etcd.clientUrlTls.clientTLSSecretRef"),
			ContainSubstring("spec.etcd.Quota is deprecated: use spec.etcd.quota"),
			ContainSubstring("spec.etcd.imageRepository is deprecated: use spec.etcd.image"),
			ContainSubstring("spec.etcd.imageVersion is deprecated: use spec.etcd.image"),
			ContainSubstring("spec.etcd.initialClusterState is deprecated: leave it out"),
			ContainSubstring("spec.etcd.initialClusterToken is deprecated: leave it out"),
			ContainSubstring("spec.etcd.pullPolicy is deprecated: leave it out"),
			ContainSubstring("spec.etcd.storageCapacity is deprecated: use spec.storageCapacity"),
			ContainSubstring("spec.etcd.storageClass is deprecated: use spec.storageClass"),
			ContainSubstring("spec.backup.imageRepository is deprecated: use spec.backup.image"),
			ContainSubstring("spec.backup.imageVersion is deprecated: use spec.backup.image"),
			ContainSubstring("spec.backup.snapstoreTempDir is deprecated: leave it out"),
		))

		By("decoding it with the Go types and converting it to the canonical form")
		object := &druidv1alpha1.Etcd{}
		Expect(c.Get(ctx, client.ObjectKeyFromObject(applied), object)).To(Succeed())
		canonical, errs := helper.Canonical(object)
		Expect(errs).To(BeEmpty())
		Expect(validation.ValidateEtcd(canonical)).To(BeEmpty())

		By("accepting the status of the manifest")
		before := applied.DeepCopy()
		applied.Object["status"] = manifest.Object["status"]
		Expect(c.Status().Patch(ctx, applied, client.MergeFrom(before))).To(Succeed())
		Expect(applied.Object["status"]).To(Equal(manifest.Object["status"]))
	})

	It("causes no warning if it uses the current fields", func() {
		Expect(create(func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass = new("fast") })).NotTo(BeNil())
		Expect(warnings.all()).To(BeEmpty())
	})

	It("can move the storage class to the current field, but not change it", func() {
		object := create(func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.StorageClass = new("fast") })
		Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.StorageClass = new("slow") })).
			To(beRejected("spec.storageClass is immutable"))
		Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.StorageClass = nil })).
			To(beRejected("spec.storageClass is immutable"))
		Expect(change(object, func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.StorageClass, e.Spec.StorageClass = nil, new("fast")
		})).To(Succeed())
	})

	It("accepts only the pull policies of Kubernetes", func() {
		Expect(c.Create(ctx, etcd(func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.PullPolicy = new(corev1.PullPolicy("Sometimes")) }))).
			To(beRejected("spec.etcd.pullPolicy"))
	})
})

func readManifest(path string) *unstructured.Unstructured {
	GinkgoHelper()
	data, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	data, err = yaml.YAMLToJSON(data)
	Expect(err).NotTo(HaveOccurred())
	manifest := &unstructured.Unstructured{}
	Expect(manifest.UnmarshalJSON(data)).To(Succeed())

	return manifest
}
