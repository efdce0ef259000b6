// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"maps"
	"slices"
	"strings"
)

// KeysWithWhiteSpace returns the sorted keys of a Secret that the sidecar may read, and whose values have white space at their start or end. The
// sidecar uses the values as they are, and stores reject such credentials. If the Secret has a file in JSON, the sidecar reads only the endpoint of
// GCS next to it.
func KeysWithWhiteSpace(data map[string][]byte) []string {
	hasFile := slices.ContainsFunc(slices.Collect(maps.Keys(data)), func(key string) bool { return strings.HasSuffix(key, ".json") })
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		value := string(data[key])
		if strings.TrimSpace(value) != value && (!hasFile || key == keyStorageAPIEndpoint) {
			keys = append(keys, key)
		}
	}

	return keys
}

// UsedKey returns the first of the keys of a Secret whose value the sidecar uses for the store. Empty: it uses none of them.
func (s Store) UsedKey(keys []string) string {
	used := s.Provider.traits().values
	for _, key := range keys {
		if slices.Contains(used, key) {
			return key
		}
	}

	return ""
}
