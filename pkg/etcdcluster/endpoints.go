// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

// EtcdResponses is what the members themselves answered. The zero value: nobody was asked.
type EtcdResponses struct {
	// Queried is false when there was nobody to ask, such as while hibernating.
	Queried bool
	// Members are the answers of the endpoints, one for each member that was asked, sorted by ordinal.
	Members []EndpointStatus
	// Existing are the answers at the client endpoints of the cluster that the Etcd joins, one an endpoint. Their ordinals say
	// nothing. Nil: it joins none.
	Existing []EndpointStatus
	// MemberList is the cluster's own list, from a quorum read where the members' version allows one. Nil: nobody gave one.
	MemberList []ListedMember
	// MemberListError is why there is no list. Empty: there is one, or nobody was asked.
	MemberListError string
	// Alarms that are raised.
	Alarms []Alarm
}

// EndpointStatus is what the member behind one endpoint said of itself.
type EndpointStatus struct {
	// Ordinal of the member that was asked.
	Ordinal int
	// Endpoint that was asked.
	Endpoint string
	// Reachable is true when it answered at all; everything below is zero otherwise.
	Reachable bool
	// Error is why it did not answer, or why it does not serve. Empty: none.
	Error string
	// Serves is true when it answered a linearizable read, which needs a leader and a quorum. Learners never do.
	Healthy bool
	// MemberID, ClusterID, LeaderID are etcd's ids; LeaderID is 0 while there is no leader.
	MemberID, ClusterID, LeaderID uint64
	// Learner is true while it has no vote.
	Learner bool
	// DBSize is the size of its database file, DBSizeInUse the part that holds data, both in bytes.
	DBSize, DBSizeInUse int64
	// RaftTerm, RaftIndex, RaftAppliedIndex as the member knows them.
	RaftTerm, RaftIndex, RaftAppliedIndex uint64
	// Revision of its store.
	Revision int64
	// Version of etcd, e.g. 3.5.27.
	Version string
	// Errors that it reports about itself.
	Errors []string
}

// IsLeader is true when the member says that it is the leader itself.
func (m EndpointStatus) IsLeader() bool {
	return m.Reachable && m.LeaderID != 0 && m.LeaderID == m.MemberID
}

// ListedMember is a member in the cluster's own list.
type ListedMember struct {
	// ID of the member.
	ID uint64
	// Name of the member. Empty: it was added but never started.
	Name string
	// PeerURLs and ClientURLs that it advertises.
	PeerURLs, ClientURLs []string
	// Learner is true while it has no vote.
	Learner bool
}

// AlarmType names an alarm.
type AlarmType string

// The alarms of etcd.
const (
	// AlarmNoSpace means that the database has reached its quota: no writes are taken.
	AlarmNoSpace AlarmType = "NOSPACE"
	// AlarmCorrupt means that the member's data differs from that of others.
	AlarmCorrupt AlarmType = "CORRUPT"
)

// Alarm is an alarm that a member raised.
type Alarm struct {
	// MemberID of the member that raised it.
	MemberID uint64
	// Type of the alarm.
	Type AlarmType
}

// Endpoint returns what the member with the ordinal answered; nil when it was not asked.
func (e EtcdResponses) Endpoint(ordinal int) *EndpointStatus {
	for i := range e.Members {
		if e.Members[i].Ordinal == ordinal {
			return &e.Members[i]
		}
	}

	return nil
}

// AnyReachable is true when at least one member answered, so that the way to the cluster is known to be open.
func (e EtcdResponses) AnyReachable() bool {
	for _, member := range e.Members {
		if member.Reachable {
			return true
		}
	}

	return false
}

// Leader returns the pod of the member that leads; nil when none does, or nobody was asked.
func (o Observation) Leader() *Pod {
	for _, member := range o.Etcd.Members {
		if member.IsLeader() && member.Healthy {
			return o.PodFor(member.Ordinal)
		}
	}

	return nil
}
