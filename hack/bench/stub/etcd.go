// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"context"
	"net/http"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

// api responds to the calls of the operator with what the in-memory etcd of the member reports.
type api struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedClusterServer

	stub *Stub
}

func newEtcdServer(s *Stub) http.Handler {
	server, a := grpc.NewServer(), &api{stub: s}
	etcdserverpb.RegisterMaintenanceServer(server, a)
	etcdserverpb.RegisterKVServer(server, a)
	etcdserverpb.RegisterClusterServer(server, a)

	return server
}

// call calls the in-memory etcd of the member to which the client has connected.
func call[Response any](ctx context.Context, s *Stub, do func(etcdclient.Client) (*Response, error)) (*Response, error) {
	response, err := do(s.connect(ctx))
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}

	return response, nil
}

// Status returns the status of the member.
func (a *api) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return call(ctx, a.stub, func(member etcdclient.Client) (*etcdserverpb.StatusResponse, error) {
		reported, _, err := member.EndpointStatus(ctx)

		return &etcdserverpb.StatusResponse{
			Header:  &etcdserverpb.ResponseHeader{ClusterId: reported.ClusterID, MemberId: reported.MemberID, RaftTerm: reported.RaftTerm, Revision: reported.Revision},
			Version: reported.Version, Leader: reported.LeaderID, RaftTerm: reported.RaftTerm,
			RaftIndex: reported.RaftIndex, RaftAppliedIndex: reported.RaftAppliedIndex, DbSize: reported.DBSize, DbSizeInUse: reported.DBSizeInUse,
		}, err
	})
}

// Range completes a linearizable read. It finds no keys.
func (a *api) Range(ctx context.Context, _ *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return call(ctx, a.stub, func(member etcdclient.Client) (*etcdserverpb.RangeResponse, error) {
		header, err := member.Read(ctx)

		return &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{
			ClusterId: header.ClusterID, MemberId: header.MemberID, RaftTerm: header.RaftTerm, Revision: header.Revision,
		}}, err
	})
}

// MemberList returns the member list of the cluster.
func (a *api) MemberList(ctx context.Context, _ *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return call(ctx, a.stub, func(member etcdclient.Client) (*etcdserverpb.MemberListResponse, error) {
		members, err := member.MemberList(ctx)
		response := &etcdserverpb.MemberListResponse{}
		for _, listed := range members {
			response.Members = append(response.Members, &etcdserverpb.Member{
				ID: listed.ID, Name: listed.Name, PeerURLs: listed.PeerURLs, ClientURLs: listed.ClientURLs, IsLearner: listed.Learner,
			})
		}

		return response, err
	})
}
