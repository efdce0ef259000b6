// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// Votes are the voting members of a cluster.
type Votes struct {
	// Healthy is the number of healthy voting members, and Voting that of all voting members.
	Healthy, Voting int
}

// votes returns the voting members of the simulated cluster.
func (c *Cluster) votes() Votes {
	healthy, voting := c.Voters()

	return Votes{Healthy: healthy, Voting: voting}
}

// HasQuorum is true if enough voting members are healthy.
func (v Votes) HasQuorum() bool { return etcdcluster.IsQuorate(v.Healthy, v.Voting) }

// Tolerance is the number of healthy members that can fail without a loss of the quorum. Negative: there is no quorum.
func (v Votes) Tolerance() int { return v.Healthy - etcdcluster.QuorumOf(v.Voting) }

// String returns the quorum calculation.
func (v Votes) String() string {
	if !v.HasQuorum() {
		return fmt.Sprintf("%d of %d healthy, no quorum", v.Healthy, v.Voting)
	}

	return fmt.Sprintf("%d of %d healthy, quorum %d, tolerance %d", v.Healthy, v.Voting, etcdcluster.QuorumOf(v.Voting), v.Tolerance())
}

// Gap is the longest time without a write because of an action, as measured on the local seed. The page docs/operations/changes.md contains the table.
type Gap struct {
	// Any is the time of a client that connects to any healthy member. 0: it notices nothing.
	Any time.Duration
	// Connected is the time of a client that is connected to a removed member. 0: as Any.
	Connected time.Duration
}

// The measured gaps.
var (
	// GapOfMembership is that of a step that transfers the leadership, or changes the voting members.
	GapOfMembership = Gap{Any: 200 * time.Millisecond}
	// GapOfRemoval is that of the removal of a member. etcd stops a removed member after one second, and responds to no request meanwhile.
	GapOfRemoval = Gap{Any: 200 * time.Millisecond, Connected: 1200 * time.Millisecond}
	// GapOfRestart is that of the restart of a single member.
	GapOfRestart = Gap{Any: 16 * time.Second}
)

// gapOf returns the gap that is expected because of a step that changes the votes of a cluster.
func gapOf(step plan.Step, before, after Votes) Gap {
	kind := plan.TraitsOf(step).Kind
	switch {
	case before.HasQuorum() && !after.HasQuorum():
		return GapOfRestart
	case kind == "RemoveMember" && after.Voting < before.Voting:
		return GapOfRemoval
	case kind == "MoveLeader", after.Voting != before.Voting:
		return GapOfMembership
	default:
		return Gap{}
	}
}
