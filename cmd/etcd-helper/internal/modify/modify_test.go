// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package modify_test

import (
	"math"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/modify"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
)

const timeout = 50 * time.Millisecond

var _ = Describe("modify", func() {
	for _, version := range recorded.Versions {
		Describe("a database of etcd "+version, func() {
			var (
				path     string
				reported recorded.Reported
			)
			BeforeEach(func() {
				root := GinkgoT().TempDir()
				Expect(recorded.Unpack(version, root, "restored")).To(Succeed())
				path = filepath.Join(root, "restored", "member", "snap", "db")
				var err error
				reported, err = recorded.Read(version)
				Expect(err).NotTo(HaveOccurred())
			})

			It("should increase the revision, and compact the earlier ones when etcd starts", func() {
				revision, err := modify.Bump(path, 1_000_000_000, timeout, zap.NewNop())
				Expect(err).NotTo(HaveOccurred())
				Expect(revision).To(Equal(int64(1_000_000_047)))

				withStore(path, func(store mvcc.WatchableKV) {
					Expect(store.Rev()).To(Equal(revision))
					Expect(store.FirstRev()).To(Equal(revision))
					found, err := store.Range(GinkgoT().Context(), []byte{0}, []byte{}, mvcc.RangeOptions{})
					Expect(err).NotTo(HaveOccurred())
					Expect(found.KVs).To(HaveLen(len(reported.Points.Compacted.Keys)))
					for i, kv := range found.KVs {
						expected := reported.Points.Compacted.Keys[i]
						Expect(kv.Key).To(Equal(expected.Key))
						Expect(kv.Value).To(Equal(expected.Value))
						Expect(kv.ModRevision).To(Equal(expected.ModRevision))
						Expect(kv.Version).To(Equal(expected.Version))
					}

					stream := store.NewWatchStream()
					defer stream.Close()
					_, err = stream.Watch(0, []byte("/"), []byte("0"), 48) // a client that has seen a lost write
					Expect(err).NotTo(HaveOccurred())
					response := mvcc.WatchResponse{}
					Eventually(stream.Chan()).Should(Receive(&response))
					Expect(response.CompactRevision).To(Equal(revision))

					Expect(store.Put([]byte("/registry/new"), nil, lease.NoLease)).To(Equal(revision + 1))
				})
			})

			It("should increase an increased revision again", func() {
				for range 2 {
					_, err := modify.Bump(path, 100, timeout, zap.NewNop())
					Expect(err).NotTo(HaveOccurred())
				}
				Expect(inspect.View(path, inspect.Options{Log: zap.NewNop()}, func(database *inspect.Database) error {
					Expect(database.Inspect()).To(And(
						HaveField("Revision", int64(247)), HaveField("CompactRevision", int64(247)), HaveField("Keys", int64(len(reported.Points.Compacted.Keys)))))

					return nil
				})).To(Succeed())
			})

			It("should refuse to decrease a revision, and to increase it too far", func() {
				for _, by := range []int64{0, -5, math.MaxInt64} {
					_, err := modify.Bump(path, by, timeout, zap.NewNop())
					Expect(err).To(MatchError(ContainSubstring("cannot be increased by")))
				}
			})

			It("should remove all alarms", func() {
				Expect(modify.ClearAlarms(path, timeout, zap.NewNop())).To(BeZero())
				db, err := bolt.Open(path, 0o600, nil)
				Expect(err).NotTo(HaveOccurred())
				Expect(db.Update(func(tx *bolt.Tx) error {
					for _, alarm := range []etcdserverpb.AlarmMember{{MemberID: 7, Alarm: etcdserverpb.AlarmType_NOSPACE}, {Alarm: etcdserverpb.AlarmType_CORRUPT}} {
						content, err := alarm.Marshal()
						Expect(err).NotTo(HaveOccurred())
						Expect(tx.Bucket(schema.Alarm.Name()).Put(content, nil)).To(Succeed())
					}

					return nil
				})).To(Succeed())
				Expect(db.Close()).To(Succeed())

				Expect(modify.ClearAlarms(path, timeout, zap.NewNop())).To(Equal(2))
				Expect(modify.ClearAlarms(path, timeout, zap.NewNop())).To(BeZero())
			})

			It("should not change a database that another process has opened", func() {
				db, err := bolt.Open(path, 0o600, nil)
				Expect(err).NotTo(HaveOccurred())
				defer func() { _ = db.Close() }()
				_, err = modify.Bump(path, 5, timeout, zap.NewNop())
				Expect(err).To(MatchError(ContainSubstring("another process has opened")))
				_, err = modify.ClearAlarms(path, timeout, zap.NewNop())
				Expect(err).To(MatchError(ContainSubstring("another process has opened")))
			})
		})
	}
})

// withStore opens a database as etcd does when it starts.
func withStore(path string, use func(mvcc.WatchableKV)) {
	GinkgoHelper()
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	store := mvcc.New(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	use(store)
	Expect(store.Close()).To(Succeed())
	Expect(b.Close()).To(Succeed())
}
