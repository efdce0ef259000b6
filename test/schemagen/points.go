// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package schemagen generates objects from the schema of a CustomResourceDefinition, and reports which fields and limits of the schema they reach.
// A new field of the schema is covered without a change.
//
// What may not live here: knowledge of any particular kind, a clock, and a random source of its own.
package schemagen

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Schema is the schema of a CustomResourceDefinition, or of a field.
type Schema = apiextensionsv1.JSONSchemaProps

// Values of points that are not enum values.
const (
	// Present means that the field exists, with any value.
	Present = "present"
	// Absent means that its parent exists without it. Only for optional fields.
	Absent = "absent"
	// Zero is the empty text, list, map or object, or the number 0. Only if the schema accepts it.
	Zero = "zero"
	// Least and Most are the limits of a value, of the length of a text, or of the number of items in a list. Only if the schema has them.
	Least = "least"
	Most  = "most"
)

// Point is a value of a field that objects have to reach.
type Point struct {
	// Path of the field. It contains [] for the items of a list, and {} for the values of a map.
	Path string
	// Value is one of the constants, or an enum value, or true or false.
	Value string
}

// PointsOf returns the points of a field and of all fields below it.
func PointsOf(path string, schema *Schema) []Point {
	points := []Point{{path, Present}}
	for _, value := range valuesOf(schema) {
		points = append(points, Point{path, value})
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name]
		if !slices.Contains(schema.Required, name) {
			points = append(points, Point{path + "." + name, Absent})
		}
		points = append(points, PointsOf(path+"."+name, &property)...)
	}
	if items := itemsOf(schema); items != nil {
		points = append(points, PointsOf(path+"[]", items)...)
	}
	if values := mapValuesOf(schema); values != nil {
		points = append(points, PointsOf(path+"{}", values)...)
	}

	return points
}

// valuesOf returns the values that a field has to reach in addition to Present.
func valuesOf(schema *Schema) []string {
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, strings.Trim(string(value.Raw), `"`))
		}

		return values
	}
	if schema.Type == "boolean" {
		return []string{"true", "false"}
	}
	var values []string
	least, most := LimitsOf(schema)
	if isZeroValid(schema, least) {
		values = append(values, Zero)
	}
	if least != "" {
		values = append(values, Least)
	}
	if most != "" {
		values = append(values, Most)
	}

	return values
}

func isZeroValid(schema *Schema, least string) bool {
	switch schema.Type {
	case "object":
		return len(schema.Required) == 0 && schema.MinProperties == nil
	case "string":
		return least == "" && schema.Pattern == ""
	case "integer", "array":
		return least == ""
	default:
		return false
	}
}

// Reached returns the points that an object reaches at a path, each once.
func Reached(path string, schema *Schema, value any) map[Point]struct{} {
	reached := map[Point]struct{}{}
	reach(reached, path, schema, value)

	return reached
}

