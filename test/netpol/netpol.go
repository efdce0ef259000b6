// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package netpol evaluates NetworkPolicies, so that tests can check which connections they allow.
package netpol

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Endpoint is one end of a connection: a pod, or an address outside of the cluster.
type Endpoint struct {
	// Namespace is the namespace of the pod. Empty: the endpoint is outside of the cluster.
	Namespace string
	// Labels are the labels of the pod.
	Labels map[string]string
	// Address is the IP address of an endpoint outside of the cluster.
	Address string
}

// Connection is a connection between two endpoints.
type Connection struct {
	// From opens the connection to To.
	From, To Endpoint
	// Port is the port of To.
	Port int32
	// Protocol is the protocol. Empty: TCP.
	Protocol corev1.Protocol
}

// Allows returns true if the policies allow the connection: those of From its egress, and those of To its ingress. A pod that no
// policy selects for a direction may use all connections in this direction. Namespaces have the label that Kubernetes sets.
func Allows(policies []*networkingv1.NetworkPolicy, c Connection) bool {
	return allowsEgress(policies, c) && allowsIngress(policies, c)
}

func allowsEgress(policies []*networkingv1.NetworkPolicy, c Connection) bool {
	isIsolated := false
	for _, policy := range policies {
		if !selects(policy, c.From, networkingv1.PolicyTypeEgress) {
			continue
		}
		isIsolated = true
		for _, rule := range policy.Spec.Egress {
			if hasPeer(policy, rule.To, c.To) && hasPort(rule.Ports, c) {
				return true
			}
		}
	}

	return !isIsolated
}

func allowsIngress(policies []*networkingv1.NetworkPolicy, c Connection) bool {
	isIsolated := false
	for _, policy := range policies {
		if !selects(policy, c.To, networkingv1.PolicyTypeIngress) {
			continue
		}
		isIsolated = true
		for _, rule := range policy.Spec.Ingress {
			if hasPeer(policy, rule.From, c.From) && hasPort(rule.Ports, c) {
				return true
			}
		}
	}

	return !isIsolated
}

func selects(policy *networkingv1.NetworkPolicy, e Endpoint, direction networkingv1.PolicyType) bool {
	return e.Namespace == policy.Namespace && matches(&policy.Spec.PodSelector, e.Labels) && slices.Contains(policy.Spec.PolicyTypes, direction)
}

// hasPeer is true if there are no peers, which means all.
func hasPeer(policy *networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer, e Endpoint) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer networkingv1.NetworkPolicyPeer) bool {
		switch {
		case peer.IPBlock != nil:
			return e.Address != "" && isInBlock(*peer.IPBlock, netip.MustParseAddr(e.Address))
		case e.Namespace == "":
			return false
		case peer.NamespaceSelector == nil:
			return e.Namespace == policy.Namespace && matches(peer.PodSelector, e.Labels)
		default:
			return matches(peer.NamespaceSelector, map[string]string{corev1.LabelMetadataName: e.Namespace}) && (peer.PodSelector == nil || matches(peer.PodSelector, e.Labels))
		}
	})
}

func isInBlock(block networkingv1.IPBlock, address netip.Addr) bool {
	return netip.MustParsePrefix(block.CIDR).Contains(address) && !slices.ContainsFunc(block.Except, func(except string) bool {
		return netip.MustParsePrefix(except).Contains(address)
	})
}

// hasPort is true if there are no ports, which means all. Named ports and ranges are not supported.
func hasPort(ports []networkingv1.NetworkPolicyPort, c Connection) bool {
	protocol := c.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}

	return len(ports) == 0 || slices.ContainsFunc(ports, func(port networkingv1.NetworkPolicyPort) bool {
		return *port.Protocol == protocol && port.Port.IntVal == c.Port
	})
}

func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		panic(err)
	}

	return parsed.Matches(labels.Set(set))
}
