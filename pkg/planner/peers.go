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

// holdPeers waits while the spec requests other peer URLs, a quorum is healthy, and a sidecar has not yet registered those of its member.
// Other changes of the spec wait too, so that each pod is replaced only once.
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

// losesPeerTLS is true for a member that has peer certificates, and will have none when its pod is recreated.
func (v view) losesPeerTLS(m etcdcluster.Member) bool {
	return m.IsOutdated(v.o.StatefulSet) && m.Pod.PeerTLS && v.o.StatefulSet.TLS.PeerCA == ""
}

// awaitedURLs describes the peer URLs that must be registered for the member. Empty: they are registered.
func (v view) awaitedURLs(m etcdcluster.Member) string {
	if urls := peers.OwnURLs(v.etcd, m); m.Listed != nil && !peers.IsRegisteredWith(m, urls) {
		return fmt.Sprintf("member %s to advertise %s and not %s", m.Name, strings.Join(urls, ", "), strings.Join(m.Listed.PeerURLs, ", "))
	}

	return ""
}

// correctURLs registers the own peer URLs of a member if its sidecar has not done so, for example because peer TLS was to be disabled and
// then was not. A sidecar registers them when its etcd becomes healthy. A member without certificates that is registered with https URLs
// never becomes healthy.
func (v view) correctURLs(p plan.Plan) (plan.Plan, bool) {
	for _, member := range v.members {
		if !v.isMemberListKnown() || !isUp(member) || member.IsOutdated(v.o.StatefulSet) || v.awaitedURLs(member) == "" || !v.isPeerURLStable(member) {
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

// isPeerURLStable is true for a member that has been unchanged for so long that its sidecar will not correct its peer URLs any more.
func (v view) isPeerURLStable(m etcdcluster.Member) bool {
	return v.now.Sub(m.Pod.ReadinessSince()) >= peers.PeerURLTimeout
}

// hasHeartbeatSinceStart is true for a member whose sidecar has renewed its Lease since the sidecar started. Before that, the sidecar
// registers the peer URLs of its own configuration once, and stops etcd if others were registered.
func (v view) hasHeartbeatSinceStart(m etcdcluster.Member) bool {
	return m.Lease != nil && etcdcluster.HasHeartbeatSinceStart(*m.Pod, *m.Lease)
}

// updatePeerURLsFirst returns the step that registers the future peer URLs of a member that loses its certificates, and the text about it.
// Nil: they are registered, or nothing changes.
func (v view) updatePeerURLsFirst(m etcdcluster.Member) (plan.Step, string) {
	urls := peers.URLs(v.etcd, m, false)
	if !v.isMemberListKnown() || !v.losesPeerTLS(m) || m.Listed == nil || peers.IsRegisteredWith(m, urls) {
		return nil, ""
	}

	return registerPeerURLs(m, urls), fmt.Sprintf(", after its peer URLs %s are registered", strings.Join(urls, ", "))
}

// registerPeerURLs is for a member in the member list. The member itself need not respond.
func registerPeerURLs(m etcdcluster.Member, urls []string) plan.Step {
	return plan.UpdatePeerURLs{Meta: plan.Meta{Object: m.Pod.Name, UID: m.Pod.UID}, Member: m.Listed.ID, URLs: urls}
}
