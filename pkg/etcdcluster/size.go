// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// A sidecar reads the size of its cluster once, when it starts. With size 1 it restores the store over a database that is older than
// the newest delta snapshot, which next to another voter makes a second cluster that writes into the same store. With a larger size
// it never restores, and waits for other members where it has no data. So the first member starts with size 1, since it may have to
// restore, and restarts once with the size of the spec before the first learner is added. That restart takes more than a minute, as the
// sidecar waits for other members. Without a store nothing can be restored: the first member keeps size 1 until the last member has
// joined, and its restart then costs no write.

// firstMemberTimeout is how long the first member may take to start with the size of the spec. After that it is rendered with size 1
// again, as long as no other member was started: it may have lost its data.
const firstMemberTimeout = 5 * time.Minute

// clusterSize is the number of members to render in initial-cluster. The first member is rendered with that of the spec as soon as it
// is healthy.
func (v view) clusterSize() int32 {
	count := int32(len(v.members)) // #nosec G115 -- a handful of members
	last := max(v.o.ManagedResource.Size, count)
	if last > 1 || v.restartsLast() && !v.o.StatefulSet.HasPreStopHook {
		return last
	}
	if pod := v.members[0].Pod; pod != nil && !pod.Deleting && !pod.HasPreStopHook && !v.members[0].Serves() {
		return 1 // its sidecar may be restoring, which one with a larger size would not do
	}
	if v.members[0].Serves() || v.o.StatefulSet.HasPreStopHook && !v.hasFirstTimedOut() {
		return v.etcd.Spec.Replicas
	}

	return 1
}

// LastSize is the size to persist with the rendering of a plan, for several members that are started later. A larger size that is
// rendered for the first member alone does not count before a second member is started: until then the first one may be restored as a
// single member. The Observation is the one that was planned for.
func (p Plan) LastSize(o Observation) int32 {
	if p.Replicas == 1 {
		return min(p.ClusterSize, max(o.ManagedResource.Size, 1))
	}

	return p.ClusterSize
}

// ReturnsToOne is true for a plan that renders size 1 again for a first member of several that did not become ready with the size of the
// spec. The Observation is the one that was planned for.
func (p Plan) ReturnsToOne(etcd *druidv1alpha1.Etcd, o Observation) bool {
	return etcd.Spec.Replicas > 1 && p.Replicas == 1 && p.ClusterSize == 1 && o.StatefulSet.HasPreStopHook
}

// joinsExisting is true where initial-cluster lists the members of an existing cluster too: no sidecar is rendered with size 1 then.
func (v view) joinsExisting() bool { return v.etcd.Spec.Etcd.BootstrapWithExistingCluster != nil }

// restartsLast is true where the first member restarts after the last one has joined: no sidecar of it can restore a store.
func (v view) restartsLast() bool {
	return v.joinsExisting() || !helper.IsStoreConfigured(v.etcd) && !v.members[0].usesStore()
}

// usesStore is true for a member whose pod was rendered with a store.
func (m Member) usesStore() bool {
	return m.Pod != nil && m.Pod.Store != "" && m.Pod.Store != storelessFingerprint
}

// hasFirstTimedOut is true when the pod of the first member runs the newest rendering and is not ready for too long. A pod on a node
// that is unreachable may be ready.
func (v view) hasFirstTimedOut() bool {
	pod := v.members[0].Pod

	return pod != nil && !pod.Deleting && !pod.Ready && !pod.ContainersReady && !v.isOutdated(v.members[0]) &&
		v.now.Sub(later(pod.ReadyChangedAt, pod.CreationTime)) >= firstMemberTimeout
}

// renderedAlone is the first member if its pod was rendered with size 1 and other members run: earlier versions of the operator, and
// etcd-druid, restart it after the last member has joined. Nil: it was not. No pod of etcd-druid has a hook, so that a hook of the
// others proves nothing about the first member of an adopted cluster. There, the first member was started alone if a newer pod, also
// outdated, has another configuration.
func (v view) renderedAlone() *Member {
	if len(v.members) < 2 || v.joinsExisting() || !v.members[0].usesStore() || !v.isOutdated(v.members[0]) || v.members[0].Pod.HasPreStopHook {
		return nil
	}
	first := &v.members[0]
	for _, other := range v.members[1:] {
		if other.Pod == nil {
			continue
		}
		isNewer := other.Pod.ConfigChecksum != first.Pod.ConfigChecksum && first.Pod.CreationTime.Before(other.Pod.CreationTime)
		if isAdopted := v.o.InitialClusterToken != ""; isAdopted && isNewer && v.isOutdated(other) || !isAdopted && (other.Pod.HasPreStopHook || isNewer) {
			return first
		}
	}

	return nil
}

// replaceAlone replaces a first member that was rendered with size 1 before anything else: as the only voter, or without loss of the
// quorum, or with it where the third member does not start. The quorum is back when the pod is; a second cluster would remain.
func (v view) replaceAlone(plan Plan) (Plan, bool) {
	first := v.renderedAlone()
	if first == nil || !first.Serves() || !v.isSeen() {
		return plan, false
	}
	decided := plan
	decided.Stage = StageReplacePod
	switch {
	case v.size == 1:
		decided = replaceSinglePod(v.etcd, v.o, decided, v.now)
	case IsQuorate(v.healthy-1, v.size):
		decided = v.replaceServing(decided, *first)
	case v.healthy < v.size || v.o.Defragmentation != "" || !v.isThirdOverdue():
		return plan, false
	default:
		decided.Reason = fmt.Sprintf("%s; replacing %s leaves %d of %d, fewer than the quorum of %d, until it is back: allowed, since %s does not start",
			v.arithmetic(), first.Pod.Name, v.healthy-1, v.size, QuorumOf(v.size), v.members[len(v.members)-1].Name)
		if decided.heldByNode(*first.Pod) == nil && decided.heldByStore(v.etcd, v.o, *first.Pod, v.now) == nil {
			decided.Step = first.Pod.toBeDeleted()
		}
	}
	if decided.Step == nil && v.size > 1 {
		return plan, false // what it waits for may be a step that is due
	}
	decided.Reason += "; its sidecar was rendered with size 1 and would restore a second cluster from the store"

	return decided, true
}

// isThirdOverdue is true when the last member was started long ago, and has no vote: its pod may be pending, restart repeatedly, or be
// recreated. The age of the claim, which outlives the pod, shows how long ago. A listed learner whose etcd runs may be catching up, also
// while it does not answer.
func (v view) isThirdOverdue() bool {
	last := v.members[len(v.members)-1]
	if len(v.members) <= v.size || last.Serves() || last.Listed != nil && last.Pod != nil && isRunning(*last.Pod) {
		return false
	}
	started := v.now
	if claim := v.o.ClaimFor(last.Ordinal); claim != nil && claim.Exists {
		started = claim.CreationTime
	} else if last.Pod != nil {
		started = last.Pod.CreationTime
	}

	return v.now.Sub(started) >= startTime
}
