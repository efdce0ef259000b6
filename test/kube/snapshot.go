// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// nondeterministic are the values that differ between two runs with the same result: UIDs, times, addresses, and names that
// contain them.
var nondeterministic = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`"10\.\d+\.\d+\.\d+"`), `"<address>"`},
	{regexp.MustCompile(`[0-9a-f]{64}`), "<checksum>"},
	{regexp.MustCompile(`reference\.resources\.gardener\.cloud/(secret|configmap)-[0-9a-f]{8}`), "<reference>"},
	{regexp.MustCompile(`managedresource-druid-main-[0-9a-f]{8}`), "<payload>"},
	{regexp.MustCompile(`initial-cluster-token: [^\\]+`), "<token>"},
	{regexp.MustCompile(`"a[0-9a-f]{3}:Member"`), `"<id>:Member"`},
	{regexp.MustCompile(`(Full-\d{8}-\d{8})-\d+\.gz`), "$1-<time>.gz"},
}

// ignoredFields are the fields that do not belong to the result of a run.
var ignoredFields = [][]string{
	{"metadata", "resourceVersion"}, {"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"}, {"metadata", "managedFields"},
	{"metadata", "deletionGracePeriodSeconds"}, {"status", "lastOperation", "runID"},
}

// certificateLabels are the labels of issued Secrets that contain times and checksums.
var certificateLabels = []string{"checksum-of-config", "checksum-of-signing-ca", "issued-at-time", "valid-until-time", "last-rotation-initiation-time"}

// Snapshot returns the state of all objects, members and the store without nondeterministic values. Each object is one line.
func (k *Cluster) Snapshot() []string {
	var objects []client.Object
	for _, kind := range k.api.objects {
		for _, obj := range kind {
			objects = append(objects, obj)
		}
	}
	lines := SnapshotOf(k.api.scheme, objects)
	for _, member := range k.etcd.Members() {
		lines = append(lines, fmt.Sprintf("member %s learner=%t %v", member.Name, member.Learner, member.PeerURLs))
	}
	lines = append(lines, fmt.Sprintf("cluster %x revision=%d", k.etcd.ID, k.etcd.Revision()))
	if full, _ := k.store.latest(); full != nil {
		lines = append(lines, fmt.Sprintf("store revision=%d", full.LastRevision))
	}
	return lines
}

// SnapshotOf returns the objects of one namespace without nondeterministic values. Each object is one line. The lines are sorted.
func SnapshotOf(scheme *runtime.Scheme, objects []client.Object) []string {
	names := generatedNames(objects)
	var lines []string
	for _, obj := range objects {
		if isGarbage(obj, objects) {
			continue
		}
		kind, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			panic(err)
		}
		line := names.Replace(fmt.Sprintf("%s %s", kind.Kind, encodeNormalized(kind.Kind, obj)))
		for _, accident := range nondeterministic {
			line = accident.pattern.ReplaceAllString(line, accident.name)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// generatedNames returns a replacer for the generated names of namespaces, issued Secrets and revisions.
func generatedNames(objects []client.Object) *strings.Replacer {
	names := map[string]string{}
	for _, obj := range objects {
		switch obj := obj.(type) {
		case *resourcesv1alpha1.ManagedResource:
			names[obj.Namespace] = "<namespace>"
		case *corev1.Secret:
			if config := obj.Labels["name"]; config != "" {
				names[obj.Name] = "<" + config + ">"
			}
		case *appsv1.StatefulSet:
			names[obj.Status.UpdateRevision] = "<newest>"
		}
	}
	delete(names, "")
	// A name may be a prefix of another name.
	longestFirst := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, name := range longestFirst {
		pairs = append(pairs, name, names[name])
	}
	return strings.NewReplacer(pairs...)
}

// isGarbage returns true for a payload Secret that no ManagedResource references. gardener-resource-manager deletes it later.
func isGarbage(obj client.Object, objects []client.Object) bool {
	if !strings.HasPrefix(obj.GetName(), "managedresource-") {
		return false
	}
	for _, other := range objects {
		mr, is := other.(*resourcesv1alpha1.ManagedResource)
		if is && slices.ContainsFunc(mr.Spec.SecretRefs, func(r corev1.LocalObjectReference) bool { return r.Name == obj.GetName() }) {
			return false
		}
	}
	return true
}

func encodeNormalized(kind string, obj client.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	for _, path := range ignoredFields {
		unstructured.RemoveNestedField(content, path...)
	}
	if kind == "Secret" {
		unstructured.RemoveNestedField(content, "data")
	}
	// The annotation contains the times of past repairs. Their number depends on when the operator was killed.
	unstructured.RemoveNestedField(content, "metadata", "annotations", druidv1alpha1.ManagedResourceAnnotationRepairs)
	if kind != "Etcd" {
		unstructured.RemoveNestedField(content, "status", "observedGeneration")
	}
	for _, label := range certificateLabels {
		unstructured.RemoveNestedField(content, "metadata", "labels", label)
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// Differences returns the lines that only one of two snapshots contains. It returns nil if the snapshots are equal.
func Differences(want, got []string) []string {
	var differences []string
	for _, line := range want {
		if !slices.Contains(got, line) {
			differences = append(differences, "  - "+line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			differences = append(differences, "  + "+line)
		}
	}
	return differences
}

// Claims returns the UIDs of the PersistentVolumeClaims by name.
func (k *Cluster) Claims() map[string]string {
	claims := map[string]string{}
	for _, claim := range listOf[*corev1.PersistentVolumeClaim](k) {
		claims[claim.Name] = string(claim.UID)
	}
	return claims
}
