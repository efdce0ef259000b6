// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxResponseSize is the maximum size of a response body, in bytes. It is enough for the delta snapshots of one and a half
	// months at one per 20 seconds. The whole list is never in memory.
	maxResponseSize = 64 << 20
	// maxValueSize is the maximum size of one value in a body, in bytes. A snapshot has about 300 bytes.
	maxValueSize = 64 << 10
	// maxTextLength is the maximum length of a text of a snapshot, in bytes. It equals the maximum length of an object name in
	// a store.
	maxTextLength = 1024
)

var (
	errTooLarge = errors.New("the response is too large")
	errNoJSON   = errors.New("the response is not valid JSON")
	errBadName  = errors.New("the response names a snapshot with a name that is too long or not printable")
)

// response decodes a body one value at a time.
type response struct {
	body    *boundedReader
	decoder *json.Decoder
}

func newResponse(body io.Reader) *response {
	bounded := &boundedReader{reader: body, total: maxResponseSize, value: maxValueSize}

	return &response{body: bounded, decoder: json.NewDecoder(bounded)}
}

// snapshotResponse is the JSON form of a snapshot in a response of the sidecar.
type snapshotResponse struct {
	Kind          string    `json:"kind"`
	StartRevision int64     `json:"startRevision"`
	LastRevision  int64     `json:"lastRevision"`
	CreatedOn     time.Time `json:"createdOn"`
	Directory     string    `json:"snapDir"`
	Name          string    `json:"snapName"`
	IsFinal       bool      `json:"isFinal"`
}

// snapshot decodes a body that is one snapshot. Nil without an error: the body is null.
func (r *response) snapshot() (*Snapshot, error) {
	snapshot, err := r.nextSnapshot()
	if err != nil {
		return nil, err
	}

	return snapshot, r.end()
}

// latestSnapshots decodes a body that lists the newest snapshots. It keeps only the last delta snapshot.
func (r *response) latestSnapshots() (LatestSnapshots, error) {
	var latest LatestSnapshots
	if err := r.delimiter('{'); err != nil {
		return latest, err
	}
	for r.decoder.More() {
		key, err := r.token()
		if err != nil {
			return latest, err
		}
		switch key {
		case "fullSnapshot":
			latest.Full, err = r.nextSnapshot()
		case "deltaSnapshots":
			err = r.deltas(&latest)
		default:
			err = r.value(new(json.RawMessage))
		}
		if err != nil {
			return latest, err
		}
	}
	if err := r.delimiter('}'); err != nil {
		return latest, err
	}

	return latest, r.end()
}

// deltas decodes a list of snapshots or null.
func (r *response) deltas(latest *LatestSnapshots) error {
	switch opening, err := r.token(); {
	case err != nil || opening == nil:
		return err
	case opening != json.Delim('['):
		return errNoJSON
	}
	for r.decoder.More() {
		delta, err := r.nextSnapshot()
		if err != nil {
			return err
		}
		if delta != nil {
			latest.LastDelta = delta
			latest.DeltaCount++
		}
	}

	return r.delimiter(']')
}

// nextSnapshot decodes a snapshot or null. Nil without an error: the value is null or has no name.
func (r *response) nextSnapshot() (*Snapshot, error) {
	var snapshot *snapshotResponse
	if err := r.value(&snapshot); err != nil {
		return nil, err
	}
	if snapshot == nil || snapshot.Name == "" {
		return nil, nil
	}
	name := snapshot.Name
	if snapshot.Directory != "" { // layout of the first versions of etcd-backup-restore
		name = snapshot.Directory + "/" + snapshot.Name
	}
	if !isPrintable(name) || !isPrintable(snapshot.Kind) {
		return nil, errBadName
	}

	return &Snapshot{
		Name: name, Kind: snapshot.Kind, StartRevision: snapshot.StartRevision, LastRevision: snapshot.LastRevision, CreatedAt: snapshot.CreatedOn, Final: snapshot.IsFinal,
	}, nil
}

func isPrintable(text string) bool {
	return len(text) <= maxTextLength && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func (r *response) value(into any) error {
	r.body.value = maxValueSize

	return r.decoder.Decode(into)
}

func (r *response) token() (json.Token, error) {
	r.body.value = maxValueSize

	return r.decoder.Token()
}

func (r *response) delimiter(expected json.Delim) error {
	token, err := r.token()
	if err == nil && token != expected {
		return errNoJSON
	}

	return err
}

// end returns an error if the body continues after the JSON value.
func (r *response) end() error {
	switch _, err := r.token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	default:
		return errNoJSON
	}
}

// boundedReader fails with errTooLarge if a response or one of its values exceeds its maximum size.
type boundedReader struct {
	reader io.Reader
	// total and value are the remaining bytes of the response and of its current value.
	total, value int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	allowed := min(b.total, b.value)
	if allowed <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > allowed {
		p = p[:allowed]
	}
	n, err := b.reader.Read(p)
	b.total -= int64(n)
	b.value -= int64(n)

	return n, err
}
