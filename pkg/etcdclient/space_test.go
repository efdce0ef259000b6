// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient_test

import (
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

var _ = Describe("The space of a database", func() {
	const corrupt, noSpace = etcdserverpb.AlarmType_CORRUPT, etcdserverpb.AlarmType_NOSPACE
	var (
		s      *server
		member etcdclient.Client
	)

	connectWithin := func(ctx SpecContext, timeout time.Duration) {
		GinkgoHelper()
		pool := etcdclient.NewPool(timeout, clocktesting.NewFakePassiveClock(time.Now()))
		DeferCleanup(pool.Close)
		var err error
		member, err = pool.Connect(ctx, etcdclient.Target{Address: s.address})
		Expect(err).NotTo(HaveOccurred())
	}

	BeforeEach(func(ctx SpecContext) {
		s = serve(nil)
		connectWithin(ctx, time.Minute)
	})

	It("is in the status", func(ctx SpecContext) {
		s.status.DbSize, s.status.DbSizeInUse, s.status.DbSizeQuota = 3, 2, 4
		response, _, err := member.Status(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect([]int64{response.DBSize, response.DBSizeInUse, response.DBSizeQuota}).To(Equal([]int64{3, 2, 4}))
	})

	It("is freed by a compaction, which can be repeated and exceeds the timeout of other calls", func(ctx SpecContext) {
		connectWithin(ctx, time.Nanosecond)
		Expect(member.Compact(ctx, 40)).To(Succeed())
		Expect(member.Compact(ctx, 40)).To(Succeed())
		Expect(member.Compact(ctx, 30)).To(Succeed())
		Expect(s.compacted).To(BeEquivalentTo(40))
	})

	It("is not freed up to a revision that does not exist", func(ctx SpecContext) {
		Expect(member.Compact(ctx, 43)).To(MatchError(ContainSubstring("compacting the history: ")))
	})

	It("disarms one alarm after the other, and each of them once more", func(ctx SpecContext) {
		s.raise(1, noSpace)
		s.raise(2, noSpace)
		for range 2 {
			Expect(member.Disarm(ctx, etcdcluster.Alarm{MemberID: 1, Type: "NOSPACE"})).To(Succeed())
			Expect(s.alarms).To(ConsistOf(raisedAlarm{member: 2, alarm: noSpace}))
		}
		Expect(s.rejects).To(Equal(noSpace))
		Expect(member.Disarm(ctx, etcdcluster.Alarm{MemberID: 2, Type: "NOSPACE"})).To(Succeed())
		Expect(s.rejects).To(Equal(etcdserverpb.AlarmType_NONE))
	})

	It("does not disarm an alarm while one of another type would lose its effect", func(ctx SpecContext) {
		s.raise(1, noSpace)
		s.raise(0, corrupt)
		Expect(member.Disarm(ctx, etcdcluster.Alarm{MemberID: 1, Type: "NOSPACE"})).To(MatchError(etcdclient.ErrOtherAlarm))
		Expect(s.alarms).To(HaveLen(2))
	})

	It("disarms the alarm of corrupt data, which has no member", func(ctx SpecContext) {
		s.raise(0, corrupt)
		Expect(member.Disarm(ctx, etcdcluster.Alarm{Type: "CORRUPT"})).To(Succeed())
		Expect(s.alarms).To(BeEmpty())
	})

	It("reports that an alarm cannot be disarmed", func(ctx SpecContext) {
		s.raise(1, noSpace)
		s.failAlarm = func(action etcdserverpb.AlarmRequest_AlarmAction, _ raisedAlarm) error {
			if action == etcdserverpb.AlarmRequest_GET {
				return nil
			}

			return status.Error(codes.Internal, "etcdserver: no")
		}
		Expect(member.Disarm(ctx, etcdcluster.Alarm{MemberID: 1, Type: "NOSPACE"})).To(MatchError(ContainSubstring("disarming the alarm: ")))
	})

	DescribeTable("is counted by prefixes, without a read of values",
		func(ctx SpecContext, keys []string, expected ...etcdcluster.KeyCount) {
			s.keys = slices.Sorted(slices.Values(keys))
			counts, err := member.CountKeys(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(counts).To(HaveExactElements(expected))
			for _, request := range s.ranges {
				Expect(request.Serializable).To(BeTrue())
				Expect(request.CountOnly || request.KeysOnly && request.Limit == 1).To(BeTrue())
			}
		},
		Entry("of an empty database", nil),
		Entry("of kube-apiserver", []string{
			"/registry/pods/a/1", "/registry/pods/a/2", "/registry/pods/b/1", "/registry/podtemplates/a/1", "/registry/gardener.cloud/shoots/a/1",
			"/registry/gardener.cloud/shoots/a/2", "/registry/gardener.cloud/seeds/s", "compact_rev_key",
		}, etcdcluster.KeyCount{Prefix: "/registry/pods/", Keys: 3}, etcdcluster.KeyCount{Prefix: "/registry/gardener.cloud/shoots/", Keys: 2},
			etcdcluster.KeyCount{Prefix: "/registry/gardener.cloud/seeds/", Keys: 1}, etcdcluster.KeyCount{Prefix: "/registry/podtemplates/", Keys: 1},
			etcdcluster.KeyCount{Prefix: "compact_rev_key", Keys: 1}),
		Entry("of keys without a slash at the begin", []string{"a/b/c", "a/b/d", "a/c"}, etcdcluster.KeyCount{Prefix: "a/b/", Keys: 2}, etcdcluster.KeyCount{Prefix: "a/c", Keys: 1}),
		Entry("of keys with few parts, one by one", []string{"/a", "/a/b", "/a/b/c", "z"}, etcdcluster.KeyCount{Prefix: "/a", Keys: 1}, etcdcluster.KeyCount{Prefix: "/a/b", Keys: 1},
			etcdcluster.KeyCount{Prefix: "/a/b/", Keys: 1}, etcdcluster.KeyCount{Prefix: "z", Keys: 1}),
	)

	It("is counted up to a number of prefixes", func(ctx SpecContext) {
		for i := range etcdclient.MaxPrefixes + 5 {
			s.keys = append(s.keys, fmt.Sprintf("/registry/p%03d/a", i))
		}
		counts, err := member.CountKeys(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(counts).To(HaveLen(etcdclient.MaxPrefixes + 1))
		Expect(counts[0]).To(Equal(etcdcluster.KeyCount{Keys: 5}))
		Expect(s.ranges).To(HaveLen(2*etcdclient.MaxPrefixes + 1))
	})
})
