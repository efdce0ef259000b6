// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"cmp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/test/golden"
)

// Before any spec, since others read the files.
var _ = BeforeSuite(func() {
	if !golden.IsUpdate() {
		return
	}
	for _, c := range goldenCases() {
		Expect(golden.Write(goldenPath(c.name), c.base, manifest(c.input()))).To(Succeed())
	}
})

var _ = Describe("Golden files", func() {
	for _, c := range goldenCases() {
		It("should render "+c.name+" as its file says, twice", func() {
			rendered := manifest(c.input())
			Expect(manifest(c.input())).To(Equal(rendered), "two renderings of the same input")

			expected, err := golden.Read(goldenPath(c.name))
			Expect(err).NotTo(HaveOccurred(), "UPDATE_GOLDEN=1 writes it")
			Expect(rendered).To(Equal(expected), "UPDATE_GOLDEN=1 updates the file; explain in the commit why the manifest changed")
		})
	}

	It("should have no file without a case", func() {
		var expected []string
		for _, c := range goldenCases() {
			expected = append(expected, goldenPath(c.name))
		}
		Expect(golden.Paths("testdata")).To(ConsistOf(expected))
	})
})

func goldenPath(name string) string { return golden.Path("testdata", name) }

// manifest is everything that is made for the input, sorted by kind and name: what goes into the ManagedResource, and the
// leases.
func manifest(in etcd.Input) string {
	values, err := etcd.ValuesFor(in)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	objects, err := etcd.Objects(values)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, slices.IsSortedFunc(objects, byKindAndName)).To(BeTrue(), "Objects sorts")
	for _, lease := range etcd.MemberLeases(values) {
		objects = append(objects, lease)
	}
	for _, lease := range etcd.SnapshotLeases(values) {
		objects = append(objects, lease)
	}
	slices.SortFunc(objects, byKindAndName)

	documents := make([]string, 0, len(objects))
	for _, object := range objects {
		document, err := yaml.Marshal(asWritten(object))
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		documents = append(documents, string(document))
	}

	return strings.Join(documents, "---\n")
}

// asWritten is the object as a person would write it. The types encode an empty status, and an empty name of a Service, as
// well: they go into the ManagedResource, where they mean nothing.
func asWritten(object client.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	ExpectWithOffset(2, err).NotTo(HaveOccurred())
	unstructured.RemoveNestedField(content, "status")
	if name, _, _ := unstructured.NestedString(content, "spec", "serviceName"); name == "" {
		unstructured.RemoveNestedField(content, "spec", "serviceName")
	}
	templates, _, err := unstructured.NestedSlice(content, "spec", "volumeClaimTemplates")
	ExpectWithOffset(2, err).NotTo(HaveOccurred())
	for _, template := range templates {
		delete(template.(map[string]any), "status")
	}
	if len(templates) > 0 {
		ExpectWithOffset(2, unstructured.SetNestedSlice(content, templates, "spec", "volumeClaimTemplates")).To(Succeed())
	}

	return content
}

func byKindAndName(a, b client.Object) int {
	return cmp.Or(
		strings.Compare(a.GetObjectKind().GroupVersionKind().Kind, b.GetObjectKind().GroupVersionKind().Kind),
		strings.Compare(a.GetName(), b.GetName()),
	)
}
