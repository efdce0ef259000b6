// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package randomspec

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gardener/gardener-extension-etcd-druid/test/schemagen"
)

// rule changes an object so that it keeps a rule between fields.
type rule func(random *rand.Rand, object map[string]any, keeps keeps)

// keeps are the points of fields that must stay absent or empty. A rule completes nothing there.
type keeps []schemagen.Point

func keepsOf(points []schemagen.Point) keeps {
	return slices.DeleteFunc(slices.Clone(points), func(point schemagen.Point) bool {
		return point.Value != schemagen.Absent && point.Value != schemagen.Zero
	})
}

// field is true if the field at the path or a field below it must stay absent or empty.
func (k keeps) field(path ...string) bool {
	at := strings.Join(path, ".")

	return slices.ContainsFunc(k, func(point schemagen.Point) bool {
		return point.Path == at || strings.HasPrefix(point.Path, at+".") || strings.HasPrefix(point.Path, at+"[")
	})
}

// end is true if a field whose path ends so must stay absent or empty.
func (k keeps) end(path string) bool {
	return slices.ContainsFunc(k, func(point schemagen.Point) bool { return strings.HasSuffix(point.Path, path) })
}

var (
	etcdRules = []rule{sizeRule, versionRule, tlsRule, deprecatedRule, urlRule, periodRule, kubernetesRule, storeRule("spec", "backup", "store")}
	copyRules = []rule{storeRule("spec", "sourceStore"), storeRule("spec", "targetStore")}
	opsRules  = []rule{unionRule, finalRule}
)

func get(object map[string]any, path ...string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...) // a value of another type is none

	return value
}

// set sets a field below objects. It creates missing ones.
func set(object map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		child, is := object[name].(map[string]any)
		if !is {
			child = map[string]any{}
			object[name] = child
		}
		object = child
	}
	object[path[len(path)-1]] = value
}

// each calls a function with each object in a list.
func each(list any, do func(i int, item map[string]any)) {
	items, _ := list.([]any)
	for i, item := range items {
		if object, is := item.(map[string]any); is {
			do(i, object)
		}
	}
}

// sizeRule chooses a valid number of members, unless the members are managed externally.
func sizeRule(random *rand.Rand, object map[string]any, _ keeps) {
	if addresses, is := get(object, "spec", "externallyManagedMemberAddresses").([]any); is {
		set(object, int64(len(addresses)), "spec", "replicas")

		return
	}
	if get(object, "spec", "replicas") != int64(0) {
		set(object, []int64{1, 3, 5, 7}[random.Intn(4)], "spec", "replicas")
	}
	if port := get(object, "spec", "etcd", "wrapperPort"); port != nil && port != int64(1) && port != int64(65535) {
		set(object, int64(9095), "spec", "etcd", "wrapperPort")
	}
}

// versionRule chooses a version of etcd whose sidecar knows prefixes, and a number of revisions for a compaction by revision.
func versionRule(_ *rand.Rand, object map[string]any, _ keeps) {
	if get(object, "spec", "memberNamePrefix") != nil && get(object, "spec", "etcd", "version") == nil {
		set(object, "3.5", "spec", "etcd", "version")
	}
	if get(object, "spec", "sharedConfig", "autoCompactionMode") == "revision" && get(object, "spec", "sharedConfig", "autoCompactionRetention") == nil {
		set(object, "1000", "spec", "sharedConfig", "autoCompactionRetention")
	}
}

// urlRule names existing members, and chooses the scheme that the members use.
func urlRule(_ *rand.Rand, object map[string]any, _ keeps) {
	scheme := func(field string) string {
		enabled, isSet := get(object, "spec", "etcd", "enableTLS").(bool)
		if isSet && enabled || !isSet && get(object, "spec", "etcd", field) != nil {
			return "https://"
		}

		return "http://"
	}
	name, _ := get(object, "metadata", "name").(string)
	if prefix, is := get(object, "spec", "memberNamePrefix").(string); is {
		name = prefix + "-" + name
	}
	replicas, _ := get(object, "spec", "replicas").(int64)
	each(get(object, "spec", "etcd", "additionalAdvertisePeerURLs"), func(i int, item map[string]any) {
		width := 1
		if member, is := item["memberName"].(string); is && len(member) > len(name)+10 {
			width = len(member) - len(name) - 1
		}
		item["memberName"] = fmt.Sprintf("%s-%0*d", name, width, int64(i)%max(replicas, 1))
		withScheme(item, "urls", scheme("peerUrlTls"))
	})
	bootstrap, is := get(object, "spec", "etcd", "bootstrapWithExistingCluster").(map[string]any)
	if !is {
		return
	}
	withScheme(bootstrap, "clientEndpoints", scheme("clientUrlTls"))
	each(bootstrap["members"], func(i int, item map[string]any) {
		if member, is := item["name"].(string); is && i > 0 && len(member) < 200 {
			item["name"] = fmt.Sprintf("%s-x%d", member, i)
		}
		withScheme(item, "peerUrls", scheme("peerUrlTls"))
	})
}

