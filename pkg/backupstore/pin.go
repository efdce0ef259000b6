// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"encoding/json"
	"fmt"
)

// Pin is the place that a cluster first wrote its snapshots to, as the ManagedResource remembers it. Names in JSON never
// change.
type Pin struct {
	// Provider, Container and Prefix are the place.
	Provider  Provider `json:"provider"`
	Container string   `json:"container"`
	Prefix    string   `json:"prefix"`
	// HostPath is the directory of the node of a Local store. Empty: another store, or the record of an operator that did not record it.
	HostPath string `json:"hostPath,omitempty"`
	// SecretName is the Secret with the credentials as it was last resolved. It is not part of the place.
	SecretName string `json:"secretName,omitempty"`
}

// PinFor returns what is to be remembered of a store.
func PinFor(store Store) Pin {
	return Pin{Provider: store.Provider, Container: store.Container, Prefix: store.Prefix, HostPath: store.HostPath, SecretName: store.SecretName}
}

// ParsePin reads what Marshal wrote. Nil: nothing is remembered. The error says that somebody broke it, so that nobody knows
// what was remembered.
func ParsePin(text string) (*Pin, error) {
	if text == "" {
		return nil, nil
	}
	pin := &Pin{}
	if err := json.Unmarshal([]byte(text), pin); err != nil {
		return nil, fmt.Errorf("reading where snapshots went until now: %w", err)
	}

	return pin, nil
}

// PlaceFrom is the place in what Marshal wrote, as it is shown to people; empty when nothing is remembered, or nobody can read it.
func PlaceFrom(text string) string {
	pin, err := ParsePin(text)
	if err != nil || pin == nil {
		return ""
	}

	return pin.String()
}

// IsPlaceOf is true when the store is the remembered place, whatever its credentials. It does not compare directories of which one is
// not known.
func (p Pin) IsPlaceOf(store Store) bool {
	isDirectory := p.HostPath == "" || store.HostPath == "" || p.HostPath == store.HostPath

	return p.Provider == store.Provider && p.Container == store.Container && p.Prefix == store.Prefix && isDirectory
}

// String shows the place to people. Leases record it, and it leaves out the directory of a Local store, which older operators did not
// record.
func (p Pin) String() string {
	return fmt.Sprintf("%s container %q prefix %q", p.Provider, p.Container, p.Prefix)
}

// Marshal returns the form in which the ManagedResource remembers the place: JSON.
func (p Pin) Marshal() (string, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("pinning the store: %w", err)
	}

	return string(data), nil
}
