// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// listen listens on an address of the loopback interface until the end of the spec.
func listen(host string, port int) net.Listener {
	GinkgoHelper()
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, port))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = listener.Close() })

	return listener
}

// member is a server of a healthy cluster with one member.
type member struct {
	etcdserverpb.UnimplementedMaintenanceServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedClusterServer

	id uint64
}

func serveMember(host string, port int, id uint64) {
	GinkgoHelper()
	server, m := grpc.NewServer(), &member{id: id}
	etcdserverpb.RegisterMaintenanceServer(server, m)
	etcdserverpb.RegisterKVServer(server, m)
	etcdserverpb.RegisterClusterServer(server, m)
	listener := listen(host, port)
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Stop)
}

func (m *member) header() *etcdserverpb.ResponseHeader {
	return &etcdserverpb.ResponseHeader{ClusterId: m.id, MemberId: m.id, Revision: 1}
}

func (m *member) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: m.header(), Leader: m.id, Version: "3.5.27"}, nil
}

func (m *member) Range(context.Context, *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	return &etcdserverpb.RangeResponse{Header: m.header()}, nil
}

func (m *member) MemberList(context.Context, *etcdserverpb.MemberListRequest) (*etcdserverpb.MemberListResponse, error) {
	return &etcdserverpb.MemberListResponse{Header: m.header(), Members: []*etcdserverpb.Member{{ID: m.id, Name: "healthy"}}}, nil
}

// serveNothing accepts connections and never responds.
func serveNothing(host string, port int) {
	GinkgoHelper()
	listener := listen(host, port)
	go func() {
		var connections []net.Conn // open until the listener is closed
		for {
			connection, err := listener.Accept()
			if err != nil {
				break
			}
			connections = append(connections, connection)
		}
		for _, connection := range connections {
			_ = connection.Close() // the listener is closed
		}
	}()
}

// serveEndlessly serves a sidecar whose responses never end: a list of snapshots, and spaces for a full snapshot. It sends only some megabytes
// a second, so that it does not compete with the operator for CPU time.
func serveEndlessly(host string, port int) {
	GinkgoHelper()
	deltas := strings.Repeat(`{"kind":"Incr","snapName":"Incr"},`, 1000)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // the test closes it
		part := strings.Repeat(" ", len(deltas))
		if r.URL.Path == "/snapshot/latest" {
			_, _ = w.Write([]byte(`{"deltaSnapshots":[`))
			part = deltas
		}
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for r.Context().Err() == nil {
			if _, err := w.Write([]byte(part)); err != nil {
				return
			}
			<-ticker.C
		}
	})}
	listener := listen(host, port)
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
}
