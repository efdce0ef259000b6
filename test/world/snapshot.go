// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accidents are what differs between two runs that come to the same: identities, times, addresses, and names made of them.
var accidents = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`00000000-0000-0000-0000-\d{12}`), "<uid>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`10\.0\.\d+\.\d+`), "<address>"},
	{regexp.MustCompile(`[0-9a-f]{64}`), "<checksum>"},
	{regexp.MustCompile(`reference\.resources\.gardener\.cloud/(secret|configmap)-[0-9a-f]{8}`), "<reference>"},
	{regexp.MustCompile(`managedresource-druid-main-[0-9a-f]{8}`), "<payload>"},
	{regexp.MustCompile(`"a[0-9a-f]{3}:Member"`), `"<id>:Member"`},
}

// dropped are the fields that say nothing about what a run came to.
var dropped = [][]string{
	{"metadata", "resourceVersion"}, {"metadata", "uid"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"}, {"metadata", "managedFields"},
	{"data"}, {"status", "lastOperation", "runID"},
}

// certificateLabels are labels of issued Secrets that hold times and checksums.
var certificateLabels = []string{"checksum-of-config", "checksum-of-signing-ca", "issued-at-time", "valid-until-time", "last-rotation-initiation-time"}

// Snapshot is everything in the world that a run came to, without accidents: a line for each object, sorted.
func (w *World) Snapshot() []string {
	names := w.accidentalNames()
	var lines []string
	for kind, objects := range w.api.objects {
		for _, obj := range objects {
			if w.isGarbage(obj) {
				continue
			}
			line := fmt.Sprintf("%s %s", kind.Kind, w.normal(obj))
			lines = append(lines, names.Replace(line))
		}
	}
	for _, member := range w.cluster.Members() {
		lines = append(lines, fmt.Sprintf("member %s learner=%t %v", member.Name, member.Learner, member.PeerURLs))
	}
	for i := range lines {
		for _, accident := range accidents {
			lines[i] = accident.pattern.ReplaceAllString(lines[i], accident.name)
		}
	}
	slices.Sort(lines)
	return lines
}

// accidentalNames are names of issued Secrets, and of revisions.
func (w *World) accidentalNames() *strings.Replacer {
	var pairs []string
	for _, secret := range every[*corev1.Secret](w) {
		if config := secret.Labels["name"]; config != "" {
			pairs = append(pairs, secret.Name, "<"+config+">")
		}
	}
	for _, statefulSet := range every[*appsv1.StatefulSet](w) {
		pairs = append(pairs, RevisionOf(statefulSet), "<newest>")
	}
	return strings.NewReplacer(pairs...)
}

// isGarbage is true for payloads that no ManagedResource names. The resource manager collects them in time.
func (w *World) isGarbage(obj client.Object) bool {
	if !strings.HasPrefix(obj.GetName(), "managedresource-") {
		return false
	}
	for _, mr := range every[*resourcesv1alpha1.ManagedResource](w) {
		for _, reference := range mr.Spec.SecretRefs {
			if reference.Name == obj.GetName() {
				return false
			}
		}
	}
	return true
}

func (w *World) normal(obj client.Object) string {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(err)
	}
	for _, path := range dropped {
		unstructured.RemoveNestedField(content, path...)
	}
	if obj.GetNamespace() != w.Etcd.Namespace || obj.GetName() != w.Etcd.Name || w.api.kindOf(obj).Kind != "Etcd" {
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

// Claims are the identities of the volume claims by name.
func (w *World) Claims() map[string]string {
	claims := map[string]string{}
	for _, claim := range every[*corev1.PersistentVolumeClaim](w) {
		claims[claim.Name] = string(claim.UID)
	}
	return claims
}
