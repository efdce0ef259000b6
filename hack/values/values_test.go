// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// reference returns the reference of a chart with these files.
func reference(schema, values string) (string, error) {
	GinkgoHelper()
	directory := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(directory, "values.schema.json"), []byte(schema), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(directory, "values.yaml"), []byte(values), 0o600)).To(Succeed())
	out := &strings.Builder{}
	err := run(out, directory)

	return strings.TrimPrefix(out.String(), intro), err
}

var _ = Describe("The reference of the values", func() {
	It("has the types of the schema, and the defaults and comments of values.yaml", func() {
		text, err := reference(`{
			"type": "object",
			"properties": {
				"global": {"type": "object", "description": "Helm adds it."},
				"image": {"type": "object", "properties": {"tag": {"type": "string"}, "policy": {"enum": ["Always", "Never"]}}},
				"labels": {"$ref": "#/definitions/strings"},
				"replicas": {"type": "integer", "minimum": 0},
				"enabled": {"type": ["boolean", "null"]},
				"secrets": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "key": {"type": "string"}}}},
				"pattern": {"type": "array", "uniqueItems": true, "items": {"type": "string", "pattern": "^(a|b)$"}}
			},
			"definitions": {"strings": {"type": "object", "additionalProperties": {"type": ["string", "number"]}}}
		}`, `# The image.
image:
  # Tag or <digest>. See docs/operations/alerts.md and docs/usage/tls.md.
  tag: ""
  policy: Always
# Labels.
labels: {a: 1}
# Number of pods.
replicas: 2
# Allowed values:
#   One   The first.
#   Two: the second, with
#     another line.
# The end.
enabled:
# Secrets.
secrets: []
# A list.
pattern: []
`)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(Equal(`
## ` + "`image`" + `

The image.

| Key | Type | Default |
|---|---|---|
| ` + "`image.tag` | string | `\"\"`" + ` |
| ` + "`image.policy` | `Always`, `Never` | `\"Always\"`" + ` |

### ` + "`image.tag`" + `

Tag or \<digest>. See [docs/operations/alerts.md](alerts.md) and [docs/usage/tls.md](../usage/tls.md).

## ` + "`labels`" + `

Labels.

| Type | Default |
|---|---|
| map of strings or numbers | ` + "`{\"a\":1}`" + ` |

## ` + "`replicas`" + `

Number of pods.

| Type | Default |
|---|---|
| integer, at least 0 | ` + "`2`" + ` |

## ` + "`enabled`" + `

Allowed values:

- ` + "`One`" + `: The first.
- Two: the second, with
  another line.

The end.

| Type | Default |
|---|---|
| boolean | unset |

## ` + "`secrets`" + `

Secrets.

| Type | Default |
|---|---|
| list of objects with ` + "`key`, `name` (required) | `[]`" + ` |

## ` + "`pattern`" + `

A list.

| Type | Default |
|---|---|
| list of strings, ` + "`^(a\\|b)$`, no duplicates | `[]`" + ` |

## Set by others

- ` + "`global`" + `: Helm adds it.
`))
	})

	DescribeTable("is not written if the files are inconsistent",
		func(schema, values, message string) {
			_, err := reference(schema, values)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("a value without a schema", `{"type": "object", "properties": {}}`, "# A.\na: 1\n", "values.yaml has a: add it to values.schema.json"),
		Entry("a nested value without a schema", `{"properties": {"a": {"properties": {"b": {"type": "string"}}}}}`, "a:\n  # B.\n  b: x\n  # C.\n  c: x\n", "values.yaml has a.c: add it to values.schema.json"),
		Entry("a schema without a value", `{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}`, "# A.\na: x\n", "values.schema.json has b: add the value to values.yaml, or a description to the schema"),
		Entry("a value without a comment", `{"properties": {"a": {"type": "string"}}}`, "a: x\n", "values.yaml does not describe a: add a comment above it"),
		Entry("an unknown keyword", `{"properties": {"a": {"maximum": 3}}}`, "# A.\na: 1\n", `unknown field "maximum"`),
		Entry("an unknown reference", `{"properties": {"a": {"$ref": "#/definitions/b"}}}`, "# A.\na: 1\n", "does not contain #/definitions/b"),
	)
})
