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

// view is a multi-member cluster with its quorum.
type view struct {
	etcd    *druidv1alpha1.Etcd
	o       etcdcluster.Observation
	now     time.Time
	members []etcdcluster.Member
	// size is the number of voting members in the member list or, if no member returned a list, the number of members that run.
	size int
	// healthy is the number of healthy voting members. It includes those of the joined cluster that respond.
	healthy int
	// joined is the number of voting members of the cluster that was joined.
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
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool {
		return m.IsHealthy() || m.Pod != nil && m.Pod.Ready && !m.Pod.Deleting
	})
}

// hasNewPod is true while a pod is younger than MemberStartTimeout.
func (v view) hasNewPod() bool {
	return slices.ContainsFunc(v.members, func(m etcdcluster.Member) bool {
		return m.Pod != nil && v.now.Sub(m.Pod.CreationTime) < etcdcluster.MemberStartTimeout
	})
}

func (v view) quorumStatus() string { return fmt.Sprintf("%d of %d healthy", v.healthy, v.size) }

// missing describes what is awaited of the unhealthy members.
func (v view) missing() string {
	var sentences []string
	for _, member := range v.members {
		if sentence := v.awaited(member); sentence != "" {
			sentences = append(sentences, sentence)
		}
	}
	if len(sentences) == 0 {
		return "the member list: " + v.o.Etcd.MemberListError
	}

	return strings.Join(sentences, "; ")
}

// awaited describes what a member must reach after its pod was created before it counts as recovered. Empty: it has recovered. Its
// registered peer URLs must be the configured ones: otherwise its sidecar would change them, and stop etcd once more.
func (v view) awaited(m etcdcluster.Member) string {
	if sentence := awaitedOfPod(v.etcd, m); sentence != "" {
		return sentence
	}
	return v.awaitedOfMember(m)
}

// awaitedToScaleUp describes what a member must reach before the next member may join: it is healthy. Its pod need not be ready if another
// one is.
func (v view) awaitedToScaleUp(m etcdcluster.Member) string {
	if m.Pod == nil || m.Pod.Deleting || !m.IsHealthy() {
		return v.awaited(m)
	}

	return v.awaitedOfMember(m)
}

func (v view) awaitedOfMember(m etcdcluster.Member) string {
	switch {
	case m.Endpoint == nil || !m.Endpoint.Reachable:
		return "a response of member " + m.Name
	case m.Endpoint.Learner || m.Listed != nil && m.Listed.Learner:
		return "learner " + m.Name + " to catch up before its promotion"
	case !m.Endpoint.Healthy:
		return "member " + m.Name + " to be healthy"
	case m.Listed == nil && len(v.o.Etcd.MemberList) > 0:
		return "member " + m.Name + " to be in the member list"
	case v.mayStopForNewerURLs(m):
		return "the heartbeat of member " + m.Name
	case v.isConfiguredAsBefore(m), v.losesPeerTLS(m) && peers.IsRegisteredWith(m, peers.URLs(v.etcd, m, false)):
		return ""
	case v.awaitedURLs(m) != "":
		return v.awaitedURLs(m)
	case len(v.members) > 1 && v.isBeforeHeartbeat(m):
		return "the heartbeat of member " + m.Name + " with its new peer URLs"
	default:
		return ""
	}
}

// isBeforeHeartbeat is true while the Lease of a member is that of its previous pod. The Lease of a member that has run for a while may be
// about another configuration than that of its pod: the sidecar reads the configuration again when it begins to write Leases again.
func (v view) isBeforeHeartbeat(m etcdcluster.Member) bool {
	return m.Lease != nil && m.Lease.TLSEnabled != nil && *m.Lease.TLSEnabled != m.Pod.PeerTLS && v.now.Sub(m.Pod.CreationTime) < etcdcluster.MemberStartTimeout
}

// mayStopForNewerURLs is true while the sidecar of an outdated pod may read other peer URLs than those of its pod, and stop etcd.
func (v view) mayStopForNewerURLs(m etcdcluster.Member) bool {
	hasNewerPort := m.Pod.PeerPort != 0 && v.o.StatefulSet.PeerPort != 0 && m.Pod.PeerPort != v.o.StatefulSet.PeerPort
	hasNewer := hasNewerPort || m.Pod.PeerTLS != (v.o.StatefulSet.TLS.PeerCA != "")

	return len(v.members) > 1 && m.IsOutdated(v.o.StatefulSet) && hasNewer && peers.IsRegistering(v.etcd, v.o, *m.Pod, v.now)
}

// isConfiguredAsBefore is true for a pod of an older template that has run for a while: its configuration is not known any more, its
// sidecar has registered its peer URLs, and the next pod gets the latest configuration.
func (v view) isConfiguredAsBefore(m etcdcluster.Member) bool {
	return m.IsOutdated(v.o.StatefulSet) && v.now.Sub(m.Pod.CreationTime) >= etcdcluster.MemberStartTimeout
}

func awaitedOfPod(etcd *druidv1alpha1.Etcd, m etcdcluster.Member) string {
	switch {
	case m.Pod == nil:
		return "pod " + helper.PodName(etcd, m.Ordinal) + " to be created"
	case m.Pod.Deleting:
		return "pod " + m.Pod.Name + " to be recreated"
	case !m.Pod.Ready && m.Pod.WaitingReason() != "":
		return "member " + m.Name + ": " + m.Pod.WaitingReason() + prefixHint(etcd, m.Pod)
	case !m.Pod.Ready && m.Endpoint != nil && m.Endpoint.Learner:
		return "learner " + m.Name + " to catch up before its promotion"
	case !m.Pod.Ready:
		return "pod " + m.Pod.Name + " to be ready" + prefixHint(etcd, m.Pod)
	default:
		return ""
	}
}

// replaceable is the first unhealthy member whose outdated pod does not pass its probe according to its kubelet, and for which is holds.
// Replacing it loses nothing. Of a pod on an unreachable node only the API server reports that it is not ready; such a member may be
// healthy. Nil: none.
func (v view) replaceable(is func(etcdcluster.Pod) bool) *etcdcluster.Member {
	for i := range v.members {
		member := &v.members[i]
		if member.IsOutdated(v.o.StatefulSet) && !member.IsHealthy() && !member.Pod.Ready && !member.Pod.ContainersReady && is(*member.Pod) {
			return member
		}
	}

	return nil
}

// isDead is true for a pod that does not run etcd, or has not been ready for a while: no member is healthy during an election either.
func (v view) isDead(pod etcdcluster.Pod) bool {
	return !pod.IsRunning() || v.now.Sub(pod.ReadinessSince()) > unreadyTime
}

// isExistingHealthy is true if an endpoint of the joined cluster reports the member with the ID as healthy.
func isExistingHealthy(e etcdcluster.EtcdResponses, id uint64) bool {
	return slices.ContainsFunc(e.Existing, func(endpoint etcdcluster.EndpointStatus) bool {
		return endpoint.MemberID == id && endpoint.Healthy && !endpoint.Learner
	})
}

// prefixHint returns, for a pod that is not ready, what member names with a prefix need: a sidecar without support for them finds neither
// the URLs nor the Lease of its member, and never starts etcd. Empty: the names have no prefix.
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

// unreadyTime is how long a running pod must not have been ready, while no member is healthy, before it may be replaced.
const unreadyTime = time.Minute
