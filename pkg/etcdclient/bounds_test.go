// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
)

var _ = Describe("A hostile member", func() {
	var (
		s      *server
		client etcdclient.Client
	)

	BeforeEach(func(ctx SpecContext) {
		s = serve(nil)
		pool := etcdclient.NewPool(2*time.Second, testclock.NewFakeClock(time.Now()))
		DeferCleanup(pool.Close)
		var err error
		client, err = pool.Connect(ctx, etcdclient.Target{Address: s.address})
		Expect(err).NotTo(HaveOccurred())
	})

	It("cannot send a large member list", func(ctx SpecContext) {
		s.members = []*etcdserverpb.Member{{ID: 1, Name: strings.Repeat("x", 8<<20)}}
		_, err := client.MemberList(ctx)
		Expect(err).To(MatchError(ContainSubstring("received message larger than max")))
	})

	It("cannot send a large status", func(ctx SpecContext) {
		s.status.Version = strings.Repeat("x", 3<<20)
		_, _, err := client.Status(ctx)
		Expect(err).To(MatchError(ContainSubstring("received message larger than max")))
	})

	It("cannot list more members than a cluster has", func(ctx SpecContext) {
		for id := range uint64(200) {
			s.members = append(s.members, &etcdserverpb.Member{ID: id})
		}
		_, err := client.MemberList(ctx)
		Expect(err).To(MatchError("member list: the response names 200 members, and at most 64 are read"))
	})

	It("cannot fill the status of an Etcd with texts", func(ctx SpecContext) {
		long := strings.Repeat("x", 5000) + "\x1b[2J"
		s.status.Version, s.status.Errors = long, []string{long}
		for i := range 1000 {
			s.status.Errors = append(s.status.Errors, fmt.Sprintf("memberID:%d alarm:NOSPACE ", i))
		}
		status, alarms, err := client.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(status.Version)).To(BeNumerically("<=", 64))
		Expect(len(status.Errors)).To(BeNumerically("<=", 64))
		Expect(len(status.Errors[0])).To(BeNumerically("<=", 512))
		Expect(len(alarms)).To(BeNumerically("<=", 64))

		s.members = []*etcdserverpb.Member{{ID: 1, Name: long, PeerURLs: make([]string, 1000), ClientURLs: []string{long}}}
		members, err := client.MemberList(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(members[0].Name)).To(BeNumerically("<=", 512))
		Expect(len(members[0].PeerURLs)).To(BeNumerically("<=", 64))
		Expect(len(members[0].ClientURLs[0])).To(BeNumerically("<=", 2048))
	})

	It("cannot put control characters or long texts into an error", func(ctx SpecContext) {
		s.rangeError = status.Error(codes.Internal, "\x1b[2J"+strings.Repeat("x", 5000))
		_, err := client.Revision(ctx)
		Expect(err).To(HaveOccurred())
		Expect(err.Error()).NotTo(ContainSubstring("\x1b"))
		Expect(len(err.Error())).To(BeNumerically("<=", 1024))
		Expect(errors.Is(err, etcdclient.ErrUnreachable)).To(BeFalse())
	})

	It("cannot make the operator keep more connections than the limit", func(ctx SpecContext) {
		clock := testclock.NewFakeClock(time.Now())
		pool := etcdclient.NewPool(2*time.Second, clock)
		DeferCleanup(pool.Close)
		pool.SetMaxConnections(3)
		connect := func(address string) etcdclient.Client {
			GinkgoHelper()
			clock.Step(time.Second)
			client, err := pool.Connect(ctx, etcdclient.Target{Address: address})
			Expect(err).NotTo(HaveOccurred())

			return client
		}
		first, second := connect("127.0.0.1:1"), connect("127.0.0.1:2")
		Expect(connect("127.0.0.1:1")).To(BeIdenticalTo(first))
		connect("127.0.0.1:3")
		connect("127.0.0.1:4")
		Expect(connect("127.0.0.1:1")).To(BeIdenticalTo(first))
		Expect(connect("127.0.0.1:2")).NotTo(BeIdenticalTo(second), "the least recently used connection was kept")
	})

	// A pool of four connections.
	DescribeTable("cannot make the operator drop the connections of others", func(ctx SpecContext, etcd string, connections, kept int) {
		clock := testclock.NewFakeClock(time.Now())
		pool := etcdclient.NewPool(2*time.Second, clock)
		DeferCleanup(pool.Close)
		pool.SetMaxConnections(4)
		port := 0
		connect := func(etcd string, port int) etcdclient.Client {
			GinkgoHelper()
			clock.Step(time.Second)
			namespace, name, _ := strings.Cut(etcd, "/")
			client, err := pool.Connect(ctx, etcdclient.Target{Address: fmt.Sprintf("127.0.0.1:%d", port), Etcd: types.NamespacedName{Namespace: namespace, Name: name}})
			Expect(err).NotTo(HaveOccurred())

			return client
		}
		var before []etcdclient.Client
		for ordinal := range connections {
			before = append(before, connect("demo/main", 1+ordinal))
		}
		for range 20 {
			port++
			connect(strings.ReplaceAll(etcd, "N", strconv.Itoa(port)), 100+port)
		}
		left := 0
		for ordinal, client := range slices.Backward(before) {
			if connect("demo/main", 1+ordinal) != client {
				break
			}
			left++
		}
		Expect(left).To(Equal(kept))
	},
		Entry("of another namespace", "hostile/main", 2, 2),
		Entry("of another namespace with more connections", "hostile/main", 3, 2),
		Entry("of another namespace with many Etcds", "hostile/N", 2, 2),
		Entry("of the same namespace", "demo/other", 2, 2),
		Entry("of the same namespace with more connections", "demo/other", 4, 2),
		Entry("of the same namespace, except with as many Etcds as connections", "demo/N", 2, 0),
	)
})
