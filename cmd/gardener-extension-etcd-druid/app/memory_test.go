// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"runtime/debug"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
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
		transform := app.CacheOptions().DefaultTransform
		annotations := func() map[string]string {
			return map[string]string{corev1.LastAppliedConfigAnnotation: "data", "backup.gardener.cloud/created-by": "x", "gardener.cloud/operation": "y", "example.com/note": "z", "notgardener.cloud/a": "b"}
		}
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: annotations()}}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		Expect(transform(secret)).To(HaveField("Annotations", map[string]string{"backup.gardener.cloud/created-by": "x", "gardener.cloud/operation": "y"}))
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations()}}
		Expect(transform(service)).To(HaveField("Annotations", HaveLen(5)))
	})
})
