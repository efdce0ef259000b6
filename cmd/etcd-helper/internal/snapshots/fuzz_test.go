// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"testing"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// FuzzParseName checks that the name of a snapshot has one meaning: what it contains leads to an equal name.
func FuzzParseName(f *testing.F) {
	for _, name := range []string{
		"Full-00000000-00000042-1767225600", "Incr-00000043-00000050-1767225600.gz", "Full-00000000-00000042-1767225600.zlib.final",
		"Incr-00000050-00000043-1767225600", "Full-0-9223372036854775808-1", "Full-00000000-00000042-9223372036854775807.Z", "../Full-00000000-00000001-1",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, isSnapshot := snapshots.ParseName(text)
		if !isSnapshot {
			return
		}
		if again, is := snapshots.ParseName(name.String()); !is || again != name {
			t.Errorf("%q is %+v, and its name %q is %+v", text, name, name.String(), again)
		}
		if name.First > name.Last || name.First < 0 {
			t.Errorf("%q has the revisions %d to %d", text, name.First, name.Last)
		}
	})
}
