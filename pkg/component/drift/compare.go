// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// Differences returns the sorted paths of the fields that applying a rendered object would change in the live one, for example
// spec.selector. Empty: none. Labels and annotations that only the live object has are not a difference, since
// gardener-resource-manager keeps them. All other fields must be equal, except for defaults that the API server sets. An
// admission webhook can cause a difference too: see Merge and IsSame. It fails only for objects that cannot be converted to
// JSON.
func Differences(rendered, live runtime.Object) ([]string, error) {
	desired, err := fieldsOf(rendered)
	if err != nil {
		return nil, err
	}
	actual, err := fieldsOf(live)
	if err != nil {
		return nil, err
	}
	keepLive(kindOf(rendered), desired, actual)

	c := &comparison{}
	c.metadata(mapIn(desired, "metadata"), mapIn(actual, "metadata"))
	c.fields("", withoutMetadata(desired), withoutMetadata(actual))
	slices.Sort(c.paths)

	return slices.Compact(c.paths), nil
}

// fieldsOf returns the JSON form of an object.
func fieldsOf(object runtime.Object) (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("converting %T: %w", object, err)
	}

	return fields, nil
}

// withoutMetadata returns the fields except type and metadata.
func withoutMetadata(fields map[string]any) map[string]any {
	rest := maps.Clone(fields)
	for _, key := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(rest, key)
	}

	return rest
}

// comparison collects the paths of differences.
type comparison struct {
	paths []string
}

func (c *comparison) metadata(rendered, live map[string]any) {
	for _, field := range []string{"labels", "annotations"} {
		values := mapIn(live, field)
		for key, value := range mapIn(rendered, field) {
			if values[key] != value {
				c.paths = append(c.paths, "metadata."+field+"["+key+"]")
			}
		}
	}
	if !reflect.DeepEqual(listIn(rendered, "ownerReferences"), listIn(live, "ownerReferences")) {
		c.paths = append(c.paths, "metadata.ownerReferences")
	}
}

// fields compares two objects. Both must have the same fields, except for defaults.
func (c *comparison) fields(path string, rendered, live map[string]any) {
	for key, value := range rendered {
		c.value(join(path, key), value, live[key])
	}
	for key, value := range live {
		if _, isRendered := rendered[key]; !isRendered && !isDefault(key, value, rendered) {
			c.paths = append(c.paths, join(path, key))
		}
	}
}

func (c *comparison) value(path string, rendered, live any) {
	if isEmpty(rendered) && isEmpty(live) {
		return
	}
	switch rendered := rendered.(type) {
	case map[string]any:
		if live, is := live.(map[string]any); is || isEmpty(rendered) {
			c.fields(path, rendered, live)
			return
		}
	case []any:
		if live, is := live.([]any); is && len(live) == len(rendered) {
			for i := range rendered {
				c.value(fmt.Sprintf("%s[%d]", path, i), rendered[i], live[i])
			}
			return
		}
	default:
		if reflect.DeepEqual(rendered, live) {
			return
		}
	}
	c.paths = append(c.paths, path)
}

// isEmpty is true for values that the API server may omit or add: null, an empty text, and empty collections.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		for _, field := range value {
			if !isEmpty(field) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}

	return path + "." + key
}

func mapIn(fields map[string]any, key string) map[string]any {
	value, _ := fields[key].(map[string]any)

	return value
}

func listIn(fields map[string]any, key string) []any {
	value, _ := fields[key].([]any)

	return value
}
