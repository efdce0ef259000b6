// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// FuzzParseHeartbeat checks that the holder identity of a Lease of a member has one meaning.
func FuzzParseHeartbeat(f *testing.F) {
	for _, identity := range []string{"a1:Leader", "a1:c1:Member", "0:0:Member", ":Leader", "a1:-1:Member", "ffffffffffffffff:Leader", "a1:c1:d1:Member"} {
		f.Add(identity)
	}
	f.Fuzz(func(t *testing.T, identity string) {
		heartbeat, err := etcdcluster.ParseHeartbeat(identity)
		if err != nil {
			return
		}
		if again, err := etcdcluster.ParseHeartbeat(heartbeat.String()); err != nil || again != heartbeat {
			t.Errorf("%q is %+v, and %q is %+v (%v)", identity, heartbeat, heartbeat, again, err)
		}
	})
}
