// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Store is the location to which a cluster writes its snapshots, as the ManagedResource records it. Names in JSON never
// change.
type Store struct {
	// Provider, Container and Prefix are the location.
	Provider  string `json:"provider"`
	Container string `json:"container"`
	Prefix    string `json:"prefix"`
	// Endpoint is the host of the store's API in its canonical form, with its port if that is not the default of the scheme. Empty: unknown, or a
	// Local store.
	Endpoint string `json:"endpoint,omitempty"`
	// Account is the account or project that owns the credentials. It never is a secret value. Empty: unknown, or the provider identifies
	// a container without it.
	Account string `json:"account,omitempty"`
	// HostPath is the directory of the node of a Local store. Empty: another store.
	HostPath string `json:"hostPath,omitempty"`
	// SecretName is the Secret with the credentials as it was last resolved. It is not part of the location.
	SecretName string `json:"secretName,omitempty"`
	// ChangedAt is when Endpoint or Account last changed to another known value. Zero: never. It is not part of the location.
	ChangedAt time.Time `json:"changedAt,omitzero"`
	// VerifiedAt is the time of the first full snapshot that a Lease of the Etcd recorded in this location since ChangedAt. The Etcd then owns
	// the location. Zero: none was recorded. It is not part of the location.
	VerifiedAt time.Time `json:"verifiedAt,omitzero"`
}

// AwaitsSnapshot is true from a change of Endpoint or Account until a full snapshot exists there. Earlier snapshots may lack writes, also in a
// store that was used before: delta snapshots may be in the store that was used meanwhile.
func (p Store) AwaitsSnapshot() bool { return !p.ChangedAt.IsZero() && p.VerifiedAt.IsZero() }

// ParseStore reads what Marshal wrote. Nil: no store is recorded. The error says that the record cannot be parsed.
func ParseStore(text string) (*Store, error) {
	if text == "" {
		return nil, nil
	}
	pin := &Store{}
	if err := json.Unmarshal([]byte(text), pin); err != nil {
		return nil, fmt.Errorf("reading where snapshots went until now: %w", err)
	}

	return pin, nil
}

// String returns the location for messages. Leases and the record of a final snapshot contain it: compare these texts with IsSameStore. It
// leaves out the directory of a Local store, and endpoint and account that are unknown.
func (p Store) String() string {
	text := fmt.Sprintf("%s container %q prefix %q", p.Provider, p.Container, p.Prefix)
	if p.Endpoint != "" {
		text += fmt.Sprintf(" endpoint %q", p.Endpoint)
	}
	if p.Account != "" {
		text += fmt.Sprintf(" account %q", p.Account)
	}

	return text
}

// Marshal returns the form in which the ManagedResource records the location: JSON.
func (p Store) Marshal() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("pinning the store: %w", err)
	}

	return string(data), nil
}

// quoted matches a text as %q writes it.
const quoted = `"(?:[^"\\]|\\.)*"`

// storeText matches the result of Store.String.
var storeText = regexp.MustCompile(`^(\S+ container ` + quoted + ` prefix ` + quoted + `)(?: endpoint (` + quoted + `))?(?: account (` + quoted + `))?$`)

// locationText matches the first part of the result of Store.String, which is always known.
var locationText = regexp.MustCompile(`^(\S+) container (` + quoted + `) prefix (` + quoted + `)$`)

// parseStoreText splits the result of Store.String. A text of another form is returned as the first value.
func parseStoreText(text string) (location, endpoint, account string) {
	parts := storeText.FindStringSubmatch(text)
	if parts == nil {
		return text, "", ""
	}
	endpoint, _ = strconv.Unquote(parts[2])
	account, _ = strconv.Unquote(parts[3])

	return parts[1], endpoint, account
}

// ParseStoreText returns the store whose String is the text. Nil: the text has another form. The directory of a Local store is not in the text.
func ParseStoreText(text string) *Store {
	parts := storeText.FindStringSubmatch(text)
	if parts == nil {
		return nil
	}
	location := locationText.FindStringSubmatch(parts[1])
	store := &Store{Provider: location[1]}
	store.Container, _ = strconv.Unquote(location[2])
	store.Prefix, _ = strconv.Unquote(location[3])
	_, store.Endpoint, store.Account = parseStoreText(text)

	return store
}

// IsSameStore compares two results of Store.String. An endpoint or account that one of them lacks is unknown, and matches every other one.
func IsSameStore(a, b string) bool {
	if a == b {
		return true
	}
	locationA, endpointA, accountA := parseStoreText(a)
	locationB, endpointB, accountB := parseStoreText(b)

	return locationA == locationB && matches(endpointA, endpointB) && matches(accountA, accountB)
}

// IsSameContainer compares two results of Store.String without endpoint and account.
func IsSameContainer(a, b string) bool {
	locationA, _, _ := parseStoreText(a)
	locationB, _, _ := parseStoreText(b)

	return locationA == locationB
}

// matches is true for the same value, or if one of them is unknown.
func matches(a, b string) bool { return a == "" || b == "" || a == b }

// HasSameIdentity is false if endpoint or account of both records are known and differ.
func (p Store) HasSameIdentity(other Store) bool {
	return matches(p.Endpoint, other.Endpoint) && matches(p.Account, other.Account)
}
