// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// compareData compares the data of the voting members and records a difference, as the care controller does. It does so at most once at any time.
func (c *Cluster) compareData() {
	recorded := c.Objects.State.Inconsistency
	isCorrupt := func(m *Member) bool { return c.corruptionOf(m.Ordinal) != 0 }
	if recorded == nil && !slices.ContainsFunc(c.Members, isCorrupt) || recorded != nil && recorded.At.Equal(c.now) {
		return
	}
	o := c.observeMembers()
	if consistency.IsObsolete(recorded, o.Etcd.MemberList) {
		c.Objects.State.Inconsistency = nil

		return
	}
	members, revision, err := consistency.VotersOf(c.Etcd, o)
	if err != nil {
		return
	}
	result, err := consistency.Compare(context.Background(), members, revision, func(m consistency.Member) (consistency.Hasher, error) {
		return hasher(c.corruptionOf(m.Ordinal)), nil
	})
	if err != nil {
		return
	}
	next := consistency.Next(recorded, result, c.now)
	if next != nil && next.Comparisons > 1 { // the simulation does not know the hashes
		next.Revision, next.Compacted, next.Members = recorded.Revision, recorded.Compacted, recorded.Members
	}
	c.Objects.State.Inconsistency = next
}

// hasher is a member whose data has the hash.
type hasher uint32

// HashKV implements consistency.Hasher.
func (h hasher) HashKV(_ context.Context, revision int64) (uint32, int64, error) {
	return uint32(revision) + uint32(h), 0, nil // #nosec G115 -- any value is a hash
}

// corruptionOf returns the corruption of the volume of a member. 0: there is no volume, or its data is correct.
func (c *Cluster) corruptionOf(ordinal int) uint32 {
	if volume := c.volume(ordinal); volume != nil {
		return volume.Corruption
	}

	return 0
}

// leaderCorruption returns the corruption of the leader, which sends its data to members that join.
func (c *Cluster) leaderCorruption() uint32 {
	for _, m := range c.Members {
		if m.ID == c.Leader {
			return c.corruptionOf(m.Ordinal)
		}
	}

	return 0
}

// restoreCorruption derives from a recorded difference which volumes have wrong data. Without a quorum with the same data, all but the first one do.
func (c *Cluster) restoreCorruption() {
	found := c.Objects.State.Inconsistency
	if found == nil || len(found.Members) == 0 {
		return
	}
	correct, has := consistency.Majority(found)
	if !has {
		correct = found.Members[0].Hash
	}
	hashes := map[string]state.MemberHash{}
	for _, hash := range found.Members {
		hashes[hash.Name] = hash
	}
	for _, member := range c.Members {
		volume := c.volume(member.Ordinal)
		if hash, is := hashes[helper.MemberName(c.Etcd, member.Ordinal)]; is && volume != nil {
			volume.Corruption = hash.Hash - correct
		}
	}
}
