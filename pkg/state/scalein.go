// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import "time"

// ScaleIn is a removal of members. It begins when the configuration is rendered with which a removed member cannot join again.
type ScaleIn struct {
	// To is the number of members that stay. At least 1.
	To int32 `json:"to"`
	// Since is when the client Service was rendered without the members that leave. Zero: it is rendered with all members, because too few
	// members are healthy for a removal.
	Since time.Time `json:"since"`
	// ReadyAt is when the kubelet had the configuration in all pods that leave, and the client Service selected only the others. Zero: not yet.
	ReadyAt time.Time `json:"readyAt,omitzero"`
	// Removing is true before the first member is removed from etcd. As soon as a member is removed, the removal continues to its end, also if
	// the spec changes.
	Removing bool `json:"removing,omitempty"`
}
