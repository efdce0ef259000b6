// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// peerService provides the host name of each pod. Members must resolve each other before they are ready. While the client Service may not select all pods,
// gardener-resource-manager derives NetworkPolicies from this Service that allow the same connections to the other pods.
func peerService(v Values, client *corev1.Service) (*corev1.Service, error) {
	service := v.service(v.Names.PeerService, druidv1alpha1.ComponentNamePeerService, servicePort("peer", v.Ports.Peer))
	service.Spec.ClusterIP = corev1.ClusterIPNone
	service.Spec.PublishNotReadyAddresses = true
	if v.Remaining == 0 && v.ServiceMember == nil && !v.ExcludesPods {
		return service, nil
	}

	var err error
	service.Annotations, err = connectionsOf(client)

	return service, err
}

// connectionsOf returns the annotations with which gardener-resource-manager derives NetworkPolicies as from a Service. They allow connections from all pods
// with the labels for the ports of that Service: from other members, from the operator, and from clients. Keys that are too long for an annotation are left
// out. Names of Etcds in a seed are short enough.
func connectionsOf(service *corev1.Service) (map[string]string, error) {
	annotations := map[string]string{}
	for _, key := range []string{resourcesv1alpha1.NetworkingNamespaceSelectors, resourcesv1alpha1.NetworkingPodLabelSelectorNamespaceAlias} {
		if value, is := service.Annotations[key]; is {
			annotations[key] = value
		}
	}
	for _, port := range service.Spec.Ports {
		key := fmt.Sprintf("%s%s-tcp-%s%s", resourcesv1alpha1.NetworkPolicyFromPolicyAnnotationPrefix, service.Name, port.TargetPort.String(), resourcesv1alpha1.NetworkPolicyFromPolicyAnnotationSuffix)
		if len(validation.IsQualifiedName(key)) > 0 {
			continue
		}
		allowed, err := json.Marshal([]networkingv1.NetworkPolicyPort{{Protocol: &port.Protocol, Port: &port.TargetPort}})
		if err != nil {
			return nil, fmt.Errorf("encoding port %s of Service %s: %w", port.Name, service.Name, err)
		}
		annotations[key] = string(allowed)
	}

	return annotations, nil
}
