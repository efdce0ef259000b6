// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// holdPeers waits while the spec requests other peer URLs, a quorum is healthy, and a sidecar has not yet registered those of its member.
// Other changes of the spec wait too, so that each pod is replaced only once.
func holdPeers(v view, p plan.Plan) (plan.Plan, bool) {
	if !v.o.PeerChangePending || !etcdcluster.IsQuorumReady(v.o) {
		return p, false
	}
	for _, member := range slices.Concat(v.members, v.leaving) {
		if member.Pod == nil || !peers.IsRegistering(v.etcd, v.o, *member.Pod, v.now) {
			continue
		}
		p.Stage, p.Render = plan.StageWaitForMembers, false
		p.WaitsFor = cmp.Or(awaitedOfPod(v, member), "the heartbeat of member "+member.Name)
		p.Reason = v.quorumStatus() + "; the spec is applied when the sidecars of all members have registered their current peer URLs"

		return p, true
	}

	return p, false
}

// unblockSnapshot transfers the leadership if a member with peer TLS may need a raft snapshot and the leader has no peer TLS. The new leader has
// it, and can send the snapshot.
func unblockSnapshot(v view, p plan.Plan) (plan.Plan, bool) {
	blocked := peers.FindBlockedSnapshot(v.etcd, v.o, v.now)
	if blocked == nil || v.o.Defragmentation != "" || !v.isMemberListKnown() {
		return p, false
	}
	for _, member := range v.members {
		if mayLead(member) && member.Pod != nil && member.Pod.PeerTLS && !member.Pod.Deleting {
			p.Stage = plan.StageWaitForMembers
			p.Reason = fmt.Sprintf("%s; %s, and %s can send it", v.quorumStatus(), blocked, member.Name)
			p.Step = plan.MoveLeader{Meta: plan.Meta{Object: blocked.Leader.Pod.Name, UID: blocked.Leader.Pod.UID}, To: member.ID(), ToName: member.Name}

			return p, true
		}
	}

	return p, false
}

// snapshotHint describes the raft snapshot that a member may need and that the leader cannot send. Empty: there is none.
func snapshotHint(v view, m etcdcluster.Member) string {
	blocked := peers.FindBlockedSnapshot(v.etcd, v.o, v.now)
	if blocked == nil || blocked.Member.Ordinal != m.Ordinal {
		return ""
	}

	return fmt.Sprintf("; %s: disable peer TLS until %s has recovered", blocked, m.Name)
}

// losesPeerTLS is true for a member that has peer certificates, and will have none when its pod is recreated.
func losesPeerTLS(m etcdcluster.Member, statefulSet etcdcluster.StatefulSet) bool {
	return m.IsOutdated(statefulSet) && m.Pod.PeerTLS && statefulSet.TLS.PeerCA == ""
}

// awaitedURLs describes the peer URLs that must be registered for the member. Empty: they are registered.
func awaitedURLs(etcd *druidv1alpha1.Etcd, m etcdcluster.Member) string {
	if urls := peers.OwnURLs(etcd, m); m.Listed != nil && !peers.IsRegisteredWith(m, urls) {
		return fmt.Sprintf("member %s to advertise %s and not %s", m.Name, strings.Join(urls, ", "), strings.Join(m.Listed.PeerURLs, ", "))
	}

	return ""
}

// isBeforeHeartbeat is true while the Lease of a member is that of its previous pod. The Lease of a member that has run for a while may be
// about another configuration than that of its pod. The sidecar reads the configuration again when it begins to write Leases again.
func isBeforeHeartbeat(m etcdcluster.Member, now time.Time) bool {
	return m.Lease != nil && m.Lease.TLSEnabled != nil && *m.Lease.TLSEnabled != m.Pod.PeerTLS && now.Sub(m.Pod.CreationTime) < etcdcluster.MemberStartTimeout
}

// mayStopForNewerURLs is true while the sidecar of an outdated pod may read other peer URLs than those of its pod, and stop etcd.
func mayStopForNewerURLs(v view, m etcdcluster.Member) bool {
	hasNewerPort := m.Pod.PeerPort != 0 && v.o.StatefulSet.PeerPort != 0 && m.Pod.PeerPort != v.o.StatefulSet.PeerPort
	hasNewer := hasNewerPort || m.Pod.PeerTLS != (v.o.StatefulSet.TLS.PeerCA != "")

	return len(v.members) > 1 && m.IsOutdated(v.o.StatefulSet) && hasNewer && peers.IsRegistering(v.etcd, v.o, *m.Pod, v.now)
}

// isConfiguredAsBefore is true for a pod of an older template that has run for a while. Its configuration is not known any more, and its
// sidecar has registered its peer URLs. The next pod gets the latest configuration.
func isConfiguredAsBefore(m etcdcluster.Member, statefulSet etcdcluster.StatefulSet, now time.Time) bool {
	return m.IsOutdated(statefulSet) && now.Sub(m.Pod.CreationTime) >= etcdcluster.MemberStartTimeout
}

// correctURLs registers the own peer URLs of a member if its sidecar has not done so. One example is a request to disable peer TLS that was
// withdrawn. A sidecar registers them when its etcd becomes healthy. A member without certificates that is registered with https URLs
// never becomes healthy.
func correctURLs(v view, p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		if !v.isMemberListKnown() || !isUp(member) || member.IsOutdated(v.o.StatefulSet) || awaitedURLs(v.etcd, member) == "" || !isPeerURLStable(*member.Pod, v.now) {
			continue
		}
		p.Stage = plan.StageWaitForMembers
		p.Reason = v.quorumStatus() + "; " + member.Name + " is registered with peer URLs that it does not have"
		p.Step = registerPeerURLs(member, peers.OwnURLs(v.etcd, member))

		return p, true
	}

	return p, false
}

// isUp is true for a healthy member, or one whose etcd runs, in a pod that is not being deleted.
func isUp(m etcdcluster.Member) bool {
	return m.Pod != nil && !m.Pod.Deleting && (m.IsHealthy() || m.Pod.IsRunning())
}

// isPeerURLStable is true for a pod that has been unchanged for a while. Its sidecar will not correct the peer URLs of its member any more.
func isPeerURLStable(pod etcdcluster.Pod, now time.Time) bool {
	return now.Sub(pod.ReadinessSince()) >= peers.PeerURLTimeout
}

// hasHeartbeatSinceStart is true for a member whose sidecar has renewed its Lease since the sidecar started. Before that, the sidecar
// registers the peer URLs of its own configuration once, and stops etcd if others were registered.
func hasHeartbeatSinceStart(m etcdcluster.Member) bool {
	return m.Lease != nil && etcdcluster.HasHeartbeatSinceStart(*m.Pod, *m.Lease)
}

// updatePeerURLsFirst returns the step that registers the future peer URLs of a member that loses its certificates, and the text about it.
// Nil: they are registered, or nothing changes.
func updatePeerURLsFirst(v view, m etcdcluster.Member) (plan.Step, string) {
	urls := peers.URLs(v.etcd, m, false)
	if !v.isMemberListKnown() || !losesPeerTLS(m, v.o.StatefulSet) || m.Listed == nil || peers.IsRegisteredWith(m, urls) {
		return nil, ""
	}

	return registerPeerURLs(m, urls), fmt.Sprintf(", after its peer URLs %s are registered", strings.Join(urls, ", "))
}

// registerPeerURLs is for a member in the member list. The member itself need not respond.
func registerPeerURLs(m etcdcluster.Member, urls []string) plan.Step {
	return plan.UpdatePeerURLs{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}, Member: m.Listed.ID, URLs: urls}
}
