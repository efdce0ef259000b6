// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// Existing is what the operator records about the cluster that the Etcd has joined, and about the removal of its members.
type Existing struct {
	// ClientEndpoints are the client endpoints of the cluster that are rendered. The spec may name others, or none, while members are removed.
	ClientEndpoints []string `json:"clientEndpoints,omitempty"`
	// Voters is the number of voting members of both clusters before the first removal. 0: no member may have been removed.
	Voters int `json:"voters,omitempty"`
	// RemovedAt is when the member list had none of the members any more that are removed. Zero: it has some.
	RemovedAt time.Time `json:"removedAt,omitzero"`
}
