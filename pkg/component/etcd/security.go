// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import corev1 "k8s.io/api/core/v1"

// nonRootID is the user and group of all containers that do not run as root.
const nonRootID int64 = 65532

// podSecurityContext meets the pod security standard `restricted`, but for root.
func podSecurityContext(root bool) *corev1.PodSecurityContext {
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

// securityContext meets the pod security standard `restricted`, but for the capabilities that are added.
func securityContext(capabilities ...corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false),
		ReadOnlyRootFilesystem:   new(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
	}
}

// containerSecurityContext is that of etcd and of the sidecar. As root they need what root is without capabilities not
// allowed to: to use, and to change the mode of, data that was written while they did not run as root.
func containerSecurityContext(v Values) *corev1.SecurityContext {
	if v.Pod.RunAsRoot {
		return securityContext("DAC_OVERRIDE", "FOWNER")
	}

	return securityContext()
}
