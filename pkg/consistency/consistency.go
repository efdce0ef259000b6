// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package consistency

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Confirmations is the number of comparisons in a row that have to find the same difference before the operator acts on it.
const Confirmations = 3

// hashTimeout is how long a member may take to hash its keys. It completes no write meanwhile, and with gigabytes it takes seconds.
const hashTimeout = time.Minute

// ErrNotComparable is returned if the hashes of the members cannot be compared now, for example because a member is compacted at another revision.
// It is no difference. A later comparison may succeed.
var ErrNotComparable = errors.New("the members cannot be compared now")

// Hasher returns the hash of the keys of a member.
type Hasher interface {
	// HashKV returns the hash of all keys up to the revision, and the revision up to which the member was compacted. -1: it was not compacted.
	HashKV(ctx context.Context, revision int64) (hash uint32, compacted int64, err error)
}

// Member is a voting member that is compared.
type Member struct {
	// Name of the member.
	Name string
	// ID of the member in etcd.
	ID uint64
	// Ordinal of the pod of the member.
	Ordinal int
}

// Comparison is the result of a comparison.
type Comparison struct {
	// Revision is the revision at which the members were compared.
	Revision int64
	// Compacted is the revision up to which all of them were compacted. At most 0: none was.
	Compacted int64
	// Hashes are those of all voting members, sorted by their names.
	Hashes []state.MemberHash
}

// IsEqual is true if all members have the same data.
func (c Comparison) IsEqual() bool {
	return !slices.ContainsFunc(c.Hashes, func(h state.MemberHash) bool { return h.Hash != c.Hashes[0].Hash })
}

// String returns the revisions and the hash of each member.
func (c Comparison) String() string {
	var hashes []string
	for _, m := range c.Hashes {
		hashes = append(hashes, fmt.Sprintf("%s has hash %08x", m.Name, m.Hash))
	}

	revision := fmt.Sprintf("at revision %d", c.Revision)
	if c.Compacted > 0 {
		revision += fmt.Sprintf(", compacted at %d", c.Compacted)
	}

	return revision + ", " + strings.Join(hashes, ", ")
}

// Remedy returns what a user does if different data prevents the removal of a member. Both members of a surge are needed for its quorum.
func Remedy(isSurge bool) string {
	if isSurge {
		return "find out which one is correct, and remove the other one with `etcdctl member remove` while both are healthy. " +
			"Keep its pod and its volume until then: without one of two voting members, there is no quorum"
	}

	return "find out which one is correct, and replace the volume of the other"
}

// VotersOf returns all voting members of a canonical Etcd in the order in which they are compared: the followers before the leader. A member completes no
// write while it computes its hash. The revision is one that all members have. It returns ErrNotComparable if a voting member is not a
// healthy member of the Etcd, or if a member of the Etcd does not vote. It also does so if two members run different versions. After a difference,
// it ignores members that do not exist: a scale-up adds them when all others have the same data.
func VotersOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (voters []Member, revision int64, err error) {
	listed := 0
	for _, m := range o.Etcd.MemberList {
		if !m.Learner {
			listed++
		}
	}
	var leaders []Member
	version := ""
	for _, m := range etcdcluster.VotingMembers(etcd, o) {
		if isAbsent(m, o) && (isNotRequested(m, etcd, o) || o.State.Inconsistency != nil) {
			continue
		}
		if reason := awaitedOf(m); reason != "" {
			return nil, 0, fmt.Errorf("%w: member %s %s", ErrNotComparable, m.Name, reason)
		}
		if version = cmp.Or(version, m.Endpoint.Version); m.Endpoint.Version != version {
			return nil, 0, fmt.Errorf("%w: the members run etcd %s and %s", ErrNotComparable, version, m.Endpoint.Version)
		}
		if revision == 0 || m.Endpoint.Revision < revision {
			revision = m.Endpoint.Revision
		}
		voter := Member{Name: m.Name, ID: m.Listed.ID, Ordinal: m.Ordinal}
		if m.Endpoint.IsLeader() {
			leaders = append(leaders, voter)
		} else {
			voters = append(voters, voter)
		}
	}
	voters = append(voters, leaders...)
	if len(voters) == 0 || len(voters) != listed {
		return nil, 0, fmt.Errorf("%w: %d of %d voting members are members of the Etcd and respond", ErrNotComparable, len(voters), listed)
	}

	return voters, revision, nil
}

// isAbsent is true for a member that does not exist: it is not in the member list, and has no pod.
func isAbsent(m etcdcluster.Member, o etcdcluster.Observation) bool {
	return m.Listed == nil && m.Pod == nil && len(o.Etcd.MemberList) > 0
}

// isNotRequested is true for a member of a scale-up that was taken back.
func isNotRequested(m etcdcluster.Member, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return m.Ordinal >= int(max(etcd.Spec.Replicas, etcdcluster.RenderedReplicas(o)))
}

