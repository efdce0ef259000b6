// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// holdStill stops before members that do not belong together.
func (v view) holdStill(p plan.Plan) (plan.Plan, bool) {
	clusters := map[uint64][]string{}
	for _, member := range v.members {
		if member.Answer != nil && member.Answer.ClusterID != 0 {
			clusters[member.Answer.ClusterID] = append(clusters[member.Answer.ClusterID], member.Name)
		}
	}
	if len(clusters) < 2 {
		return p, false
	}
	var sentences []string
	for id, names := range clusters {
		sentences = append(sentences, strings.Join(names, " and ")+" of cluster "+etcdcluster.FormatID(id))
	}
	slices.Sort(sentences)
	p.Stage, p.Render = plan.StageHold, false
	p.Reason = "the members are not one cluster, so that nothing of it is touched"
	p.WaitsFor = "them to be one: " + strings.Join(sentences, ", ")

	return p, true
}

// withoutQuorum decides where too few members serve: nothing is attempted, but that pods which cannot serve are made from
// the newest template.
func (v view) withoutQuorum(p plan.Plan) (plan.Plan, bool) {
	if v.isQuorate() {
		return p, false
	}
	if v.anyServes() {
		p.Stage = plan.StageSettle
		p.Reason = v.arithmetic() + ", but a member serves, which takes a quorum: members are hidden from sight, and nothing is touched"
		p.WaitsFor = v.missing()

		return p, true
	}
	if member := v.replaceable(v.isDead); member != nil {
		p.Stage = plan.StageReplacePod
		p.Reason = fmt.Sprintf("%s; nobody serves, so that replacing %s takes nothing away", v.arithmetic(), member.Pod.Name)
		if waits := heldByStore(p, v.etcd, v.o, *member.Pod, v.now); waits != nil && len(v.members) == 1 {
			return *waits, true
		}
		p.Step = toBeDeleted(*member.Pod)

		return p, true
	}

	if decided, is := v.lostForGood(p); is {
		return decided, true
	}

	return v.quorumLost(p), true
}

func (v view) quorumLost(p plan.Plan) plan.Plan {
	p.Stage = plan.StageSettle
	p.Reason = v.arithmetic() + "; the members start"
	p.WaitsFor = v.missing()
	unpulled := v.unpulled()
	if unpulled != "" && v.neverFormed() {
		p.Reason = v.arithmetic() + "; the cluster never formed: " + unpulled

		return p
	}
	for _, member := range v.members {
		if member.Pod == nil || v.now.Sub(member.Pod.CreationTime) < etcdcluster.MemberStartTimeout {
			return p
		}
	}
	p.Stage = plan.StageQuorumLost
	p.Reason = fmt.Sprintf("%s, fewer than the quorum of %d; nothing is attempted", v.arithmetic(), etcdcluster.QuorumOf(v.size))
	if unpulled != "" {
		p.Reason += ": " + unpulled
	}

	return p
}

// unpulled names the first image that cannot be pulled, and the way out. Empty: all can.
func (v view) unpulled() string {
	for _, member := range v.members {
		if member.Pod == nil {
			continue
		}
		if sentence := member.Pod.ImagePullError(); sentence != "" {
			return sentence
		}
	}

	return ""
}

// neverFormed is true while no member has ever told its lease that it is one.
func (v view) neverFormed() bool {
	return !slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Lease != nil && m.Lease.Holder != "" })
}

// lostForGood stops where so many volumes are lost for good that the others are no quorum, whoever comes back. While the
// cluster grows nobody knows which of the members had a vote.
func (v view) lostForGood(p plan.Plan) (plan.Plan, bool) {
	var lost, left []string
	for _, member := range v.members {
		if loss := v.o.VolumeLostReason(member.Ordinal); loss != "" {
			lost = append(lost, loss)
		} else {
			left = append(left, member.Name)
		}
	}
	if len(lost) == 0 || v.hasBegunToGrow() || etcdcluster.IsQuorate(len(left), v.size) {
		return p, false
	}
	survivors := "no member"
	if len(left) > 0 {
		survivors = "the data of " + strings.Join(left, " and ")
	}
	p.Stage = plan.StageQuorumLost
	p.Reason = fmt.Sprintf("%s, and the quorum of %d is lost for good: %s; nothing is attempted", v.arithmetic(), etcdcluster.QuorumOf(v.size), strings.Join(lost, "; "))
	p.WaitsFor = fmt.Sprintf("what is left to be saved by hand (%s), or %s", survivors, recovery(v.etcd, v.o))

	return p, true
}

func newestSnapshots(o etcdcluster.Observation) string {
	tell := func(lease etcdcluster.Lease) string {
		if lease.RenewTime.IsZero() {
			return "none"
		}

		return lease.RenewTime.UTC().Format(time.RFC3339)
	}

	return fmt.Sprintf(" (newest full snapshot: %s, newest delta snapshot: %s)", tell(o.FullSnapshotLease), tell(o.DeltaSnapshotLease))
}
