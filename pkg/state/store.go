// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/json"
	"fmt"
)

// Store is the location to which a cluster writes its snapshots, as the ManagedResource records it. Names in JSON never
// change.
type Store struct {
	// Provider, Container and Prefix are the place.
	Provider  string `json:"provider"`
	Container string `json:"container"`
	Prefix    string `json:"prefix"`
	// HostPath is the directory of the node of a Local store. Empty: another store, or the record of an operator that did not record it.
	HostPath string `json:"hostPath,omitempty"`
	// SecretName is the Secret with the credentials as it was last resolved. It is not part of the place.
	SecretName string `json:"secretName,omitempty"`
}

// ParseStore reads what Marshal wrote. Nil: nothing is remembered. The error says that somebody broke it, so that nobody knows
// what was remembered.
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

// String shows the place to people. Leases record it, and it leaves out the directory of a Local store, which older operators did not
// record.
func (p Store) String() string {
	return fmt.Sprintf("%s container %q prefix %q", p.Provider, p.Container, p.Prefix)
}

// Marshal returns the form in which the ManagedResource remembers the place: JSON.
func (p Store) Marshal() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("pinning the store: %w", err)
	}

	return string(data), nil
}
