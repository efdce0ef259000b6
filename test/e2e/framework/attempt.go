// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/connectivity"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// dialTimeout bounds a connection attempt, because packets to a partitioned node get no response. The client then
	// tries another endpoint.
	dialTimeout = time.Second
	// responseTimeout bounds one of the attempts within dialTimeout to connect to a Service.
	responseTimeout = dialTimeout * 2 / 5
	// slowConnection is the time after which the attempt to connect to a Service is part of the row of its phase.
	slowConnection = 300 * time.Millisecond
	// maxAttempts is the largest number of attempts in the row of a phase. A phase in which the cluster is down has hundreds.
	maxAttempts = 5
)

func (w *Workload) dial(ctx context.Context, endpoint string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return nil, err
	}

	host, _, _ = strings.Cut(host, ".")
	key := client.ObjectKey{Namespace: w.ns.Name, Name: host}

	if strings.HasSuffix(host, "-client") {
		start := time.Now()
		connection, err := w.ns.dialService(ctx, key, port)
		w.recordAttempt("the TCP connection to "+host, start, err)

		return connection, err
	}

	pod := &corev1.Pod{}
	if err := w.ns.Client.Get(ctx, key, pod); err != nil {
		return nil, err
	}

	return w.ns.dialPod(ctx, pod, port)
}

// connectionState is what a connection of gRPC reports about itself.
type connectionState interface {
	GetState() connectivity.State
	WaitForStateChange(ctx context.Context, before connectivity.State) bool
}

// recordConnection records the attempts to connect to a Service until the connection is closed or the context ends. An attempt includes TLS and
// the first message of the server. The error of an operation does not explain a gap: it states only that a deadline was exceeded.
func (w *Workload) recordConnection(ctx context.Context, connection connectionState) {
	state, start := connection.GetState(), time.Now()

	for state != connectivity.Shutdown && connection.WaitForStateChange(ctx, state) {
		next := connection.GetState()
		if state == connectivity.Connecting {
			var err error
			if next != connectivity.Ready {
				err = fmt.Errorf("state %s", next)
			}

			w.recordAttempt("the connection to the Service", start, err)
		}

		state, start = next, time.Now()
	}
}

// recordAttempt adds an attempt to connect to the Service to the running phase if it failed or was slow. It adds at most maxAttempts of them.
func (w *Workload) recordAttempt(what string, start time.Time, err error) {
	took := time.Since(start)
	if err == nil && took < slowConnection {
		return
	}

	attempt := fmt.Sprintf("at %s %s took %s", start.Format("15:04:05.000"), what, roundForTable(took))
	if err != nil {
		attempt += fmt.Sprintf(" and failed: %v", err)
	}

	w.lock.Lock()
	defer w.lock.Unlock()

	if len(w.phases) == 0 { // the clients connect before the first phase
		return
	}

	if stats := w.phases[len(w.phases)-1]; len(stats.Connections) < maxAttempts {
		stats.Connections = append(stats.Connections, attempt)
	}
}
