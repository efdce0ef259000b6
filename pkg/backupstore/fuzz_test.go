// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore_test

import (
	"strings"
	"testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// FuzzPublicValues checks that the data of a store Secret shows none of its credentials, and that each public value is short.
func FuzzPublicValues(f *testing.F) {
	for _, seed := range [][4]string{
		{"accessKeyID", "AKIDEXAMPLE", "endpoint", "https://user:password@store.example.com/path"},
		{"serviceaccount.json", `{"project_id": "project", "private_key": "secret"}`, "storageAPIEndpoint", "https://storage.example.com"},
		{"credentials.json", `{"endpoint": "store.example.com", "secretAccessKey": "secret"}`, "endpoint", " "},
		{"bucket.json", `[1]`, "region", "\n"}, {"domain", "https://%zz", "storageAccount", "account"},
	} {
		f.Add(seed[0], []byte(seed[1]), seed[2], []byte(seed[3]))
	}
	f.Fuzz(func(t *testing.T, first string, value []byte, second string, other []byte) {
		const password = "correct-horse-battery-staple"
		data := map[string][]byte{first: value, second: other, "password": []byte(password), "secretAccessKey": []byte(password)}
		_ = backupstore.KeysWithWhiteSpace(data)
		for key, public := range backupstore.PublicValues(data) {
			if strings.Contains(public, password) || len(public) > 256 {
				t.Errorf("key %s has the public value %q", key, public)
			}
		}
	})
}
