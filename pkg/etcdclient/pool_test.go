// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	testclock "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = Describe("Pool", func() {
	var (
		ctx   = context.Background()
		clock *testclock.FakeClock
		pool  *etcdclient.Pool
	)

	BeforeEach(func() {
		clock = testclock.NewFakeClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
		pool = etcdclient.NewPool(2*time.Second, clock)
		DeferCleanup(func() { pool.Close() })
	})

	connect := func(target etcdclient.Target) etcdclient.Client {
		GinkgoHelper()
		client, err := pool.Connect(ctx, target)
		Expect(err).NotTo(HaveOccurred())

		return client
	}

	It("returns the status of a member, and that it is healthy", func() {
		s := serve(nil)
		status, alarms, err := connect(etcdclient.Target{Address: s.address}).Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(etcdcluster.EndpointStatus{
			Reachable: true, Healthy: true, ClusterID: 7, MemberID: 1, LeaderID: 1, Revision: 42, QuorumRevision: 42, Version: "3.4.34", DBSize: 4096,
		}))
		Expect(alarms).To(BeEmpty())
		Expect(s.ranges).To(HaveLen(1))
		Expect(s.ranges[0].Serializable).To(BeFalse())
	})

	It("returns the status of an endpoint with one request, without a read", func() {
		s := serve(nil)
		status, alarms, err := connect(etcdclient.Target{Address: s.address}).EndpointStatus(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(status).To(Equal(etcdcluster.EndpointStatus{
			Reachable: true, ClusterID: 7, MemberID: 1, LeaderID: 1, Revision: 42, Version: "3.4.34", DBSize: 4096,
		}))
		Expect(alarms).To(BeEmpty())
		Expect(s.ranges).To(BeEmpty())
	})

	DescribeTable("reports that a member is not healthy",
		func(change func(*server), reason string) {
			s := serve(nil)
			change(s)
			status, _, err := connect(etcdclient.Target{Address: s.address}).Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(status.Reachable).To(BeTrue())
			Expect(status.Healthy).To(BeFalse())
			Expect(status.Error).To(ContainSubstring(reason))
		},
		Entry("when it has no leader", func(s *server) { s.status.Leader = 0 }, "no leader"),
		Entry("when it is a learner", func(s *server) { s.status.IsLearner = true }, "learner"),
		Entry("when it refuses to read", func(s *server) { s.rangeError = status.Error(codes.DataLoss, "etcdserver: corrupt cluster") }, "corrupt cluster"),
	)

	It("counts a read without permission as healthy", func() {
		s := serve(nil)
		s.rangeError = status.Error(codes.PermissionDenied, "etcdserver: permission denied")
		status, _, err := connect(etcdclient.Target{Address: s.address}).Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(status.Healthy).To(BeTrue())
		Expect(status.ReadRefused).To(BeTrue())
	})

	DescribeTable("reads whether etcd authenticates its clients",
		func(enabled bool, authError error, expected bool) {
			s := serve(nil)
			s.authEnabled, s.authError = enabled, authError
			Expect(connect(etcdclient.Target{Address: s.address}).IsAuthEnabled(ctx)).To(Equal(expected))
		},
		Entry("no", false, nil, false),
		Entry("yes", true, nil, true),
		Entry("yes, because only the root role may read it", false, status.Error(codes.PermissionDenied, "etcdserver: permission denied"), true),
		Entry("yes, because etcd requires a user", false, status.Error(codes.InvalidArgument, "etcdserver: user name is empty"), true),
	)

	It("reports an error if a member of etcd 3.4 does not know whether etcd authenticates its clients", func() {
		s := serve(nil)
		s.authError = status.Error(codes.Unimplemented, "unknown method AuthStatus")
		_, err := connect(etcdclient.Target{Address: s.address}).IsAuthEnabled(ctx)
		Expect(err).To(MatchError(ContainSubstring("auth status")))
	})

	DescribeTable("reads the cluster version",
		func(status int, body, expected, problem string) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/other" {
					_, _ = io.WriteString(w, `{"etcdcluster":"9.9.9"}`)

					return
				}
				w.Header().Set("Location", "/other")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			}))
			DeferCleanup(server.Close)
			version, err := connect(etcdclient.Target{Address: server.Listener.Addr().String(), ServerName: "main-local"}).ClusterVersion(ctx)
			Expect(version).To(Equal(expected))
			if problem == "" {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(ContainSubstring(problem)))
			}
		},
		Entry("of a cluster", 200, `{"etcdserver":"3.5.27","etcdcluster":"3.4.0"}`, "3.4.0", ""),
		Entry("which a new cluster has not decided", 200, `{"etcdserver":"3.5.27","etcdcluster":"not_decided"}`, "", ""),
		Entry("but not from another response", 200, `text`, "", "not JSON"),
		Entry("but not from a response without the end", 200, `{"etcdcluster":"`+strings.Repeat("3", 2<<20)+`"}`, "", "not JSON"),
		Entry("but not from an error", 503, ``, "", "HTTP status 503"),
		Entry("but does not follow a redirect", 302, ``, "", "HTTP status 302"),
		Entry("and truncates it", 200, `{"etcdcluster":"`+strings.Repeat("3", 100)+`"}`, strings.Repeat("3", 64), ""),
	)

	It("reports an unreachable member when it reads the cluster version", func() {
		_, err := connect(etcdclient.Target{Address: "127.0.0.1:1"}).ClusterVersion(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
	})

	DescribeTable("reads the health of a member",
		func(status int, body, problem string) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
			server := httptest.NewServer(mux)
			DeferCleanup(server.Close)
			err := connect(etcdclient.Target{Address: server.Listener.Addr().String(), ServerName: "main-local"}).Health(ctx)
			if problem == "" {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(ContainSubstring(problem)))
				Expect(err).NotTo(MatchError(etcdclient.ErrUnreachable))
			}
		},
		Entry("which is healthy", 200, `{"health":"true","reason":""}`, ""),
		Entry("which etcd 3.4 reports without a reason", 200, `{"health":"true"}`, ""),
		Entry("which has an alarm", 503, `{"health":"false","reason":"ALARM NOSPACE"}`, "the member is not healthy: ALARM NOSPACE"),
		Entry("which states no reason", 503, `{"health":"false"}`, "the member is not healthy: it states no reason"),
		Entry("which contradicts the HTTP status", 503, `{"health":"true"}`, "the member is not healthy"),
		Entry("which another program reports", 200, `{}`, "the member is not healthy"),
		Entry("which is not JSON", 502, `bad gateway`, "HTTP status 502"),
	)

	It("reports an unreachable member when it reads the health", func() {
		Expect(connect(etcdclient.Target{Address: "127.0.0.1:1"}).Health(ctx)).To(MatchError(etcdclient.ErrUnreachable))
	})

	It("has no connection to a member that it does not use, and connects again for the next call", func() {
		pool.SetGRPCIdleTimeout(10 * time.Millisecond)
		s := serve(nil)
		client := connect(etcdclient.Target{Address: s.address})
		for expected := range 3 {
			_, _, err := client.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(s.connections.Load()).To(BeEquivalentTo(expected + 1))
			Eventually(s.closed.Load).Should(BeEquivalentTo(expected + 1))
		}
	})

	// The errors are the texts that members of etcd 3.4, 3.5 and 3.6 report. The text form omits fields that are zero.
	DescribeTable("finds alarms in the errors of a status",
		func(text string, expected ...etcdcluster.Alarm) {
			s := serve(nil)
			s.status.Errors = []string{"etcdserver: no leader", text}
			_, alarms, err := connect(etcdclient.Target{Address: s.address}).Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(alarms).To(HaveExactElements(expected))
		},
		Entry("a full database", "memberID:10276657743932975437 alarm:NOSPACE ", etcdcluster.Alarm{MemberID: 10276657743932975437, Type: "NOSPACE"}),
		Entry("corrupt data of an unknown member", "alarm:CORRUPT ", etcdcluster.Alarm{Type: "CORRUPT"}),
		Entry("corrupt data of a member", "memberID:1 alarm:CORRUPT ", etcdcluster.Alarm{MemberID: 1, Type: "CORRUPT"}),
		Entry("two spaces between the fields", "memberID:1  alarm:NOSPACE", etcdcluster.Alarm{MemberID: 1, Type: "NOSPACE"}),
		Entry("the text that the API renders", (&etcdserverpb.AlarmMember{Alarm: etcdserverpb.AlarmType_CORRUPT}).String(), etcdcluster.Alarm{Type: "CORRUPT"}),
		Entry("no alarm in another error", "etcdserver: the client sent alarm:CORRUPT"),
		Entry("no alarm with an ID that no member can have", "memberID:99999999999999999999 alarm:CORRUPT "),
	)

	DescribeTable("removes a member",
		func(removeError error, isUnsafe, succeeds bool) {
			s := serve(nil)
			s.removeError = removeError
			err := connect(etcdclient.Target{Address: s.address}).RemoveMember(ctx, 6)
			Expect(s.removed).To(BeEquivalentTo(6))
			Expect(err == nil).To(Equal(succeeds))
			Expect(errors.Is(err, etcdclient.ErrQuorumUnsafe)).To(Equal(isUnsafe))
		},
		Entry("of the cluster", nil, false, true),
		Entry("which is not in the list any more", rpctypes.ErrGRPCMemberNotFound, false, true),
		Entry("unless too few of the others are connected", rpctypes.ErrGRPCUnhealthy, true, false),
		Entry("unless too few of the others have started", rpctypes.ErrGRPCMemberNotEnoughStarted, true, false),
		Entry("unless etcd refuses it for another reason", rpctypes.ErrGRPCPermissionDenied, false, false),
	)

	It("reads the member list with a quorum", func() {
		s := serve(nil)
		s.members = []*etcdserverpb.Member{{ID: 1, Name: "main-0", PeerURLs: []string{"https://a:2380"}, ClientURLs: []string{"https://a:2379"}}, {ID: 2, IsLearner: true}}
		Expect(connect(etcdclient.Target{Address: s.address}).MemberList(ctx)).To(Equal([]etcdcluster.ListedMember{
			{ID: 1, Name: "main-0", PeerURLs: []string{"https://a:2380"}, ClientURLs: []string{"https://a:2379"}}, {ID: 2, Learner: true},
		}))
		Expect(s.linearized).To(BeTrue())
	})

	DescribeTable("reads the revision with a quorum",
		func(rangeError error) {
			s := serve(nil)
			s.rangeError = rangeError
			Expect(connect(etcdclient.Target{Address: s.address}).Revision(ctx)).To(Equal(int64(42)))
			Expect(s.ranges).To(HaveLen(1))
			Expect(s.ranges[0].Serializable).To(BeFalse())
		},
		Entry("from the response", nil),
		Entry("from the applied revision, if keys require a user", status.Error(codes.PermissionDenied, "etcdserver: permission denied")),
	)

	It("reads no revision from a member that rejects the call", func() {
		s := serve(nil)
		s.rangeError = status.Error(codes.DataLoss, "etcdserver: corrupt cluster")
		_, err := connect(etcdclient.Target{Address: s.address}).Revision(ctx)
		Expect(err).To(MatchError(ContainSubstring("corrupt cluster")))
	})

	It("moves the leader", func() {
		s := serve(nil)
		Expect(connect(etcdclient.Target{Address: s.address}).MoveLeader(ctx, 5)).To(Succeed())
		Expect(s.movedTo).To(BeEquivalentTo(5))
	})

	It("promotes a learner", func() {
		s := serve(nil)
		Expect(connect(etcdclient.Target{Address: s.address}).Promote(ctx, 6)).To(Succeed())
		Expect(s.promoted).To(BeEquivalentTo(6))
	})

	Describe("a rejection of writes", func() {
		const corrupt, noSpace, none = etcdserverpb.AlarmType_CORRUPT, etcdserverpb.AlarmType_NOSPACE, etcdserverpb.AlarmType_NONE
		var (
			s      *server
			member etcdclient.Client
		)

		BeforeEach(func() {
			s = serve(nil)
			member = connect(etcdclient.Target{Address: s.address})
		})

		nothing := func(context.Context) error { return nil }
		allow := func(ctx context.Context) error { return member.AllowWrites(ctx) }
		reject := func(ctx context.Context) error {
			_, err := member.RejectWrites(ctx)

			return err
		}
		// failTwice fails two calls for the alarm of the second member.
		failTwice := func(failed etcdserverpb.AlarmRequest_AlarmAction) func(func(), etcdserverpb.AlarmRequest_AlarmAction, raisedAlarm) error {
			failures := 0

			return func(_ func(), action etcdserverpb.AlarmRequest_AlarmAction, alarm raisedAlarm) error {
				if action != failed || alarm != (raisedAlarm{member: 2, alarm: corrupt}) || failures == 2 {
					return nil
				}
				failures++

				return status.Error(codes.Unavailable, "etcdserver: leader changed")
			}
		}
		cancelOnDisarm := func(cancel func(), action etcdserverpb.AlarmRequest_AlarmAction, alarm raisedAlarm) error {
			if action == etcdserverpb.AlarmRequest_DEACTIVATE && alarm == (raisedAlarm{member: 2, alarm: corrupt}) {
				cancel()
			}

			return nil
		}

		It("is made by alarms that the status shows, and ends", func() {
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			Expect(s.rejects).To(Equal(corrupt))
			for _, raised := range s.alarms {
				s.status.Errors = append(s.status.Errors, (&etcdserverpb.AlarmMember{MemberID: raised.member, Alarm: raised.alarm}).String())
			}
			_, alarms, err := member.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(etcdcluster.EtcdResponses{Alarms: alarms}.RejectsWrites()).To(BeTrue())
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(BeEmpty())
			Expect(s.rejects).To(Equal(none))
		})

		It("stays when the database of a member becomes full meanwhile", func() {
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			s.raise(1, noSpace)
			Expect(s.rejects).To(Equal(corrupt), "deletions are writes too")
		})

		It("stays when the database of a member becomes full before the last call", func() {
			s.onAlarm = func() {
				s.onAlarm = nil
				s.raise(1, noSpace)
			}
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			Expect(s.rejects).To(Equal(corrupt))
		})

		It("leaves the cluster with the alarm of a full database when it ends", func() {
			s.raise(1, noSpace)
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			s.raise(2, noSpace)
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(ConsistOf(raisedAlarm{member: 1, alarm: noSpace}, raisedAlarm{member: 2, alarm: noSpace}))
			Expect(s.rejects).To(Equal(noSpace))
		})

		It("leaves the cluster with the alarm of corrupt data when it ends", func() {
			s.raise(1, noSpace)
			s.raise(1, corrupt)
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(ConsistOf(raisedAlarm{member: 1, alarm: noSpace}, raisedAlarm{member: 1, alarm: corrupt}))
			Expect(s.rejects).To(Equal(corrupt))
		})

		DescribeTable("keeps the effect of the alarm of corrupt data", func(prepare func(), expected ...raisedAlarm) {
			prepare()
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			Expect(s.rejects).To(Equal(corrupt))
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(ConsistOf(expected))
			Expect(s.rejects).To(Equal(corrupt), "a corrupt cluster accepts no writes")
		},
			Entry("that a member has raised", func() { s.raise(1, corrupt) }, raisedAlarm{member: 1, alarm: corrupt}),
			Entry("that two members have raised", func() {
				s.raise(1, corrupt)
				s.raise(2, corrupt)
			}, raisedAlarm{member: 1, alarm: corrupt}, raisedAlarm{member: 2, alarm: corrupt}),
			Entry("that an alarm of a full database replaced", func() {
				s.raise(1, corrupt)
				s.raise(1, noSpace)
			}, raisedAlarm{member: 1, alarm: corrupt}, raisedAlarm{member: 1, alarm: noSpace}),
			Entry("that an interrupted rejection replaced", func() {
				s.raise(1, corrupt)
				s.raise(0xd81d000000000001, noSpace)
			}, raisedAlarm{member: 1, alarm: corrupt}),
		)

		It("restores the effect of the alarm of corrupt data that a member raised during the rejection", func() {
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			s.raise(1, corrupt)
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(ConsistOf(raisedAlarm{member: 1, alarm: corrupt}))
			Expect(s.rejects).To(Equal(corrupt))
		})

		DescribeTable("keeps the alarm of corrupt data that is raised again", func(ctx SpecContext, begin, end func(ctx context.Context) error, isReplaced bool, fails func(cancel func(), action etcdserverpb.AlarmRequest_AlarmAction, alarm raisedAlarm) error) {
			Expect(begin(ctx)).To(Succeed())
			s.raise(1, corrupt)
			s.raise(2, corrupt)
			if isReplaced {
				s.raise(1, noSpace) // it replaces the alarm of corrupt data
			}
			cancelled, cancel := context.WithCancel(ctx)
			defer cancel()
			s.failAlarm = func(action etcdserverpb.AlarmRequest_AlarmAction, alarm raisedAlarm) error {
				return fails(cancel, action, alarm)
			}
			_ = end(cancelled)
			s.failAlarm = nil
			Expect(s.alarms).To(ContainElements(raisedAlarm{member: 1, alarm: corrupt}, raisedAlarm{member: 2, alarm: corrupt}))

			Expect(end(ctx)).To(Succeed())
			Expect(s.alarms).To(ContainElements(raisedAlarm{member: 1, alarm: corrupt}, raisedAlarm{member: 2, alarm: corrupt}))
			Expect(s.rejects).To(Equal(corrupt), "the next attempt continues")
		},
			Entry("when the rejection ends and etcd fails to raise it at first", reject, allow, false, failTwice(etcdserverpb.AlarmRequest_ACTIVATE)),
			Entry("when the rejection ends and etcd fails to disarm the second one", reject, allow, false, failTwice(etcdserverpb.AlarmRequest_DEACTIVATE)),
			Entry("when the rejection ends and the call is cancelled", reject, allow, false, cancelOnDisarm),
			Entry("when the rejection begins and etcd fails to raise it at first", nothing, reject, true, failTwice(etcdserverpb.AlarmRequest_ACTIVATE)),
			Entry("when the rejection begins and etcd fails to disarm the second one", nothing, reject, true, failTwice(etcdserverpb.AlarmRequest_DEACTIVATE)),
			Entry("when the rejection begins and the call is cancelled", nothing, reject, true, cancelOnDisarm),
		)

		It("ends after an end that was interrupted with the alarm of corrupt data without its effect", func(ctx SpecContext) {
			s.raise(1, corrupt)
			s.raise(0xd81d000000000001, noSpace)
			cancelled, cancel := context.WithCancel(ctx)
			defer cancel()
			s.onAlarm = func() {
				if s.rejects == none {
					cancel()
				}
			}
			Expect(member.AllowWrites(cancelled)).NotTo(Succeed())
			Expect(s.rejects).To(Equal(none))
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(ConsistOf(raisedAlarm{member: 1, alarm: corrupt}))
			Expect(s.rejects).To(Equal(corrupt))
		})

		It("is made after an interrupted one that raised only the alarm of corrupt data", func() {
			s.raise(0xd81d000000000001, corrupt)
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			Expect(s.rejects).To(Equal(corrupt))
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(s.alarms).To(BeEmpty())
			Expect(s.rejects).To(Equal(none))
		})

		It("fails if etcd accepts writes although the alarms are raised", func() {
			Expect(member.RejectWrites(ctx)).To(Equal(int64(42)))
			s.rejects = noSpace // a user has disarmed and raised alarms
			_, err := member.RejectWrites(ctx)
			Expect(err).To(MatchError("rejecting writes: etcd accepts writes although the alarm CORRUPT is raised"))
		})

		It("changes no alarm when there is none to end", func() {
			s.raise(1, noSpace)
			changes := 0
			s.onAlarm = func() { changes++ }
			Expect(member.AllowWrites(ctx)).To(Succeed())
			Expect(changes).To(BeZero())
		})
	})

	It("reports no revision of the last write if it cannot be read", func() {
		s := serve(nil)
		s.rangeError = status.Error(codes.Unavailable, "etcdserver: leader changed")
		_, err := connect(etcdclient.Target{Address: s.address}).RejectWrites(ctx)
		Expect(err).To(HaveOccurred())
	})

	It("updates the registered peer URLs of a member", func() {
		s := serve(nil)
		Expect(connect(etcdclient.Target{Address: s.address}).UpdatePeerURLs(ctx, 7, []string{"http://main-0.main-peer.demo.svc:2380"})).To(Succeed())
		Expect(s.updated).To(BeEquivalentTo(7))
		Expect(s.peerURLs).To(Equal([]string{"http://main-0.main-peer.demo.svc:2380"}))
	})

	It("returns the hash of the keys at a revision, and lets that exceed the timeout of other calls", func() {
		s := serve(nil)
		s.compacted = 5
		pool = etcdclient.NewPool(time.Nanosecond, clock)
		hash, compacted, err := connect(etcdclient.Target{Address: s.address}).HashKV(ctx, 42)
		Expect(err).NotTo(HaveOccurred())
		Expect([]any{hash, compacted}).To(Equal([]any{uint32(42), int64(5)}))
	})

	It("lets a defragmentation exceed the timeout of other calls", func() {
		s := serve(nil)
		pool = etcdclient.NewPool(time.Nanosecond, clock)
		Expect(connect(etcdclient.Target{Address: s.address}).Defragment(ctx)).To(Succeed())
		Expect(s.defragmented).To(Equal(1))
	})

	DescribeTable("lets a defragmentation complete after its connection was removed",
		func(giveUp func(etcdclient.Target)) {
			s := serve(nil)
			s.defragments = make(chan struct{})
			target := etcdclient.Target{Address: s.address}
			client, done := connect(target), make(chan error)
			go func() { done <- client.Defragment(ctx) }()
			Eventually(s.defragments).Should(Receive())
			giveUp(target)
			Consistently(done, 200*time.Millisecond).ShouldNot(Receive())
			Eventually(s.defragments).Should(BeSent(struct{}{}))
			Eventually(done).Should(Receive(Succeed()))
			_, _, err := client.Status(ctx)
			Expect(err).To(MatchError(etcdclient.ErrUnreachable), "closed by now")
		},
		Entry("because the member does not respond", func(target etcdclient.Target) { pool.Disconnect(target) }),
		Entry("because it was idle", func(etcdclient.Target) {
			clock.Step(6 * time.Minute)
			connect(etcdclient.Target{Address: "127.0.0.1:1"})
		}),
	)

	It("reports a member as unreachable after its connection was closed, also if the client retries less often than the timeout allows", func() {
		s := serve(nil)
		pool = etcdclient.NewPool(time.Minute, clock)
		target := etcdclient.Target{Address: s.address}
		client := connect(target)
		pool.Disconnect(target)
		_, _, err := client.Status(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
	})

	It("ends a call to a member that hangs", func() {
		s := serve(nil)
		s.hang = true
		pool = etcdclient.NewPool(100*time.Millisecond, clock)
		_, _, err := connect(etcdclient.Target{Address: s.address}).Status(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
	})

	It("ends a call to an address without a listener", func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		address := listener.Addr().String()
		Expect(listener.Close()).To(Succeed())
		pool = etcdclient.NewPool(200*time.Millisecond, clock)
		_, _, err = connect(etcdclient.Target{Address: address}).Status(ctx)
		Expect(err).To(MatchError(etcdclient.ErrUnreachable))
	})

	Describe("with TLS", func() {
		It("verifies the certificate for the server name, not for the address", func() {
			ca, loads := newPKI(), 0
			s := serve(ca.serverConfig("main-local"))
			client := connect(etcdclient.Target{Address: s.address, ServerName: "main-local", Credentials: ca.credentials("1", &loads)})
			_, _, err := client.Status(ctx)
			Expect(err).NotTo(HaveOccurred())
		})

		DescribeTable("does not send requests to a member",
			func(ofServer, trusted func() *pki, name string) {
				loads := 0
				pool = etcdclient.NewPool(300*time.Millisecond, clock)
				server := ofServer()
				s := serve(server.serverConfig("main-local"))
				_, _, err := connect(etcdclient.Target{Address: s.address, ServerName: name, Credentials: trusted().credentials("1", &loads)}).Status(ctx)
				Expect(err).To(MatchError(etcdclient.ErrUnreachable))
				Expect(err).To(MatchError(etcdclient.ErrHandshake))
				Expect(err).To(MatchError(ContainSubstring("x509: certificate")))
			},
			Entry("of another CA", newPKI, newPKI, "main-local"),
			Entry("of another name", func() *pki { return shared }, func() *pki { return shared }, "other-local"),
		)

		It("shares a connection until the credentials change, it is disconnected, or it is idle", func() {
			ca, loads := newPKI(), 0
			s := serve(ca.serverConfig("main-local"))
			target := etcdclient.Target{Address: s.address, ServerName: "main-local", Credentials: ca.credentials("1", &loads)}
			requestStatus := func() {
				GinkgoHelper()
				_, _, err := connect(target).Status(ctx)
				Expect(err).NotTo(HaveOccurred())
			}
			requestStatus()
			requestStatus()
			Expect(loads).To(Equal(1))
			Expect(s.connections.Load()).To(BeEquivalentTo(1))
			target.Credentials.Version = "2"
			requestStatus()
			Expect(loads).To(Equal(2))
			pool.Disconnect(target)
			requestStatus()
			Expect(loads).To(Equal(3))
			clock.Step(6 * time.Minute)
			connect(etcdclient.Target{Address: "127.0.0.1:1"})
			requestStatus()
			Expect(loads).To(Equal(4))
			for range 3 {
				clock.Step(4 * time.Minute)
				requestStatus()
			}
			Expect(loads).To(Equal(4), "a connection in use is kept")
		})

		It("resumes the TLS session for the next connection, and presents the certificate of the client with it", func() {
			ca, loads := newPKI(), 0
			resumed, names := make(chan bool, 2), make(chan string, 2)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				resumed <- r.TLS.DidResume
				names <- r.TLS.PeerCertificates[0].Subject.CommonName
				_, _ = io.WriteString(w, `{"health":"true"}`)
			}))
			server.TLS, server.EnableHTTP2 = ca.serverConfig("main-local"), true // for gRPC
			server.StartTLS()
			DeferCleanup(server.Close)
			client := connect(etcdclient.Target{Address: server.Listener.Addr().String(), ServerName: "main-local", Credentials: ca.credentials("1", &loads)})
			for range 2 {
				Expect(client.Health(ctx)).To(Succeed())
				Expect(names).To(Receive(Equal("client")))
			}
			Expect(resumed).To(Receive()) // the connection of gRPC may have begun the session before
			Expect(resumed).To(Receive(BeTrue()))
		})

		DescribeTable("names the part that cannot be used",
			func(load func() (etcdclient.TLS, error), message string) {
				_, err := pool.Connect(ctx, etcdclient.Target{Address: "a:1", Credentials: &etcdclient.Credentials{
					Load: func(context.Context) (etcdclient.TLS, error) { return load() },
				}})
				Expect(err).To(MatchError(ContainSubstring(message)))
			},
			Entry("credentials that cannot be loaded", func() (etcdclient.TLS, error) { return etcdclient.TLS{}, errors.New("no Secret") }, "loading credentials for a:1: no Secret"),
			Entry("an empty CA bundle", func() (etcdclient.TLS, error) { return etcdclient.TLS{CA: []byte("x")}, nil }, "the CA bundle holds no certificate"),
			Entry("a key without a certificate", func() (etcdclient.TLS, error) { return etcdclient.TLS{CA: shared.pem, Key: []byte("x")}, nil }, "client certificate"),
		)
	})
})

// shared is a CA for tests that use the same one twice.
var shared *pki

var _ = BeforeSuite(func() { shared = newPKI() })
