// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const (
	// redacted replaces what is not shown.
	redacted = "REDACTED"
	// shortestValue and shortestLine are the lengths from which a value of a Secret, and a line of it, are replaced. Shorter ones, for
	// example "true", also occur in texts that are not secret.
	shortestValue = 8
	shortestLine  = 16
)

// Redactor removes the data of Secrets from texts.
type Redactor struct {
	replacer *strings.Replacer
}

// NewRedactor returns a Redactor for the data of the Secrets. It replaces each value, with and without the space around it, and each of
// its lines. If a value is JSON or YAML, it also replaces each string in it, such as the private key of a service account. It also replaces
// their encodings in base64, JSON and URLs.
func NewRedactor(secrets []corev1.Secret) *Redactor {
	var values []string
	add := func(value string, shortest int) {
		escaped, _ := json.Marshal(value) // a string never fails
		for _, form := range []string{
			value, base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)),
			strings.Trim(string(escaped), `"`), url.QueryEscape(value), url.PathEscape(value),
		} {
			if len(value) >= shortest {
				values = append(values, form)
			}
		}
	}
	addLines := func(text string) {
		add(text, shortestValue)
		add(strings.TrimSpace(text), shortestValue)
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
				add(line, shortestLine)
			}
		}
	}
	for _, secret := range secrets {
		for _, data := range secret.Data {
			addLines(string(data))
			for _, nested := range stringsIn(data) {
				addLines(nested)
			}
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(values))
	for _, value := range slices.Compact(values) {
		pairs = append(pairs, value, redacted)
	}

	return &Redactor{replacer: strings.NewReplacer(pairs...)}
}

// stringsIn returns the strings in a value that is JSON or YAML, without the keys. Nil: it is a scalar, or neither of the two.
func stringsIn(data []byte) []string {
	var decoded any
	if err := yaml.Unmarshal(data, &decoded); err != nil {
		return nil
	}
	var found []string
	var visit func(value any)
	visit = func(value any) {
		switch value := value.(type) {
		case string:
			found = append(found, value)
		case []any:
			for _, nested := range value {
				visit(nested)
			}
		case map[string]any:
			for _, nested := range value {
				visit(nested)
			}
		}
	}
	if _, isScalar := decoded.(string); !isScalar {
		visit(decoded)
	}

	return found
}

// Redact returns the text without the data.
func (r *Redactor) Redact(text []byte) []byte { return []byte(r.replacer.Replace(string(text))) }

// Manifest returns an object as YAML without the data. It replaces the data before the encoding, which may split long values into lines.
func (r *Redactor) Manifest(object client.Object) ([]byte, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var decoded any
	if err := json.Unmarshal(encoded, &decoded); err != nil {
		return nil, err
	}

	return yaml.Marshal(r.redactAll(decoded))
}

// redactAll replaces the data in all keys and values of decoded JSON.
func (r *Redactor) redactAll(value any) any {
	switch value := value.(type) {
	case string:
		return r.replacer.Replace(value)
	case []any:
		for i := range value {
			value[i] = r.redactAll(value[i])
		}
	case map[string]any:
		redactedMap := make(map[string]any, len(value))
		for key, nested := range value {
			redactedMap[r.replacer.Replace(key)] = r.redactAll(nested)
		}

		return redactedMap
	}

	return value
}

// Clean removes what a support bundle does not need from an object: managed fields and the last applied manifest. It replaces the values
// of environment variables, which may contain credentials.
func Clean(object client.Object) {
	object.SetManagedFields(nil)
	annotations := object.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	object.SetAnnotations(annotations)
	if spec := podSpecOf(object); spec != nil {
		for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
			for i := range containers {
				for j := range containers[i].Env {
					if containers[i].Env[j].Value != "" {
						containers[i].Env[j].Value = redacted
					}
				}
			}
		}
	}
}

// podSpecOf returns the spec of the pods of an object, or nil.
func podSpecOf(object client.Object) *corev1.PodSpec {
	switch object := object.(type) {
	case *corev1.Pod:
		return &object.Spec
	case *appsv1.StatefulSet:
		return &object.Spec.Template.Spec
	case *batchv1.Job:
		return &object.Spec.Template.Spec
	default:
		return nil
	}
}
