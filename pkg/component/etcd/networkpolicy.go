// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// compactionMetricsPort is the port at which the container of a compaction Job serves its metrics, the default of
// etcd-backup-restore.
const compactionMetricsPort = 8080

// memberNetworkPolicy restricts the connections of the etcd pods. The kubelet's probes need no rule. The sidecar serves its
// requests without authentication, so that only the operator, the members and the monitoring reach its port. The operator and the
// members reach all ports: while a port of the spec changes, pods with the old and with the new port run.
func memberNetworkPolicy(v Values) *networkingv1.NetworkPolicy {
	p, members := v.NetworkPolicies, []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: v.podSelector()}}}
	ingress := []networkingv1.NetworkPolicyIngressRule{{From: slices.Concat(p.Operator, members)}}
	if clients := slices.Concat(clientPeers(p.Clients), p.Monitoring); len(clients) > 0 {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{From: clients, Ports: tcpPorts(v.Ports.Client)})
	}
	if len(p.Monitoring) > 0 {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{From: p.Monitoring, Ports: tcpPorts(v.Ports.Backup)})
	}
	if v.hasExternalPeers() {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{Ports: tcpPorts(v.Ports.Peer)})
	}

	return v.networkPolicy(v.Names.MemberNetworkPolicy, metav1.LabelSelector{MatchLabels: v.podSelector()}, networkingv1.NetworkPolicySpec{
		Ingress: ingress,
		Egress:  v.egress(networkingv1.NetworkPolicyEgressRule{To: members}),
	})
}

// dnsPorts are the ports of DNS servers behind the Service. The ones after the first are those of CoreDNS in Gardener shoots and in
// OpenShift: NetworkPolicies apply to the port of the pod.
var dnsPorts = []int32{53, 8053, 5353}

// jobNetworkPolicy restricts the connections of the pods of Jobs that work on the store of the Etcd. Only the monitoring connects
// to them. The Job of a copy task of the same name has the same labels, and uses other stores.
func jobNetworkPolicy(v Values) *networkingv1.NetworkPolicy {
	var ingress []networkingv1.NetworkPolicyIngressRule
	if monitoring := v.NetworkPolicies.Monitoring; len(monitoring) > 0 {
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{From: monitoring, Ports: tcpPorts(compactionMetricsPort)})
	}

	return v.networkPolicy(v.Names.JobNetworkPolicy, metav1.LabelSelector{
		MatchLabels: v.Labels,
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: druidv1alpha1.LabelComponentKey, Operator: metav1.LabelSelectorOpNotIn,
			Values: []string{druidv1alpha1.ComponentNameStatefulSet, druidv1alpha1.ComponentNameCopyBackupsJob},
		}},
	}, networkingv1.NetworkPolicySpec{Ingress: ingress, Egress: v.egress()})
}

func (v Values) networkPolicy(name string, pods metav1.LabelSelector, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	spec.PodSelector = pods
	spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}

	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: v.objectMeta(name, druidv1alpha1.ComponentNameNetworkPolicy),
		Spec:       spec,
	}
}

// clientPeers are the pods in the namespace of the Etcd if no clients are configured.
func clientPeers(clients []networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyPeer {
	if clients == nil {
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}
	}

	return clients
}

// egress returns the given rules and those of all pods of the Etcd: DNS, API server and store. It allows every connection if the
// addresses of the store or of other members are not known. An object store has many addresses, and members outside of the
// cluster name further members.
func (v Values) egress(rules ...networkingv1.NetworkPolicyEgressRule) []networkingv1.NetworkPolicyEgressRule {
	p := v.NetworkPolicies
	usesNetwork := v.Store != nil && v.Store.Provider != backupstore.ProviderLocal
	if usesNetwork && p.Stores == nil || v.hasExternalPeers() {
		return []networkingv1.NetworkPolicyEgressRule{{}}
	}
	switch {
	case p.DNS == nil:
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{Ports: slices.Concat(tcpPorts(dnsPorts...), ports(corev1.ProtocolUDP, dnsPorts...))})
	case len(p.DNS) > 0:
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: p.DNS})
	}
	switch {
	case p.APIServer == nil:
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{Ports: tcpPorts(443, 6443)})
	case len(p.APIServer) > 0:
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: p.APIServer})
	}
	if usesNetwork && len(p.Stores) > 0 {
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: p.Stores})
	}

	return rules
}

// hasExternalPeers is true if the spec names members outside of this Etcd, or addresses at which they reach its members.
func (v Values) hasExternalPeers() bool {
	return v.Bootstrap != nil || slices.ContainsFunc(v.Members, func(m Member) bool { return len(m.AdditionalPeerURLs) > 0 })
}

func tcpPorts(numbers ...int32) []networkingv1.NetworkPolicyPort {
	return ports(corev1.ProtocolTCP, numbers...)
}

func ports(protocol corev1.Protocol, numbers ...int32) []networkingv1.NetworkPolicyPort {
	rules := make([]networkingv1.NetworkPolicyPort, 0, len(numbers))
	for _, number := range numbers {
		rules = append(rules, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))})
	}

	return rules
}