// withScheme replaces the scheme of the URLs in a field. A URL keeps the maximum length.
func withScheme(parent map[string]any, field, scheme string) {
	urls, _ := parent[field].([]any)
	for i, url := range urls {
		if text, is := url.(string); is && text != "" {
			_, rest, _ := strings.Cut(text, "//")
			if scheme == "https://" && len(text) == 2048 {
				rest = rest[1:]
			}
			urls[i] = scheme + rest
		}
	}
}

// tlsRule names the Secrets that a TLS reference needs.
func tlsRule(random *rand.Rand, object map[string]any, keeps keeps) {
	if get(object, "spec", "backup", "tls") != nil && get(object, "spec", "etcd", "clientUrlTls") == nil {
		set(object, map[string]any{}, "spec", "etcd", "clientUrlTls")
	}
	for _, path := range [][]string{{"spec", "etcd", "clientUrlTls"}, {"spec", "etcd", "peerUrlTls"}, {"spec", "backup", "tls"}} {
		tls, is := get(object, path...).(map[string]any)
		if !is {
			continue
		}
		references := []string{"tlsCASecretRef", "serverTLSSecretRef"}
		if path[2] == "clientUrlTls" {
			references = append(references, "clientTLSSecretRef")
		}
		for _, reference := range references {
			if get(tls, reference, "name") == nil && !keeps.field(append(path, reference)...) {
				set(tls, subdomain(random, 0), reference, "name")
			}
		}
	}
}

// deprecatedRule removes deprecated fields that contradict current ones, and completes pairs.
func deprecatedRule(_ *rand.Rand, object map[string]any, _ keeps) {
	spec := object["spec"].(map[string]any)
	for _, parent := range []string{"etcd", "backup"} {
		fields, is := spec[parent].(map[string]any)
		if !is {
			continue
		}
		_, hasRepository := fields["imageRepository"]
		_, hasVersion := fields["imageVersion"]
		if hasRepository || hasVersion {
			delete(fields, "image")
			fields["imageRepository"], fields["imageVersion"] = orText(fields["imageRepository"], "etcd"), orText(fields["imageVersion"], "v1")
		}
	}
	for deprecated, current := range map[string][]string{"Quota": {"etcd", "quota"}, "storageCapacity": {"storageCapacity"}, "storageClass": {"storageClass"}} {
		if get(spec, "etcd", deprecated) != nil {
			unstructured.RemoveNestedField(spec, current...)
		}
	}
	if spec["store"] != nil {
		unstructured.RemoveNestedField(spec, "backup", "store")
	}
	if spec["tlsClientSecret"] != nil || spec["tlsServerSecret"] != nil {
		unstructured.RemoveNestedField(spec, "etcd", "clientUrlTls")
		spec["tlsServerSecret"], spec["tlsClientSecret"] = orText(spec["tlsServerSecret"], "server"), orText(spec["tlsClientSecret"], "client")
	}
	for _, field := range []string{"Quota", "storageCapacity"} {
		if get(spec, "etcd", field) != nil {
			set(spec, "8Gi", "etcd", field)
		}
	}
}

func orText(value any, fallback string) any {
	if value == nil {
		return fallback
	}

	return value
}

// periodRule makes the period of garbage collections longer than that of delta snapshots.
func periodRule(_ *rand.Rand, object map[string]any, _ keeps) {
	if get(object, "spec", "backup", "deltaSnapshotPeriod") == "24h" {
		unstructured.RemoveNestedField(object, "spec", "backup", "garbageCollectionPeriod")
	}
}

// storeRule returns the rule that a store has a provider, a container and the credentials that it needs, or a BackupEntry.
func storeRule(path ...string) rule {
	return func(random *rand.Rand, object map[string]any, keeps keeps) {
		deprecated, has := get(object, "spec", "store").(map[string]any)
		if has && path[1] == "backup" && !keeps.field("spec", "store") {
			deprecated["storageProvider"] = orText(deprecated["storageProvider"], "S3")
			deprecated["storageContainer"] = orText(deprecated["storageContainer"], "bucket")
			deprecated["storeSecret"] = orText(deprecated["storeSecret"], "secret")
		}
		store, is := get(object, path...).(map[string]any)
		switch {
		case !is, keeps.field(path...):
		case store["backupEntryRef"] != nil && random.Intn(2) == 0:
			for _, field := range []string{"provider", "container", "secretRef"} {
				delete(store, field)
			}
		default:
			store["provider"], store["container"] = orText(store["provider"], "S3"), orText(store["container"], "bucket")
			if get(store, "secretRef", "name") == nil {
				set(store, subdomain(random, 0), "secretRef", "name")
			}
		}
		if path[1] != "backup" && len(store) > 0 && !keeps.field(append(path, "prefix")...) {
			store["prefix"] = orText(store["prefix"], path[1])
		}
	}
}

