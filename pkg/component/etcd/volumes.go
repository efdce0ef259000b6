// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// Names of volumes.
const (
	volumeConfig       = "etcd-config-file"
	volumeClientCA     = "etcd-ca"
	volumeClientServer = "etcd-server-tls"
	volumeClientClient = "etcd-client-tls"
	volumePeerCA       = "etcd-peer-ca"
	volumePeerServer   = "etcd-peer-server-tls"
	volumeBackupCA     = "backup-restore-ca"
	volumeBackupServer = "backup-restore-server-tls"
	volumeToken        = "api-access"
	volumeEtcdHome     = "etcd-home"
	volumeSidecarHome  = "backup-restore-home"
	volumeSidecarTmp   = "backup-restore-tmp"
)

// Paths in the containers.
const (
	pathData         = "/var/etcd/data"
	pathEtcdData     = "/var/etcd/data/new.etcd"
	pathRestoration  = "/var/etcd/data/restoration.temp"
	pathConfig       = "/var/etcd/config"
	pathClientCA     = "/var/etcd/ssl/ca"
	pathClientServer = "/var/etcd/ssl/server"
	pathClientClient = "/var/etcd/ssl/client"
	pathPeerCA       = "/var/etcd/ssl/peer/ca"
	pathPeerServer   = "/var/etcd/ssl/peer/server"
	pathBackupCA     = "/var/etcdbr/ssl/ca"
	pathBackupServer = "/var/etcdbr/ssl/server"
	pathTmp          = "/tmp"
)

// volumes are those of the pod, but for the claim.
func volumes(v Values) []corev1.Volume {
	volumes := []corev1.Volume{configVolume(v.Names.ConfigMap)}
	if v.ClientTLS != nil {
		volumes = append(volumes,
			secretVolume(volumeClientCA, v.ClientTLS.CASecretName),
			secretVolume(volumeClientServer, v.ClientTLS.ServerSecretName),
			secretVolume(volumeClientClient, v.ClientTLS.ClientSecretName),
		)
	}
	if v.PeerTLS != nil {
		volumes = append(volumes,
			secretVolume(volumePeerCA, v.PeerTLS.CASecretName),
			secretVolume(volumePeerServer, v.PeerTLS.ServerSecretName),
		)
	}
	if v.BackupTLS != nil {
		volumes = append(volumes,
			secretVolume(volumeBackupCA, v.BackupTLS.CASecretName),
			secretVolume(volumeBackupServer, v.BackupTLS.ServerSecretName),
		)
	}
	if mount := storeMount(v); mount != nil {
		volumes = append(volumes, mount.Volume)
	}
	if v.Components.Network {
		volumes = append(volumes, podspec.TokenVolume(volumeToken))
	}

	return append(volumes,
		podspec.ScratchVolume(volumeEtcdHome, "16Mi"), podspec.ScratchVolume(volumeSidecarHome, "16Mi"), podspec.ScratchVolume(volumeSidecarTmp, "64Mi"))
}

// storeMount is the volume of the store and its mount in the sidecar. Nil: it needs none.
func storeMount(v Values) *backupstore.Mount {
	if v.Store == nil {
		return nil
	}
	names := backupstore.VolumeNames{Credentials: backupstore.VolumeNameCredentials, Local: backupstore.VolumeNameLocal}

	return v.Store.Mount(backupstore.Primary, names, podspec.Home(v.Pod.RunAsRoot))
}

func configVolume(configMapName string) corev1.Volume {
	return corev1.Volume{Name: volumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMapName},
		Items:                []corev1.KeyToPath{{Key: configFileName, Path: configFileName}},
		DefaultMode:          new(int32(0o640)),
	}}}
}

func secretVolume(name, secretName string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName:  secretName,
		DefaultMode: new(int32(0o640)),
	}}}
}
