// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

// SetMostConnections replaces the bound of connections.
func (p *Pool) SetMostConnections(most int) { p.most = most }
