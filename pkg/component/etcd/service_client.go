// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/json"
	"fmt"
	"strconv"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// clientService is the Service for clients. It contains only ready pods. Sidecars read the member list through it, and a
// sidecar deletes its data if its member is missing in a stale list. While members are removed, it contains only those that stay. While a member
// with wrong data or another volume is replaced, it contains only the others.
func clientService(v Values) (*corev1.Service, error) {
	service := v.service(v.Names.ClientService, druidv1alpha1.ComponentNameClientService,
		servicePort(portClient, v.Ports.Client),
		// The network policies of Gardener are derived from the ports of this Service. It therefore includes the peer port.
		servicePort(portPeer, v.Ports.Peer),
		servicePort(portBackup, v.Ports.Backup),
	)
	service.Labels = merge(v.ClientService.Labels, service.Labels)
	service.Annotations = merge(v.ClientService.Annotations)
	if v.Remaining > 0 {
		service.Spec.Selector = merge(service.Spec.Selector, map[string]string{druidv1alpha1.PodLabelAcceptsClients: strconv.Itoa(int(v.Remaining))})
	}
	if v.ServiceMember != nil {
		service.Spec.Selector = merge(service.Spec.Selector, map[string]string{appsv1.StatefulSetPodNameLabel: fmt.Sprintf("%s-%d", v.Name, *v.ServiceMember)})
	}
	if v.ExcludesPods {
		service.Spec.Selector = merge(service.Spec.Selector, map[string]string{druidv1alpha1.LabelAppNameKey: v.Name})
	}
	service.Spec.TrafficDistribution = v.ClientService.TrafficDistribution

	if selectors := v.ClientService.NamespaceSelectors; len(selectors) > 0 {
		encoded, err := json.Marshal(selectors)
		if err != nil {
			return nil, fmt.Errorf("encoding the namespace selectors of Service %s: %w", service.Name, err)
		}
		service.Annotations = merge(service.Annotations, map[string]string{resourcesv1alpha1.NetworkingNamespaceSelectors: string(encoded)})
	}

	return service, nil
}

// service is a Service of type ClusterIP for the etcd pods.
func (v Values) service(name, component string, ports ...corev1.ServicePort) *corev1.Service {
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: v.objectMeta(name, component),
		Spec: corev1.ServiceSpec{
			Type:            corev1.ServiceTypeClusterIP,
			SessionAffinity: corev1.ServiceAffinityNone,
			Selector:        v.podSelector(),
			Ports:           ports,
		},
	}
	if len(v.IPFamilies) > 1 {
		service.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	}

	return service
}

func servicePort(name string, port int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)}
}
