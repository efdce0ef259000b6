// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

const (
	key            = "/example/greeting"
	value          = "Hello"
	requestTimeout = 10 * time.Second
)

// endpoint contains the addresses and credentials with which this machine connects to an Etcd through its client Service.
type endpoint struct {
	// clientURL is the URL of etcd for this machine, inClusterURL the one for pods. sidecarURL is the URL of the sidecar.
	clientURL, inClusterURL, sidecarURL string
	// namedURL is the URL of etcd with a name that its certificate contains. address is what the name resolves to.
	namedURL, address string
	// storePath is the directory of the snapshots. It is printed only.
	storePath string
	tls       *tls.Config
}

// findEndpoint reads the addresses from the client Service, and the certificates from the Secrets that the member's pod mounts.
func (r Runner) findEndpoint(ctx context.Context, e Etcd) (*endpoint, error) {
	name := e.Name + "-client"

	service, err := r.Client.CoreV1().Services(e.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("finding the client Service: %w", err)
	}

	ports := map[string]int32{}
	for _, port := range service.Spec.Ports {
		ports[port.Name] = port.Port
	}

	pod, err := r.Client.CoreV1().Pods(e.Namespace).Get(ctx, e.Name+"-0", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("finding the first member's pod: %w", err)
	}

	config, err := r.clientTLS(ctx, e, pod)
	if err != nil {
		return nil, err
	}

	scheme := "http"
	if config != nil {
		scheme = "https"
	}

	backupScheme := "http"
	if secretOf(pod, "backup-restore-ca") != "" {
		backupScheme = "https"
	}

	return &endpoint{
		clientURL:    fmt.Sprintf("%s://%s:%d", scheme, service.Spec.ClusterIP, ports["client"]),
		inClusterURL: fmt.Sprintf("%s://%s.%s.svc:%d", scheme, name, e.Namespace, ports["client"]),
		sidecarURL:   fmt.Sprintf("%s://%s:%d", backupScheme, service.Spec.ClusterIP, ports["backuprestore"]),
		namedURL:     fmt.Sprintf("%s://%s-local:%d", scheme, e.Name, ports["client"]),
		address:      fmt.Sprintf("%s:%d", service.Spec.ClusterIP, ports["client"]),
		storePath:    storeOf(pod),
		tls:          config,
	}, nil
}

// clientTLS returns the client configuration. It returns nil for an Etcd without TLS.
func (r Runner) clientTLS(ctx context.Context, e Etcd, pod *corev1.Pod) (*tls.Config, error) {
	if secretOf(pod, "etcd-client-tls") == "" {
		return nil, nil
	}

	pool := x509.NewCertPool()

	for _, volume := range []string{"etcd-ca", "backup-restore-ca"} {
		name := secretOf(pod, volume)
		if name == "" {
			continue
		}

		secret, err := r.Client.CoreV1().Secrets(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading the CA: %w", err)
		}

		for _, bundle := range secret.Data {
			pool.AppendCertsFromPEM(bundle)
		}
	}

	secret, err := r.Client.CoreV1().Secrets(e.Namespace).Get(ctx, secretOf(pod, "etcd-client-tls"), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}

	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the client certificate: %w", err)
	}

	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: e.Name + "-local", MinVersion: tls.VersionTLS12}, nil
}

func secretOf(pod *corev1.Pod, volume string) string {
	for _, candidate := range pod.Spec.Volumes {
		if candidate.Name == volume && candidate.Secret != nil {
			return candidate.Secret.SecretName
		}
	}

	return ""
}

func storeOf(pod *corev1.Pod) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "local-backup" && volume.HostPath != nil {
			return volume.HostPath.Path
		}
	}

	return layout.LocalStore
}

// writeKey writes the key unless it has the value already, reads it, and returns the revision of its last change.
func (e *endpoint) writeKey(ctx context.Context) (int64, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{e.namedURL}, TLS: e.tls, DialTimeout: requestTimeout, Logger: zap.NewNop(),
		// etcd's certificate contains the name and not the address, so that the dialer replaces the name by the address.
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", e.address)
		})},
	})
	if err != nil {
		return 0, fmt.Errorf("connecting to etcd: %w", err)
	}
	defer func() { _ = client.Close() }()

	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()

	for range 2 {
		found, err := client.Get(ctx, key)
		if err != nil {
			return 0, fmt.Errorf("reading a key: %w", err)
		}

		if len(found.Kvs) == 1 && string(found.Kvs[0].Value) == value {
			return found.Kvs[0].ModRevision, nil
		}

		if _, err := client.Put(ctx, key, value); err != nil {
			return 0, fmt.Errorf("writing a key: %w", err)
		}
	}

	return 0, errors.New("the key was written, but a read did not return it")
}

// snapshots is the sidecar's response about its store.
type snapshots struct {
	Full   *snapshot  `json:"fullSnapshot"`
	Deltas []snapshot `json:"deltaSnapshots"`
}

type snapshot struct {
	Name         string `json:"snapName"`
	LastRevision int64  `json:"lastRevision"`
}

// lastRevision returns the revision of the last snapshot, or 0 for an empty store.
func (s snapshots) lastRevision() int64 {
	if len(s.Deltas) > 0 {
		return s.Deltas[len(s.Deltas)-1].LastRevision
	}

	if s.Full != nil {
		return s.Full.LastRevision
	}

	return 0
}

func (s snapshots) String() string {
	text := "the full snapshot " + s.Full.Name
	for _, delta := range s.Deltas {
		text += " and the delta snapshot " + delta.Name
	}

	return text
}

func (e *endpoint) snapshots(ctx context.Context) (snapshots, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	call, err := http.NewRequestWithContext(ctx, http.MethodGet, e.sidecarURL+"/snapshot/latest", nil)
	if err != nil {
		return snapshots{}, err
	}

	client := http.Client{Transport: &http.Transport{TLSClientConfig: e.tls, DisableKeepAlives: true}}

	response, err := client.Do(call)
	if err != nil {
		return snapshots{}, err
	}
	defer func() { _ = response.Body.Close() }()

	if response.StatusCode != http.StatusOK {
		return snapshots{}, fmt.Errorf("the sidecar returned %s", response.Status)
	}

	var found snapshots

	return found, json.NewDecoder(response.Body).Decode(&found)
}
