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
	// largestResponse bounds the body of a response, in bytes: the delta snapshots of one and a half months, one every 20 seconds.
	// A list is never held in memory as a whole.
	largestResponse = 64 << 20
	// largestValue bounds one value in a body, in bytes: a snapshot has about 300.
	largestValue = 64 << 10
	// longestText bounds a text of a snapshot, in bytes. It is the longest name of an object in a store.
	longestText = 1024
)

var (
	errTooLarge = errors.New("the response is too large")
	errNoJSON   = errors.New("the response is not valid JSON")
	errBadName  = errors.New("the response names a snapshot with a name that is too long or not printable")
)

// response decodes a body value by value.
type response struct {
	body    *boundedReader
	decoder *json.Decoder
}

func newResponse(body io.Reader) *response {
	bounded := &boundedReader{reader: body, total: largestResponse, value: largestValue}

	return &response{body: bounded, decoder: json.NewDecoder(bounded)}
}

// snapshotAnswer is a snapshot as the sidecar writes it.
type snapshotAnswer struct {
	Kind          string    `json:"kind"`
	StartRevision int64     `json:"startRevision"`
	LastRevision  int64     `json:"lastRevision"`
	CreatedOn     time.Time `json:"createdOn"`
	Directory     string    `json:"snapDir"`
	Name          string    `json:"snapName"`
	IsFinal       bool      `json:"isFinal"`
}

// snapshot reads a body that is one snapshot. Nil without an error: it is null.
func (r *response) snapshot() (*Snapshot, error) {
	snapshot, err := r.nextSnapshot()
	if err != nil {
		return nil, err
	}

	return snapshot, r.end()
}

// latestSnapshots reads a body that says what the store holds at its end. Of the delta snapshots it keeps the last one only.
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

// deltas reads a list of snapshots or null.
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

// nextSnapshot reads a snapshot or null. Nil without an error: it is null, or has no name.
func (r *response) nextSnapshot() (*Snapshot, error) {
	var answer *snapshotAnswer
	if err := r.value(&answer); err != nil {
		return nil, err
	}
	if answer == nil || answer.Name == "" {
		return nil, nil
	}
	name := answer.Name
	if answer.Directory != "" { // the oldest layout of stores
		name = answer.Directory + "/" + answer.Name
	}
	if !isText(name) || !isText(answer.Kind) {
		return nil, errBadName
	}

	return &Snapshot{
		Name: name, Kind: answer.Kind, StartRevision: answer.StartRevision, LastRevision: answer.LastRevision, CreatedAt: answer.CreatedOn, Final: answer.IsFinal,
	}, nil
}

func isText(text string) bool {
	return len(text) <= longestText && utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

func (r *response) value(into any) error {
	r.body.value = largestValue

	return r.decoder.Decode(into)
}

func (r *response) token() (json.Token, error) {
	r.body.value = largestValue

	return r.decoder.Token()
}

func (r *response) delimiter(expected json.Delim) error {
	token, err := r.token()
	if err == nil && token != expected {
		return errNoJSON
	}

	return err
}

// end makes sure that nothing follows.
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

// boundedReader fails with errTooLarge where more is read than a response, or one value in it, may have.
type boundedReader struct {
	reader io.Reader
	// total and value are how many bytes may still be read, of the response and of the value at hand.
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
