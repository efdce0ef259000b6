// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"runtime/debug"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = DescribeTable("MEMORY_LIMIT", func(value string, expected int64, failure gomegatypes.GomegaMatcher) {
	before := debug.SetMemoryLimit(-1)
	DeferCleanup(func() { debug.SetMemoryLimit(before) })
	GinkgoTB().Setenv("MEMORY_LIMIT", value)
	Expect(app.LimitMemory()).To(failure)
	if expected == 0 {
		expected = before
	}
	Expect(debug.SetMemoryLimit(-1)).To(Equal(expected))
},
	Entry("limits the memory of the Go runtime to 90 %", "1073741820", int64(966367638), Succeed()),
	Entry("limits nothing if it is empty", "", int64(0), Succeed()),
	Entry("is a number of bytes", "1Gi", int64(0), MatchError(ContainSubstring(`MEMORY_LIMIT is "1Gi": set it to a number of bytes`))),
)

var _ = Describe("The caches", func() {
	It("keep only the annotations of Gardener of Secrets", func() {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: "data", "backup.gardener.cloud/created-by": "x", "gardener.cloud/operation": "y", "example.com/note": "z", "notgardener.cloud/a": "b",
		}}}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		Expect(app.CacheOptions().DefaultTransform(secret)).To(HaveField("Annotations", map[string]string{"backup.gardener.cloud/created-by": "x", "gardener.cloud/operation": "y"}))
	})

	DescribeTable("keep the annotations of an object without the manifest that kubectl applied last", func(object client.Object) {
		object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "druid.gardener.cloud/operation": "reconcile", "example.com/note": "x"})
		Expect(app.CacheOptions().DefaultTransform(object)).To(HaveField("GetAnnotations()", map[string]string{
			corev1.LastAppliedConfigAnnotation: "", "druid.gardener.cloud/operation": "reconcile", "example.com/note": "x",
		}))
	},
		Entry("an Etcd", &druidv1alpha1.Etcd{}),
		Entry("an EtcdCopyBackupsTask", &druidv1alpha1.EtcdCopyBackupsTask{}),
		Entry("an EtcdOpsTask", &druidv1alpha1.EtcdOpsTask{}),
		Entry("a Pod", &corev1.Pod{}),
		Entry("a Cluster", &extensionsv1alpha1.Cluster{}),
		Entry("the metadata of a NetworkPolicy", &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}}),
	)

	It("keep the whole metadata of ManagedResources, which are updated", func() {
		object := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}}}
		Expect(app.CacheOptions().DefaultTransform(object)).To(HaveField("Annotations", HaveKeyWithValue(corev1.LastAppliedConfigAnnotation, "{}")))
	})

	It("apply to every kind, because no kind has another transformation", func() {
		for object, options := range app.CacheOptions().ByObject {
			Expect(options.Transform).To(BeNil(), "%T", object)
		}
	})
})
