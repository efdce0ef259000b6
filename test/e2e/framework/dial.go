// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dialPod connects to a port of the pod. This machine has routes to the pods of the local seed only. The API server forwards the
// connection to a pod of another cluster.
func (f *Framework) dialPod(ctx context.Context, pod *corev1.Pod, port string) (net.Conn, error) {
	if f.Capabilities.Seed {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", net.JoinHostPort(pod.Status.PodIP, port))
	}

	transport, upgrader, err := spdy.RoundTripperFor(f.Config)
	if err != nil {
		return nil, err
	}

	url := f.Clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()

	connection, _, err := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url).Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port of pod %s: %w", pod.Name, err)
	}

	headers := http.Header{corev1.PortHeader: {port}, corev1.PortForwardRequestIDHeader: {"0"}}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)

	failures, err := connection.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}

	headers.Set(corev1.StreamType, corev1.StreamTypeData)

	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}

	return forward(connection, failures, data), nil
}

// forward returns one end of a pipe, and copies between the other end and the stream of data. A pipe has the deadlines of a
// net.Conn, which a stream lacks. An error of the pod closes the connection.
func forward(connection io.Closer, failures io.Reader, data io.ReadWriter) net.Conn {
	near, far := net.Pipe()
	end := func() {
		_ = far.Close()
		_ = connection.Close()
	}

	go func() {
		defer end()
		_, _ = io.Copy(far, data)
	}()
	go func() {
		defer end()
		_, _ = io.Copy(data, far)
	}()
	go func() {
		if message, err := io.ReadAll(failures); err != nil || len(message) > 0 {
			end()
		}
	}()

	return near
}

// dialService connects to a port of the Service, and of one of its ready pods on another cluster than the local seed.
func (f *Framework) dialService(ctx context.Context, key client.ObjectKey, port string) (net.Conn, error) {
	if f.Capabilities.Seed {
		service := &corev1.Service{}
		if err := f.Client.Get(ctx, key, service); err != nil {
			return nil, err
		}

		return dialRepeatedly(ctx, net.JoinHostPort(service.Spec.ClusterIP, port), (&net.Dialer{Timeout: responseTimeout}).DialContext)
	}

	slices := &discoveryv1.EndpointSliceList{}
	if err := f.Client.List(ctx, slices, client.InNamespace(key.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: key.Name}); err != nil {
		return nil, err
	}

	names := readyPods(slices.Items)
	if len(names) == 0 {
		return nil, fmt.Errorf("service %s has no ready pod", key.Name)
	}

	pod := &corev1.Pod{}
	if err := f.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: names[0]}, pod); err != nil {
		return nil, err
	}

	return f.dialPod(ctx, pod, port)
}

// dialRepeatedly connects to the address with dial, and tries again if there is no response. The kernel sends a lost packet again only after a
// second, which is the limit of the gaps of a workload. The kernel of a node responds at once, even if the process in the pod has no CPU time.
func dialRepeatedly(ctx context.Context, address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()

	for {
		connection, err := dial(ctx, "tcp", address)
		if failure := net.Error(nil); err == nil || ctx.Err() != nil || !errors.As(err, &failure) || !failure.Timeout() {
			return connection, err
		}
	}
}

// readyPods returns the names of the ready pods in the slices.
func readyPods(slices []discoveryv1.EndpointSlice) []string {
	var names []string

	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) {
				names = append(names, endpoint.TargetRef.Name)
			}
		}
	}

	return names
}
