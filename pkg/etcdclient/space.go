// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// This file has the calls with which a database gets space again.

// Compact implements Client.
func (m *member) Compact(ctx context.Context, revision int64) error {
	m.begin()
	defer m.end()
	_, err := etcdserverpb.NewKVClient(m.etcd.ActiveConnection()).Compact(ctx, &etcdserverpb.CompactionRequest{Revision: revision, Physical: true})
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrCompacted) {
		return explain("compacting the history", err)
	}

	return nil
}

// Disarm implements Client.
func (m *member) Disarm(ctx context.Context, alarm etcdcluster.Alarm) error {
	ctx, cancel := context.WithTimeout(ctx, m.callTimeout)
	defer cancel()
	raised, err := m.alarm(ctx, etcdserverpb.AlarmRequest_GET, etcdcluster.Alarm{})
	if err != nil {
		return explain("listing the alarms", err)
	}
	if slices.ContainsFunc(raised, func(other etcdcluster.Alarm) bool { return other.Type != alarm.Type }) {
		return explain("disarming the alarm", ErrOtherAlarm)
	}
	if !slices.Contains(raised, alarm) {
		return nil
	}
	if err := m.changeAlarms(ctx, etcdserverpb.AlarmRequest_DEACTIVATE, alarm); err != nil {
		return explain("disarming the alarm", err)
	}

	return nil
}

// firstKey is the first key in the order of etcd. As the end of a range, it means all keys.
const firstKey = "\x00"

// CountKeys implements Client. It reads the first key after the last prefix, and then counts the keys with the prefix of that key. etcd counts by the
// index in its memory.
func (m *member) CountKeys(ctx context.Context) ([]etcdcluster.KeyCount, error) {
	m.begin()
	defer m.end()
	var counts []etcdcluster.KeyCount
	next := firstKey
	for len(counts) < MaxPrefixes {
		first, err := m.etcd.Get(ctx, next, clientv3.WithFromKey(), clientv3.WithLimit(1), clientv3.WithKeysOnly(), clientv3.WithSerializable())
		if err != nil {
			return nil, explain("reading the next key", err)
		}
		if len(first.Kvs) == 0 {
			return sortedCounts(counts), nil
		}
		prefix, end := prefixOf(string(first.Kvs[0].Key))
		counted, err := m.etcd.Get(ctx, prefix, clientv3.WithRange(end), clientv3.WithCountOnly(), clientv3.WithSerializable())
		if err != nil {
			return nil, explain("counting keys", err)
		}
		counts = append(counts, etcdcluster.KeyCount{Prefix: truncate(prefix, maxTextLength), Keys: counted.Count})
		next = end
	}
	rest, err := m.etcd.Get(ctx, next, clientv3.WithFromKey(), clientv3.WithCountOnly(), clientv3.WithSerializable())
	if err != nil {
		return nil, explain("counting keys", err)
	}
	if rest.Count > 0 {
		counts = append(counts, etcdcluster.KeyCount{Keys: rest.Count})
	}

	return sortedCounts(counts), nil
}

// prefixOf returns the prefix by which a key is counted, and the end of its range. A key with fewer slashes is counted by itself.
func prefixOf(key string) (prefix, end string) {
	parts := strings.SplitAfter(key, "/")
	if !strings.HasPrefix(key, "/") {
		parts = append([]string{""}, parts...)
	}
	length := 3 // with what is before the first slash
	if len(parts) > length && strings.Contains(parts[2], ".") {
		length++
	}
	if len(parts) <= length {
		return key, key + "\x00"
	}
	prefix = strings.Join(parts[:length], "")

	return prefix, clientv3.GetPrefixRangeEnd(prefix)
}

// sortedCounts sorts the counts, the largest one first.
func sortedCounts(counts []etcdcluster.KeyCount) []etcdcluster.KeyCount {
	slices.SortStableFunc(counts, func(a, b etcdcluster.KeyCount) int { return cmp.Compare(b.Keys, a.Keys) })

	return counts
}
