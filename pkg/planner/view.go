// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// view is a multi-member cluster with its quorum. Its methods are facts about more than one member. A fact about one object is a method of
// that object, and a rule is a function.
type view struct {
	etcd    *druidv1alpha1.Etcd
	o       etcdcluster.Observation
	now     time.Time
	members []etcdcluster.Member
	// leaving are the members that a scale-in removes and that are not removed yet.
	leaving []etcdcluster.Member
	// size is the number of voting members in the member list or, if no member returned a list, the number of members that run.
	size int
	// healthy is the number of healthy voting members. It includes those of the joined cluster that respond.
	healthy int
	// joined is the number of voting members of the cluster that was joined.
	joined int
}

// viewOf returns the view of the first count members, which are those that were rendered last.
func viewOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, count int32, now time.Time) view {
	v := view{etcd: etcd, o: o, now: now, members: etcdcluster.MembersOf(etcd, o, count), size: int(count)}
	v.healthy = etcdcluster.HealthyVoters(v.members)
	if len(o.Etcd.MemberList) > 0 {
		v.size = 0
		for _, listed := range o.Etcd.MemberList {
			if listed.Learner {
				continue
			}
			v.size++
			if etcdcluster.IsOfExisting(etcd, listed.Name) {
				v.joined++
				if isExistingHealthy(o.Etcd, listed.ID) {
					v.healthy++
				}
			}
		}
	}

	return v
}

// isQuorate is true if enough members are healthy. Not all members of a joined cluster can be queried: one healthy member of the Etcd is
// enough there, because that takes a quorum.
func (v view) isQuorate() bool {
	return etcdcluster.IsQuorate(v.healthy, v.size) || v.joined > 0 && etcdcluster.HealthyVoters(v.members) > 0
}

// isMemberListKnown is true if a quorum read returned the member list. Without it the operator changes neither the pod of a healthy member
// nor a volume.
func (v view) isMemberListKnown() bool { return v.isQuorate() && len(v.o.Etcd.MemberList) > 0 }

// isAnyHealthy is true if a member completes linearizable reads, or a pod passes the probe that does one.
func (v view) isAnyHealthy() bool {
	return v.readyPods() > 0 || slices.ContainsFunc(v.members, etcdcluster.Member.IsHealthy)
}

// readyPods counts the members with a ready pod. Members that join reach the others by the Service, which has only ready endpoints, and a
// PodDisruptionBudget counts ready pods.
func (v view) readyPods() int { return readyPodsOf(v.members) }

func readyPodsOf(members []etcdcluster.Member) int {
	ready := 0
	for _, member := range members {
		if member.Pod != nil && member.Pod.Ready && !member.Pod.Deleting {
			ready++
		}
	}

	return ready
}

// hasNewPod is true while a pod is younger than MemberStartTimeout.
func (v view) hasNewPod() bool {
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool {
		return m.Pod != nil && v.now.Sub(m.Pod.CreationTime) < etcdcluster.MemberStartTimeout
	})
}

// quorumStatus is the quorum calculation with which most reasons begin.
func (v view) quorumStatus() string { return fmt.Sprintf("%d of %d healthy", v.healthy, v.size) }

// neverFormed is true while no Lease of a member has ever had a holder. The reason for the wait is then the start of the members, and no
// lost quorum.
func (v view) neverFormed() bool {
	return !slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool { return m.Lease != nil && m.Lease.Holder != "" })
}

// leader is the response of the leader. Nil: no member reports that it is the leader.
func (v view) leader() *etcdcluster.EndpointStatus {
	var leader *etcdcluster.EndpointStatus
	for _, member := range v.members {
		if member.Endpoint != nil && member.Endpoint.IsLeader() {
			leader = member.Endpoint
		}
	}

	return leader
}

// isScalingUp is true while members are missing that the spec requests.
func (v view) isScalingUp() bool { return len(v.members) < int(v.etcd.Spec.Replicas) }

// hasScaleUpBegun is true from the start of the second member until the last one is started. The number of voting members may be even,
// which tolerates no further loss.
func (v view) hasScaleUpBegun() bool { return int(v.o.State.Size) > len(v.members) }

// nextMember is the member that joins next: with one more replica, the StatefulSet starts the pod with the next ordinal.
func (v view) nextMember() etcdcluster.Member {
	return etcdcluster.Member{Ordinal: len(v.members), Name: helper.MemberName(v.etcd, len(v.members))}
}

// isExistingHealthy is true if an endpoint of the joined cluster reports the member with the ID as healthy.
func isExistingHealthy(e etcdcluster.EtcdResponses, id uint64) bool {
	return slices.ContainsFunc(e.Existing, func(endpoint etcdcluster.EndpointStatus) bool {
		return endpoint.MemberID == id && endpoint.Healthy && !endpoint.Learner
	})
}
