// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import "slices"

// EtcdResponses are the responses of the members. The zero value: no member was queried.
type EtcdResponses struct {
	// Queried is false if there was no member to query, for example during hibernation.
	Queried bool
	// Members are the responses of the endpoints, one for each queried member, sorted by ordinal.
	Members []EndpointStatus
	// Existing are the responses of the client endpoints of the cluster that the Etcd joins, one for each endpoint. Their ordinals have no
	// meaning. Nil: it joins none.
	Existing []EndpointStatus
	// MemberList is the member list of the cluster. It comes from a quorum read if the version of the members supports one. Nil: no member
	// returned a list.
	MemberList []ListedMember
	// MemberListError is why there is no list. Empty: there is a list, or no member was queried.
	MemberListError string
	// Alarms are the alarms that are raised.
	Alarms []Alarm
	// AuthEnabled is true if etcd authenticates its clients by user and role. Nil: it was not queried, or no member returned it.
	AuthEnabled *bool
	// ClusterVersion is the cluster version of etcd, for example 3.5.0. Empty: it was not queried, or no member returned it.
	ClusterVersion string
	// ClusterVersionError is why no member returned the cluster version. Empty: it was not queried, no member is healthy, or no error occurred.
	ClusterVersionError string
}

// EndpointStatus is the response of the member behind one endpoint.
type EndpointStatus struct {
	// Ordinal of the queried member.
	Ordinal int
	// Endpoint is the queried endpoint.
	Endpoint string
	// Reachable is true if the member responded. All following fields except Error and HandshakeFailed are zero otherwise.
	Reachable bool
	// Error is why the member did not respond, or why it is not healthy. Empty: none.
	Error string
	// HandshakeFailed is true if the member did not respond because the TLS handshake failed. Error has the cause.
	HandshakeFailed bool
	// Healthy is true if the member completed a linearizable read, which needs a leader and a quorum. A learner is never healthy.
	Healthy bool
	// ReadRefused is true if etcd refused the read, because it authenticates its clients. The member is healthy nevertheless.
	ReadRefused bool
	// MemberID, ClusterID and LeaderID are the IDs in etcd. LeaderID is 0 while there is no leader.
	MemberID, ClusterID, LeaderID uint64
	// Learner is true if the member is a learner, which does not vote.
	Learner bool
	// DBSize is the size of its database file, DBSizeInUse the part that holds data, both in bytes.
	DBSize, DBSizeInUse int64
	// DBSizeQuota is the largest size of the file in bytes. 0: members before etcd 3.6 do not report it.
	DBSizeQuota int64
	// RaftTerm, RaftIndex, RaftAppliedIndex as the member knows them.
	RaftTerm, RaftIndex, RaftAppliedIndex uint64
	// Revision of its store. It may be behind that of other members.
	Revision int64
	// QuorumRevision is the revision that its linearizable read returned. Every write that was acknowledged before the read has at most this
	// revision. 0 if the member is not healthy.
	QuorumRevision int64
	// Version of etcd, for example 3.5.27.
	Version string
	// Errors are the errors that the member reports about itself.
	Errors []string
}

// IsLeader is true if the member reports that it is the leader.
func (m EndpointStatus) IsLeader() bool {
	return m.Reachable && m.LeaderID != 0 && m.LeaderID == m.MemberID
}

// ListedMember is a member in the member list of the cluster.
type ListedMember struct {
	// ID of the member.
	ID uint64
	// Name of the member. Empty: it was added but never started.
	Name string
	// PeerURLs and ClientURLs that it advertises.
	PeerURLs, ClientURLs []string
	// Learner is true if the member is a learner, which does not vote.
	Learner bool
}

// AlarmType names an alarm.
type AlarmType string

// The alarms of etcd.
const (
	// AlarmNoSpace means that the database has reached its quota: no writes are taken.
	AlarmNoSpace AlarmType = "NOSPACE"
	// AlarmCorrupt means that members have different data: etcd rejects all writes.
	AlarmCorrupt AlarmType = "CORRUPT"
)

// writeRejecter is the ID of the member that raises WriteRejections. No member has it.
const writeRejecter = 0xd81d000000000001

// WriteRejection is the alarm with which the operator makes a cluster reject all writes before its volumes are deleted.
var WriteRejection = Alarm{MemberID: writeRejecter, Type: AlarmCorrupt}

// WriteRejections are the alarms of a rejection in the order in which they are raised. WriteRejection is the last one.
var WriteRejections = []Alarm{{MemberID: writeRejecter, Type: AlarmNoSpace}, WriteRejection}

// Alarm is an alarm that a member raised.
type Alarm struct {
	// MemberID of the member that raised it. 0: etcd does not know which member has corrupt data.
	MemberID uint64
	// Type of the alarm.
	Type AlarmType
}

// RejectsWrites is true while the cluster rejects all writes because of WriteRejection.
func (e EtcdResponses) RejectsWrites() bool { return slices.Contains(e.Alarms, WriteRejection) }

// HasWriteRejection is true while any of WriteRejections is raised, also if the operator was stopped before it had raised or disarmed all of them.
func (e EtcdResponses) HasWriteRejection() bool {
	return slices.ContainsFunc(e.Alarms, func(alarm Alarm) bool { return slices.Contains(WriteRejections, alarm) })
}

// AlarmsOf returns the alarms of the type that members have raised. WriteRejections are not among them.
func (e EtcdResponses) AlarmsOf(alarmType AlarmType) []Alarm {
	var raised []Alarm
	for _, alarm := range e.Alarms {
		if alarm.Type == alarmType && !slices.Contains(WriteRejections, alarm) {
			raised = append(raised, alarm)
		}
	}

	return raised
}

// Endpoint returns the response of the member with the ordinal. Nil: it was not queried.
func (e EtcdResponses) Endpoint(ordinal int) *EndpointStatus {
	for i := range e.Members {
		if e.Members[i].Ordinal == ordinal {
			return &e.Members[i]
		}
	}

	return nil
}

// AnyReachable is true if at least one member responded. The operator can then reach the cluster.
func (e EtcdResponses) AnyReachable() bool {
	for _, member := range e.Members {
		if member.Reachable {
			return true
		}
	}

	return false
}

// Leader returns the pod of the leader. Nil: there is no healthy leader, or no member was queried.
func (o Observation) Leader() *Pod {
	for _, member := range o.Etcd.Members {
		if member.IsLeader() && member.Healthy {
			return o.PodFor(member.Ordinal)
		}
	}

	return nil
}
