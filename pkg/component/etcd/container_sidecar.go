// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// sidecarContainer runs etcd-backup-restore. It has no probes: etcd does not depend on it while it runs, and its health
// endpoint succeeds only on the leader.
func sidecarContainer(v Values) corev1.Container {
	return corev1.Container{
		Name:            "backup-restore",
		Image:           v.Sidecar.Image,
		ImagePullPolicy: v.Pod.ImagePullPolicy,
		Args:            sidecarArgs(v),
		Env:             sidecarEnvironment(v),
		Ports:           []corev1.ContainerPort{{Name: portBackup, ContainerPort: v.Ports.Backup, Protocol: corev1.ProtocolTCP}},
		Resources:       v.Sidecar.Resources,
		SecurityContext: podspec.ContainerSecurityContext(v.Pod.RunAsRoot),
		VolumeMounts:    sidecarMounts(v),
	}
}

const (
	// variablePodUID is the environment variable of the sidecar with the UID of its pod.
	variablePodUID = "POD_UID"
	// variablePodName is the environment variable of the sidecar with the name of its pod.
	variablePodName = "POD_NAME"
)

// sidecarEnvironment names the member: the sidecar takes its ordinal or address from POD_NAME.
func sidecarEnvironment(v Values) []corev1.EnvVar {
	var environment []corev1.EnvVar
	if v.MembersByAddress {
		environment = append(environment,
			podspec.FieldVariable("POD_IP", "status.podIP"), corev1.EnvVar{Name: variablePodName, Value: v.Name + "-$(POD_IP)"})
	} else {
		environment = append(environment, podspec.FieldVariable(variablePodName, "metadata.name"))
	}
	environment = append(environment, podspec.FieldVariable("POD_NAMESPACE", "metadata.namespace"))
	if len(restoreArgs(v)) > 0 {
		environment = append(environment, podspec.FieldVariable(variablePodUID, "metadata.uid"))
	}
	if v.Store != nil {
		environment = append(environment, v.Store.Environment(backupstore.Primary)...)
	}

	return append(environment, corev1.EnvVar{Name: "HOME", Value: podspec.Home(v.Pod.RunAsRoot)})
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
	mounts = append(mounts, corev1.VolumeMount{Name: volumeSidecarHome, MountPath: podspec.Home(v.Pod.RunAsRoot)})
	if mount := storeMount(v); mount != nil {
		mounts = append(mounts, mount.VolumeMount)
	}
	if v.Components.Network {
		mounts = append(mounts, corev1.VolumeMount{Name: volumeToken, MountPath: podspec.TokenPath, ReadOnly: true})
	}

	return append(mounts, corev1.VolumeMount{Name: volumeSidecarTmp, MountPath: pathTmp})
}
