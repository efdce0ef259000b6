// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PersistentVolume is the volume of the claim of a member that is not healthy, or a volume that the operator retains.
type PersistentVolume struct {
	// Name of the volume; set also when it does not exist.
	Name string
	// Exists is false when there is no such volume. All other fields except Name are zero then.
	Exists bool
	// UID of the volume.
	UID types.UID
	// ClaimUID is the UID of the claim that it is bound to, or was bound to. Empty: none.
	ClaimUID types.UID
	// ReclaimPolicy is what happens to it when its claim is deleted.
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	// Dynamic is true if a dynamic provisioner has created it. Another volume for the next claim does not depend on its deletion then.
	Dynamic bool
	// RetainedFor is the UID of the Etcd for which the operator retains it. Empty: the operator does not retain it.
	RetainedFor types.UID
}

// Volume returns the volume with the name. Nil: it was not observed.
func (o Observation) Volume(name string) *PersistentVolume {
	for i := range o.Volumes {
		if o.Volumes[i].Name == name {
			return &o.Volumes[i]
		}
	}

	return nil
}
