// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Literal escapes all commands, arguments and variables of a pod, in which the kubelet expands $(VAR). Texts of a spec or a Secret
// therefore reach the processes unchanged. references are the names of the flags and variables in which the kubelet must expand
// variables. They must not contain texts of a spec.
func Literal(pod corev1.PodSpec, references ...string) corev1.PodSpec {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			container := &containers[i]
			container.Command = literals(container.Command, references)
			container.Args = literals(container.Args, references)
			container.Env = slices.Clone(container.Env)
			for j := range container.Env {
				if variable := &container.Env[j]; !slices.Contains(references, variable.Name) {
					variable.Value = literal(variable.Value)
				}
			}
		}
	}

	return pod
}

func literals(texts, references []string) []string {
	escaped := slices.Clone(texts)
	for i, text := range escaped {
		if flag, _, _ := strings.Cut(text, "="); !slices.Contains(references, flag) {
			escaped[i] = literal(text)
		}
	}

	return escaped
}

// literal is a text from which the kubelet makes the given one: it replaces $$ by $.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }
