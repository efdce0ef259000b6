// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"path"

	corev1 "k8s.io/api/core/v1"
)

// Side says which of its stores a process reaches.
type Side int

const (
	// Primary is the store that snapshots are written to.
	Primary Side = iota
	// Source is the store that snapshots are copied from.
	Source
)

// environmentPrefix goes before the names of environment variables.
func (s Side) environmentPrefix() string {
	if s == Source {
		return "SOURCE_"
	}

	return ""
}

// flagPrefix goes before the names of flags.
func (s Side) flagPrefix() string {
	if s == Source {
		return "source-"
	}

	return ""
}

// Flags are the flags that name the store, but for its container: provider, prefix, endpoint. Sidecars of v0.33 do not know
// the flag of the endpoint and would exit, so it is only there when it says something.
func (s Store) Flags(side Side) []string {
	prefix := "--" + side.flagPrefix()
	flags := []string{
		prefix + "storage-provider=" + string(s.Provider),
		prefix + "store-prefix=" + s.Prefix,
	}
	if s.EndpointOverride != "" {
		flags = append(flags, prefix+"store-endpoint-override="+s.EndpointOverride)
	}

	return flags
}

// ContainerFlag is the flag that names the container. The server takes it from the environment instead.
func (s Store) ContainerFlag(side Side) string {
	return "--" + side.flagPrefix() + "store-container=" + s.Container
}

// Environment are the variables that name the container and the credentials. Without a Secret there are none for
// credentials: the client of the provider then looks for the identity of the pod.
func (s Store) Environment(side Side) []corev1.EnvVar {
	environment := []corev1.EnvVar{{Name: side.environmentPrefix() + "STORAGE_CONTAINER", Value: s.Container}}
	if s.SecretName == "" {
		return environment
	}

	traits := s.Provider.traits()
	for _, from := range traits.keys {
		environment = append(environment, corev1.EnvVar{
			Name: from.variable,
			ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: s.SecretName},
				Key:                  from.key,
			}},
		})
	}
	if traits.credentials != "" {
		environment = append(environment, corev1.EnvVar{
			Name:  side.environmentPrefix() + traits.credentials,
			Value: path.Join(s.credentialsDirectory(side), traits.credentialsFile),
		})
	}

	return environment
}

// credentialsDirectory is where the Secret is mounted.
func (s Store) credentialsDirectory(side Side) string {
	source := ""
	if side == Source {
		source = "source-"
	}
	if s.Provider == ProviderGCS {
		return "/var/." + source + "gcp"
	}

	return "/var/" + source + "etcd-backup"
}