func reach(reached map[Point]struct{}, path string, schema *Schema, value any) {
	reached[Point{path, Present}] = struct{}{}
	for _, wanted := range valuesOf(schema) {
		if equals(schema, value, wanted) {
			reached[Point{path, wanted}] = struct{}{}
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for name, property := range schema.Properties {
			if child, has := value[name]; has {
				reach(reached, path+"."+name, &property, child)
			} else if !slices.Contains(schema.Required, name) {
				reached[Point{path + "." + name, Absent}] = struct{}{}
			}
		}
		if values := mapValuesOf(schema); values != nil {
			for _, child := range value {
				reach(reached, path+"{}", values, child)
			}
		}
	case []any:
		if items := itemsOf(schema); items != nil {
			for _, item := range value {
				reach(reached, path+"[]", items, item)
			}
		}
	}
}

// equals is true if a value of the schema is the wanted one.
func equals(schema *Schema, value any, wanted string) bool {
	least, most := LimitsOf(schema)
	limit := map[string]string{Zero: "0", Least: least, Most: most}[wanted]
	switch value := value.(type) {
	case bool:
		return strconv.FormatBool(value) == wanted
	case int64:
		return strconv.FormatInt(value, 10) == limit
	case []any:
		return strconv.Itoa(len(value)) == limit
	case map[string]any:
		return strconv.Itoa(len(value)) == limit
	case string:
		if len(schema.Enum) > 0 {
			return value == wanted
		}
		if hasLengths(schema) || wanted == Zero {
			return strconv.Itoa(len([]rune(value))) == limit
		}

		return value == limit // a quantity or a duration
	default:
		return false
	}
}

// hasLengths is true if the limits of a text are those of its length.
func hasLengths(schema *Schema) bool { return schema.MaxLength != nil || schema.MinLength != nil }

// The limits of durations and of quantities are in CEL rules.
var (
	durationLimits = regexp.MustCompile(`([<>])= duration\('(.+?)'\)`)
	quantityLimits = regexp.MustCompile(`compareTo\(quantity\('(.+?)'\)\) ([<>])= 0`)
)

// LimitsOf returns the least and the most value that a schema accepts. For a text without a duration they are lengths, and for a list numbers of
// items. Empty: there is no such limit.
func LimitsOf(schema *Schema) (least, most string) {
	limits := map[string]string{">": "", "<": ""}
	for _, limit := range []struct {
		side  string
		count *int64
	}{{">", schema.MinLength}, {"<", schema.MaxLength}, {">", schema.MinItems}, {"<", schema.MaxItems}} {
		if limit.count != nil {
			limits[limit.side] = strconv.FormatInt(*limit.count, 10)
		}
	}
	if schema.Minimum != nil {
		limits[">"] = strconv.FormatFloat(*schema.Minimum, 'f', -1, 64)
	}
	if schema.Maximum != nil {
		limits["<"] = strconv.FormatFloat(*schema.Maximum, 'f', -1, 64)
	}
	for _, rule := range schema.XValidations {
		for _, match := range durationLimits.FindAllStringSubmatch(rule.Rule, -1) {
			limits[match[1]] = match[2]
		}
		for _, match := range quantityLimits.FindAllStringSubmatch(rule.Rule, -1) {
			limits[match[2]] = match[1]
		}
	}

	return limits[">"], limits["<"]
}

// FieldOf returns the schema of the field at a path, such as spec.etcd or spec.items[].name. Nil: there is no such field.
func FieldOf(schema *Schema, path string) *Schema {
	for _, name := range strings.Split(path, ".") {
		name, items := strings.CutSuffix(name, "[]")
		name, values := strings.CutSuffix(name, "{}")
		property, has := schema.Properties[name]
		if !has {
			return nil
		}
		schema = &property
		if items {
			schema = itemsOf(schema)
		}
		if values {
			schema = mapValuesOf(schema)
		}
		if schema == nil {
			return nil
		}
	}

	return schema
}

// Beyond returns a value that is beyond a limit of a schema: Least or Most. False: the type has no such value, for example a negative duration.
func Beyond(schema *Schema, side string) (any, bool) {
	least, most := LimitsOf(schema)
	limit := map[string]string{Least: least, Most: most}[side]
	number, err := strconv.ParseInt(limit, 10, 64)
	if side == Most {
		number++
	} else {
		number--
	}
	switch {
	case limit == "":
		return nil, false
	case schema.XIntOrString:
		return map[string]any{Least: "1", Most: "9E"}[side], true
	case schema.Type == "string" && err != nil: // a duration
		return map[string]any{Least: "1ns", Most: limit + "1h"}[side], limit != "0s"
	case schema.Type == "string":
		return strings.Repeat("x", int(max(number, 0))), number >= 0
	case schema.Type == "array":
		items := make([]any, max(number, 0))
		for i := range items {
			if items[i] = strconv.Itoa(i); itemsOf(schema).Type == "object" {
				items[i] = map[string]any{}
			}
		}

		return items, number >= 0
	default:
		return number, err == nil
	}
}

func itemsOf(schema *Schema) *Schema {
	if schema.Items == nil {
		return nil
	}

	return schema.Items.Schema
}

func mapValuesOf(schema *Schema) *Schema {
	if schema.AdditionalProperties == nil {
		return nil
	}

	return schema.AdditionalProperties.Schema
}
