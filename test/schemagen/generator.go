// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package schemagen

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Text returns a text for a field. It has the length in characters, if that is not 0.
type Text func(random *rand.Rand, length int) string

// Format is how the texts of some fields are generated.
type Format struct {
	// Path is the end of the paths of the fields.
	Path string
	// Text generates a text. Nil: Number generates a number.
	Text Text
	// Number generates a number of a field without limits.
	Number func(random *rand.Rand) int64
}

// Generator generates values of a schema.
type Generator struct {
	// Random decides.
	Random *rand.Rand
	// Formats are the formats of fields. The first one with the path counts. Texts without a format are from Texts. A field with a pattern needs a
	// format, unless it is a quantity or a duration.
	Formats []Format
	// Frequency is the probability of a field that no point requests.
	Frequency float64
}

// Texts contain each kind of character that an API server accepts in a text.
var Texts = []string{
	"a", " ", "\t", "\ttab first\nsecond line\n", "a\nb", "a\r\nb", "a\rb", "\n", `"quoted"`, "'", "`", `\`, `\n`, "---", "\n---\n", "---\n{", "...", "-", "- a", "a: b", "a #b", "#", "? a",
	"{", "[", "{{ .Values.a }}", "{}", "[]", "null", "~", "true", "no", "1", "1e3", "0x1", "1_000", ".inf", "2001-01-01", "$(POD_NAMESPACE)", "$$(POD_NAMESPACE)", "$", "${HOME}", "%s%d%!",
	"%00", "&a", "*a", "!!str a", "|", ">", "@", ",", "=", "<a&b>", "\x00", "\x01\x1b\x1f", "\x7f", "\u0080\u0085", "\u2028\u2029", "\ufeff", "\uffff", "\U000e0001", "ü", "日本", "😀", "a" + strings.Repeat("b", 300),
}

// AnyText is the format of texts without another one.
func AnyText(random *rand.Rand, length int) string {
	return fit(Texts[random.Intn(len(Texts))], length, "x")
}

// fit repeats a filling, or truncates a text, until it has the length in characters. 0: it stays as it is.
func fit(text string, length int, filling string) string {
	runes := []rune(text)
	for length > 0 && len(runes) < length {
		runes = append(runes, []rune(filling)...)
	}
	if length > 0 {
		runes = runes[:length]
	}

	return string(runes)
}

// Value returns a value of a field that reaches the wanted points, as far as they do not contradict each other. Points of other fields are ignored.
// The error names a field for which a format is missing.
func (g *Generator) Value(path string, schema *Schema, wanted []Point) (any, error) {
	value := ""
	for _, point := range wanted {
		if point.Path == path && point.Value != Present {
			value = point.Value
		}
	}
	switch {
	case schema.Type == "object" && schema.AdditionalProperties != nil:
		return g.mapping(path, schema, value, wanted)
	case schema.Type == "object":
		return g.object(path, schema, value, wanted)
	case schema.Type == "array":
		return g.list(path, schema, value, wanted)
	default:
		return g.leaf(path, schema, value)
	}
}

// below returns the points at a path and below it.
func below(path string, points []Point) []Point {
	var found []Point
	for _, point := range points {
		if rest, is := strings.CutPrefix(point.Path, path); is && (rest == "" || strings.ContainsAny(rest[:1], ".[{")) {
			found = append(found, point)
		}
	}

	return found
}

func (g *Generator) object(path string, schema *Schema, value string, wanted []Point) (map[string]any, error) {
	object := map[string]any{}
	if value == Zero && len(below(path, wanted)) == 1 {
		return object, nil
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property, child := schema.Properties[name], path+"."+name
		points := below(child, wanted)
		isAbsent := slices.Contains(points, Point{child, Absent})
		if !slices.Contains(schema.Required, name) && (isAbsent || len(points) == 0 && g.Random.Float64() >= g.Frequency) {
			continue
		}
		generated, err := g.Value(child, &property, points)
		if err != nil {
			return nil, err
		}
		object[name] = generated
	}

	return object, nil
}

func (g *Generator) mapping(path string, schema *Schema, value string, wanted []Point) (map[string]any, error) {
	object := map[string]any{}
	points := below(path+"{}", wanted)
	if value == Zero && len(points) == 0 {
		return object, nil
	}
	key := AnyText
	if format := g.formatOf(path + "{key}"); format != nil {
		key = format.Text
	}
	for range 1 + g.Random.Intn(3) {
		generated, err := g.Value(path+"{}", mapValuesOf(schema), points)
		if err != nil {
			return nil, err
		}
		object[key(g.Random, 0)] = generated
	}

	return object, nil
}

func (g *Generator) list(path string, schema *Schema, value string, wanted []Point) ([]any, error) {
	points := below(path+"[]", wanted)
	least, most := LimitsOf(schema)
	count := 1 + g.Random.Intn(2)
	switch {
	case value == Zero && len(points) == 0:
		count = 0
	case value == Most:
		count, _ = strconv.Atoi(most)
	case value == Least || least != "" && !isAtLeast(count, least):
		count, _ = strconv.Atoi(least)
	}
	list := []any{}
	for len(list) < count {
		item, err := g.item(path, schema, points, list)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
		points = nil // the first item reaches them
	}

	return list, nil
}

// item returns an item that a list does not contain yet, since some lists are sets. Fields with few values may have equal items.
func (g *Generator) item(path string, schema *Schema, points []Point, list []any) (item any, err error) {
	for range 20 {
		if item, err = g.Value(path+"[]", itemsOf(schema), points); err != nil || !contains(list, item) {
			return item, err
		}
	}

	return item, err
}

func contains(list []any, item any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return reflect.DeepEqual(other, item) })
}

func isAtLeast(count int, least string) bool {
	limit, err := strconv.Atoi(least)

	return err == nil && count >= limit
}

func (g *Generator) leaf(path string, schema *Schema, value string) (any, error) {
	values := valuesOf(schema)
	if value == "" && len(schema.Enum) > 0 || value == "" && schema.Type == "boolean" {
		value = values[g.Random.Intn(len(values))]
	}
	least, most := LimitsOf(schema)
	limit := map[string]string{Zero: "0", Least: least, Most: most}[value]
	format := g.formatOf(path)
	switch {
	case len(schema.Enum) > 0:
		return value, nil
	case schema.Type == "boolean":
		return value == "true", nil
	case schema.Type == "integer":
		return g.number(schema, format, limit)
	case value == Zero:
		return "", nil
	case schema.XIntOrString:
		return g.quantity(least, most, limit), nil
	case hasLengths(schema) && format == nil && schema.Pattern == "":
		return AnyText(g.Random, g.lengthFor(limit, most)), nil
	case format != nil:
		return format.Text(g.Random, g.lengthFor(limit, "")), nil
	case strings.Contains(schema.Pattern, "(ns|us|µs|ms|s|m|h)"):
		return g.duration(least, most, limit), nil
	case schema.Pattern != "":
		return nil, fmt.Errorf("%s has the pattern %s: add a format", path, schema.Pattern)
	default:
		return AnyText(g.Random, 0), nil
	}
}

// lengthFor returns the wanted length of a text: the limit, or else a random one below the maximum. 0: any length.
func (g *Generator) lengthFor(limit, most string) int {
	length, _ := strconv.Atoi(limit)
	if maximum, _ := strconv.Atoi(most); limit == "" && maximum > 0 {
		length = 1 + g.Random.Intn(maximum)
	}

	return length
}

func (g *Generator) number(schema *Schema, format *Format, limit string) (any, error) {
	least, most := LimitsOf(schema)
	switch {
	case limit != "":
		return strconv.ParseInt(limit, 10, 64)
	case format != nil:
		return format.Number(g.Random), nil
	case least != "" && most != "":
		from, _ := strconv.ParseInt(least, 10, 64)
		to, _ := strconv.ParseInt(most, 10, 64)

		return from + g.Random.Int63n(to-from+1), nil
	case least != "":
		from, _ := strconv.ParseInt(least, 10, 64)

		return from + g.Random.Int63n(1000), nil
	default:
		return 1 + g.Random.Int63n(1000), nil
	}
}

// quantity returns a quantity. One without limits may be small, large, milli, or a number.
func (g *Generator) quantity(least, most, limit string) any {
	switch {
	case limit != "":
		return limit
	case least != "" && most != "":
		return []string{least, most}[g.Random.Intn(2)]
	default:
		return []any{"1", "100m", "1Gi", "1e3", "0", "9E", "1500000u", "8.5G", int64(5)}[g.Random.Intn(9)]
	}
}

func (g *Generator) duration(least, most, limit string) string {
	values := slices.DeleteFunc([]string{least, most}, func(value string) bool { return value == "" })
	switch {
	case limit != "":
		return limit
	case len(values) > 0:
		return values[g.Random.Intn(len(values))]
	default:
		return "1m30s"
	}
}

func (g *Generator) formatOf(path string) *Format {
	for i := range g.Formats {
		if strings.HasSuffix(path, g.Formats[i].Path) {
			return &g.Formats[i]
		}
	}

	return nil
}
