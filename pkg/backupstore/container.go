// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"path"

	corev1 "k8s.io/api/core/v1"
)

// Side is the role of a store for a process.
type Side int

const (
	// Primary is the store to which snapshots are written.
	Primary Side = iota
	// Source is the store from which snapshots are copied.
	Source
)

// environmentPrefix is the prefix of the names of environment variables.
func (s Side) environmentPrefix() string {
	if s == Source {
		return "SOURCE_"
	}

	return ""
}

// flagPrefix is the prefix of the names of flags.
func (s Side) flagPrefix() string {
	if s == Source {
		return "source-"
	}

	return ""
}

// Flags are the flags for provider, prefix and endpoint of the store. The container has its own flag. The flag for the
// endpoint is omitted if there is no override, since sidecars of v0.33 exit on the unknown flag.
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

// ContainerFlag is the flag for the container. The sidecar of a member reads the container from the environment instead.
func (s Store) ContainerFlag(side Side) string {
	return "--" + side.flagPrefix() + "store-container=" + s.Container
}

// Environment are the variables for the container and the credentials. Without a Secret there are none for credentials: the
// client of the provider then uses the identity of the pod.
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

// credentialsDirectory is the directory at which the Secret is mounted.
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
