// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"path"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
)

// etcdConfig is the configuration file of etcd. The sidecar replaces three of its fields before etcd reads them. They are the
// name, and the two lists of advertised URLs, which here are maps with the member's name as key.
type etcdConfig struct {
	Name                         string              `json:"name"`
	DataDir                      string              `json:"data-dir"`
	Metrics                      string              `json:"metrics"`
	SnapshotCount                int64               `json:"snapshot-count"`
	EnableGRPCGateway            bool                `json:"enable-grpc-gateway"`
	QuotaBackendBytes            int64               `json:"quota-backend-bytes"`
	InitialClusterToken          string              `json:"initial-cluster-token"`
	InitialClusterState          string              `json:"initial-cluster-state"`
	InitialCluster               string              `json:"initial-cluster"`
	AutoCompactionMode           string              `json:"auto-compaction-mode"`
	AutoCompactionRetention      string              `json:"auto-compaction-retention"`
	ListenPeerURLs               string              `json:"listen-peer-urls"`
	ListenClientURLs             string              `json:"listen-client-urls"`
	AdvertisePeerURLs            map[string][]string `json:"initial-advertise-peer-urls"`
	AdvertiseClientURLs          map[string][]string `json:"advertise-client-urls"`
	ClientTransportSecurity      *transportSecurity  `json:"client-transport-security,omitempty"`
	PeerTransportSecurity        *transportSecurity  `json:"peer-transport-security,omitempty"`
	MemberNamePrefix             string              `json:"member-name-prefix,omitempty"`
	NextClusterVersionCompatible bool                `json:"next-cluster-version-compatible,omitempty"`
	PreVote                      bool                `json:"pre-vote"`
	BackendFreelistType          string              `json:"backend-bbolt-freelist-type,omitempty"`
	BackendFreelistType34        string              `json:"experimental-backend-bbolt-freelist-type,omitempty"`
}

type transportSecurity struct {
	CertFile                  string `json:"cert-file"`
	KeyFile                   string `json:"key-file"`
	ClientCertAuth            bool   `json:"client-cert-auth"`
	TrustedCAFile             string `json:"trusted-ca-file"`
	AutoTLS                   bool   `json:"auto-tls"`
	SkipClientSANVerification *bool  `json:"skip-client-san-verification,omitempty"`
}

func etcdConfigFor(v Values) etcdConfig {
	config := etcdConfig{
		Name:                    "etcd-config",
		DataDir:                 pathEtcdData,
		Metrics:                 v.Etcd.Metrics,
		SnapshotCount:           v.Etcd.SnapshotCount,
		EnableGRPCGateway:       v.Etcd.EnableGRPCGateway,
		QuotaBackendBytes:       v.Etcd.Quota.Value(),
		InitialClusterToken:     v.Etcd.InitialClusterToken,
		InitialClusterState:     "new",
		InitialCluster:          initialCluster(v),
		AutoCompactionMode:      v.Etcd.AutoCompactionMode,
		AutoCompactionRetention: v.Etcd.AutoCompactionRetention,
		ListenPeerURLs:          hostURL(v.PeerTLS, wildcard(v.IPFamilies), v.Ports.Peer),
		ListenClientURLs:        hostURL(v.ClientTLS, wildcard(v.IPFamilies), v.Ports.Client),
		AdvertisePeerURLs:       urlsByMember(v, peerURLs),
		AdvertiseClientURLs:     urlsByMember(v, clientURLs),
		ClientTransportSecurity: transportSecurityFor(v.ClientTLS, pathClientCA, pathClientServer),
		PeerTransportSecurity:   transportSecurityFor(v.PeerTLS, pathPeerCA, pathPeerServer),
		MemberNamePrefix:        v.Etcd.MemberNamePrefix,
		// With PreVote a member checks whether it would win an election before it starts one. Without it, a member with
		// one-way connectivity, for example without certificates, would depose the leader. It is the default since etcd 3.5.
		PreVote: true,
	}
	setVersionOptions(&config, v.Etcd)

	return config
}

// setVersionOptions sets the options whose name or meaning depends on the version of etcd. etcd ignores options that it does not know.
func setVersionOptions(config *etcdConfig, server ServerValues) {
	if etcdversion.Compare(server.Version, etcdversion.V34) > 0 {
		config.BackendFreelistType = server.FreelistType

		return
	}
	// etcd 3.4 opens data of 3.5, after a downgrade, only with this option. Later versions do not have it.
	config.NextClusterVersionCompatible = true
	config.BackendFreelistType34 = server.FreelistType
}

// transportSecurityFor makes etcd require a certificate of the CA from its peers and clients. Nil: plaintext.
func transportSecurityFor(tls *TLS, caDirectory, serverDirectory string) *transportSecurity {
	if tls == nil {
		return nil
	}

	return &transportSecurity{
		CertFile:                  path.Join(serverDirectory, keyCertificate),
		KeyFile:                   path.Join(serverDirectory, keyPrivateKey),
		ClientCertAuth:            true,
		TrustedCAFile:             path.Join(caDirectory, tls.CADataKey),
		SkipClientSANVerification: tls.SkipClientSANVerification,
	}
}

// Keys of secrets with a certificate.
const (
	keyCertificate = "tls.crt"
	keyPrivateKey  = "tls.key"
)
