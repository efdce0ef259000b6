// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"errors"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// ErrUnreachable is in the chain of each error of a member that did not answer in time or not at all. An error without it
// is an answer: the member is there and refuses.
var ErrUnreachable = errors.New("member does not answer")

// Client asks one member. Each call ends after the timeout of the Connector or with its context, whichever is first.
type Client interface {
	// Status returns what the member says of itself, and whether it serves linearizable reads; Ordinal and Endpoint are
	// left for the caller. A member without a leader answers: Serves is false then, and Error says why.
	// The error has ErrUnreachable in its chain, or says what the member refused.
	Status(ctx context.Context) (etcdcluster.MemberAnswer, []etcdcluster.Alarm, error)
	// MemberList returns the cluster's list. Members of etcd 3.5 and newer answer by a quorum read; older ones and, at any
	// version, learners do not: a learner refuses. Errors as for Status.
	MemberList(ctx context.Context) ([]etcdcluster.ListedMember, error)
	// Revision returns the revision of the newest write that anybody was told to be done, by a quorum read: learners and members
	// without a leader fail. Errors as for Status.
	Revision(ctx context.Context) (int64, error)
	// MoveLeader makes the member with the id the leader. Only the leader can do this; others refuse. Errors as for Status.
	MoveLeader(ctx context.Context, to uint64) error
	// Promote gives the learner with the id its vote. Any member can be asked that has a leader; the cluster refuses a learner
	// that has not caught up. Errors as for Status.
	Promote(ctx context.Context, learner uint64) error
	// UpdatePeerURLs has the cluster know the member with the id by these URLs. Any member can be asked that has a leader. Errors as
	// for Status.
	UpdatePeerURLs(ctx context.Context, id uint64, urls []string) error
	// Defragment gives space of the database that holds no data back to the file system. Until it is over the member does not
	// serve; it lasts as long as the context does, and no time limit of the connection ends it before. Errors as for Status.
	Defragment(ctx context.Context) error
}

// Connector makes Clients.
type Connector interface {
	// Connect returns a Client for the member behind the target, without talking to it yet. Clients are shared and are not
	// closed by the caller. The error says which part of the credentials cannot be used.
	Connect(ctx context.Context, target Target) (Client, error)
	// Forget closes the connection to the target, so that the next Connect begins anew. It is called for members that
	// stopped answering. A Defragment that runs on the connection is not broken off.
	Forget(target Target)
}

// Target is the client endpoint of one member.
type Target struct {
	// Address is host:port, the pod's IP where there is a pod.
	Address string
	// ServerName is the name that the member's certificate has to carry. Empty: the host of Address.
	ServerName string
	// Credentials for TLS. Nil: plaintext.
	Credentials *Credentials
}

// Credentials are loaded only when a connection is made, so that they need not be kept.
type Credentials struct {
	// Version changes whenever Load would return something else. A connection is shared by targets of the same version.
	Version string
	// Load returns the credentials.
	Load func(ctx context.Context) (TLS, error)
}

// TLS is PEM data as Secrets hold it.
type TLS struct {
	// CA are the certificates that the member's certificate may be signed by.
	CA []byte
	// Certificate and Key of the client. Both empty: the client presents none.
	Certificate, Key []byte
}
