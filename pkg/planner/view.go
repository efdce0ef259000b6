// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
)

// view is a cluster of several members with the arithmetic of its quorum.
type view struct {
	etcd    *druidv1alpha1.Etcd
	o       etcdcluster.Observation
	now     time.Time
	members []etcdcluster.Member
	// size is the number of voters: those in the cluster's own list or, where nobody gave one, the members that run.
	size int
	// healthy are the voters that serve, those of the cluster that was joined among them as far as they can be asked.
	healthy int
	// joined is how many voters belong to the cluster that was joined.
	joined int
}

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

// isQuorate is true when enough members are seen to serve. Of a cluster that was joined not all can be asked: there it is
// enough that one of ours serves, which takes a quorum.
func (v view) isQuorate() bool {
	return etcdcluster.IsQuorate(v.healthy, v.size) || v.joined > 0 && etcdcluster.HealthyVoters(v.members) > 0
}

// isMemberListKnown is true when the cluster told by a quorum read who its members are. Nothing is done to a pod that serves, or to a
// volume, without it.
func (v view) isMemberListKnown() bool { return v.isQuorate() && len(v.o.Etcd.MemberList) > 0 }

// isAnyHealthy is true when a member answers linearizable reads, or a pod passes the probe that does one.
func (v view) isAnyHealthy() bool {
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool {
		return m.IsHealthy() || m.Pod != nil && m.Pod.Ready && !m.Pod.Deleting
	})
}

// hasNewPod is true while a pod was made a short while ago.
func (v view) hasNewPod() bool {
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool {
		return m.Pod != nil && v.now.Sub(m.Pod.CreationTime) < etcdcluster.MemberStartTimeout
	})
}

func (v view) quorumStatus() string { return fmt.Sprintf("%d of %d healthy", v.healthy, v.size) }

// missing says what the members wait for, the first of them that do not serve.
func (v view) missing() string {
	var sentences []string
	for _, member := range v.members {
		if sentence := v.awaited(member); sentence != "" {
			sentences = append(sentences, sentence)
		}
	}
	if len(sentences) == 0 {
		return "the list of members: " + v.o.Etcd.MemberListError
	}

	return strings.Join(sentences, "; ")
}

// awaited says what a member has to come to before it counts as back after its pod was made; empty when it is. That its
// peer URLs are the configured ones matters: its sidecar would change them, and stop etcd once more.
func (v view) awaited(m etcdcluster.Member) string {
	if sentence := awaitedOfPod(v.etcd, m); sentence != "" {
		return sentence
	}
	return v.awaitedOfMember(m)
}

// awaitedToScaleUp says what a member has to come to before the next may join: it serves. That its pod is behind the Service as
// well does not matter while another one is.
func (v view) awaitedToScaleUp(m etcdcluster.Member) string {
	if m.Pod == nil || m.Pod.Deleting || !m.IsHealthy() {
		return v.awaited(m)
	}

	return v.awaitedOfMember(m)
}

func (v view) awaitedOfMember(m etcdcluster.Member) string {
	switch {
	case m.Endpoint == nil || !m.Endpoint.Reachable:
		return "member " + m.Name + " to answer"
	case m.Endpoint.Learner || m.Listed != nil && m.Listed.Learner:
		return "member " + m.Name + " to catch up and get its vote"
	case !m.Endpoint.Healthy:
		return "member " + m.Name + " to serve"
	case m.Listed == nil && len(v.o.Etcd.MemberList) > 0:
		return "member " + m.Name + " to be in the list of members"
	case v.mayStopForNewerURLs(m):
		return "the heartbeat of member " + m.Name
	case v.isConfiguredAsBefore(m), v.losesPeerTLS(m) && peers.IsRegisteredWith(m, peers.URLs(v.etcd, m, false)):
		return ""
	case v.awaitedURLs(m) != "":
		return v.awaitedURLs(m)
	case len(v.members) > 1 && v.isBeforeHeartbeat(m):
		return "the heartbeat of member " + m.Name + " to tell of its new peer URLs"
	default:
		return ""
	}
}

// isBeforeHeartbeat is true while the lease of a member tells of the pod before. Of one that has run for a while it may tell of a
// configuration that is not its pod's: its sidecar reads that anew when it begins to write leases again.
func (v view) isBeforeHeartbeat(m etcdcluster.Member) bool {
	return m.Lease != nil && m.Lease.TLSEnabled != nil && *m.Lease.TLSEnabled != m.Pod.PeerTLS && v.now.Sub(m.Pod.CreationTime) < etcdcluster.MemberStartTimeout
}

