// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// dialTimeout bounds a connection attempt, because packets to a partitioned node get no response. The client then
	// tries another endpoint.
	dialTimeout = time.Second
	// responseTimeout bounds one of the attempts within dialTimeout to connect to a Service.
	responseTimeout = dialTimeout * 2 / 5
	// slowConnection is the time after which the attempt to connect to an Etcd is part of the row of its phase.
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
		return attemptConnection(host, func() (net.Conn, error) { return w.ns.dialService(ctx, key, port) }, w.recordConnection)
	}

	pod := &corev1.Pod{}
	if err := w.ns.Client.Get(ctx, key, pod); err != nil {
		return nil, err
	}

	return w.ns.dialPod(ctx, pod, port)
}

// recordConnection adds a slow or failed attempt to connect to the Service to the running phase. It adds at most maxAttempts of them.
func (w *Workload) recordConnection(attempt string) {
	w.lock.Lock()
	defer w.lock.Unlock()

	if len(w.phases) == 0 { // before the first phase, while the clients connect
		return
	}

	if stats := w.phases[len(w.phases)-1]; len(stats.Connections) < maxAttempts {
		stats.Connections = append(stats.Connections, attempt)
	}
}

// connectionAttempt is a connection of a workload until the first response of etcd. The error of an operation does not explain a gap: it states
// only that a deadline was exceeded. A connection without a response shows that a packet was dropped, or that a process does not respond.
type connectionAttempt struct {
	net.Conn

	host             string
	start, connected time.Time
	report           func(string)
	once             sync.Once
}

// attemptConnection connects to the host with dial. It reports an attempt that fails or is slow.
func attemptConnection(host string, dial func() (net.Conn, error), report func(string)) (net.Conn, error) {
	attempt := &connectionAttempt{host: host, start: time.Now(), report: report}

	connection, err := dial()
	attempt.connected = time.Now()

	if err != nil {
		attempt.end(fmt.Sprintf("failed: %v", err), true)

		return nil, err
	}

	attempt.Conn = connection

	return attempt, nil
}

// Read reports the first response if it is late, and the end of a connection without a response.
func (a *connectionAttempt) Read(buffer []byte) (int, error) {
	n, err := a.Conn.Read(buffer)
	if n > 0 {
		a.end("had its first response", false)
	} else if err != nil {
		a.end(fmt.Sprintf("ended without a response: %v", err), true)
	}

	return n, err
}

// Close reports a connection without a response.
func (a *connectionAttempt) Close() error {
	a.end("was closed without a response", true)

	return a.Conn.Close()
}

// end reports how the attempt ended, once. The outcome of an attempt that did not fail is reported only if it was slow.
func (a *connectionAttempt) end(outcome string, failed bool) {
	a.once.Do(func() {
		took := time.Since(a.start)
		if !failed && took < slowConnection {
			return
		}

		a.report(fmt.Sprintf("at %s the connection to %s %s after %s, of which %s for TCP", a.start.Format("15:04:05.000"), a.host, outcome,
			roundForTable(took), roundForTable(a.connected.Sub(a.start))))
	})
}
