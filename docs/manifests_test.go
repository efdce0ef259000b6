// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"reflect"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1/crds"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/test/crdschema"
)

// smallest is what a part of an Etcd is completed with.
const smallest = "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: main, namespace: demo}\nspec: {replicas: 3, labels: {}, etcd: {}, backup: {}}\n"

// complete lays a part of an Etcd over the smallest one.
func complete(part string) map[string]any {
	GinkgoHelper()

	whole, over := map[string]any{}, map[string]any{}
	Expect(yaml.Unmarshal([]byte(smallest), &whole)).To(Succeed())
	Expect(yaml.Unmarshal([]byte(strings.ReplaceAll(part, "NAMESPACE", "demo")), &over)).To(Succeed())

	for key, value := range over["spec"].(map[string]any) {
		whole["spec"].(map[string]any)[key] = value
	}

	return whole
}

var _ = Describe("the manifests in the pages", func() {
	It("have fields that exist, with values that are accepted", func() {
		schema, err := crdschema.New(crds.All()["etcds.druid.gardener.cloud"])
		Expect(err).NotTo(HaveOccurred())

		accepted := 0

		for _, page := range handbooks() {
			for _, block := range blocks(page) {
				switch {
				case block.language != "yaml":
				case strings.HasPrefix(block.text, "spec:"):
					accepted++
					expectAccepted(schema, complete(block.text), page+", "+block.section)
				case strings.Contains(block.text, "kind: Deployment"):
					Expect(yaml.UnmarshalStrict([]byte(block.text), &appsv1.Deployment{})).To(Succeed(), page)
				}
			}
		}

		Expect(accepted).To(BeNumerically(">", 5))
	})
})

// withoutExample are fields without one: those that have no effect.
var withoutExample = []string{"selector", "etcd.authSecretRef", "etcd.peerUrlTls.clientTLSSecretRef"}

// fieldsOf are the paths of the fields of a struct that JSON knows, down to what is not of this API. Deprecated fields are
// left out.
func fieldsOf(kind reflect.Type, path string) []string {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}

	if kind.Kind() != reflect.Struct || kind.PkgPath() != reflect.TypeFor[druidv1alpha1.Etcd]().PkgPath() {
		return []string{path}
	}

	var found []string

	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")

		switch {
		case strings.HasPrefix(field.Type.Name(), "Deprecated"):
		case name == "":
			found = append(found, fieldsOf(field.Type, path)...)
		default:
			found = append(found, fieldsOf(field.Type, strings.TrimPrefix(path+"."+name, "."))...)
		}
	}

	return found
}

// given are the paths of the fields that a manifest has.
func given(value any, path string, found map[string]bool) {
	found[path] = true

	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			given(inner, strings.TrimPrefix(path+"."+key, "."), found)
		}
	case []any:
		for _, inner := range value {
			given(inner, path, found)
		}
	}
}

var _ = Describe("the fields of an Etcd", func() {
	It("have each an example", func() {
		shown := map[string]bool{}

		for _, page := range handbooks() {
			for _, block := range blocks(page) {
				if block.language == "yaml" && strings.HasPrefix(block.text, "spec:") {
					given(complete(block.text)["spec"], "", shown)
				}
			}
		}

		for _, field := range fieldsOf(reflect.TypeFor[druidv1alpha1.EtcdSpec](), "") {
			if !slices.Contains(withoutExample, field) {
				Expect(shown).To(HaveKey(field), "no page has an example of spec.%s", field)
			}
		}
	})
})

func expectAccepted(schema *crdschema.Schema, manifest map[string]any, where string) {
	GinkgoHelper()

	text, err := yaml.Marshal(manifest)
	Expect(err).NotTo(HaveOccurred())

	object, err := crdschema.Decode(text)
	Expect(err).NotTo(HaveOccurred())

	_, unknown := schema.Admit(object)
	Expect(unknown).To(BeEmpty(), where)
	Expect(schema.Create(object)).To(BeEmpty(), where)

	etcd := &druidv1alpha1.Etcd{}
	Expect(yaml.UnmarshalStrict(text, etcd)).To(Succeed(), where)

	canonical, errs := helper.Canonical(etcd)
	Expect(errs).To(BeEmpty(), where)
	Expect(validation.ValidateEtcd(canonical)).To(BeEmpty(), where)
	Expect(validation.ValidateBounds(canonical, nil)).To(BeEmpty(), where)
}
