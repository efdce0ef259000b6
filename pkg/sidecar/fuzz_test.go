// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// FuzzLatestSnapshots checks that no response of a sidecar leads to a name of a snapshot that does not print or is too long.
func FuzzLatestSnapshots(f *testing.F) {
	const longest = 1024
	for _, body := range []string{
		"", "null", "{}", `{"fullSnapshot":` + fullResponse + `,"deltaSnapshots":[` + incrementalResponse + "," + incrementalResponse + "]}", `{"fullSnapshot":null,"deltaSnapshots":null}`,
		`{"fullSnapshot":{"kind":"Full","snapName":"Full-\u001b[2J"}}`, `{"deltaSnapshots":[{"snapDir":"Backup-1","snapName":"Incr-1"}]}`, `{"other":[[[[]]]]}{}`, `{"deltaSnapshots":{}}`,
	} {
		f.Add(body)
	}
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	f.Cleanup(server.Close)
	client, err := sidecar.HTTP{}.Connect(sidecar.Target{Address: strings.TrimPrefix(server.URL, "http://")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, response string) {
		body = response
		latest, err := client.LatestSnapshots(t.Context())
		if err != nil {
			return
		}
		for _, snapshot := range []*sidecar.Snapshot{latest.Full, latest.LastDelta} {
			if snapshot != nil && (snapshot.Name == "" || len(snapshot.Name) > longest || strings.ContainsFunc(snapshot.Name, func(r rune) bool { return !unicode.IsPrint(r) })) {
				t.Errorf("%q has a snapshot with the name %q", response, snapshot.Name)
			}
		}
	})
}
