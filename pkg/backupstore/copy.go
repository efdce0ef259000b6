// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Copy describes how a container copies snapshots from one store to another.
type Copy struct {
	// Source is read, Target is written.
	Source, Target Store
	// Home is the home directory of the container.
	Home string
}

// sourceDirectory is the parent directory, relative to the home directory, of a Local source whose container has the same name
// as that of the target.
const sourceDirectory = "source"

// Names of the volumes of a container that copies.
var (
	sourceVolumes = VolumeNames{Credentials: "source-etcd-backup-secret", Local: "source-host-storage"}
	targetVolumes = VolumeNames{Credentials: VolumeNameCredentials, Local: "host-storage"}
)

// Validate returns an error for each combination that etcd-backup-restore does not support. The errors are for the fields
// below source and target.
func (c Copy) Validate(source, target *field.Path) field.ErrorList {
	var errs field.ErrorList

	if c.Source.Provider == ProviderGCS && c.Source.SecretName == "" {
		errs = append(errs, field.Required(source.Child("secretRef"), "set a Secret: snapshots are copied from GCS with credentials of their own only, never with the identity of the pod"))
	}
	if c.Source.Provider == ProviderECS && c.Target.Provider == ProviderECS && c.Source.SecretName != c.Target.SecretName {
		errs = append(errs, field.Invalid(source.Child("secretRef", "name"), c.Source.SecretName, "both stores are of the provider ECS, for which there is one set of credentials: name the same Secret as in "+target.Child("secretRef", "name").String()))
	}
	if c.Source.isSameLocation(c.Target) {
		errs = append(errs, field.Invalid(target, c.Target.Container+"/"+c.Target.Prefix, "is the source itself: there is nothing to copy"))
	}

	return errs
}

func (s Store) isSameLocation(other Store) bool {
	return s.Provider == other.Provider && s.Container == other.Container && s.Prefix == other.Prefix &&
		s.EndpointOverride == other.EndpointOverride && s.SecretName == other.SecretName && s.hostPath() == other.hostPath()
}

// Flags are the flags for both stores.
func (c Copy) Flags() []string {
	source := c.mountedSource()

	return slices.Concat(
		c.Target.Flags(Primary), []string{c.Target.ContainerFlag(Primary)},
		source.Flags(Source), []string{source.ContainerFlag(Source)},
	)
}

// Environment are the variables for both containers and their credentials, each once.
func (c Copy) Environment() []corev1.EnvVar {
	var environment []corev1.EnvVar
	for _, variable := range slices.Concat(c.Target.Environment(Primary), c.mountedSource().Environment(Source)) {
		if !slices.ContainsFunc(environment, func(other corev1.EnvVar) bool { return other.Name == variable.Name }) {
			environment = append(environment, variable)
		}
	}

	return environment
}

// Mounts are the volumes of both stores, and where the container mounts them.
func (c Copy) Mounts() []Mount {
	var mounts []Mount
	target := c.Target.Mount(Primary, targetVolumes, c.Home)
	if target != nil {
		mounts = append(mounts, *target)
	}
	if c.sharesDirectory() {
		return mounts
	}
	source := c.Source.Mount(Source, sourceVolumes, c.Home)
	if source == nil {
		return mounts
	}
	if c.Source.Provider == ProviderLocal {
		source.VolumeMount.MountPath = path.Join(c.Home, c.mountedSource().Container)
	}

	return append(mounts, *source)
}

// TargetDirectory is the directory of a Local target in the container. Empty for other providers.
func (c Copy) TargetDirectory() string {
	if c.Target.Provider != ProviderLocal {
		return ""
	}

	return path.Join(c.Home, c.Target.Container)
}

// sharesDirectory is true if both stores are in the same directory of the node.
func (c Copy) sharesDirectory() bool {
	return c.Source.Provider == ProviderLocal && c.Target.Provider == ProviderLocal &&
		c.Source.Container == c.Target.Container && c.Source.hostPath() == c.Target.hostPath()
}

// mountedSource is the source with its container as mounted. If two Local stores have containers of the same name, that of the
// source is in sourceDirectory.
func (c Copy) mountedSource() Store {
	source := c.Source
	if source.Provider == ProviderLocal && c.Target.Provider == ProviderLocal && source.Container == c.Target.Container && !c.sharesDirectory() {
		source.Container = path.Join(sourceDirectory, source.Container)
	}

	return source
}
