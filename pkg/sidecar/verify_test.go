// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package sidecar_test

import (
	"context"
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/sidecar"
)

// fakeClient returns what the test sets.
type fakeClient struct {
	sidecar.Client

	taken    sidecar.Snapshot
	takenErr error
	latest   sidecar.LatestSnapshots
	failure  error
	calls    []string
	// delta is what a delta snapshot adds to latest. Nil: nothing.
	delta    *sidecar.Snapshot
	deltaErr error
	// onDelta is called before a delta snapshot with the number of calls. Nil: nothing happens.
	onDelta func(count int)
	deltas  int
}

func (c *fakeClient) DeltaSnapshot(context.Context) (*sidecar.Snapshot, error) {
	c.calls = append(c.calls, "delta")
	if c.deltas++; c.onDelta != nil {
		c.onDelta(c.deltas)
	}
	if c.deltaErr == nil && c.delta != nil {
		c.latest.LastDelta = c.delta
	}

	return c.delta, c.deltaErr
}

func (c *fakeClient) FullSnapshot(context.Context) (sidecar.Snapshot, error) {
	c.calls = append(c.calls, "full")

	return c.taken, c.takenErr
}

func (c *fakeClient) LatestSnapshots(context.Context) (sidecar.LatestSnapshots, error) {
	c.calls = append(c.calls, "latest")

	return c.latest, c.failure
}

var _ = Describe("VerifiedFullSnapshot", func() {
	var (
		ctx      = context.Background()
		now      = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		full     = sidecar.Snapshot{Name: "Full-42", LastRevision: 42, CreatedAt: now}
		client   *fakeClient
		revision func(context.Context) (int64, error)
	)

	BeforeEach(func() {
		client = &fakeClient{taken: full, latest: sidecar.LatestSnapshots{Full: &full}}
		revision = func(context.Context) (int64, error) {
			client.calls = append(client.calls, "revision")

			return 42, nil
		}
	})

	It("reads the revision before, and the store afterwards", func() {
		Expect(sidecar.VerifiedFullSnapshot(ctx, client, revision)).To(Equal(full))
		Expect(client.calls).To(Equal([]string{"revision", "full", "latest"}))
	})

	It("accepts a newer snapshot of another caller", func() {
		newer := sidecar.Snapshot{Name: "Full-50", LastRevision: 50, CreatedAt: now.Add(time.Second)}
		client.latest.Full = &newer
		Expect(sidecar.VerifiedFullSnapshot(ctx, client, revision)).To(Equal(newer))
	})

	DescribeTable("fails",
		func(change func(), message string) {
			change()
			_, err := sidecar.VerifiedFullSnapshot(ctx, client, revision)
			Expect(err).To(MatchError(message))
		},
		Entry("without a quorum", func() {
			revision = func(context.Context) (int64, error) { return 0, errors.New("no leader") }
		}, "reading etcd's revision: no leader"),
		Entry("if the call fails", func() { client.takenErr = errors.New("refused") }, "refused"),
		Entry("if the store cannot be read", func() { client.failure = errors.New("refused") }, "verifying full snapshot Full-42: refused"),
		Entry("if the store is empty", func() { client.latest.Full = nil }, "verifying full snapshot Full-42: the store holds none"),
		Entry("if the store has only an older snapshot", func() {
			client.latest.Full = &sidecar.Snapshot{Name: "Full-40", LastRevision: 60, CreatedAt: now.Add(-time.Second)}
		}, "verifying full snapshot Full-42: the newest in the store is Full-40"),
		Entry("if the snapshot lacks acknowledged writes", func() {
			revision = func(context.Context) (int64, error) { return 43, nil }
		}, "verifying full snapshot Full-42: it ends with revision 42, and etcd was at 43 before"),
	)
})

var _ = Describe("CompleteSnapshot", func() {
	var (
		ctx    = context.Background()
		full   = sidecar.Snapshot{Name: "Full-42", LastRevision: 42}
		retry  = wait.Backoff{Steps: 5}
		client *fakeClient
		last   int64
		reject func(context.Context) (int64, error)
	)

	BeforeEach(func() {
		client, last = &fakeClient{latest: sidecar.LatestSnapshots{Full: &full}, delta: &sidecar.Snapshot{Name: "Incr-43-50", LastRevision: 50}}, 50
		reject = func(context.Context) (int64, error) {
			client.calls = append(client.calls, "reject")

			return last, nil
		}
	})

	It("takes a delta snapshot of the writes after the full snapshot, when etcd rejects writes", func() {
		Expect(sidecar.CompleteSnapshot(ctx, client, full, reject, retry)).To(Equal(int64(50)))
		Expect(client.calls).To(Equal([]string{"reject", "latest", "delta", "latest"}))
	})

	It("takes no delta snapshot without writes after the full snapshot", func() {
		last = 42
		Expect(sidecar.CompleteSnapshot(ctx, client, full, reject, retry)).To(Equal(int64(42)))
		Expect(client.calls).To(Equal([]string{"reject", "latest"}))
	})

	It("takes another delta snapshot if the sidecar refuses one", func() {
		client.deltaErr = errors.New("refused")
		client.onDelta = func(count int) {
			if count == 5 {
				client.deltaErr = nil
			}
		}
		Expect(sidecar.CompleteSnapshot(ctx, client, full, reject, retry)).To(Equal(int64(50)))
		Expect(client.deltas).To(Equal(5))
	})

	It("takes another delta snapshot if the sidecar has not received the last writes yet", func() {
		client.delta.LastRevision = 49
		client.onDelta = func(count int) { client.delta.LastRevision = int64(48 + count) }
		Expect(sidecar.CompleteSnapshot(ctx, client, full, reject, retry)).To(Equal(int64(50)))
		Expect(client.calls).To(Equal([]string{"reject", "latest", "delta", "latest", "latest", "delta", "latest"}))
	})

	It("ends when the context ends", func() {
		limited, cancel := context.WithCancel(ctx)
		client.deltaErr = errors.New("refused")
		client.onDelta = func(int) { cancel() }
		_, err := sidecar.CompleteSnapshot(limited, client, full, reject, wait.Backoff{Steps: 5, Duration: time.Hour})
		Expect(err).To(MatchError("storing the writes after full snapshot Full-42, etcd is at revision 50: refused"))
	})

	DescribeTable("fails",
		func(change func(), message string) {
			change()
			_, err := sidecar.CompleteSnapshot(ctx, client, full, reject, retry)
			Expect(err).To(MatchError(message))
		},
		Entry("if etcd does not reject writes", func() {
			reject = func(context.Context) (int64, error) { return 0, errors.New("no leader") }
		}, "no leader"),
		Entry("if the store cannot be read", func() { client.failure = errors.New("refused") }, "storing the writes after full snapshot Full-42, etcd is at revision 50: refused"),
		Entry("if the delta snapshot fails", func() { client.deltaErr = errors.New("refused") }, "storing the writes after full snapshot Full-42, etcd is at revision 50: refused"),
		Entry("if the delta snapshot ends before the last write", func() { client.delta.LastRevision = 49 },
			"storing the writes after full snapshot Full-42: the store ends with revision 49, and etcd is at revision 50"),
		Entry("if another full snapshot was taken, which may contain the rejection", func() {
			client.latest.Full = &sidecar.Snapshot{Name: "Full-50", LastRevision: 50}
		}, "storing the writes after full snapshot Full-42: another full snapshot was taken meanwhile"),
	)
})
