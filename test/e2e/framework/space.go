// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// fillSize is the size of a value with which a database is filled, in bytes. maxFills bounds the number of these values: 200 MiB.
const (
	fillSize = 100 << 10
	maxFills = 2000
)

// Fill writes large values until etcd rejects a write, because its database has reached the quota. The values are not in the log. key returns the
// key of a value. etcd may have stored the rejected value: a member that finds no space when it applies a write returns an error after it.
func (l *WriteLog) Fill(ctx context.Context, key func(number int) string) {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	value := make([]byte, fillSize)

	for number := range maxFills {
		_, err := rand.Read(value)
		Expect(err).NotTo(HaveOccurred())

		_, err = put(ctx, client, key(number), string(value))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return
		}

		Expect(err).NotTo(HaveOccurred(), l.ns.State)
	}

	Fail(fmt.Sprintf("etcd has accepted %d values of %d bytes", maxFills, fillSize))
}

// Grow writes large values, many of them in parallel, until the database has that many bytes. The values are not in the log.
func (l *WriteLog) Grow(ctx context.Context, bytes int64) {
	GinkgoHelper()

	const writers = 8

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	var group errgroup.Group

	for writer := range writers {
		group.Go(func() error {
			value := make([]byte, fillSize)
			for number := int64(writer); number < bytes/fillSize; number += writers {
				if _, err := rand.Read(value); err != nil {
					return err
				}

				if _, err := put(ctx, client, fmt.Sprintf("/registry/large/%d", number), string(value)); err != nil {
					return err
				}
			}

			return nil
		})
	}

	Expect(group.Wait()).To(Succeed(), l.ns.State)
}

// TimeHash returns how long the member needs for the hash of all keys.
func (l *WriteLog) TimeHash(ctx context.Context) time.Duration {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	began := time.Now()
	_, err := client.HashKV(ctx, client.Endpoints()[0], 0)
	Expect(err).NotTo(HaveOccurred())

	return time.Since(began)
}

// Count returns how many keys have the prefix.
func (l *WriteLog) Count(ctx context.Context, prefix string) int64 {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()

	response, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	Expect(err).NotTo(HaveOccurred(), l.ns.State)

	return response.Count
}

// Fragment writes values of one key until the database has more than that many bytes, and removes their history. etcd then no longer needs the space.
// The values are not in the log.
func (l *WriteLog) Fragment(ctx context.Context, bytes int64) {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	value := make([]byte, fillSize)

	for range maxFills {
		_, err := rand.Read(value)
		Expect(err).NotTo(HaveOccurred())

		_, err = put(ctx, client, "/registry/fragments/one", string(value))
		Expect(err).NotTo(HaveOccurred(), l.ns.State)

		status, err := client.Status(ctx, client.Endpoints()[0])
		Expect(err).NotTo(HaveOccurred())

		if status.DbSize > bytes {
			_, err = client.Compact(ctx, status.Header.Revision, clientv3.WithCompactPhysical())
			Expect(err).NotTo(HaveOccurred())

			return
		}
	}

	Fail(fmt.Sprintf("the database has no more than %d bytes after %d values of %d bytes", bytes, maxFills, fillSize))
}

// EventuallyAccepts writes a new key until etcd acknowledges it, and returns how long etcd rejected it.
func (l *WriteLog) EventuallyAccepts(ctx context.Context, timeout time.Duration) time.Duration {
	GinkgoHelper()

	client := l.connect(ctx, l.credentials(ctx))
	defer client.Close()

	began, key := time.Now(), fmt.Sprintf("%s%06d", keyPrefix, len(l.written))

	Eventually(func() error {
		response, err := putOnce(ctx, client, key, key)
		if err == nil {
			l.written[key], l.Revision = key, response.Header.Revision
		}

		return err
	}).WithContext(ctx).WithTimeout(timeout).WithPolling(PollInterval).Should(Succeed(), l.ns.State)

	return time.Since(began)
}

// HeldLeases are leases whose holder keeps them alive.
type HeldLeases struct {
	log *WriteLog
	ids []clientv3.LeaseID
}

// HoldLeases grants leases with one key each, and keeps them alive until the end of the test.
func (l *WriteLog) HoldLeases(ctx context.Context, count int, ttl time.Duration) *HeldLeases {
	GinkgoHelper()

	alive, cancel := context.WithCancel(ctx)
	client := l.connect(alive, l.credentials(ctx))

	DeferCleanup(func() {
		cancel()

		_ = client.Close()
	})

	held := &HeldLeases{log: l}

	for number := range count {
		lease, err := client.Grant(ctx, int64(ttl/time.Second))
		Expect(err).NotTo(HaveOccurred())

		_, err = client.Put(ctx, fmt.Sprintf("lease/%d", number), "held", clientv3.WithLease(lease.ID))
		Expect(err).NotTo(HaveOccurred())

		responses, err := client.KeepAlive(alive, lease.ID)
		Expect(err).NotTo(HaveOccurred())

		go func() {
			for range responses {
				continue // the client closes the channel
			}
		}()

		held.ids = append(held.ids, lease.ID)
	}

	return held
}

// ExpectAlive expects that each lease is alive, and that its key exists.
func (h *HeldLeases) ExpectAlive(ctx context.Context) {
	GinkgoHelper()

	client := h.log.connect(ctx, h.log.credentials(ctx))
	defer client.Close()

	for _, id := range h.ids {
		lease, err := client.TimeToLive(ctx, id, clientv3.WithAttachedKeys())
		Expect(err).NotTo(HaveOccurred())
		Expect(lease.TTL).To(BeNumerically(">", 0))
		Expect(lease.Keys).To(HaveLen(1))
	}
}
