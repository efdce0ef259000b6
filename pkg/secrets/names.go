// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"crypto/sha256"
	"encoding/hex"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// maxLabelLength is the length of a label value, in which the secrets manager keeps identity and config name.
	maxLabelLength = 63
	// hashLength is the length of the hash that stands for the end of a name that is too long.
	hashLength = 8
	// identityPrefix keeps our identities apart from those of gardenlet and of other extensions in a namespace.
	identityPrefix = "etcd-druid-"
	// longestSuffix is the longest addition to the name of an Etcd in the name of a config, with what the secrets manager
	// appends to the name of a CA for its bundle.
	longestSuffix = len("-client-ca-bundle")
)

// Suffixes of the names of configs. None is the end of another, so that the configs of two Etcds have the same name only
// when the Etcds do.
const (
	suffixClientCA = "-client-ca"
	suffixPeerCA   = "-peer-ca"
	suffixServer   = "-server"
	suffixClient   = "-client"
	suffixPeer     = "-peer"
)

// Identity is the identity under which the secrets manager keeps the secrets of one Etcd. Managers of different identity
// never touch each other's secrets. It fits into a label value.
func Identity(etcdName string) string {
	return identityPrefix + shorten(etcdName, maxLabelLength-len(identityPrefix))
}

// ConnectionName is the name of the Secret with which applications connect.
func ConnectionName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-connection" }

// ConfigNames are the names of the configs of one Etcd. A generated Secret is named after its config, with a hash behind.
type ConfigNames struct {
	// ClientCA signs Server and Client, PeerCA signs Peer.
	ClientCA, PeerCA string
	// Server is the certificate with which etcd and the sidecar serve clients.
	Server string
	// Client is the certificate with which the sidecar, the operator and applications connect.
	Client string
	// Peer is the certificate between members.
	Peer string
}

// ConfigNamesFor returns the names of the configs of an Etcd.
func ConfigNamesFor(etcdName string) ConfigNames {
	base := shorten(etcdName, maxLabelLength-longestSuffix)

	return ConfigNames{
		ClientCA: base + suffixClientCA,
		PeerCA:   base + suffixPeerCA,
		Server:   base + suffixServer,
		Client:   base + suffixClient,
		Peer:     base + suffixPeer,
	}
}

// shorten returns the name, or a beginning of it with a hash of the whole where it is longer than limit.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))

	return name[:limit-hashLength-1] + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
