// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package randomspec

import (
	"maps"
	"math/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/test/schemagen"
)

// invalidate changes the name of an object, or one value in its spec, so that it is beyond its limit or has another format.
func (k Kind) invalidate(random *rand.Rand, schema *schemagen.Schema, object map[string]any) {
	var leaves []func()
	collect(schema, object["spec"], func(schema *schemagen.Schema, value any, set func(any)) {
		leaves = append(leaves, func() { set(beyond(random, schema, value)) })
	})
	leaves = append(leaves, func() {
		metadata := object["metadata"].(map[string]any)
		metadata["name"] = []string{strings.Repeat("n", 53), strings.Repeat("n", 57), strings.Repeat("n", 254), "1a", "a.b", "A", "a_b", ""}[random.Intn(8)]
	})
	leaves[random.Intn(len(leaves))]()
}

// visit is called with a value, its schema, and a function that replaces it.
type visit func(schema *schemagen.Schema, value any, set func(any))

// collect calls a function with each value of a spec that has no values below it.
func collect(schema *schemagen.Schema, value any, do visit) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			property, has := schema.Properties[name]
			if !has {
				if schema.AdditionalProperties == nil || schema.AdditionalProperties.Schema == nil {
					continue
				}
				property = *schema.AdditionalProperties.Schema
			}
			collectOr(&property, value[name], func(next any) { value[name] = next }, do)
		}
	case []any:
		for i := range value {
			collectOr(schema.Items.Schema, value[i], func(next any) { value[i] = next }, do)
		}
	}
}

func collectOr(schema *schemagen.Schema, value any, set func(any), do visit) {
	switch value.(type) {
	case map[string]any, []any:
		collect(schema, value, do)
	default:
		do(schema, value, set)
	}
}

// beyond returns a value that is probably invalid.
func beyond(random *rand.Rand, schema *schemagen.Schema, value any) any {
	least, most := schemagen.LimitsOf(schema)
	switch value := value.(type) {
	case bool:
		return "true"
	case int64:
		limits := []int64{-1, 9223372036854775807}
		if limit, err := strconv.ParseInt(least, 10, 64); err == nil {
			limits = append(limits, limit-1)
		}
		if limit, err := strconv.ParseInt(most, 10, 64); err == nil {
			limits = append(limits, limit+1)
		}

		return limits[random.Intn(len(limits))]
	case string:
		if length, err := strconv.Atoi(most); err == nil && random.Intn(2) == 0 {
			return value + strings.Repeat("x", length+1)
		}
		if schema.XIntOrString {
			return []string{"512m", "-1Gi", "1e18", "8GB", ""}[random.Intn(5)]
		}

		return schemagen.AnyText(random, 0)
	default:
		return nil
	}
}
