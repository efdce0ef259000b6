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

// haltOnClusterIDMismatch stops if members have different cluster IDs.
func (v view) haltOnClusterIDMismatch(p plan.Plan) (plan.Plan, bool) {
	clusters := map[uint64][]string{}
	for _, member := range v.members {
		if member.Endpoint != nil && member.Endpoint.ClusterID != 0 {
			clusters[member.Endpoint.ClusterID] = append(clusters[member.Endpoint.ClusterID], member.Name)
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
	p.Stage, p.Render = plan.StageHalted, false
	p.Reason = "the members have different cluster IDs, so the operator changes nothing"
	p.WaitsFor = "one cluster ID for all members: " + strings.Join(sentences, ", ")

	return p, true
}

// withoutQuorum decides if too few members are healthy. It changes nothing, except that it replaces pods that cannot become healthy.
func (v view) withoutQuorum(p plan.Plan) (plan.Plan, bool) {
	if v.isQuorate() {
		return p, false
	}
	if v.isAnyHealthy() {
		p.Stage = plan.StageWaitForMembers
		p.Reason = v.quorumStatus() + ", but a member completes linearizable reads, so a quorum exists: the operator cannot reach the other members and changes nothing"
		p.WaitsFor = v.missing()

		return p, true
	}
	if member := v.replaceable(v.isDead); member != nil {
		p.Stage = plan.StageReplacePod
		p.Reason = fmt.Sprintf("%s; no member is healthy, so replacing %s is safe", v.quorumStatus(), member.Pod.Name)
		if waits := heldByStore(p, v.etcd, v.o, *member.Pod, v.now); waits != nil && len(v.members) == 1 {
			return *waits, true
		}
		p.Step = deletePod(*member.Pod)

		return p, true
	}

	if decided, is := v.quorumUnrecoverable(p); is {
		return decided, true
	}

	return v.quorumLost(p), true
}

func (v view) quorumLost(p plan.Plan) plan.Plan {
	p.Stage = plan.StageWaitForMembers
	p.Reason = v.quorumStatus() + "; the members start"
	p.WaitsFor = v.missing()
	pullError := v.imagePullError()
	if pullError != "" && v.neverFormed() {
		p.Reason = v.quorumStatus() + "; the cluster never formed: " + pullError

		return p
	}
	for _, member := range v.members {
		if member.Pod == nil || v.now.Sub(member.Pod.CreationTime) < etcdcluster.MemberStartTimeout {
			return p
		}
	}
	p.Stage = plan.StageQuorumLost
	p.Reason = fmt.Sprintf("%s, fewer than the quorum of %d; the operator changes nothing", v.quorumStatus(), etcdcluster.QuorumOf(v.size))
	if pullError != "" {
		p.Reason += ": " + pullError
	}

	return p
}

// imagePullError names the first image that cannot be pulled, and the remedy. Empty: all can be pulled.
func (v view) imagePullError() string {
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

// neverFormed is true while no Lease of a member has ever had a holder.
func (v view) neverFormed() bool {
	return !slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Lease != nil && m.Lease.Holder != "" })
}

// quorumUnrecoverable stops if so many volumes are lost that the other members are no quorum, even if all of them recover. While the
// cluster is being scaled up, the number of voting members is not certain.
func (v view) quorumUnrecoverable(p plan.Plan) (plan.Plan, bool) {
	var lost, left []string
	for _, member := range v.members {
		if loss := v.o.VolumeLostReason(member.Ordinal); loss != "" {
			lost = append(lost, loss)
		} else {
			left = append(left, member.Name)
		}
	}
	if len(lost) == 0 || v.hasScaleUpBegun() || etcdcluster.IsQuorate(len(left), v.size) {
		return p, false
	}
	survivors := "no data is left"
	if len(left) > 0 {
		survivors = "data of " + strings.Join(left, " and ") + " is left"
	}
	p.Stage = plan.StageQuorumLost
	p.Reason = fmt.Sprintf("%s, and the quorum of %d cannot recover: %s; the operator changes nothing", v.quorumStatus(), etcdcluster.QuorumOf(v.size), strings.Join(lost, "; "))
	p.WaitsFor = fmt.Sprintf("a manual recovery (%s), or %s", survivors, recovery(v.etcd, v.o))

	return p, true
}

func newestSnapshots(o etcdcluster.Observation) string {
	timeOf := func(lease etcdcluster.Lease) string {
		if lease.RenewTime.IsZero() {
			return "none"
		}

		return lease.RenewTime.UTC().Format(time.RFC3339)
	}

	return fmt.Sprintf(" (newest full snapshot: %s, newest delta snapshot: %s)", timeOf(o.FullSnapshotLease), timeOf(o.DeltaSnapshotLease))
}
