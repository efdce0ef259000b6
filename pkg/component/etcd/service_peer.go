// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// peerService provides the host name of each pod. Members must resolve each other before they are ready.
func peerService(v Values) *corev1.Service {
	service := v.service(v.Names.PeerService, druidv1alpha1.ComponentNamePeerService, servicePort("peer", v.Ports.Peer))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	service.Spec.PublishNotReadyAddresses = true

	return service
}
