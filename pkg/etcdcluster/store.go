// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// storeFlags are the flags of the sidecar with the location of snapshots.
var storeFlags = []string{"--storage-provider=", "--store-prefix=", "--store-endpoint-override="}

const (
	// credentialsVolume is the volume with the credentials of the store.
	credentialsVolume = "etcd-backup-secret"
	// localVolume is the volume with the folder of a Local store.
	localVolume = "local-backup"
)

// storeVolumes are the volumes through which the sidecar reaches its store.
var storeVolumes = map[string]bool{credentialsVolume: true, localVolume: true}

// storelessFingerprint is the StoreFingerprint of a pod whose sidecar has no store.
var storelessFingerprint = StoreFingerprint(corev1.PodSpec{Containers: []corev1.Container{{Name: ContainerBackupRestore}}})

// StoreFingerprint is a short hash over the settings of the store in a pod's spec: flags, container, credentials. Two pods
// with the same fingerprint depend on the same store. Empty: no sidecar.
func StoreFingerprint(pod corev1.PodSpec) string {
	hash := sha256.New()
	found := false
	for _, container := range pod.Containers {
		if container.Name != ContainerBackupRestore {
			continue
		}
		found = true
		for _, arg := range container.Args {
			for _, flag := range storeFlags {
				if strings.HasPrefix(arg, flag) {
					_, _ = fmt.Fprintln(hash, arg)
				}
			}
		}
		for _, env := range container.Env {
			if env.Name == "STORAGE_CONTAINER" || strings.HasPrefix(env.Name, "ECS_") {
				_, _ = fmt.Fprintln(hash, env.Name, env.Value, env.ValueFrom)
			}
		}
	}
	if !found {
		return ""
	}
	for _, volume := range pod.Volumes {
		if storeVolumes[volume.Name] {
			_, _ = fmt.Fprintln(hash, volume.Name, volume.Secret.String(), volume.HostPath.String())
		}
	}

	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// StoreSecretName is the name of the Secret with the credentials of the store that a pod's spec mounts. Empty: none.
func StoreSecretName(pod corev1.PodSpec) string {
	for _, volume := range pod.Volumes {
		if volume.Name == credentialsVolume && volume.Secret != nil {
			return volume.Secret.SecretName
		}
	}

	return ""
}

// LocalStoreFolder is the folder of the node that a pod's spec mounts as Local store. Empty: none.
func LocalStoreFolder(pod corev1.PodSpec) string {
	for _, volume := range pod.Volumes {
		if volume.Name == localVolume && volume.HostPath != nil {
			return volume.HostPath.Path
		}
	}

	return ""
}

// MountsOtherStoreSecret is true when a pod mounts another Secret with the credentials of the store than the StatefulSet names. The
// kubelet updates the content of a mounted Secret, but it never mounts another one.
func (o Observation) MountsOtherStoreSecret() bool {
	return o.StatefulSet.Exists && slices.ContainsFunc(o.Pods, func(pod Pod) bool { return pod.StoreSecret != o.StatefulSet.StoreSecret })
}

// IsElsewhere is true for a Lease of snapshots that are in another store than the current one. The sidecar does not report that: it does
// not write a Lease with a higher revision than that of its own snapshots.
func (o Observation) IsElsewhere(lease Lease) bool {
	return IsInOtherStore(lease, o.StoreLocation)
}

// IsInOtherStore is false if one of the locations is unknown.
func IsInOtherStore(lease Lease, location string) bool {
	return lease.Store != "" && location != "" && lease.Store != location
}

// AllUseStoreOf is true if there are pods, and all of them have the store of the StatefulSet: no member writes to another one.
func (o Observation) AllUseStoreOf(statefulSet StatefulSet) bool {
	for _, pod := range o.Pods {
		if pod.Store != statefulSet.Store {
			return false
		}
	}

	return len(o.Pods) > 0 && statefulSet.Exists && !statefulSet.Deleting
}
