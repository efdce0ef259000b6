// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// podTemplate is the pod of a member. No container gets a token automatically: the sidecar mounts the token that it needs. The containers share no process
// namespace. Otherwise, each process of etcd could read the token and the credentials of the store in the file system of the sidecar.
func podTemplate(v Values, configChecksum string) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      merge(v.Pod.Labels, v.objectLabels(v.Name, druidv1alpha1.ComponentNameStatefulSet)),
			Annotations: merge(v.Pod.Annotations, map[string]string{AnnotationChecksum: configChecksum}),
		},
		Spec: corev1.PodSpec{
			HostAliases:                  []corev1.HostAlias{{IP: loopback(v.IPFamilies), Hostnames: []string{v.Names.LocalHost}}},
			AutomountServiceAccountToken: new(false),
			SecurityContext:              podspec.SecurityContext(v.Pod.RunAsRoot),
			PriorityClassName:            v.Pod.PriorityClassName,
			Affinity:                     v.Pod.Affinity,
			TopologySpreadConstraints:    v.Pod.TopologySpreadConstraints,
			Tolerations:                  v.Pod.Tolerations,
			InitContainers:               initContainers(v),
			Containers:                   []corev1.Container{etcdContainer(v), sidecarContainer(v)},
			Volumes:                      volumes(v),
		},
	}
	if v.Components.Network {
		template.Spec.ServiceAccountName = v.Name
	}
	template.Spec = podspec.Literal(template.Spec, variablePodName, flagOfPodUID)

	return template
}
