// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// initContainers prepare the folder of a Local store, since Kubernetes does not change the owner of a folder on the node.
// Members that run as root need no other owner.
func initContainers(v Values) []corev1.Container {
	if v.Store == nil || v.Store.Provider != backupstore.ProviderLocal {
		return nil
	}
	folder := podspec.LocalFolder{Mount: storeMount(v).VolumeMount, Name: v.Store.Container, ChangeOwner: !v.Pod.RunAsRoot}

	return []corev1.Container{podspec.LocalStoreContainer(v.Pod.InitImage, v.Pod.ImagePullPolicy, folder)}
}
