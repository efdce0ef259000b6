// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// schema contains the keywords of JSON schema that values.schema.json uses.
type schema struct {
	Ref                  string             `json:"$ref"`
	Schema               string             `json:"$schema"`
	Title                string             `json:"title"`
	Description          string             `json:"description"`
	Type                 oneOrMore          `json:"type"`
	Enum                 []any              `json:"enum"`
	Pattern              string             `json:"pattern"`
	Minimum              *json.Number       `json:"minimum"`
	MinLength            *json.Number       `json:"minLength"`
	MinProperties        *json.Number       `json:"minProperties"`
	UniqueItems          bool               `json:"uniqueItems"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *booleanOrSchema   `json:"additionalProperties"`
	Shared               map[string]*schema `json:"definitions"`
}

// oneOrMore is a string, or a list of strings.
type oneOrMore []string

// UnmarshalJSON reads both forms.
func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*o = oneOrMore{one}

		return nil
	}

	return json.Unmarshal(data, (*[]string)(o))
}

// booleanOrSchema is a schema, or true or false, for which the schema is nil.
type booleanOrSchema struct{ *schema }

// UnmarshalJSON reads both forms.
func (b *booleanOrSchema) UnmarshalJSON(data []byte) error {
	var boolean bool
	if json.Unmarshal(data, &boolean) == nil {
		return nil
	}

	return json.Unmarshal(data, &b.schema)
}

// readSchema reads a schema. An unknown keyword is an error: the reference would silently omit it.
func readSchema(path string) (*schema, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- a file of the repository
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	root := &schema{}
	if err := decoder.Decode(root); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return root, root.resolve(root.Shared)
}

// resolve replaces each reference by the shared schema to which it refers.
func (s *schema) resolve(shared map[string]*schema) error {
	for name, property := range s.Properties {
		if err := property.resolve(shared); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, nested := range []*schema{s.Items, s.values()} {
		if nested != nil {
			if err := nested.resolve(shared); err != nil {
				return err
			}
		}
	}
	if s.Ref == "" {
		return nil
	}
	target, ok := shared[strings.TrimPrefix(s.Ref, "#/definitions/")]
	if !ok {
		return fmt.Errorf("the schema does not contain %s", s.Ref)
	}
	*s = *target

	return s.resolve(shared)
}

// values is the schema of the values of a map with arbitrary keys, or nil.
func (s *schema) values() *schema {
	if s.AdditionalProperties == nil {
		return nil
	}

	return s.AdditionalProperties.schema
}

// isSection reports whether the object has known keys.
func (s *schema) isSection() bool { return len(s.Properties) > 0 }

// text describes the type and the allowed values in one line of Markdown.
func (s *schema) text() string {
	if len(s.Enum) > 0 {
		allowed := make([]string, 0, len(s.Enum))
		for _, value := range s.Enum {
			allowed = append(allowed, fmt.Sprintf("`%v`", value))
		}

		return strings.Join(allowed, ", ")
	}
	types := slices.DeleteFunc(slices.Clone(s.Type), func(name string) bool { return name == "null" })
	text := strings.Join(types, " or ")
	switch text {
	case "":
		text = "any"
	case "array":
		text = "list" + s.Items.plural()
	case "object":
		text = "map" + s.values().plural()
	}

	return text + s.constraints()
}

// plural describes the elements of a list or a map. Empty: any elements.
func (s *schema) plural() string {
	if s == nil {
		return ""
	}
	if s.isSection() {
		return " of " + s.objectText()
	}
	types := make([]string, 0, len(s.Type))
	for _, name := range s.Type {
		types = append(types, name+"s")
	}

	return " of " + strings.Join(types, " or ") + s.constraints()
}

// objectText describes an object that is an item of a list.
func (s *schema) objectText() string {
	keys := make([]string, 0, len(s.Properties))
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		if slices.Contains(s.Required, key) {
			keys = append(keys, "`"+key+"` (required)")
		} else {
			keys = append(keys, "`"+key+"`")
		}
	}

	return "objects with " + strings.Join(keys, ", ")
}

// constraints are the remaining rules.
func (s *schema) constraints() string {
	var rules []string
	if s.Minimum != nil {
		rules = append(rules, "at least "+s.Minimum.String())
	}
	if s.Pattern != "" {
		rules = append(rules, "`"+strings.ReplaceAll(s.Pattern, "|", `\|`)+"`")
	}
	if s.UniqueItems {
		rules = append(rules, "no duplicates")
	}
	if len(rules) == 0 {
		return ""
	}

	return ", " + strings.Join(rules, ", ")
}
