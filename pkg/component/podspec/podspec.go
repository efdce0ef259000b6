// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package podspec contains the common parts of the pods of members and of Jobs: users, security contexts, the service account
// token, and temporary directories.
//
// What may not live here: parts that only one kind of pod has, and clients.
package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// nonRootID is the ID of the user and the group of the containers, as in the images.
const nonRootID int64 = 65532

// NonRootOwner is that user and group in the format of chown.
const NonRootOwner = "65532:65532"

// TokenPath is the directory from which clients of the API server read the service account token.
const TokenPath = "/var/run/secrets/kubernetes.io/serviceaccount" // #nosec G101 -- No credential.

// SecurityContext is that of a pod: restricted, but for the user where the containers run as root.
func SecurityContext(root bool) *corev1.PodSecurityContext {
	id := nonRootID
	if root {
		id = 0
	}

	return &corev1.PodSecurityContext{
		RunAsNonRoot:        new(!root),
		RunAsUser:           new(id),
		RunAsGroup:          new(id),
		FSGroup:             new(id),
		FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// ContainerSecurityContext is the security context of a container. As root it gets the capabilities to use data of other users
// and to change its mode. Such data exists if the container did not run as root before.
func ContainerSecurityContext(root bool) *corev1.SecurityContext {
	if root {
		return WithCapabilities("DAC_OVERRIDE", "FOWNER")
	}

	return WithCapabilities()
}

// WithCapabilities is the security context of a container that has only these capabilities.
func WithCapabilities(capabilities ...corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
	}
}

// Home is the home directory of the containers, in which etcd-backup-restore reads the snapshots of a Local store.
func Home(root bool) string {
	if root {
		return "/root"
	}

	return "/home/nonroot"
}

// TokenVolume is a volume with a token of the service account of the pod. It also has the other data that a client of the
// API server needs.
func TokenVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
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

// ScratchVolume is a small writable directory, since the root file system is read-only. It is in memory: a directory on disk
// would prevent cluster-autoscaler from draining the node.
func ScratchVolume(name, limit string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium:    corev1.StorageMediumMemory,
		SizeLimit: new(resource.MustParse(limit)),
	}}}
}

// FieldVariable is an environment variable whose value is a field of the pod.
func FieldVariable(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}
