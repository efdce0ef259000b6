// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Incident is what a quorum has confirmed after voting members had lost their data. If one more member is lost, it can prove that the log of a
// remaining member has every acknowledged write.
type Incident struct {
	// ClusterID is the ID of the cluster, in hexadecimal digits.
	ClusterID string `json:"clusterID"`
	// Voters are the voting members in the member list of the quorum, sorted by their IDs.
	Voters []Voter `json:"voters"`
	// Lost are those of Voters whose data was lost, and whose etcd had ended.
	Lost []LostVoter `json:"lost,omitempty"`
	// Confirmed are the IDs of the voting members that have completed a linearizable read after Voters and Lost were recorded, sorted.
	Confirmed []string `json:"confirmed,omitempty"`
	// At is when Voters and Lost were recorded.
	At time.Time `json:"at"`
}

// LostVoter is a voting member that has lost its data.
type LostVoter struct {
	Voter
	// Claim is the UID of the PersistentVolumeClaim with the lost data. Empty: there was none.
	Claim types.UID `json:"claim,omitempty"`
	// Deleted is true if that claim does not exist any more. Before, the data may return and the member may confirm writes, and the operator may not run
	// meanwhile.
	Deleted bool `json:"deleted,omitempty"`
	// Running is true until the etcd of the member has ended. Before, it may confirm writes with the data that it has open.
	Running bool `json:"running,omitempty"`
}
