// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Members simulates the members of Etcds with one member. Each call performs a real TLS handshake with the certificates that the pod mounts.
type Members struct {
	// Client reads pods and Secrets.
	Client client.Client
}

// Connect implements etcdclient.Connector.
func (m *Members) Connect(_ context.Context, target etcdclient.Target) (etcdclient.Client, error) {
	return &memberClient{Members: m, target: target}, nil
}

// Disconnect implements etcdclient.Connector.
func (*Members) Disconnect(etcdclient.Target) {}

type memberClient struct {
	*Members

	target etcdclient.Target
}

// Status implements etcdclient.Client.
func (m *memberClient) Status(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	if err := m.handshake(ctx); err != nil {
		return etcdcluster.EndpointStatus{}, nil, fmt.Errorf("%w: %w", etcdclient.ErrUnreachable, err)
	}
	return etcdcluster.EndpointStatus{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1}, nil, nil
}

// Read implements etcdclient.Client.
func (m *memberClient) Read(ctx context.Context) (etcdclient.ResponseHeader, error) {
	return etcdclient.ResponseHeader{MemberID: 1}, m.handshake(ctx)
}

// EndpointStatus implements etcdclient.Client.
func (m *memberClient) EndpointStatus(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error) {
	return m.Status(ctx)
}

// MemberList implements etcdclient.Client.
func (*memberClient) MemberList(context.Context) ([]etcdcluster.ListedMember, error) {
	return []etcdcluster.ListedMember{{ID: 1}}, nil
}

// Revision implements etcdclient.Client.
func (*memberClient) Revision(context.Context) (int64, error) { return 1, nil }

// ClusterVersion implements etcdclient.Client.
func (*memberClient) ClusterVersion(context.Context) (string, error) { return "3.4.0", nil }

func (*memberClient) Health(context.Context) error { return nil }

// IsAuthEnabled implements etcdclient.Client.
func (*memberClient) IsAuthEnabled(context.Context) (bool, error) { return false, nil }

// MoveLeader implements etcdclient.Client.
func (*memberClient) MoveLeader(context.Context, uint64) error { return errors.New("not implemented") }

// Promote implements etcdclient.Client.
func (*memberClient) Promote(context.Context, uint64) error { return errors.New("not implemented") }

// RemoveMember implements etcdclient.Client.
func (*memberClient) RemoveMember(context.Context, uint64) error {
	return errors.New("not implemented")
}

// HashKV implements etcdclient.Client.
func (*memberClient) HashKV(context.Context, int64) (uint32, int64, error) {
	return 0, 0, errors.New("not implemented")
}

// Compact implements etcdclient.Client.
func (*memberClient) Compact(context.Context, int64) error { return errors.New("not implemented") }

// Disarm implements etcdclient.Client.
func (*memberClient) Disarm(context.Context, etcdcluster.Alarm) error {
	return errors.New("not implemented")
}

// CountKeys implements etcdclient.Client.
func (*memberClient) CountKeys(context.Context) ([]etcdcluster.KeyCount, error) {
	return nil, errors.New("not implemented")
}

// UpdatePeerURLs implements etcdclient.Client.
func (*memberClient) UpdatePeerURLs(context.Context, uint64, []string) error {
	return errors.New("not implemented")
}

// RejectWrites implements etcdclient.Client.
func (*memberClient) RejectWrites(context.Context) (int64, error) { return 1, nil }

// AllowWrites implements etcdclient.Client.
func (*memberClient) AllowWrites(context.Context) error { return nil }

// Defragment implements etcdclient.Client.
func (*memberClient) Defragment(context.Context) error { return errors.New("not implemented") }

func (m *memberClient) handshake(ctx context.Context) error {
	host, _, err := net.SplitHostPort(m.target.Address)
	if err != nil {
		return err
	}
	pods := &corev1.PodList{}
	if err := m.Client.List(ctx, pods); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP != host {
			continue
		}
		if m.target.Credentials == nil {
			return nil
		}
		credentials, err := m.target.Credentials.Load(ctx)
		if err != nil {
			return err
		}
		return Handshake(ctx, m.Client, &pod, credentials, m.target.ServerName)
	}
	return fmt.Errorf("no pod has the address %s", host)
}

// Handshake performs a TLS handshake between a client with the credentials and a server with the Secrets that the pod mounts. It returns the
// error of the client or the server.
func Handshake(ctx context.Context, c client.Client, pod *corev1.Pod, credentials etcdclient.TLS, serverName string) error {
	server, err := serverConfig(ctx, c, pod)
	if err != nil {
		return err
	}
	config := &tls.Config{ServerName: serverName, RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(credentials.CA) {
		return errors.New("the client trusts no CA")
	}
	certificate, err := tls.X509KeyPair(credentials.Certificate, credentials.Key)
	if err != nil {
		return err
	}
	config.Certificates = []tls.Certificate{certificate}

	clientSide, serverSide := net.Pipe()
	defer func() { _, _ = clientSide.Close(), serverSide.Close() }()
	served := make(chan error, 1)
	go func() {
		connection := tls.Server(serverSide, server)
		err := connection.HandshakeContext(ctx)
		if err == nil {
			_, err = connection.Write([]byte("."))
		}
		served <- err
		if err != nil {
			_ = serverSide.Close()
		}
	}()
	connection := tls.Client(clientSide, config)
	if err := connection.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := connection.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("the member rejects the client: %w", err)
	}
	return <-served
}

// serverConfig returns the TLS configuration of the client port of etcd in the pod.
func serverConfig(ctx context.Context, c client.Client, pod *corev1.Pod) (*tls.Config, error) {
	mounted := map[string]*corev1.Secret{}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret == nil || !strings.HasPrefix(volume.Name, "etcd-") {
			continue
		}
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: volume.Secret.SecretName}, secret); err != nil {
			return nil, err
		}
		mounted[volume.Name] = secret
	}
	if mounted["etcd-ca"] == nil || mounted["etcd-server-tls"] == nil {
		return nil, errors.New("the pod does not use TLS")
	}
	certificate, err := tls.X509KeyPair(mounted["etcd-server-tls"].Data["tls.crt"], mounted["etcd-server-tls"].Data["tls.key"])
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientCAs: x509.NewCertPool(), ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	for _, key := range []string{"bundle.crt", "ca.crt"} {
		config.ClientCAs.AppendCertsFromPEM(mounted["etcd-ca"].Data[key])
	}
	return config, nil
}
