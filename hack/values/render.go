// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// page is the path of the reference, to which links in descriptions are relative.
const page = "docs/operations/chart-values.md"

const intro = `# Chart values

This page is for operators who install or update the operator. It lists all values of
[the Helm chart](../../charts/gardener-extension-etcd-druid). ` + "`make generate`" + ` writes it from
[values.schema.json](../../charts/gardener-extension-etcd-druid/values.schema.json) and
[values.yaml](../../charts/gardener-extension-etcd-druid/values.yaml). Helm rejects values that the schema does not allow.
[Installation](installation.md) describes the procedures.
`

// render returns the reference as Markdown, with the values in the order of values.yaml.
func render(root *schema, values *value) (string, error) {
	if err := compare(root, values, ""); err != nil {
		return "", err
	}
	text := &strings.Builder{}
	text.WriteString(intro)
	for _, child := range values.children {
		if err := renderValue(text, root.Properties[child.key], child); err != nil {
			return "", err
		}
	}
	text.WriteString("\n## Set by others\n\n")
	for _, key := range missing(root, values) {
		fmt.Fprintf(text, "- `%s`: %s\n", key, root.Properties[key].Description)
	}

	return text.String(), nil
}

// renderValue writes the section of a value of the highest level.
func renderValue(text *strings.Builder, s *schema, v *value) error {
	fmt.Fprintf(text, "\n## `%s`\n", v.key)
	if v.description != "" {
		fmt.Fprintf(text, "\n%s\n", markdown(v.description))
	}
	if !isSection(s, v) {
		row, err := typeAndDefault(s, v)
		if err == nil {
			fmt.Fprintf(text, "\n| Type | Default |\n|---|---|\n| %s |\n", row)
		}

		return err
	}
	text.WriteString("\n| Key | Type | Default |\n|---|---|---|\n")
	for _, child := range v.children {
		row, err := typeAndDefault(s.Properties[child.key], child)
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "| `%s.%s` | %s |\n", v.key, child.key, row)
	}
	for _, child := range v.children {
		if child.description != "" {
			fmt.Fprintf(text, "\n### `%s.%s`\n\n%s\n", v.key, child.key, markdown(child.description))
		}
	}

	return nil
}

// isSection reports whether the reference describes the keys of the map one by one.
func isSection(s *schema, v *value) bool { return s.isSection() && len(v.children) > 0 }

func typeAndDefault(s *schema, v *value) (string, error) {
	text, err := v.defaultText()

	return s.text() + " | " + text, err
}

// missing are the keys of the schema that values.yaml does not set.
func missing(s *schema, v *value) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(key string) bool { return v.child(key) != nil })
}

// compare returns an error if the files have different keys, or if a value has no description.
func compare(s *schema, v *value, prefix string) error {
	var errs []error
	for _, key := range missing(s, v) {
		if s.Properties[key].Description == "" {
			errs = append(errs, fmt.Errorf("values.schema.json has %s%s: add the value to values.yaml, or a description to the schema", prefix, key))
		}
	}
	for _, child := range v.children {
		nested, ok := s.Properties[child.key]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("values.yaml has %s%s: add it to values.schema.json", prefix, child.key))
		case isSection(nested, child):
			errs = append(errs, compare(nested, child, prefix+child.key+"."))
		case child.description == "" && v.description == "":
			errs = append(errs, fmt.Errorf("values.yaml does not describe %s%s: add a comment above it", prefix, child.key))
		}
	}

	return errors.Join(errs...)
}

var (
	documents = regexp.MustCompile(`\bdocs/[a-z/-]+\.md\b`)
	terms     = regexp.MustCompile(`^(\S+) {2,}`)
)

// markdown converts a comment. Lines that are indented by two spaces are items of a list, and lines with a larger indentation
// continue them.
func markdown(comment string) string {
	var lines []string
	inList := false
	for line := range strings.Lines(comment) {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "#"), " ")
		content := strings.TrimSpace(line)
		indentation := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case indentation == 2:
			if !inList {
				lines = append(lines, "")
			}
			content = "- " + terms.ReplaceAllString(content, "`$1`: ")
		case indentation > 2:
			content = "  " + content
		case inList && content != "":
			lines = append(lines, "")
		}
		inList = indentation >= 2
		lines = append(lines, content)
	}
	text := strings.ReplaceAll(strings.Join(lines, "\n"), "<", `\<`)

	return documents.ReplaceAllStringFunc(text, func(target string) string {
		return fmt.Sprintf("[%s](%s)", target, relative(target))
	})
}

// relative is the path of a document relative to the page.
func relative(target string) string {
	if path.Dir(target) == path.Dir(page) {
		return path.Base(target)
	}

	return "../" + strings.TrimPrefix(target, "docs/")
}
