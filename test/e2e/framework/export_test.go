// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"net"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// CapabilitiesOf exports capabilitiesOf and ImageIn exports imageIn for tests.
func CapabilitiesOf(isSeed bool, version, nextSidecar string) (Capabilities, error) {
	return capabilitiesOf(isSeed, version, nextSidecar)
}
func ImageIn(vector, name string) string { return imageIn(vector, name) }

// EndWorkload ends a workload with these clients.
func EndWorkload(clients ...*clientv3.Client) {
	(&Workload{cancel: func() {}, clients: clients}).end()
}

// AttemptConnection exports attemptConnection.
func AttemptConnection(host string, dial func() (net.Conn, error), report func(string)) (net.Conn, error) {
	return attemptConnection(host, dial, report)
}
