// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // its successor is not what client-go's port forwarding takes
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

// dialer reaches pods by their addresses through the API server, as kubectl port-forward does. What it opens is closed with the
// context.
func (s *session) dialer(ctx context.Context) etcdclient.Dialer {
	forwards := &forwards{session: s, ctx: ctx, local: map[string]string{}}

	return func(ctx context.Context, address string) (net.Conn, error) {
		local, err := forwards.to(ctx, address)
		if err != nil {
			return nil, err
		}

		return (&net.Dialer{}).DialContext(ctx, "tcp", local)
	}
}

// forwards keeps one forward for each address.
type forwards struct {
	*session

	// ctx ends them all.
	ctx   context.Context
	lock  sync.Mutex
	local map[string]string
}

// to returns the local address that leads to the address of a pod.
func (f *forwards) to(ctx context.Context, address string) (string, error) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if local, found := f.local[address]; found {
		return local, nil
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return "", fmt.Errorf("port of %s: %w", address, err)
	}
	pod, err := f.podWith(ctx, host)
	if err != nil {
		return "", err
	}
	local, err := f.forward(f.ctx, pod, port)
	if err != nil {
		return "", err
	}
	f.local[address] = local

	return local, nil
}

// podWith is the name of the pod with the address.
func (s *session) podWith(ctx context.Context, ip string) (string, error) {
	pods := &corev1.PodList{}
	if err := s.List(ctx, pods, client.InNamespace(s.namespace)); err != nil {
		return "", explain(err)
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP == ip && pod.DeletionTimestamp == nil {
			return pod.Name, nil
		}
	}

	return "", fmt.Errorf("no pod of namespace %s has the address %s", s.namespace, ip)
}

// forward opens a local port that leads to a port of a pod, until the context ends.
func (s *session) forward(ctx context.Context, pod string, port int) (string, error) {
	dialer, err := s.streams(pod)
	if err != nil {
		return "", err
	}
	ready := make(chan struct{})
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return "", fmt.Errorf("forwarding to pod %s: %w", pod, explain(err))
	case <-ctx.Done():
		return "", ctx.Err()
	case <-ready:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}

	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), nil
}

// streams connects like kubectl: with a websocket, or with SPDY if a server or proxy does not support websockets.
func (s *session) streams(pod string) (httpstream.Dialer, error) {
	url := s.clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(s.config)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	newer, err := portforward.NewSPDYOverWebsocketDialer(url, s.config)
	if err != nil {
		return nil, err
	}

	return portforward.NewFallbackDialer(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
