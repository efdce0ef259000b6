// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// ReplayedPoint describes the point that etcd-helper has replayed. The text is its termination message.
func ReplayedPoint(message string) string {
	result := struct {
		Revision int64      `json:"revision"`
		Keys     int64      `json:"keys"`
		Base     string     `json:"base"`
		Deltas   int        `json:"deltas"`
		Time     *time.Time `json:"time"`
	}{}
	if err := json.Unmarshal([]byte(message), &result); err != nil || result.Revision == 0 {
		return "unknown revision"
	}
	text := &strings.Builder{}
	fmt.Fprintf(text, "revision %d", result.Revision)
	if result.Time != nil {
		fmt.Fprintf(text, " of %s", result.Time.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(text, ", %d keys, from %s", result.Keys, result.Base)
	switch result.Deltas {
	case 0:
	case 1:
		text.WriteString(" and a delta snapshot")
	default:
		fmt.Fprintf(text, " and %d delta snapshots", result.Deltas)
	}

	return text.String()
}

// Beginnings of values in the store of a kube-apiserver.
var (
	protobufBeginning  = []byte("k8s\x00")
	encryptedBeginning = []byte("k8s:enc:")
)

// MediaType returns the media type of a value.
func MediaType(value []byte) string {
	switch {
	case bytes.HasPrefix(value, protobufBeginning):
		return "application/vnd.kubernetes.protobuf"
	case bytes.HasPrefix(value, encryptedBeginning):
		provider, _, _ := bytes.Cut(value[len(encryptedBeginning):], []byte(":"))

		return fmt.Sprintf("application/octet-stream, encrypted by the kube-apiserver with %q", provider)
	case json.Valid(value):
		return "application/json"
	case utf8.Valid(value):
		return "text/plain"
	default:
		return "application/octet-stream"
	}
}
