// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// ErrUnreachable is in the chain of each error of a member that did not respond before the timeout. An error without it is a
// response: the member is reachable and rejects the call.
var ErrUnreachable = errors.New("member does not answer")

// ErrHandshake is in the chain of an error if the TLS handshake failed: one side cannot verify the certificate of the other.
var ErrHandshake = errors.New("the TLS handshake fails")

// ErrQuorumUnsafe is the reason of etcd to refuse the removal of a member: too few of the other members are healthy.
var ErrQuorumUnsafe = errors.New("the other members would have no quorum")

// ErrOtherAlarm is the reason not to disarm an alarm: an alarm of another type is raised. If etcd disarms the last alarm of a type, alarms of other
// types lose their effect too.
var ErrOtherAlarm = errors.New("an alarm of another type is raised, which would lose its effect")

// MaxPrefixes is the maximum number of prefixes that CountKeys counts.
const MaxPrefixes = 200

// Client calls one member. Each call ends after the timeout of the Connector or with its context, whichever is first.
type Client interface {
	// Status returns the status of the endpoint and the alarms, and whether a linearizable read succeeds. The caller sets
	// Ordinal and Endpoint. A member without a leader responds too: it is not healthy, and Error states the cause. The
	// returned error has ErrUnreachable in its chain, or states what the member rejected.
	Status(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error)
	// Read completes a linearizable read, which needs a leader and a quorum, and returns the header of the response. It is zero if etcd denies
	// permission, which the member decides after the read. Errors as for Status.
	Read(ctx context.Context) (ResponseHeader, error)
	// EndpointStatus is Status without the linearizable read, and therefore one request. Healthy is false and QuorumRevision is 0.
	EndpointStatus(ctx context.Context) (etcdcluster.EndpointStatus, []etcdcluster.Alarm, error)
	// MemberList returns the member list of the cluster. Members of etcd 3.5 and newer use a quorum read. Older members do
	// not. Learners of any version reject the call. Errors as for Status.
	MemberList(ctx context.Context) ([]etcdcluster.ListedMember, error)
	// Revision returns the revision of the newest acknowledged write. It uses a quorum read, which fails on learners and on
	// members without a leader. Errors as for Status.
	Revision(ctx context.Context) (int64, error)
	// MoveLeader transfers the leadership to the member with the ID. Only the leader accepts the call. Errors as for Status.
	MoveLeader(ctx context.Context, to uint64) error
	// Promote promotes the learner with the ID to a voting member. Each member that has a leader accepts the call. The cluster
	// rejects a learner that has not caught up. Errors as for Status.
	Promote(ctx context.Context, learner uint64) error
	// RemoveMember removes the member or learner with the ID from the cluster. Each member that has a leader accepts the call. etcd rejects it if
	// the other members that run are no quorum. A member that is not listed is no error. Errors as for Status.
	RemoveMember(ctx context.Context, id uint64) error
	// HashKV returns the hash of all keys up to the revision, and the revision up to which the member was compacted. Hashes of different
	// members can be compared only if both revisions are equal. The member reads all its keys, and completes no write meanwhile. Only the context limits
	// the call, not the timeout of the Connector. Errors as for Status.
	HashKV(ctx context.Context, revision int64) (hash uint32, compacted int64, err error)
	// UpdatePeerURLs replaces the registered peer URLs of the member with the ID. Each member that has a leader accepts the
	// call. Errors as for Status.
	UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error
	// RejectWrites makes the cluster reject all writes until AllowWrites, also after restarts, and returns the revision of the last write. Reads
	// and snapshots succeed meanwhile. A full snapshot that is taken meanwhile contains the rejection. Errors as for Status: the
	// cluster may reject writes then.
	RejectWrites(ctx context.Context) (int64, error)
	// AllowWrites ends a rejection of RejectWrites. Without one it changes nothing. Errors as for Status.
	AllowWrites(ctx context.Context) error
	// Compact removes the history of all keys before the revision, and waits until the member has removed it from its database. The other members
	// remove it at the same time. A revision up to which the history was removed before is no error. Clients that watch from an earlier revision
	// must read again. Each member that has a leader accepts the call, also while its database is full. Only the context limits the call, not the
	// timeout of the Connector. Errors as for Status.
	Compact(ctx context.Context, revision int64) error
	// Disarm disarms an alarm. Each member that has a leader accepts the call. An alarm that is not raised is no error. The error has
	// ErrOtherAlarm in its chain if an alarm of another type is raised. Otherwise errors as for Status.
	Disarm(ctx context.Context, alarm etcdcluster.Alarm) error
	// CountKeys counts the keys of the cluster by their prefixes, most keys first. It reads one key of each prefix,
	// and no value. A prefix ends with the second slash after its first character. If the part before it contains a dot, as an API group does, the
	// prefix ends with the third slash. A key with fewer slashes is counted by itself. At most MaxPrefixes are counted, and all other keys together.
	// Only the context limits the call, not the timeout of the Connector. Errors as for Status.
	CountKeys(ctx context.Context) ([]etcdcluster.KeyCount, error)
	// IsAuthEnabled returns whether etcd authenticates its clients by user and role. Members of etcd 3.4 reject the call. Each call adds an entry
	// to the raft log of every member. Errors as for Status.
	IsAuthEnabled(ctx context.Context) (bool, error)
	// ClusterVersion returns the cluster version, for example 3.5.0. The leader raises it seconds after all members run a newer minor version. It is
	// empty while the cluster has not decided it. The call uses the HTTP endpoint /version. Errors as for Status.
	ClusterVersion(ctx context.Context) (string, error)
	// Health returns nil if the member has a leader, completes a linearizable read, and knows no alarm. It is one request to the HTTP endpoint
	// /health, with a connection of its own that is closed afterwards. Errors as for Status.
	Health(ctx context.Context) error
	// Defragment returns unused space of the database to the file system. The member does not serve client requests meanwhile.
	// Only the context limits the call, not the timeout of the Connector. Errors as for Status.
	Defragment(ctx context.Context) error
}

