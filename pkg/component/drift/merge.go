// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"maps"
	"reflect"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// restartedAt is the annotation of a pod template that `kubectl rollout restart` writes, and that gardener-resource-manager keeps.
const restartedAt = "kubectl.kubernetes.io/restartedAt"

// Merge writes the object that gardener-resource-manager would send to the API server, to apply a rendered object to the live
// one. result is an empty object of the same type.
func Merge(rendered, live, result runtime.Object) error {
	desired, err := fieldsOf(rendered)
	if err != nil {
		return err
	}
	actual, err := fieldsOf(live)
	if err != nil {
		return err
	}
	keepLive(kindOf(rendered), desired, actual)

	meta, own := maps.Clone(mapIn(actual, "metadata")), mapIn(desired, "metadata")
	for _, field := range []string{"labels", "annotations"} {
		merged := maps.Clone(mapIn(mapIn(actual, "metadata"), field))
		if merged == nil {
			merged = map[string]any{}
		}
		maps.Copy(merged, mapIn(own, field))
		meta[field] = merged
	}
	meta["ownerReferences"] = own["ownerReferences"]
	desired["metadata"] = meta
	if status, has := actual["status"]; has {
		desired["status"] = status
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(desired, result); err != nil {
		return fmt.Errorf("merging %T: %w", rendered, err)
	}

	return nil
}

// IsSame is true for objects that differ only in the metadata that the API server sets on a write.
func IsSame(a, b runtime.Object) (bool, error) {
	fields, err := fieldsOf(a)
	if err != nil {
		return false, err
	}
	others, err := fieldsOf(b)
	if err != nil {
		return false, err
	}
	for _, fields := range []map[string]any{fields, others} {
		for _, note := range []string{"managedFields", "resourceVersion", "generation"} {
			unstructured.RemoveNestedField(fields, "metadata", note)
		}
		delete(fields, "apiVersion")
		delete(fields, "kind")
	}

	return reflect.DeepEqual(fields, others), nil
}

// keepLive copies the fields that gardener-resource-manager preserves from a live object of the kind.
func keepLive(kind string, rendered, live map[string]any) {
	switch kind {
	case "StatefulSet":
		spec, was := mapIn(rendered, "spec"), mapIn(live, "spec")
		copyField(spec, was, "volumeClaimTemplates")
		if _, isSet := spec["replicas"]; !isSet {
			copyField(spec, was, "replicas")
		}
		template, before := mapIn(mapIn(spec, "template"), "metadata"), mapIn(mapIn(was, "template"), "metadata")
		copyField(mapIn(template, "labels"), mapIn(before, "labels"), resourcesv1alpha1.ManagedBy)
		copyField(mapIn(template, "annotations"), mapIn(before, "annotations"), restartedAt)
	case "Service":
		spec, was := mapIn(rendered, "spec"), mapIn(live, "spec")
		if spec["clusterIP"] != "None" {
			copyField(spec, was, "clusterIP")
		}
	case "ServiceAccount":
		copyField(rendered, live, "secrets")
		copyField(rendered, live, "imagePullSecrets")
	}
}

// copyField copies a field, if both objects exist and the source has it.
func copyField(to, from map[string]any, key string) {
	if value, has := from[key]; has && to != nil {
		to[key] = value
	}
}

func kindOf(object runtime.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }
