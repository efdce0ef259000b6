// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// holdPeers waits while the spec asks for other peer URLs, a quorum serves, and a sidecar has not yet registered those of its member. Other
// changes of the spec wait too, so that each pod is replaced only once.
func (v view) holdPeers(p plan.Plan) (plan.Plan, bool) {
	if !v.o.PeerChangePending || !etcdcluster.IsQuorumReady(v.o) {
		return p, false
	}
	for _, member := range v.members {
		if member.Pod == nil || !peers.IsRegistering(v.etcd, v.o, *member.Pod, v.now) {
			continue
		}
		p.Stage, p.Render = plan.StageWaitForMembers, false
		p.WaitsFor = cmp.Or(awaitedOfPod(v.etcd, member), "the heartbeat of member "+member.Name)
		p.Reason = v.quorumStatus() + "; the spec is applied when the sidecars of all members have registered their current peer URLs"

		return p, true
	}

	return p, false
}

// losesPeerTLS is true for a member that has certificates for others, and will have none when its pod is made anew.
func (v view) losesPeerTLS(m etcdcluster.Member) bool {
	return v.isOutdated(m) && m.Pod.PeerTLS && v.o.StatefulSet.TLS.PeerCA == ""
}

// awaitedURLs says what is waited for until others know the member by the URLs that it has. Empty: nothing.
func (v view) awaitedURLs(m etcdcluster.Member) string {
	if urls := peers.OwnURLs(v.etcd, m); m.Listed != nil && !peers.IsRegisteredWith(m, urls) {
		return fmt.Sprintf("member %s to advertise %s and not %s", m.Name, strings.Join(urls, ", "), strings.Join(m.Listed.PeerURLs, ", "))
	}

	return ""
}

// correctURLs has the cluster know a member by its own URLs where its sidecar has left that undone, such as when TLS among the
// members was to be switched off, and then was not. A sidecar does it when its etcd serves: without certificates, and known by https,
// it never would.
func (v view) correctURLs(p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		if !v.isMemberListKnown() || !isUp(member) || v.isOutdated(member) || v.awaitedURLs(member) == "" || !v.isPeerURLStable(member) {
			continue
		}
		p.Stage = plan.StageWaitForMembers
		p.Reason = v.quorumStatus() + "; " + member.Name + " is known by URLs that it does not have"
		p.Step = registerPeerURLs(member, peers.OwnURLs(v.etcd, member))

		return p, true
	}

	return p, false
}

// isUp is true for a member that serves, or whose etcd runs at least, in a pod that stays.
func isUp(m etcdcluster.Member) bool {
	return m.Pod != nil && !m.Pod.Deleting && (m.IsHealthy() || etcdcluster.IsRunning(*m.Pod))
}

// isPeerURLStable is true for a member that has been as it is for so long that its sidecar will not correct its peer URLs any more.
func (v view) isPeerURLStable(m etcdcluster.Member) bool {
	return v.now.Sub(etcdcluster.Later(m.Pod.ReadyChangedAt, m.Pod.CreationTime)) >= peers.PeerURLTimeout
}

// hasHeartbeatSinceStart is true for a member whose sidecar has renewed its lease since the sidecar started. Before that it corrects the peer URLs to
// those of its own configuration, once, and stops etcd where they were others.
func (v view) hasHeartbeatSinceStart(m etcdcluster.Member) bool {
	return m.Lease != nil && etcdcluster.HasHeartbeatSinceStart(*m.Pod, *m.Lease)
}

// updatePeerURLsFirst is the step by which others know a member that loses its certificates by the URLs that it will have, and what they are.
// Nil: they know it so, or nothing changes.
func (v view) updatePeerURLsFirst(m etcdcluster.Member) (plan.Step, string) {
	urls := peers.URLs(v.etcd, m, false)
	if !v.isMemberListKnown() || !v.losesPeerTLS(m) || m.Listed == nil || peers.IsRegisteredWith(m, urls) {
		return nil, ""
	}

	return registerPeerURLs(m, urls), fmt.Sprintf(", once the others know it by %s", strings.Join(urls, ", "))
}

// registerPeerURLs is for a member that the cluster lists: it need not answer itself.
func registerPeerURLs(m etcdcluster.Member, urls []string) plan.Step {
	return plan.UpdatePeerURLs{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}, Member: m.Listed.ID, URLs: urls}
}