// mayStopForNewerURLs is true while the sidecar of an outdated pod may read other peer URLs than those of its pod, and stop etcd.
func (v view) mayStopForNewerURLs(m etcdcluster.Member) bool {
	hasNewerPort := m.Pod.PeerPort != 0 && v.o.StatefulSet.PeerPort != 0 && m.Pod.PeerPort != v.o.StatefulSet.PeerPort
	hasNewer := hasNewerPort || m.Pod.PeerTLS != (v.o.StatefulSet.TLS.PeerCA != "")

	return len(v.members) > 1 && v.isOutdated(m) && hasNewer && peers.IsRegistering(v.etcd, v.o, *m.Pod, v.now)
}

// isConfiguredAsBefore is true for a pod of an older template that has run for a while: nobody knows its configuration any more,
// its sidecar has settled its peer URLs, and what the newest configuration says comes with the pod after it.
func (v view) isConfiguredAsBefore(m etcdcluster.Member) bool {
	return v.isOutdated(m) && v.now.Sub(m.Pod.CreationTime) >= etcdcluster.MemberStartTimeout
}

func awaitedOfPod(etcd *druidv1alpha1.Etcd, m etcdcluster.Member) string {
	switch {
	case m.Pod == nil:
		return "pod " + helper.PodName(etcd, m.Ordinal) + " to be created"
	case m.Pod.Deleting:
		return "pod " + m.Pod.Name + " to be gone, and made anew"
	case !m.Pod.Ready && m.Pod.WaitingReason() != "":
		return "member " + m.Name + ": " + m.Pod.WaitingReason() + prefixHint(etcd, m.Pod)
	case !m.Pod.Ready && m.Endpoint != nil && m.Endpoint.Learner:
		return "member " + m.Name + " to catch up and get its vote"
	case !m.Pod.Ready:
		return "pod " + m.Pod.Name + " to be ready" + prefixHint(etcd, m.Pod)
	default:
		return ""
	}
}

// isOutdated is true when the member's pod was made from an older template and is not on its way out.
func (v view) isOutdated(m etcdcluster.Member) bool {
	return m.Pod != nil && !m.Pod.Deleting && m.Pod.IsOutdated(v.o.StatefulSet)
}

// replaceable is the first member whose outdated pod neither serves nor passes its probe, as its own kubelet says, and for which is
// holds: nothing is lost with it. Of a node that is cut off only the API server says that pods are not ready; such a pod may
// serve. Nil: none.
func (v view) replaceable(is func(etcdcluster.Pod) bool) *etcdcluster.Member {
	for i := range v.members {
		member := &v.members[i]
		if v.isOutdated(*member) && !member.IsHealthy() && !member.Pod.Ready && !member.Pod.ContainersReady && is(*member.Pod) {
			return member
		}
	}

	return nil
}

// isDead is true for a pod that does not run etcd, or has not been ready for a while: nobody serves during an election
// either.
func (v view) isDead(pod etcdcluster.Pod) bool {
	for _, container := range pod.Containers {
		if container.Name == etcdcluster.ContainerEtcd && container.State == etcdcluster.ContainerRunning {
			return v.now.Sub(etcdcluster.Later(pod.ReadyChangedAt, pod.CreationTime)) > unreadyTime
		}
	}

	return true
}

// isExistingHealthy is true when the member with the id answered at an endpoint of the cluster that is joined.
func isExistingHealthy(e etcdcluster.EtcdResponses, id uint64) bool {
	return slices.ContainsFunc(e.Existing, func(endpoint etcdcluster.EndpointStatus) bool {
		return endpoint.MemberID == id && endpoint.Healthy && !endpoint.Learner
	})
}

// prefixHint says, of a pod that does not serve, what names with a prefix need: a sidecar that does not know them finds neither
// its URLs nor its lease, and never lets etcd start. Empty: the names have no prefix.
func prefixHint(etcd *druidv1alpha1.Etcd, pod *etcdcluster.Pod) string {
	if prefix := etcd.Spec.MemberNamePrefix; prefix == nil || *prefix == "" {
		return ""
	}
	for _, container := range pod.Containers {
		if container.Name == etcdcluster.ContainerBackupRestore {
			return fmt.Sprintf(" (spec.memberNamePrefix needs an etcd-backup-restore that knows member-name-prefix, which v0.33 does not; the pod runs %s)", container.Image)
		}
	}

	return ""
}

// unreadyTime is how long a running pod has to be not ready, while nobody serves, before it may be replaced.
const unreadyTime = time.Minute