// kubernetesRule keeps the rules of the types of Kubernetes in a spec.
func kubernetesRule(random *rand.Rand, object map[string]any, keeps keeps) {
	for _, path := range [][]string{{"spec", "etcd", "resources"}, {"spec", "backup", "resources"}, {"spec", "backup", "snapshotCompaction", "resources"}} {
		resources, is := get(object, path...).(map[string]any)
		if !is {
			continue
		}
		limits, _ := resources["limits"].(map[string]any)
		requests, _ := resources["requests"].(map[string]any)
		for name := range limits {
			if _, has := requests[name]; has && random.Intn(4) > 0 {
				limits[name] = requests[name]
			}
		}
	}
	constraints, _ := get(object, "spec", "schedulingConstraints").(map[string]any)
	walk(constraints, "", func(field string, object map[string]any) {
		if field != "matchFields" || !keeps.end(".matchFields[].values") && !keeps.end(".matchFields[].values[]") {
			fixKubernetes(field, object)
		}
	})
	each(constraints["tolerations"], func(_ int, item map[string]any) {
		if len(item) > 0 || !keeps.end(".tolerations[]") {
			fixToleration(item)
		}
	})
	keys := 0
	each(constraints["topologySpreadConstraints"], func(_ int, item map[string]any) {
		if keys++; item["whenUnsatisfiable"] != "DoNotSchedule" {
			delete(item, "minDomains")
		}
		if item["topologyKey"] != "" {
			item["topologyKey"] = fmt.Sprintf("zone-%d", keys)
		}
		if item["matchLabelKeys"] != nil && item["labelSelector"] == nil {
			item["labelSelector"] = map[string]any{}
		}
	})
}

// walk calls a function with each object below a value and the name of its field.
func walk(value any, field string, do func(field string, object map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		do(field, value)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			walk(value[name], name, do)
		}
	case []any:
		for _, item := range value {
			walk(item, field, do)
		}
	}
}

// fixKubernetes completes requirements, and the terms of an affinity.
func fixKubernetes(field string, object map[string]any) {
	switch field {
	case "matchExpressions", "matchFields":
		values, hasValues := object["values"].([]any)
		switch operator := object["operator"]; {
		case hasValues && len(values) == 0 && field == "matchExpressions":
			object["operator"] = "Exists"
		case operator == "Exists", operator == "DoesNotExist":
			delete(object, "values")
		case len(values) == 0:
			object["values"] = []any{"a"}
		case field == "matchFields":
			object["values"] = []any{"node-1"}
		}
	case "podAffinityTerm", "requiredDuringSchedulingIgnoredDuringExecution":
		if _, isTerm := object["topologyKey"]; !isTerm {
			return
		}
		matching, has := object["matchLabelKeys"].([]any)
		_, hasOthers := object["mismatchLabelKeys"]
		if (has || hasOthers) && object["labelSelector"] == nil {
			object["labelSelector"] = map[string]any{"matchLabels": map[string]any{"role": "a"}}
		}
		if has && hasOthers && len(matching) > 0 {
			object["mismatchLabelKeys"] = []any{"other"}
		}
	}
}

func fixToleration(item map[string]any) {
	if item["operator"] == "Exists" {
		delete(item, "value")
	}
	operator, _ := item["operator"].(string)
	if _, hasKey := item["key"]; !hasKey && operator == "" {
		item["key"] = "a"
	} else if !hasKey {
		item["operator"] = "Exists"
		delete(item, "value")
	}
	if item["tolerationSeconds"] != nil {
		item["effect"] = "NoExecute"
	}
}

// unionRule keeps one operation of a task.
func unionRule(random *rand.Rand, object map[string]any, keeps keeps) {
	config, _ := get(object, "spec", "config").(map[string]any)
	names := slices.Sorted(maps.Keys(config))
	if len(names) == 0 {
		set(object, map[string]any{}, "spec", "config", "compaction")

		return
	}
	kept := names[random.Intn(len(names))]
	for _, name := range names {
		if name != kept {
			delete(config, name)
		}
	}
	for _, point := range []string{"point", "compareWith"} {
		if at, is := get(config, "backupInspection", point).(map[string]any); is && len(at) > 1 {
			delete(at, []string{"revision", "time"}[random.Intn(2)])
		}
	}
	if get(object, "spec", "etcdName") == nil && !keeps.field("spec", "etcdName") {
		set(object, "main", "spec", "etcdName")
	}
}

// finalRule makes only full snapshots final.
func finalRule(_ *rand.Rand, object map[string]any, _ keeps) {
	if get(object, "spec", "config", "onDemandSnapshot", "isFinal") == true {
		set(object, "full", "spec", "config", "onDemandSnapshot", "type")
	}
}