// awaitedOf returns why a member cannot be compared. Empty: it can.
func awaitedOf(m etcdcluster.Member) string {
	switch {
	case m.Endpoint == nil || !m.Endpoint.Healthy:
		return "is not healthy"
	case m.Listed == nil || m.Listed.Learner || m.Endpoint.Learner: // a member that is replaced has not got the data of the others yet
		return "does not vote"
	case m.Listed.ID != m.Endpoint.MemberID:
		return "responds with another ID than that in the member list"
	case m.Endpoint.Revision == 0:
		return "has returned no revision"
	default:
		return ""
	}
}

// Compare reads the hashes of the members at the revision, one member after the other. Each has a minute, if the context does not end before. It returns ErrNotComparable if they were compacted at different
// revisions, and otherwise the error of the first member that returns no hash.
func Compare(ctx context.Context, members []Member, revision int64, connect func(Member) (Hasher, error)) (Comparison, error) {
	result := Comparison{Revision: revision}
	for i, m := range members {
		client, err := connect(m)
		if err != nil {
			return Comparison{}, err
		}
		hashing, cancel := context.WithTimeout(ctx, hashTimeout)
		hash, compacted, err := client.HashKV(hashing, revision)
		cancel()
		switch {
		case err != nil:
			return Comparison{}, fmt.Errorf("hash of the keys of member %s at revision %d: %w", m.Name, revision, err)
		case i == 0:
			result.Compacted = compacted
		case compacted != result.Compacted:
			return Comparison{}, fmt.Errorf("%w: members %s and %s are compacted at different revisions, %d and %d", ErrNotComparable, members[0].Name, m.Name, result.Compacted, compacted)
		}
		result.Hashes = append(result.Hashes, state.MemberHash{Name: m.Name, ID: etcdcluster.FormatID(m.ID), Hash: hash})
	}
	slices.SortFunc(result.Hashes, func(a, b state.MemberHash) int { return cmp.Compare(a.Name, b.Name) })

	return result, nil
}

// Next returns the record after a comparison. Nil: all members have the same data.
func Next(recorded *state.Inconsistency, c Comparison, at time.Time) *state.Inconsistency {
	if c.IsEqual() {
		return nil
	}
	next := &state.Inconsistency{Since: at, At: at, Revision: c.Revision, Compacted: c.Compacted, Comparisons: 1, Members: c.Hashes}
	if recorded != nil && isSameDifference(recorded.Members, c.Hashes) {
		next.Since, next.Comparisons = recorded.Since, recorded.Comparisons+1
	}

	return next
}

// IsObsolete is true if fewer than two of the compared members are still in the member list, for example after a restore or a scale-in. The difference
// is then none between members of the cluster. Nil, and a record without a member list, is not obsolete.
func IsObsolete(recorded *state.Inconsistency, list []etcdcluster.ListedMember) bool {
	if recorded == nil || len(list) == 0 {
		return false
	}
	remaining := 0
	for _, compared := range recorded.Members {
		if slices.ContainsFunc(list, func(m etcdcluster.ListedMember) bool { return etcdcluster.FormatID(m.ID) == compared.ID }) {
			remaining++
		}
	}

	return remaining < 2
}

// isSameDifference is true if two comparisons of the same members found the same members equal. The hashes differ at each revision.
func isSameDifference(a, b []state.MemberHash) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID {
			return false
		}
		for j := range i {
			if (a[i].Hash == a[j].Hash) != (b[i].Hash == b[j].Hash) {
				return false
			}
		}
	}

	return true
}

// Majority returns the hash of a quorum of all voting members. False: no quorum has the same data, so that it is not known which data is correct. Nil has
// no majority.
func Majority(i *state.Inconsistency) (uint32, bool) {
	if i == nil {
		return 0, false
	}
	count := map[uint32]int{}
	for _, m := range i.Members {
		if count[m.Hash]++; etcdcluster.IsQuorate(count[m.Hash], len(i.Members)) {
			return m.Hash, true
		}
	}

	return 0, false
}

// Minority returns the members whose data differs from that of a quorum of all voting members. Nil: there is no such quorum.
func Minority(i *state.Inconsistency) []state.MemberHash {
	hash, has := Majority(i)
	if !has {
		return nil
	}

	return slices.DeleteFunc(slices.Clone(i.Members), func(m state.MemberHash) bool { return m.Hash == hash })
}

// IsConfirmed is true if enough comparisons have found the same difference. Nil is not confirmed.
func IsConfirmed(i *state.Inconsistency) bool { return i != nil && i.Comparisons >= Confirmations }

// Describe describes a recorded difference like Comparison.String.
func Describe(i state.Inconsistency) string {
	return Comparison{Revision: i.Revision, Compacted: i.Compacted, Hashes: i.Members}.String()
}
