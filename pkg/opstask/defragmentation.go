// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Defragmentation is the next step of a defragmentation. At most one of Member and WaitsFor is set. If none is set, the
// defragmentation is complete.
type Defragmentation struct {
	// Member is the member that the step changes. Nil: none.
	Member *etcdcluster.Member
	// MoveTo is the ID of the member to which Member must transfer leadership. 0: Member is to be defragmented.
	MoveTo uint64
	// WaitsFor states what the defragmentation waits for. Empty: nothing.
	WaitsFor string
}

// reclaimablePart is the part of a file that must be free for a planned defragmentation of its member: 1/reclaimablePart.
const reclaimablePart = 10

// DefragmentationFor returns the next step. done has the IDs of the defragmented members. A planned defragmentation skips members whose files would
// hardly shrink.
//
// A member does not respond during its defragmentation. Therefore each step waits until all members that may vote are healthy, so that the
// other members form a quorum. The leader comes last, after it transferred leadership to a defragmented member. A single member
// has no other member to transfer leadership to.
func DefragmentationFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, done map[uint64]bool, isPlanned bool) Defragmentation {
	members := etcdcluster.VotingMembers(etcd, o)
	if len(members) == 0 {
		return Defragmentation{WaitsFor: "the cluster to have members"}
	}
	var leader *etcdcluster.Member
	var followers []*etcdcluster.Member
	for i := range members {
		member := &members[i]
		switch {
		case member.Endpoint == nil || !member.Endpoint.Healthy || member.Endpoint.Learner || member.Pod == nil || member.Pod.Deleting:
			return Defragmentation{WaitsFor: fmt.Sprintf("member %s to be healthy", member.Name)}
		case member.Endpoint.IsLeader():
			leader = member
		default:
			followers = append(followers, member)
		}
	}
	if leader == nil {
		return Defragmentation{WaitsFor: "the members to agree on a leader"}
	}
	isDone := func(m *etcdcluster.Member) bool { return done[m.ID()] || isPlanned && gainsLittle(m) }
	for _, member := range followers {
		if !isDone(member) {
			return Defragmentation{Member: member}
		}
	}
	switch {
	case isDone(leader):
		return Defragmentation{}
	case len(followers) == 0:
		return Defragmentation{Member: leader}
	default:
		return Defragmentation{Member: leader, MoveTo: followers[0].ID()}
	}
}

// gainsLittle is true if the file of a member would hardly shrink.
func gainsLittle(m *etcdcluster.Member) bool {
	size, inUse := m.Endpoint.DBSize, m.Endpoint.DBSizeInUse

	return inUse > 0 && size-inUse < size/reclaimablePart
}

// DefragmentationPrecondition returns the procedure that a defragmentation waits for. The procedure would also wait for the defragmentation. Nil: none is
// in progress.
func DefragmentationPrecondition(recorded state.State) *Problem {
	procedure := recorded.Procedure()
	if procedure == "" {
		return nil
	}

	return &Problem{Code: druidv1alpha1.ErrorCodeEtcdNotReady, Message: "Waiting for " + procedure + " to be complete"}
}

// DefragmentationOf returns the name of the task that currently defragments the members of the Etcd. tasks are all tasks of the
// namespace. A task that waits for its next attempt defragments none. Empty: there is none.
func DefragmentationOf(etcd *druidv1alpha1.Etcd, tasks []druidv1alpha1.EtcdOpsTask) string {
	for i := range tasks {
		task := &tasks[i]
		if IsAttempting(task) && ptr.Deref(task.Spec.EtcdName, "") == etcd.Name && helper.TaskKind(task) == druidv1alpha1.RunTaskDefragmentation {
			return task.Name
		}
	}

	return ""
}
