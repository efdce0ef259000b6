// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
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
	pathToken        = "/var/run/secrets/kubernetes.io/serviceaccount" // #nosec G101 -- No credential.
	pathTmp          = "/tmp"
)

// home is the home directory of both containers, for the user that they run as.
func home(v Values) string {
	if v.Pod.RunAsRoot {
		return "/root"
	}

	return "/home/nonroot"
}

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
		volumes = append(volumes, tokenVolume())
	}

	return append(volumes,
		scratchVolume(volumeEtcdHome, "16Mi"), scratchVolume(volumeSidecarHome, "16Mi"), scratchVolume(volumeSidecarTmp, "64Mi"))
}

// storeMount is the volume of the store and its mount in the sidecar. Nil: it needs none.
func storeMount(v Values) *backupstore.Mount {
	if v.Store == nil {
		return nil
	}
	names := backupstore.VolumeNames{Credentials: backupstore.VolumeNameCredentials, Local: backupstore.VolumeNameLocal}

	return v.Store.Mount(backupstore.Primary, names, home(v))
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

// tokenVolume is what Kubernetes would mount into every container by itself.
func tokenVolume() corev1.Volume {
	return corev1.Volume{Name: volumeToken, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o640)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(43200))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}

// scratchVolume is a small directory beside the read-only root file system. It lies in memory: on disk it would keep
// cluster-autoscaler from draining the node.
func scratchVolume(name, limit string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium:    corev1.StorageMediumMemory,
		SizeLimit: new(resource.MustParse(limit)),
	}}}
}
