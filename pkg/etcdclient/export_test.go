// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import "time"

// SetMaxConnections sets the maximum number of connections.
func (p *Pool) SetMaxConnections(limit int) { p.maxConnections = limit }

// SetGRPCIdleTimeout sets the time after which gRPC closes an unused connection.
func (p *Pool) SetGRPCIdleTimeout(timeout time.Duration) { p.grpcIdleTimeout = timeout }
