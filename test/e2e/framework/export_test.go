// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"time"

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

// RecordAttempt returns a phase with this attempt.
func RecordAttempt(what string, start time.Time, err error) PhaseStats {
	w := &Workload{phases: []*PhaseStats{{}}}
	w.recordAttempt(what, start, err)

	return *w.phases[0]
}

// RecordConnection returns a phase with the attempts of this connection.
func RecordConnection(ctx context.Context, connection connectionState) PhaseStats {
	w := &Workload{phases: []*PhaseStats{{}}}
	w.recordConnection(ctx, connection)

	return *w.phases[0]
}

// DialRepeatedly exports dialRepeatedly.
var DialRepeatedly = dialRepeatedly
