// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// Change is how a key differs, in its form in JSON.
type Change struct {
	// Change is `added`, `removed` or `changed`.
	Change string `json:"change"`
	// Before is the key in the first database. Nil: it was added. After is the key in the second one. Nil: it was removed.
	Before *Entry `json:"before,omitempty"`
	After  *Entry `json:"after,omitempty"`
}

// Changes are the kinds of changes.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Diff visits the differences between the selected keys of two databases, in the order of the keys. A key has changed if its value or its
// creation differs. Both databases can be the same, with different revisions. The error is ErrRevision, or that of visit.
func Diff(before, after *inspect.Database, first, second Selection, visit func(Change) error) error {
	revisionBefore, err := revisionOf(before, first)
	if err != nil {
		return err
	}
	revisionAfter, err := revisionOf(after, second)
	if err != nil {
		return err
	}
	key, end := rangeOf(first.Prefix)
	removed, added := before.KeysAt(key, end, revisionBefore), after.KeysAt(key, end, revisionAfter)
	a, err := removed.Next()
	if err != nil {
		return err
	}
	b, err := added.Next()
	for err == nil && (a != nil || b != nil) {
		order := compare(a, b)
		if change := changeOf(a, b, order, first.WithValues); change != nil {
			if err := visit(*change); err != nil {
				return err
			}
		}
		if order <= 0 {
			if a, err = removed.Next(); err != nil {
				return err
			}
		}
		if order >= 0 {
			b, err = added.Next()
		}
	}

	return err
}

// compare returns the order of two keys. Nil comes after all others.
func compare(a, b *mvccpb.KeyValue) int {
	switch {
	case a == nil:
		return 1
	case b == nil:
		return -1
	default:
		return bytes.Compare(a.Key, b.Key)
	}
}

// changeOf returns how the first one of two keys differs. Nil: it does not.
func changeOf(a, b *mvccpb.KeyValue, order int, withValues bool) *Change {
	entry := func(kv *mvccpb.KeyValue) *Entry { return new(entryFor(*kv, withValues)) }
	switch {
	case order < 0:
		return &Change{Change: Removed, Before: entry(a)}
	case order > 0:
		return &Change{Change: Added, After: entry(b)}
	case bytes.Equal(a.Value, b.Value) && a.CreateRevision == b.CreateRevision:
		return nil
	default:
		return &Change{Change: Changed, Before: entry(a), After: entry(b)}
	}
}
