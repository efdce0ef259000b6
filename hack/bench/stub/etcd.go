// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// Versions that the members report.
const (
	etcdVersion    = "3.4.34"
	clusterVersion = "3.4.0"
)

// Sizes of the database that the members report.
const (
	dbSize      = 20 << 20
	dbSizeInUse = 15 << 20
)

// firstRevision is the revision of all clusters while no revisions advance.
const firstRevision = 1000

// api implements the gRPC services of etcd. All members of a cluster are voting members and healthy, and have the same data.
type api struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedLeaseServer
	etcdserverpb.UnimplementedAuthServer

	stub *Stub
}

func register(server *grpc.Server, s *Stub) {
	a := &api{stub: s}
	etcdserverpb.RegisterMaintenanceServer(server, a)
	etcdserverpb.RegisterKVServer(server, a)
	etcdserverpb.RegisterClusterServer(server, a)
	etcdserverpb.RegisterLeaseServer(server, a)
	etcdserverpb.RegisterAuthServer(server, a)
}

// revision is the revision of all clusters.
func (s *Stub) revision() int64 {
	s.lock.Lock()
	defer s.lock.Unlock()

	return s.revisionBefore + int64(s.revisionRate*time.Since(s.revisionSince).Seconds())
}

// AdvanceRevisions makes the revision of each cluster advance by the rate per second. 0: it stays.
func (s *Stub) AdvanceRevisions(rate float64) {
	revision := s.revision()
	s.lock.Lock()
	defer s.lock.Unlock()
	s.revisionBefore, s.revisionRate, s.revisionSince = revision, rate, time.Now()
}

func (a *api) header(ctx context.Context) *etcdserverpb.ResponseHeader {
	m := memberFor(ctx)

	return &etcdserverpb.ResponseHeader{ClusterId: m.clusterID, MemberId: m.id, Revision: a.stub.revision(), RaftTerm: 2}
}

// leader returns the ID of the leader: the first member that runs.
func (s *Stub) leader(m *member) uint64 {
	if members := s.registry.members(m.cluster); len(members) > 0 {
		return members[0].id
	}

	return m.id
}

// Status returns the status of a healthy member.
func (a *api) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	header := a.header(ctx)
	index := uint64(header.Revision) + 10 // #nosec G115 -- revisions are positive

	return &etcdserverpb.StatusResponse{
		Header: header, Version: etcdVersion, Leader: a.stub.leader(memberFor(ctx)), RaftTerm: header.RaftTerm,
		RaftIndex: index, RaftAppliedIndex: index, DbSize: dbSize, DbSizeInUse: dbSizeInUse,
	}, nil
}

// HashKV returns the same hash for all members.
func (a *api) HashKV(ctx context.Context, _ *etcdserverpb.HashKVRequest) (*etcdserverpb.HashKVResponse, error) {
	return &etcdserverpb.HashKVResponse{Header: a.header(ctx), Hash: 1, CompactRevision: 1}, nil
}

// Alarm reports that there are no alarms.
func (a *api) Alarm(ctx context.Context, _ *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	return &etcdserverpb.AlarmResponse{Header: a.header(ctx)}, nil
}

// Defragment does nothing.
func (a *api) Defragment(ctx context.Context, _ *etcdserverpb.DefragmentRequest) (*etcdserverpb.DefragmentResponse, error) {
	return &etcdserverpb.DefragmentResponse{Header: a.header(ctx)}, nil
}

// MoveLeader does nothing: the next leader is found when the pod of this one ends.
func (a *api) MoveLeader(ctx context.Context, _ *etcdserverpb.MoveLeaderRequest) (*etcdserverpb.MoveLeaderResponse, error) {
	return &etcdserverpb.MoveLeaderResponse{Header: a.header(ctx)}, nil
}

// Range finds no keys.
func (a *api) Range(ctx context.Context, _ *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: a.header(ctx)}, nil
}

// Compact does nothing.
func (a *api) Compact(ctx context.Context, _ *etcdserverpb.CompactionRequest) (*etcdserverpb.CompactionResponse, error) {
	return &etcdserverpb.CompactionResponse{Header: a.header(ctx)}, nil
}

// MemberList returns the members that run.
func (a *api) MemberList(ctx context.Context, _ *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	response := &etcdserverpb.MemberListResponse{Header: a.header(ctx)}
	for _, m := range a.stub.registry.members(memberFor(ctx).cluster) {
		response.Members = append(response.Members, &etcdserverpb.Member{
			ID: m.id, Name: m.pod.Name, PeerURLs: []string{m.url(m.peerSecret, "2380")}, ClientURLs: []string{m.url(m.clientSecret, clientPort)},
		})
	}

	return response, nil
}

// AuthStatus reports that etcd does not authenticate its clients.
func (a *api) AuthStatus(ctx context.Context, _ *etcdserverpb.AuthStatusRequest) (*etcdserverpb.AuthStatusResponse, error) {
	return &etcdserverpb.AuthStatusResponse{Header: a.header(ctx)}, nil
}
