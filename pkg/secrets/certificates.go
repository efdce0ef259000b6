// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"net"
	"net/url"
	"slices"
	"time"

	secretsutils "github.com/gardener/gardener/pkg/utils/secrets"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	// caValidity is the validity of a CA. It is long, since a rotation restarts every member several times.
	caValidity = 10 * 365 * 24 * time.Hour
	// leafValidity is the validity of other certificates. They are renewed after four fifths of it. A renewal restarts every
	// member once, unless it is the certificate of applications.
	leafValidity = 2 * 365 * 24 * time.Hour
)

// Common names of the client certificates. etcd uses them as names of users if its authentication is enabled.
const (
	// clientCommonName is the common name of the sidecars and the operator.
	clientCommonName = "etcd-client"
	// applicationCommonName is the common name of applications.
	applicationCommonName = "etcd-application"
)

// Config is a certificate to generate, with its options.
type Config struct {
	// Certificate describes the certificate. The generation changes it, so that it must be used only once.
	Certificate *secretsutils.CertificateSecretConfig
	// Options are the options of the generation.
	Options []secretsmanager.GenerateOption
}

// IsCA is true for a certificate that signs others.
func (c Config) IsCA() bool { return c.Certificate.CertType == secretsutils.CACert }

// ConfigsFor returns the configs of the managed certificates of an Etcd in a stage of its CA rotation, CAs first. Nil: no
// certificate is managed.
func ConfigsFor(etcd *druidv1alpha1.Etcd, modes state.TLSModes, stage state.RotationStage) []Config {
	names := ConfigNamesFor(etcd.Name)
	var configs []Config
	if modes.Client == state.ModeManaged {
		dnsNames, ips := serverNames(etcd)
		configs = append(configs,
			ca(names.ClientCA, stage),
			leaf(certificate(names.Server, "etcd-server", secretsutils.ServerClientCert, dnsNames, ips), names.ClientCA, serverCA(stage)),
			leaf(certificate(names.Client, clientCommonName, secretsutils.ClientCert, nil, nil), names.ClientCA, clientCA(stage)),
			leaf(certificate(names.Application, applicationCommonName, secretsutils.ClientCert, nil, nil), names.ClientCA, clientCA(stage)),
		)
	}
	if modes.Peer == state.ModeManaged {
		dnsNames, ips := peerNames(etcd)
		configs = append(configs,
			ca(names.PeerCA, stage),
			leaf(certificate(names.Peer, "etcd-peer", secretsutils.ServerClientCert, dnsNames, ips), names.PeerCA, clientCA(stage)),
		)
	}
	slices.SortStableFunc(configs, func(a, b Config) int {
		switch {
		case a.IsCA() == b.IsCA():
			return 0
		case a.IsCA():
			return -1
		default:
			return 1
		}
	})

	return configs
}

// ca returns the config of a CA. The CA is persisted, so that it moves with the control plane of a shoot to another seed.
func ca(name string, stage state.RotationStage) Config {
	options := []secretsmanager.GenerateOption{secretsmanager.Persist(), secretsmanager.Rotate(secretsmanager.KeepOld)}
	if stage == state.StageCompleteBundle {
		options = append(options, secretsmanager.IgnoreOldSecrets())
	}

	return Config{
		Certificate: &secretsutils.CertificateSecretConfig{Name: name, CommonName: name, CertType: secretsutils.CACert, Validity: new(caValidity)},
		Options:     options,
	}
}

func certificate(name, commonName string, certType secretsutils.CertType, dnsNames []string, ips []net.IP) *secretsutils.CertificateSecretConfig {
	return &secretsutils.CertificateSecretConfig{
		Name: name, CommonName: commonName, CertType: certType,
		DNSNames: dnsNames, IPAddresses: ips,
		Validity:                    new(leafValidity),
		SkipPublishingCACertificate: true,
	}
}

func leaf(config *secretsutils.CertificateSecretConfig, ca string, class secretsmanager.SignedByCAOption) Config {
	return Config{Certificate: config, Options: []secretsmanager.GenerateOption{
		secretsmanager.SignedByCA(ca, class), secretsmanager.Rotate(secretsmanager.InPlace),
	}}
}

// serverNames are the names at which clients reach etcd and the sidecar. They include localhost, the name for the containers of
// the same pod, and the client Service. They also include the name of each pod in the headless Service, through which a sidecar
// reaches the leader. The addresses in the spec complete them.
func serverNames(etcd *druidv1alpha1.Etcd) ([]string, []net.IP) {
	dnsNames := slices.Concat(
		[]string{"localhost", helper.LocalHostName(etcd)},
		serviceNames(helper.ClientServiceName(etcd), etcd.Namespace),
		serviceNames("*."+helper.PeerServiceName(etcd), etcd.Namespace),
	)

	return addHosts(dnsNames, localAddresses(), etcd.Spec.ExternallyManagedMemberAddresses)
}

// peerNames are the names at which members reach each other.
func peerNames(etcd *druidv1alpha1.Etcd) ([]string, []net.IP) {
	hosts := slices.Clone(etcd.Spec.ExternallyManagedMemberAddresses)
	for _, additional := range etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		for _, text := range additional.URLs {
			if parsed, err := url.Parse(text); err == nil && parsed.Hostname() != "" {
				hosts = append(hosts, parsed.Hostname())
			}
		}
	}
	dnsNames := slices.Concat(
		serviceNames(helper.PeerServiceName(etcd), etcd.Namespace),
		serviceNames("*."+helper.PeerServiceName(etcd), etcd.Namespace),
	)

	return addHosts(dnsNames, localAddresses(), hosts)
}

// serviceNames are the names of a Service, from the shortest to the longest.
func serviceNames(name, namespace string) []string {
	return []string{name, name + "." + namespace, name + "." + namespace + ".svc", name + "." + namespace + ".svc.cluster.local"}
}

func localAddresses() []net.IP { return []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP("::1")} }

func addHosts(dnsNames []string, ips []net.IP, hosts []string) ([]string, []net.IP) {
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip == nil {
			if !slices.Contains(dnsNames, host) {
				dnsNames = append(dnsNames, host)
			}
		} else if !slices.ContainsFunc(ips, ip.Equal) {
			ips = append(ips, ip)
		}
	}

	return dnsNames, ips
}
