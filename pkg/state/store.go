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
	// Provider, Container and Prefix are the location.
	Provider  string `json:"provider"`
	Container string `json:"container"`
	Prefix    string `json:"prefix"`
	// HostPath is the directory of the node of a Local store. Empty: another store, or the record of an operator that did not record it.
	HostPath string `json:"hostPath,omitempty"`
	// SecretName is the Secret with the credentials as it was last resolved. It is not part of the location.
	SecretName string `json:"secretName,omitempty"`
}

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

// String returns the location for messages. Leases record it, and it leaves out the directory of a Local store, which older operators did not
// record.
func (p Store) String() string {
	return fmt.Sprintf("%s container %q prefix %q", p.Provider, p.Container, p.Prefix)
}

// Marshal returns the form in which the ManagedResource records the location: JSON.
func (p Store) Marshal() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("pinning the store: %w", err)
	}

	return string(data), nil
}
