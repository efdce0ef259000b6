// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state_test

import (
	"maps"
	"testing"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// FuzzDecode checks that a record that can be read is written, and is then read and written without a change.
func FuzzDecode(f *testing.F) {
	for record, store := range map[string]string{
		"":              "",
		`{"version":1}`: "S3/bucket/demo--main",
		`{"version":1,"Size":3,"size":0,"podsize":1}`: "S3/bucket",
		`{"version":2,"replicas":3}`:                  "S3/bucket",
		`{"version":1,"size":3,"surge":{"phase":"Join","since":"2026-01-01T12:00:00Z"},"migration":{},"evidence":{"highestRevision":7}}`:                       `{"provider":"S3"}`,
		`{"version":1,"accepted":{"generation":2,"spec":{"replicas":3},"defaults":{"imageSets":{"3.4":{"etcdWrapper":"w"}}}},"later":{"a":[1,2]}}`:             "Local//",
		`{"version":1,"inconsistency":{"comparisons":3,"members":[{"name":"main-0","id":"a1","hash":7}]},"retained":[{"name":"pv-1"}],"space":{"since":null}}`: "?",
	} {
		f.Add(record, store)
	}
	encode := func(t *testing.T, s state.State) map[string]string {
		annotations, err := s.Encode()
		if err != nil {
			t.Fatalf("a record that was read cannot be written: %v", err)
		}

		return annotations
	}
	f.Fuzz(func(t *testing.T, record, store string) {
		decoded, err := state.Decode(map[string]string{druidv1alpha1.ManagedResourceAnnotationState: record, druidv1alpha1.ManagedResourceAnnotationStore: store})
		if err != nil {
			return
		}
		written := encode(t, decoded)
		again, err := state.Decode(written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if rewritten := encode(t, again); !maps.Equal(rewritten, written) {
			t.Errorf("%v becomes %v", written, rewritten)
		}
	})
}
