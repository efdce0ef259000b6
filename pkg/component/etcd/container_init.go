// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// initContainers give the directory of a Local store to the user of the sidecar: Kubernetes does not change the owner of a
// directory of the node. Only root can.
func initContainers(v Values) []corev1.Container {
	if v.Store == nil || v.Store.Provider != backupstore.ProviderLocal || v.Pod.RunAsRoot {
		return nil
	}

	mount := storeMount(v).VolumeMount
	security := podspec.WithCapabilities("CHOWN", "DAC_OVERRIDE")
	security.RunAsNonRoot = new(false)
	security.RunAsUser = new(int64(0))
	security.RunAsGroup = new(int64(0))

	return []corev1.Container{{
		Name:            "change-backup-bucket-permissions",
		Image:           v.Pod.InitImage,
		ImagePullPolicy: v.Pod.ImagePullPolicy,
		Command:         []string{"chown", "-R", podspec.NonRootOwner, mount.MountPath},
		SecurityContext: security,
		VolumeMounts:    []corev1.VolumeMount{mount},
	}}
}
