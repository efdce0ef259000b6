// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// maxPrefixBytes is the maximum length of a prefix in bytes.
const maxPrefixBytes = 128

// Usage is which prefixes use the space of a database, in its form in JSON.
type Usage struct {
	// Revision and CompactRevision are those of the database.
	Revision        int64 `json:"revision"`
	CompactRevision int64 `json:"compactRevision,omitempty"`
	// FileBytes is the size of the file. It contains free space, which a defragmentation removes.
	FileBytes int64 `json:"fileBytes"`
	// Bytes and HistoryBytes are the sums of those of all prefixes.
	Bytes        int64 `json:"bytes"`
	HistoryBytes int64 `json:"historyBytes"`
	// Prefixes are the largest ones. Others is the number of the remaining ones.
	Prefixes []PrefixUsage `json:"prefixes"`
	Others   int           `json:"others,omitempty"`
}

// PrefixUsage is the space that the keys with a prefix use.
type PrefixUsage struct {
	// Prefix up to a `/`. Empty: the keys contain no `/`.
	Prefix string `json:"prefix"`
	// Keys is the number of existing keys. Bytes is the size of their keys and values.
	Keys  int64 `json:"keys"`
	Bytes int64 `json:"bytes"`
	// History is the number of earlier versions and of deletions. HistoryBytes is their size. A compaction removes them.
	History      int64 `json:"history"`
	HistoryBytes int64 `json:"historyBytes"`
}

// Prefixes returns the prefixes of a number of path segments that use the most space, with their history. It returns at most limit prefixes.
func Prefixes(database *inspect.Database, segments, limit int) (Usage, error) {
	usage := Usage{FileBytes: database.Size()}
	usage.Revision, usage.CompactRevision = database.Revisions()
	prefixes := map[string]*PrefixUsage{}
	prefixFor := func(key []byte) *PrefixUsage {
		name := prefixOf(string(key), segments)
		if prefixes[name] == nil {
			prefixes[name] = &PrefixUsage{Prefix: name}
		}

		return prefixes[name]
	}
	err := database.ForEachRecord(0, func(record inspect.Record) error {
		kv := mvccpb.KeyValue{}
		if err := kv.Unmarshal(record.Value); err != nil {
			return fmt.Errorf("%w: reading revision %d: %w", inspect.ErrCorrupt, record.Revision.Main, err)
		}
		if len(kv.Key) == 0 {
			return nil // the record of an increased revision
		}
		prefix := prefixFor(kv.Key)
		prefix.History++
		prefix.HistoryBytes += int64(len(record.Value))

		return nil
	})
	if err != nil {
		return Usage{}, err
	}
	key, end := rangeOf("")
	err = database.ForEachKey(key, end, usage.Revision, func(kv mvccpb.KeyValue) error {
		size := int64(kv.Size())
		prefix := prefixFor(kv.Key)
		prefix.Keys, prefix.Bytes = prefix.Keys+1, prefix.Bytes+size
		prefix.History, prefix.HistoryBytes = prefix.History-1, prefix.HistoryBytes-size

		return nil
	})
	usage.setLargest(prefixes, limit)

	return usage, err
}

// setLargest sets the largest prefixes and the sums of all.
func (u *Usage) setLargest(prefixes map[string]*PrefixUsage, limit int) {
	u.Prefixes = []PrefixUsage{}
	for _, prefix := range prefixes {
		u.Bytes, u.HistoryBytes = u.Bytes+prefix.Bytes, u.HistoryBytes+prefix.HistoryBytes
		u.Prefixes = append(u.Prefixes, *prefix)
	}
	slices.SortFunc(u.Prefixes, func(a, b PrefixUsage) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.HistoryBytes, a.Bytes+a.HistoryBytes), cmp.Compare(a.Prefix, b.Prefix))
	})
	u.Shorten(limit)
}

// Shorten removes the smallest prefixes, so that at most limit prefixes remain.
func (u *Usage) Shorten(limit int) {
	if removed := len(u.Prefixes) - limit; removed > 0 {
		u.Prefixes, u.Others = u.Prefixes[:limit], u.Others+removed
	}
}

// prefixOf returns the first path segments of a key without its last segment. A key with other bytes than text is quoted.
func prefixOf(key string, segments int) string {
	end := 0
	for range segments + strings.Count(key[:min(1, len(key))], "/") {
		next := strings.IndexByte(key[end:], '/')
		if next < 0 {
			break
		}
		end += next + 1
	}
	prefix := key[:end]
	if len(prefix) > maxPrefixBytes {
		prefix = prefix[:maxPrefixBytes]
	}
	if !utf8.ValidString(prefix) {
		return strconv.Quote(prefix)
	}

	return prefix
}
