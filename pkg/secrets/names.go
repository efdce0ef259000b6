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
	// maxLabelLength is the maximum length of a label value. The secrets manager stores the identity and the config name in
	// labels.
	maxLabelLength = 63
	// hashLength is the length of the hash that replaces the end of a name that is too long.
	hashLength = 8
	// identityPrefix separates the identities of the operator from those of gardenlet and of other extensions in the
	// namespace.
	identityPrefix = "etcd-druid-"
	// longestSuffix is the longest suffix after the name of an Etcd in a config name. It includes what the secrets manager
	// appends to the name of a CA for the bundle.
	longestSuffix = len("-client-ca-bundle")
)

// Suffixes of the config names. No suffix is the end of another one, so that two Etcds with different names never share a
// config name.
const (
	suffixClientCA    = "-client-ca"
	suffixPeerCA      = "-peer-ca"
	suffixServer      = "-server"
	suffixClient      = "-client"
	suffixApplication = "-application"
	suffixPeer        = "-peer"
)

// Identity returns the identity of one Etcd for the secrets manager. Managers with different identities never change the
// secrets of each other. It is a valid label value.
func Identity(etcdName string) string {
	return identityPrefix + shorten(etcdName, maxLabelLength-len(identityPrefix))
}

// ConnectionName is the name of the Secret with which applications connect to etcd.
func ConnectionName(etcd *druidv1alpha1.Etcd) string { return etcd.Name + "-connection" }

// ConfigNames are the names of the configs of one Etcd. The name of a generated Secret is its config name followed by a hash.
type ConfigNames struct {
	// ClientCA signs Server, Client and Application, PeerCA signs Peer.
	ClientCA, PeerCA string
	// Server is the server certificate of etcd and of the sidecar.
	Server string
	// Client is the client certificate of the sidecar and the operator.
	Client string
	// Application is the client certificate of applications. No pod of the cluster mounts it.
	Application string
	// Peer is the certificate for connections between members.
	Peer string
}

// ConfigNamesFor returns the names of the configs of an Etcd.
func ConfigNamesFor(etcdName string) ConfigNames {
	base := shorten(etcdName, maxLabelLength-longestSuffix)

	return ConfigNames{
		ClientCA:    base + suffixClientCA,
		PeerCA:      base + suffixPeerCA,
		Server:      base + suffixServer,
		Client:      base + suffixClient,
		Application: base + suffixApplication,
		Peer:        base + suffixPeer,
	}
}

// shorten returns the name. If it is longer than limit, it returns the beginning of the name with a hash of the whole name.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))

	return name[:limit-hashLength-1] + "-" + hex.EncodeToString(sum[:])[:hashLength]
}
