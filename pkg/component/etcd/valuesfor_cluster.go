// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// membersFor returns the first size members, or all those that are managed externally.
func membersFor(etcd *druidv1alpha1.Etcd, size int32) []Member {
	addresses := etcd.Spec.ExternallyManagedMemberAddresses
	if len(addresses) > 0 {
		size = int32(len(addresses)) // #nosec G115 -- A handful of addresses.
	}

	members := make([]Member, 0, max(size, 0))
	for ordinal, name := range helper.MemberNames(etcd, size) {
		host := fmt.Sprintf("%s.%s.%s.svc", helper.PodName(etcd, ordinal), helper.PeerServiceName(etcd), etcd.Namespace)
		if len(addresses) > 0 {
			host = addresses[ordinal]
		}
		members = append(members, Member{Name: name, Host: host, AdditionalPeerURLs: additionalPeerURLs(etcd, name)})
	}

	return members
}

// additionalPeerURLs are matched by the name of the member, as the API demands it, and not by the name of the pod.
func additionalPeerURLs(etcd *druidv1alpha1.Etcd, memberName string) []string {
	for _, additional := range etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if additional.MemberName == memberName {
			return additional.URLs
		}
	}

	return nil
}

func bootstrapFor(bootstrap *druidv1alpha1.BootstrapWithExistingCluster) *Bootstrap {
	if bootstrap == nil {
		return nil
	}

	members := make([]BootstrapMember, 0, len(bootstrap.Members))
	for _, member := range bootstrap.Members {
		members = append(members, BootstrapMember{Name: member.Name, PeerURLs: member.PeerURLs})
	}

	return &Bootstrap{Members: members, ClientEndpoints: bootstrap.ClientEndpoints}
}

func tlsFor(tls *druidv1alpha1.TLSConfig, caDataKeys map[string]string) *TLS {
	if tls == nil {
		return nil
	}

	return &TLS{
		CASecretName:     tls.TLSCASecretRef.Name,
		CADataKey:        caDataKey(tls.TLSCASecretRef, caDataKeys),
		ServerSecretName: tls.ServerTLSSecretRef.Name,
		ClientSecretName: tls.ClientTLSSecretRef.Name,
	}
}

func peerTLSFor(tls *druidv1alpha1.PeerTLSConfig, caDataKeys map[string]string) *TLS {
	if tls == nil {
		return nil
	}
	values := tlsFor(&tls.TLSConfig, caDataKeys)
	values.SkipClientSANVerification = tls.SkipClientSANVerification

	return values
}

func caDataKey(ref druidv1alpha1.SecretReference, caDataKeys map[string]string) string {
	if key := ptr.Deref(ref.DataKey, ""); key != "" {
		return key
	}
	if key, ok := caDataKeys[ref.Name]; ok {
		return key
	}

	return "ca.crt"
}

// InitialClusterToken is the token for a new cluster of the Etcd: that of the spec, or a unique one. An Etcd that is recreated
// with the same name gets another one.
func InitialClusterToken(etcd *druidv1alpha1.Etcd) string {
	if token := ptr.Deref(etcd.Spec.Etcd.InitialClusterToken, ""); token != "" {
		return token
	}

	return "etcd-" + string(etcd.UID)
}