// ResponseHeader is what each response of a member contains.
type ResponseHeader struct {
	// ClusterID and MemberID are the IDs in etcd.
	ClusterID, MemberID uint64
	// RaftTerm is the term. Each new leader increases it.
	RaftTerm uint64
	// Revision is the revision of the store.
	Revision int64
}

// Connector creates Clients.
type Connector interface {
	// Connect returns a Client for the member of the target. It does not wait for a connection. Clients are shared: the caller does
	// not close them. The error names the part of the credentials that cannot be used.
	Connect(ctx context.Context, target Target) (Client, error)
	// Disconnect closes the connection to the target, so that the next Connect opens a new one. Callers use it for members
	// that stop responding. It does not interrupt a running Defragment.
	Disconnect(target Target)
}

// Target is the client endpoint of one member.
type Target struct {
	// Address is host:port. The host is the IP address of the pod if the pod exists.
	Address string
	// ServerName is the name that the certificate of the member must contain. Empty: the host of Address.
	ServerName string
	// Credentials are the TLS credentials. Nil: plaintext.
	Credentials *Credentials
	// Etcd is the Etcd that connects. It has a share of the connections of its namespace. Empty: the share of all callers without one.
	Etcd types.NamespacedName
}

// Credentials load TLS data only when a connection is opened, so that no caller keeps keys in memory.
type Credentials struct {
	// Version changes whenever the result of Load changes. Targets with the same version share a connection.
	Version string
	// Load returns the credentials.
	Load func(ctx context.Context) (TLS, error)
}

// TLS is PEM data in the form of the Secrets.
type TLS struct {
	// CA are the certificates of the CAs that may have signed the certificate of the member.
	CA []byte
	// Certificate and Key are those of the client. Both empty: the client presents no certificate.
	Certificate, Key []byte
}
