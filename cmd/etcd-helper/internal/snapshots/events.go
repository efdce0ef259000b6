// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package snapshots

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Event is an event of a delta snapshot.
type Event struct {
	// Event is the change, as a watch of etcd returned it. Its key-value pair includes the lease.
	Event mvccpb.Event `json:"etcdEvent"`
	// Time is when the sidecar received it: seconds after the change, or minutes if the sidecar was restarted.
	Time time.Time `json:"time"`
}

// Events reads the events of a delta snapshot, and verifies the hash at its end.
func (f File) Events() ([]Event, error) {
	content, err := f.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = content.Close() }() // opened read-only
	data, err := io.ReadAll(content)
	if err != nil {
		return nil, f.damaged("decompressing it: %w", err)
	}
	if len(data) <= sha256.Size {
		return nil, f.damaged("it has %d bytes, and no SHA-256", len(data))
	}
	data, expected := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if found := sha256.Sum256(data); !bytes.Equal(found[:], expected) {
		return nil, f.damaged("its SHA-256 is %x, and it was written with %x", found, expected)
	}
	var events []Event
	if err := json.Unmarshal(data, &events); err != nil {
		return nil, f.damaged("reading its events: %w", err)
	}
	for i, event := range events {
		if event.Event.Kv == nil || len(event.Event.Kv.Key) == 0 {
			return nil, f.damaged("event %d has no key", i)
		}
	}

	return events, nil
}
