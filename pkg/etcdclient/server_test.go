// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"slices"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

// server implements the API of etcd. Its responses are set by the test.
type server struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedClusterServer
	etcdserverpb.UnimplementedLeaseServer
	etcdserverpb.UnimplementedAuthServer

	address     string
	status      *etcdserverpb.StatusResponse
	rangeError  error
	hang        bool
	authEnabled bool
	authError   error
	members     []*etcdserverpb.Member
	movedTo     uint64
	updated     uint64
	peerURLs    []string
	promoted    uint64
	removed     uint64
	// removeError is why no member is removed. Nil: each removal succeeds.
	removeError  error
	defragmented int
	// alarms are the alarms that are raised.
	alarms []raisedAlarm
	// rejects is the alarm that decides which writes etcd rejects: the last one that was the first of its type.
	rejects etcdserverpb.AlarmType
	// onAlarm is called after each change of an alarm. Nil: nothing happens.
	onAlarm func()
	// failAlarm returns why an alarm is not raised or disarmed. Nil: all calls succeed.
	failAlarm func(etcdserverpb.AlarmRequest_AlarmAction, raisedAlarm) error
	// defragments, if it is not nil, ends a defragmentation. Until then the server responds to no other call.
	defragments chan struct{}
	// keys are the keys of the database, sorted.
	keys []string
	// compacted is the revision up to which the history was removed.
	compacted int64
	// connections and closed are the numbers of connections that clients have opened, and that have ended.
	connections, closed atomic.Int32

	ranges     []*etcdserverpb.RangeRequest
	linearized bool
}

// raisedAlarm is an alarm of a member.
type raisedAlarm struct {
	member uint64
	alarm  etcdserverpb.AlarmType
}

// serve starts a server that stops with the test. Nil credentials: plaintext.
func serve(tlsConfig *tls.Config) *server {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s := &server{address: listener.Addr().String(), status: &etcdserverpb.StatusResponse{
		Header: &etcdserverpb.ResponseHeader{ClusterId: 7, MemberId: 1, Revision: 42}, Leader: 1, Version: "3.4.34", DbSize: 4096,
	}}
	options := []grpc.ServerOption{grpc.StatsHandler(counter{s})}
	if tlsConfig != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(tlsConfig)))
	}
	grpcServer := grpc.NewServer(options...)
	etcdserverpb.RegisterMaintenanceServer(grpcServer, s)
	etcdserverpb.RegisterKVServer(grpcServer, s)
	etcdserverpb.RegisterClusterServer(grpcServer, s)
	etcdserverpb.RegisterLeaseServer(grpcServer, s)
	etcdserverpb.RegisterAuthServer(grpcServer, s)
	go func() { _ = grpcServer.Serve(listener) }()
	DeferCleanup(grpcServer.Stop)

	return s
}

// counter counts connections.
type counter struct{ server *server }

