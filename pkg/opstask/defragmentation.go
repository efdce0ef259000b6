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
)

// Defragmentation is the next step of a defragmentation. At most one of Member and WaitsFor is set; none: all is done.
type Defragmentation struct {
	// Member is the member that something is done to. Nil: none.
	Member *etcdcluster.Member
	// MoveTo is the id of the member to which Member has to hand over leadership. 0: Member is to be defragmented.
	MoveTo uint64
	// WaitsFor is what has to be waited for. Empty: nothing.
	WaitsFor string
}

// DefragmentationFor returns the next step, when the members of these ids are done. A member does not serve while it is
// defragmented, so that each step waits for all members to serve: the others are a quorum then. The leader is last, after it
// has handed over to one that is done; a single member has nobody to hand over to.
func DefragmentationFor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, done map[uint64]bool) Defragmentation {
	members := etcdcluster.MembersFor(etcd, o)
	if len(members) == 0 {
		return Defragmentation{WaitsFor: "the cluster to have members"}
	}
	var leader *etcdcluster.Member
	var followers []*etcdcluster.Member
	for i := range members {
		member := &members[i]
		switch {
		case member.Answer == nil || !member.Answer.Serves || member.Answer.Learner || member.Pod == nil || member.Pod.Deleting:
			return Defragmentation{WaitsFor: fmt.Sprintf("member %s to serve", member.Name)}
		case member.Answer.Leads():
			leader = member
		default:
			followers = append(followers, member)
		}
	}
	if leader == nil {
		return Defragmentation{WaitsFor: "the members to agree on a leader"}
	}
	for _, member := range followers {
		if !done[member.ID()] {
			return Defragmentation{Member: member}
		}
	}

	return lastDefragmentation(leader, followers, done)
}

func lastDefragmentation(leader *etcdcluster.Member, followers []*etcdcluster.Member, done map[uint64]bool) Defragmentation {
	switch {
	case done[leader.ID()]:
		return Defragmentation{}
	case len(followers) == 0:
		return Defragmentation{Member: leader}
	default:
		return Defragmentation{Member: leader, MoveTo: followers[0].ID()}
	}
}

// DefragmentationOf is the name of the task, of all tasks of a namespace, that defragments the members of the Etcd now. Empty:
// none does.
func DefragmentationOf(etcd *druidv1alpha1.Etcd, tasks []druidv1alpha1.EtcdOpsTask) string {
	for i := range tasks {
		task := &tasks[i]
		if isInProgress(task) && ptr.Deref(task.Spec.EtcdName, "") == etcd.Name && helper.TaskKind(task) == druidv1alpha1.RunTaskDefragmentation {
			return task.Name
		}
	}

	return ""
}
