// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"path"

	corev1 "k8s.io/api/core/v1"
)

// Names of the volumes of the primary store in an etcd pod.
const (
	// VolumeNameCredentials is the volume with the credentials.
	VolumeNameCredentials = "etcd-backup-secret" // #nosec G101 -- No credential.
	// VolumeNameLocal is the volume with the snapshots of a Local store.
	VolumeNameLocal = "local-backup"
)

// VolumeNames are the names of the volumes that a store may need.
type VolumeNames struct {
	// Credentials is the name of the volume with the credentials.
	Credentials string
	// Local is the name of the volume with the snapshots of a Local store.
	Local string
}

// Mount is a volume and where a container mounts it.
type Mount struct {
	// Volume is the volume of the pod.
	Volume corev1.Volume
	// VolumeMount is the mount of the container.
	VolumeMount corev1.VolumeMount
}

// Mount returns the volume that a container needs to reach the store. Nil: it needs none, because there is no Secret, or
// because the credentials of ECS are in the environment. home is the home directory of the container, in which the sidecar
// reads the snapshots of a Local store.
func (s Store) Mount(side Side, names VolumeNames, home string) *Mount {
	if s.Provider == ProviderLocal {
		return &Mount{
			Volume: corev1.Volume{Name: names.Local, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: path.Join(s.hostPath(), s.Container),
				Type: new(corev1.HostPathDirectoryOrCreate),
			}}},
			VolumeMount: corev1.VolumeMount{Name: names.Local, MountPath: path.Join(home, s.Container)},
		}
	}
	if s.SecretName == "" || s.Provider.traits().credentials == "" {
		return nil
	}

	return &Mount{
		Volume: corev1.Volume{Name: names.Credentials, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  s.SecretName,
			DefaultMode: new(int32(0o640)),
		}}},
		VolumeMount: corev1.VolumeMount{Name: names.Credentials, MountPath: s.credentialsDirectory(side)},
	}
}

func (s Store) hostPath() string {
	if s.HostPath == "" {
		return DefaultHostPath
	}

	return s.HostPath
}
