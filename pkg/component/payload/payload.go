// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package payload encodes the content of a ManagedResource.
//
// What may not live here: clients, the compression, and the ManagedResource.
package payload

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Encode returns the objects as one JSON document each, in the order of kinds and names. The registry of the library writes YAML, from which
// some texts do not return as they were. It fails for objects that gardener-resource-manager would decode differently. The library splits documents
// at lines with dashes. gardener-resource-manager reads a payload that begins with such a line as YAML.
func Encode(scheme *runtime.Scheme, objects []client.Object) ([]byte, error) {
	documents := make(map[string]*unstructured.Unstructured, len(objects))
	for _, object := range objects {
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil {
			return nil, err
		}
		kind := kinds[0]
		document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
		document["apiVersion"], document["kind"] = kind.GroupVersion().String(), kind.Kind
		documents[kind.String()+"/"+object.GetName()] = &unstructured.Unstructured{Object: document}
	}
	manifests := &bytes.Buffer{}
	for _, key := range slices.Sorted(maps.Keys(documents)) {
		encoded, err := documents[key].MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		manifests.WriteString("---\n")
		for _, char := range string(encoded) {
			if char != '\n' && !unicode.IsPrint(char) && char <= '\uffff' { // YAML forbids or changes some of these characters
				_, _ = fmt.Fprintf(manifests, "\\u%04x", char)
			} else {
				manifests.WriteRune(char)
			}
		}
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests.Bytes()), 1024)
	for _, key := range slices.Sorted(maps.Keys(documents)) {
		var decoded map[string]any
		if err := decoder.Decode(&decoded); err != nil {
			return nil, fmt.Errorf("%s: gardener-resource-manager cannot decode it: %w", key, err)
		}
		switch path, isNumber := difference("", documents[key].Object, decoded); {
		case isNumber:
			return nil, &NumberError{Object: key, Path: strings.TrimPrefix(path, ".")}
		case path != "":
			return nil, fmt.Errorf("%s: gardener-resource-manager would decode %s as another value", key, path)
		}
	}

	return manifests.Bytes(), nil
}

// NumberError is a number that gardener-resource-manager would decode as another one, because it decodes numbers with 53 bits.
type NumberError struct {
	// Object is the kind and the name of the object. Path is the path of the number in it.
	Object, Path string
}

// Error names the number and the remedy.
func (e *NumberError) Error() string {
	return fmt.Sprintf("%s: %s: gardener-resource-manager would apply another number: use one between -9007199254740992 and 9007199254740992", e.Object, e.Path)
}

// difference returns the path of the first value that differs after decoding, and whether it is a number. Empty: none does.
func difference(path string, value, decoded any) (string, bool) {
	switch value := value.(type) {
	case map[string]any:
		other, _ := decoded.(map[string]any)
		if len(other) != len(value) {
			return path, false
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if found, isNumber := difference(path+"."+name, value[name], other[name]); found != "" {
				return found, isNumber
			}
		}
	case []any:
		other, _ := decoded.([]any)
		if len(other) != len(value) {
			return path, false
		}
		for i := range value {
			if found, isNumber := difference(fmt.Sprintf("%s[%d]", path, i), value[i], other[i]); found != "" {
				return found, isNumber
			}
		}
	case int64:
		if number, is := decoded.(float64); !is || number != float64(value) || value > 1<<53 || value < -1<<53 {
			return path, true
		}
	default:
		if value != decoded {
			return path, false
		}
	}

	return "", false
}
