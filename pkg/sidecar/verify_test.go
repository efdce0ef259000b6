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
