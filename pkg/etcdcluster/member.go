// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Member holds all facts of an Observation about one desired member.
type Member struct {
	// Name of the member and of its lease.
	Name string
	// Ordinal of the member.
	Ordinal int
	// ManagedExternally is true if the operator does not manage the pod of the member. A missing pod has no meaning then.
	ManagedExternally bool
	// Pod of the member. Nil: there is none.
	Pod *Pod
	// Lease of the member. Nil: there is none.
	Lease *Lease
	// Heartbeat is the content of the Lease. Nil: none yet, or see HeartbeatError.
	Heartbeat *Heartbeat
	// HeartbeatError is why the content of the Lease cannot be parsed. Empty: it can, or there is none.
	HeartbeatError string
	// Endpoint is the response of the member. Nil: it was not queried.
	Endpoint *EndpointStatus
	// ClusterReachable is true if any member of the cluster responded. If this member did not, the network of the operator is not the
	// cause.
	ClusterReachable bool
	// Listed is its entry in the member list of the cluster. Nil: not in the list, or there is no list.
	Listed *ListedMember
}

// MembersFor returns the members that the spec of a canonical Etcd requests, in order of their ordinals. None while it hibernates.
func MembersFor(etcd *druidv1alpha1.Etcd, o Observation) []Member {
	return MembersOf(etcd, o, etcd.Spec.Replicas)
}

// SurgeSize is the number of members during a surge.
const SurgeSize = 2

// VotingMembers returns the members of a canonical Etcd that may vote, in order of their ordinals. It includes members that leave, and the extra member
// of a volume migration. In a surge, it returns both members.
func VotingMembers(etcd *druidv1alpha1.Etcd, o Observation) []Member {
	if o.State.Surge.IsActive() {
		return MembersOf(etcd, o, SurgeSize)
	}

	return MembersOf(etcd, o, max(etcd.Spec.Replicas, RenderedReplicas(o), o.State.Size))
}

// MembersOf returns the first count members. A cluster that is scaled up runs fewer members than the spec requests.
func MembersOf(etcd *druidv1alpha1.Etcd, o Observation, count int32) []Member {
	var members []Member
	for ordinal := range int(count) {
		member := Member{
			Name:              helper.MemberName(etcd, ordinal),
			Ordinal:           ordinal,
			ManagedExternally: !helper.ManagesPods(etcd),
			Pod:               o.PodFor(ordinal),
			Endpoint:          o.Etcd.Endpoint(ordinal),
			ClusterReachable:  o.Etcd.AnyReachable(),
		}
		member.readLease(o)
		member.Listed = o.Etcd.listed(member)
		if member.Listed == nil {
			member.Listed = o.Etcd.unnamedAt(PeerHost(etcd, ordinal))
		}
		members = append(members, member)
	}

	return members
}

func (m *Member) readLease(o Observation) {
	for i := range o.MemberLeases {
		if o.MemberLeases[i].Name == m.Name {
			m.Lease = &o.MemberLeases[i]
		}
	}
	if m.Lease == nil || m.Lease.Holder == "" {
		return
	}
	heartbeat, err := ParseHeartbeat(m.Lease.Holder)
	if err != nil {
		m.HeartbeatError = err.Error()

		return
	}
	m.Heartbeat = &heartbeat
}

func (e EtcdResponses) listed(member Member) *ListedMember {
	for i := range e.MemberList {
		if listed := &e.MemberList[i]; listed.Name == member.Name || member.ID() != 0 && listed.ID == member.ID() {
			return listed
		}
	}

	return nil
}

// unnamedAt is the entry of a member that has joined and not run yet: it has no name, but its peer URLs.
func (e EtcdResponses) unnamedAt(host string) *ListedMember {
	for i := range e.MemberList {
		if listed := &e.MemberList[i]; listed.Name == "" && listed.HasPeerHost(host) {
			return listed
		}
	}

	return nil
}

// HasPeerHost is true where a peer URL has the host, at whatever port and with whatever scheme.
func (m ListedMember) HasPeerHost(host string) bool {
	return slices.ContainsFunc(m.PeerURLs, func(text string) bool {
		parsed, err := url.Parse(text)

		return err == nil && parsed.Hostname() == host
	})
}

// ID returns the ID of the member in etcd, from its response or else from its Lease. 0: unknown.
func (m Member) ID() uint64 {
	switch {
	case m.Endpoint != nil && m.Endpoint.Reachable:
		return m.Endpoint.MemberID
	case m.Heartbeat != nil:
		return m.Heartbeat.MemberID
	default:
		return 0
	}
}

// Role returns the role of the member, from its response or else from its Lease. Empty: unknown.
func (m Member) Role() druidv1alpha1.EtcdRole {
	switch {
	case m.Endpoint != nil && m.Endpoint.IsLeader():
		return druidv1alpha1.EtcdRoleLeader
	case m.Endpoint != nil && m.Endpoint.Reachable:
		return druidv1alpha1.EtcdRoleMember
	case m.Heartbeat != nil:
		return m.Heartbeat.Role
	default:
		return ""
	}
}

// IsHealthy is true if the member is a voting member that completes linearizable reads. If the operator can reach no member, the readiness
// of its pod is used instead: its probe is such a read.
func (m Member) IsHealthy() bool {
	if m.Endpoint != nil && m.ClusterReachable {
		return m.Endpoint.Healthy && !m.Endpoint.Learner
	}

	return m.Pod != nil && m.Pod.Ready && !m.Pod.Deleting
}

// hasVoted is true if the Lease of the member has a holder, or if that is not known. The operator and the sidecar record each voting member.
func (m Member) hasVoted() bool { return m.Lease == nil || m.Lease.Holder != "" }

// IsOutdated is true if the pod of the member was created from another template than the latest, and is not being deleted. A pod that is
// being deleted needs no replacement: the StatefulSet controller recreates it from the latest template.
func (m Member) IsOutdated(statefulSet StatefulSet) bool {
	return m.Pod != nil && !m.Pod.Deleting && m.Pod.IsOutdated(statefulSet)
}

// PeerHost returns the host name by which other members reach the pod with the ordinal.
func PeerHost(etcd *druidv1alpha1.Etcd, ordinal int) string {
	return fmt.Sprintf("%s.%s.%s.svc", helper.PodName(etcd, ordinal), helper.PeerServiceName(etcd), etcd.Namespace)
}

// MemberStartTimeout is how long members may take to start before the operator reports a lost quorum.
const MemberStartTimeout = 2 * time.Minute

// UsesStore is true if the pod of the member was rendered with a backup store.
func (m Member) UsesStore() bool {
	return m.Pod != nil && m.Pod.Store != "" && m.Pod.Store != storelessFingerprint
}