func (counter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (counter) HandleRPC(context.Context, stats.RPCStats)                         {}
func (counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (c counter) HandleConn(_ context.Context, event stats.ConnStats) {
	switch event.(type) {
	case *stats.ConnBegin:
		c.server.connections.Add(1)
	case *stats.ConnEnd:
		c.server.closed.Add(1)
	}
}

func (s *server) Status(ctx context.Context, _ *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	if s.hang {
		<-ctx.Done()
	}

	return s.status, ctx.Err()
}

func (s *server) Range(_ context.Context, request *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	s.ranges = append(s.ranges, request)
	response := &etcdserverpb.RangeResponse{Header: s.status.Header}
	for _, key := range s.keys {
		isIn := key >= string(request.Key) && (string(request.RangeEnd) == "\x00" || key < string(request.RangeEnd))
		if !isIn {
			continue
		}
		response.Count++
		if !request.CountOnly && (request.Limit == 0 || len(response.Kvs) < int(request.Limit)) {
			response.Kvs = append(response.Kvs, &mvccpb.KeyValue{Key: []byte(key)})
		}
	}

	return response, s.rangeError
}

func (s *server) Compact(_ context.Context, request *etcdserverpb.CompactionRequest) (*etcdserverpb.CompactionResponse, error) {
	switch {
	case !request.Physical:
		return nil, status.Error(codes.InvalidArgument, "the test expects a physical compaction")
	case request.Revision <= s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case request.Revision > s.status.Header.Revision:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	s.compacted = request.Revision

	return &etcdserverpb.CompactionResponse{}, nil
}

func (s *server) AuthStatus(context.Context, *etcdserverpb.AuthStatusRequest) (*etcdserverpb.AuthStatusResponse, error) {
	return &etcdserverpb.AuthStatusResponse{Enabled: s.authEnabled}, s.authError
}

func (s *server) MemberList(_ context.Context, request *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	s.linearized = request.Linearizable

	return &etcdserverpb.MemberListResponse{Members: s.members}, nil
}

// HashKV has the revision as the hash.
func (s *server) HashKV(_ context.Context, request *etcdserverpb.HashKVRequest) (*etcdserverpb.HashKVResponse, error) {
	return &etcdserverpb.HashKVResponse{Hash: uint32(request.Revision), CompactRevision: s.compacted}, nil // #nosec G115 -- a small number
}

func (s *server) Defragment(ctx context.Context, _ *etcdserverpb.DefragmentRequest) (*etcdserverpb.DefragmentResponse, error) {
	if s.defragments != nil {
		s.defragments <- struct{}{}
		select {
		case <-s.defragments:
		case <-ctx.Done():
		}
	}
	s.defragmented++

	return &etcdserverpb.DefragmentResponse{}, ctx.Err()
}

func (s *server) MoveLeader(_ context.Context, request *etcdserverpb.MoveLeaderRequest) (*etcdserverpb.MoveLeaderResponse, error) {
	s.movedTo = request.TargetID

	return &etcdserverpb.MoveLeaderResponse{}, nil
}

// Alarm changes the alarms as etcd 3.4 and 3.5 do. The first alarm of a type replaces what another type rejects. When the last alarm of a type
// is disarmed, etcd rejects nothing.
func (s *server) Alarm(_ context.Context, request *etcdserverpb.AlarmRequest) (*etcdserverpb.AlarmResponse, error) {
	alarm, before := raisedAlarm{member: request.MemberID, alarm: request.Alarm}, len(s.alarmsOf(request.Alarm))
	if s.failAlarm != nil {
		if err := s.failAlarm(request.Action, alarm); err != nil {
			return nil, err
		}
	}
	switch request.Action {
	case etcdserverpb.AlarmRequest_GET:
		response := &etcdserverpb.AlarmResponse{}
		for _, raised := range s.alarmsOf(request.Alarm) {
			response.Alarms = append(response.Alarms, &etcdserverpb.AlarmMember{MemberID: raised.member, Alarm: raised.alarm})
		}

		return response, nil
	case etcdserverpb.AlarmRequest_ACTIVATE:
		if !slices.Contains(s.alarms, alarm) {
			s.alarms = append(s.alarms, alarm)
		}
		if before == 0 {
			s.rejects = request.Alarm
		}
	case etcdserverpb.AlarmRequest_DEACTIVATE:
		s.alarms = slices.DeleteFunc(s.alarms, func(raised raisedAlarm) bool { return raised == alarm })
		if before > 0 && len(s.alarmsOf(request.Alarm)) == 0 {
			s.rejects = etcdserverpb.AlarmType_NONE
		}
	}
	if s.onAlarm != nil {
		s.onAlarm()
	}

	return &etcdserverpb.AlarmResponse{}, nil
}

func (s *server) alarmsOf(alarmType etcdserverpb.AlarmType) []raisedAlarm {
	return slices.DeleteFunc(slices.Clone(s.alarms), func(raised raisedAlarm) bool {
		return alarmType != etcdserverpb.AlarmType_NONE && raised.alarm != alarmType
	})
}

// raise raises an alarm, as a member does.
func (s *server) raise(member uint64, alarm etcdserverpb.AlarmType) {
	_, _ = s.Alarm(context.Background(), &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: member, Alarm: alarm})
}

func (s *server) LeaseRevoke(context.Context, *etcdserverpb.LeaseRevokeRequest) (*etcdserverpb.LeaseRevokeResponse, error) {
	if s.rejects == etcdserverpb.AlarmType_CORRUPT {
		return nil, rpctypes.ErrGRPCCorrupt
	}

	return nil, rpctypes.ErrGRPCLeaseNotFound
}

func (s *server) MemberPromote(_ context.Context, request *etcdserverpb.MemberPromoteRequest) (*etcdserverpb.MemberPromoteResponse, error) {
	s.promoted = request.ID

	return &etcdserverpb.MemberPromoteResponse{}, nil
}

func (s *server) MemberRemove(_ context.Context, request *etcdserverpb.MemberRemoveRequest) (*etcdserverpb.MemberRemoveResponse, error) {
	s.removed = request.ID

	return &etcdserverpb.MemberRemoveResponse{}, s.removeError
}

func (s *server) MemberUpdate(_ context.Context, request *etcdserverpb.MemberUpdateRequest) (*etcdserverpb.MemberUpdateResponse, error) {
	s.updated, s.peerURLs = request.ID, request.PeerURLs

	return &etcdserverpb.MemberUpdateResponse{}, nil
}

// pki creates a CA, and certificates that it signs.
type pki struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newPKI() *pki {
	GinkgoHelper()
	p := &pki{}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var err error
	p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificate(rand.Reader, template, template, &p.key.PublicKey, p.key)
	Expect(err).NotTo(HaveOccurred())
	p.certificate, err = x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	p.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})

	return p
}

// issue returns a PEM certificate and its key, for a server with that name and for any client.
func (p *pki) issue(name string) ([]byte, []byte) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, p.certificate, &key.PublicKey, p.key)
	Expect(err).NotTo(HaveOccurred())
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())

	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// serverConfig demands a client certificate, as etcd does.
func (p *pki) serverConfig(name string) *tls.Config {
	GinkgoHelper()
	pair, err := tls.X509KeyPair(p.issue(name))
	Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	pool.AddCert(p.certificate)

	return &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
}

func (p *pki) credentials(version string, loads *int) *etcdclient.Credentials {
	certificate, key := p.issue("client")

	return &etcdclient.Credentials{Version: version, Load: func(context.Context) (etcdclient.TLS, error) {
		*loads++

		return etcdclient.TLS{CA: p.pem, Certificate: certificate, Key: key}, nil
	}}
}
