// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("SnapshotAttemptsFor", func() {
	var (
		start    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		end      = start.Add(time.Minute)
		verified = &state.VerifiedSnapshot{Name: "Full-1", Revision: 7, At: start}
		failed   = state.SnapshotAttempts{Generation: 3, StartedAt: start, EndedAt: end, Failures: 1, Expired: 2, Error: "no answer"}
		running  = state.SnapshotAttempts{Generation: 3, StartedAt: end.Add(time.Minute), EndedAt: end, Failures: 1, Expired: 2, Error: "no answer"}
	)

	DescribeTable("combines the record with the calls of this process",
		func(recorded state.SnapshotAttempts, call etcdcluster.SnapshotCall, expected etcdcluster.SnapshotAttempts) {
			expected.StartedAt = recorded.StartedAt
			attempts := etcdcluster.SnapshotAttemptsFor(3, recorded, call)
			Expect(attempts).To(Equal(expected))

			again := etcdcluster.SnapshotAttemptsFor(3, attempts.Record(3, recorded.StartedAt), call)
			expected.Unrecorded = false
			Expect(again).To(Equal(expected), "once it is recorded")
		},
		Entry("of which there are none", state.SnapshotAttempts{}, etcdcluster.SnapshotCall{}, etcdcluster.SnapshotAttempts{}),
		Entry("after a restart", failed, etcdcluster.SnapshotCall{}, etcdcluster.SnapshotAttempts{Failures: 1, Expired: 2, Error: "no answer", EndedAt: end}),
		Entry("while one runs", running, etcdcluster.SnapshotCall{Running: true, Generation: 3, Err: errors.New("no answer"), EndedAt: end},
			etcdcluster.SnapshotAttempts{Running: true, Failures: 1, Expired: 2, Error: "no answer", EndedAt: end}),
		Entry("after one has failed", running, etcdcluster.SnapshotCall{Generation: 3, Err: errors.New("timeout"), EndedAt: end.Add(time.Hour)},
			etcdcluster.SnapshotAttempts{Failures: 2, Expired: 2, Error: "timeout", EndedAt: end.Add(time.Hour), Unrecorded: true}),
		Entry("after one has succeeded", running, etcdcluster.SnapshotCall{Generation: 3, Verified: verified, EndedAt: end.Add(time.Hour)},
			etcdcluster.SnapshotAttempts{Expired: 2, Verified: verified, EndedAt: end.Add(time.Hour), Unrecorded: true}),
		Entry("after the operator was stopped during one", running, etcdcluster.SnapshotCall{},
			etcdcluster.SnapshotAttempts{Failures: 1, Expired: 2, Error: "the operator was stopped during the attempt", EndedAt: end.Add(time.Minute), Unrecorded: true}),
		Entry("after the operator was stopped during one that replaces an old snapshot",
			state.SnapshotAttempts{Generation: 3, StartedAt: end.Add(time.Hour), EndedAt: end, Expired: 2, Verified: verified}, etcdcluster.SnapshotCall{},
			etcdcluster.SnapshotAttempts{Expired: 3, Error: "the operator was stopped during the attempt", EndedAt: end.Add(time.Hour), Unrecorded: true}),
	)

	It("uses a snapshot for five minutes after its own attempt", func() {
		succeeded := state.SnapshotAttempts{Generation: 3, StartedAt: start, EndedAt: end, Verified: verified}
		attempts := etcdcluster.SnapshotAttemptsFor(3, succeeded, etcdcluster.SnapshotCall{})
		Expect(attempts.IsFresh(end.Add(5*time.Minute - time.Second))).To(BeTrue())
		Expect(attempts.IsFresh(end.Add(5 * time.Minute))).To(BeFalse())
	})

	It("does not use an old snapshot after the operator was stopped during the next attempt", func() {
		next := end.Add(72 * time.Hour)
		interrupted := state.SnapshotAttempts{Generation: 3, StartedAt: next, EndedAt: end, Verified: verified}
		Expect(etcdcluster.SnapshotAttemptsFor(3, interrupted, etcdcluster.SnapshotCall{Running: true}).IsFresh(next)).To(BeFalse(), "during the attempt")
		Expect(etcdcluster.SnapshotAttemptsFor(3, interrupted, etcdcluster.SnapshotCall{}).IsFresh(next)).To(BeFalse(), "after it")
	})

	It("begins again with another generation", func() {
		Expect(etcdcluster.SnapshotAttemptsFor(4, failed, etcdcluster.SnapshotCall{Running: true, Generation: 3, EndedAt: end.Add(time.Hour)})).To(
			Equal(etcdcluster.SnapshotAttempts{Running: true}))
		Expect(etcdcluster.SnapshotAttemptsFor(4, running, etcdcluster.SnapshotCall{})).To(Equal(etcdcluster.SnapshotAttempts{}))
	})
})
