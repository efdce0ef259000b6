// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.yaml.in/yaml/v3"

	"github.com/gardener/gardener-extension-etcd-druid/charts"
)

// schema has the keywords of JSON Schema that the tests read.
type schema struct {
	Description string             `json:"description"`
	Properties  map[string]*schema `json:"properties"`
}

func readValuesFile(name string) []byte {
	GinkgoHelper()

	content, err := os.ReadFile(filepath.Join(charts.Path, name))
	Expect(err).NotTo(HaveOccurred())

	return content
}

// defaults is the map in values.yaml, with its comments.
func defaults() *yaml.Node {
	GinkgoHelper()

	document := &yaml.Node{}
	Expect(yaml.Unmarshal(readValuesFile("values.yaml"), document)).To(Succeed())
	Expect(document.Content).To(HaveLen(1))

	return document.Content[0]
}

// undescribed returns the keys without a comment above them. The comment of a map describes all keys in it.
func undescribed(values *yaml.Node, prefix string) []string {
	var found []string

	for i := 0; i+1 < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]

		switch {
		case key.HeadComment != "":
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			found = append(found, undescribed(value, prefix+key.Value+".")...)
		default:
			found = append(found, prefix+key.Value)
		}
	}

	return found
}

// unset returns the keys of the schema that values.yaml does not set. It omits the keys that the schema describes.
func unset(allowed *schema, values *yaml.Node, prefix string) []string {
	set := map[string]*yaml.Node{}
	for i := 0; i+1 < len(values.Content); i += 2 {
		set[values.Content[i].Value] = values.Content[i+1]
	}

	var found []string

	for key, property := range allowed.Properties {
		value, ok := set[key]

		switch {
		case ok && value.Kind == yaml.MappingNode && len(value.Content) > 0:
			found = append(found, unset(property, value, prefix+key+".")...)
		case !ok && property.Description == "":
			found = append(found, prefix+key)
		}
	}

	return found
}

// The other tests verify that each key of values.yaml is in the schema: Helm rejects an unknown key.
var _ = Describe("the values", func() {
	It("have a comment above them", func() { Expect(undescribed(defaults(), "")).To(BeEmpty()) })

	It("are all in values.yaml, except those that the schema describes", func() {
		allowed := &schema{}
		Expect(json.Unmarshal(readValuesFile("values.schema.json"), allowed)).To(Succeed())
		Expect(len(allowed.Properties)).To(BeNumerically(">", 20))
		Expect(unset(allowed, defaults(), "")).To(BeEmpty())
	})

	It("name only documents that exist", func() {
		names := regexp.MustCompile(`\bdocs/[a-z/-]+\.md\b`).FindAllString(string(readValuesFile("values.yaml")), -1)
		Expect(names).NotTo(BeEmpty())

		for _, name := range names {
			Expect(filepath.Join("..", name)).To(BeARegularFile())
		}
	})
})
