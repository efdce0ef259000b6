// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

// SetMaxConnections sets the maximum number of connections.
func (p *Pool) SetMaxConnections(limit int) { p.maxConnections = limit }
