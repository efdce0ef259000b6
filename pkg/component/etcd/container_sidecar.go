// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// sidecarContainer runs etcd-backup-restore. It has no probes: etcd serves without it, and its health endpoint says yes on
// the leader alone.
func sidecarContainer(v Values) corev1.Container {
	return corev1.Container{
		Name:            "backup-restore",
		Image:           v.Sidecar.Image,
		ImagePullPolicy: v.Pod.ImagePullPolicy,
		Args:            sidecarArgs(v),
		Env:             sidecarEnvironment(v),
		Ports:           []corev1.ContainerPort{{Name: "server", ContainerPort: v.Ports.Backup, Protocol: corev1.ProtocolTCP}},
		Resources:       v.Sidecar.Resources,
		SecurityContext: containerSecurityContext(v),
		VolumeMounts:    sidecarMounts(v),
	}
}

// sidecarEnvironment names the member: the sidecar takes its ordinal or address from POD_NAME.
func sidecarEnvironment(v Values) []corev1.EnvVar {
	var environment []corev1.EnvVar
	if v.MembersByAddress {
		environment = append(environment,
			fieldVariable("POD_IP", "status.podIP"), corev1.EnvVar{Name: "POD_NAME", Value: v.Name + "-$(POD_IP)"})
	} else {
		environment = append(environment, fieldVariable("POD_NAME", "metadata.name"))
	}
	environment = append(environment, fieldVariable("POD_NAMESPACE", "metadata.namespace"))
	if v.Store != nil {
		environment = append(environment, v.Store.Environment(backupstore.Primary)...)
	}

	return append(environment, corev1.EnvVar{Name: "HOME", Value: home(v)})
}

func fieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}

func sidecarMounts(v Values) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: v.Claim.Name, MountPath: pathData},
		{Name: volumeConfig, MountPath: pathConfig},
	}
	if v.ClientTLS != nil {
		mounts = append(mounts,
			corev1.VolumeMount{Name: volumeClientCA, MountPath: pathClientCA},
			corev1.VolumeMount{Name: volumeClientClient, MountPath: pathClientClient},
		)
	}
	if v.BackupTLS != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeBackupServer, MountPath: pathBackupServer})
	}
	mounts = append(mounts, corev1.VolumeMount{Name: volumeSidecarHome, MountPath: home(v)})
	if mount := storeMount(v); mount != nil {
		mounts = append(mounts, mount.VolumeMount)
	}
	if v.Components.Network {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeToken, MountPath: pathToken, ReadOnly: true})
	}

	return append(mounts, corev1.VolumeMount{Name: volumeSidecarTmp, MountPath: pathTmp})
}
