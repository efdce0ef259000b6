// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package extract_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/extract"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/raftlog"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

var _ = Describe("Snapshot", func() {
	for _, version := range recorded.Versions {
		Describe("of a member of etcd "+version, func() {
			var (
				root     string
				request  extract.Request
				reported recorded.Reported
			)
			BeforeEach(func() {
				root = GinkgoT().TempDir()
				Expect(recorded.Unpack(version, root, "killed", "survivor")).To(Succeed())
				var err error
				reported, err = recorded.Read(version)
				Expect(err).NotTo(HaveOccurred())
				request = extract.Request{
					DataDir: filepath.Join(root, "killed"), Work: filepath.Join(root, "work"), Store: filepath.Join(root, "v2"),
					Timeout: 50 * time.Millisecond, Now: time.Unix(1795645652, 0), Log: zap.NewNop(),
				}
				Expect(os.Mkdir(request.Work, 0o700)).To(Succeed())
				Expect(os.Mkdir(request.Store, 0o700)).To(Succeed())
			})

			It("should contain the last writes of a member that was killed, as the etcd that started again", func() {
				before := filesIn(request.DataDir)
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Killed.Revision))
				Expect(result.CompactRevision).To(Equal(reported.Killed.CompactRevision))
				Expect(result.Hash).To(Equal(reported.Killed.Hash))
				Expect(result.ExtractedRevision).To(Equal(reported.Killed.Revision))
				Expect(result.Entries).To(BeNumerically(">", 10))
				Expect(result.Uncommitted).To(BeNumerically("<", result.Entries))
				Expect(result.LastTerm).To(Equal(uint64(2)))

				path := database(request.Store, result)
				Expect(keysIn(path, result.Revision)).To(Equal(reported.Killed.Keys))
				Expect(filesIn(request.DataDir)).To(Equal(before))
				Expect(os.ReadDir(request.Work)).To(BeEmpty())
				Expect(os.ReadDir(request.Store)).To(HaveLen(1))
			})

			It("should record the last entry and the leases", func() {
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(inspect.View(database(request.Store, result), inspect.Options{Log: zap.NewNop()}, func(database *inspect.Database) error {
					Expect(database.ConsistentIndex()).To(Equal(result.LastIndex))

					return nil
				})).To(Succeed())
				db, err := bolt.Open(database(request.Store, result), 0o600, nil)
				Expect(err).NotTo(HaveOccurred())
				defer func() { _ = db.Close() }()
				Expect(db.View(func(tx *bolt.Tx) error {
					Expect(tx.Bucket(schema.Lease.Name()).Stats().KeyN).To(Equal(3)) // one of them was granted after the last commit of the database
					hasTerm := tx.Bucket(schema.Meta.Name()).Get(schema.MetaTermKeyName) != nil
					Expect(hasTerm).To(Equal(version != "v3.4.34"))

					return nil
				})).To(Succeed())
			})

			It("should contain the writes that a quorum has acknowledged, and the one that it has not", func() {
				request.DataDir = filepath.Join(root, "survivor")
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Survivor.Revision + 1))
				Expect(result.Uncommitted).To(BeNumerically(">=", 1))
				path := database(request.Store, result)
				keys := keysIn(path, result.Revision)
				Expect(keys[len(keys)-1].Key).To(Equal([]byte("/registry/unacknowledged")))
				Expect(inspect.View(path, inspect.Options{Log: zap.NewNop()}, func(database *inspect.Database) error {
					hash, err := database.Hash(reported.Survivor.Revision)
					Expect(hash).To(Equal(reported.Survivor.Hash))

					return err
				})).To(Succeed())
			})

			It("should use the database that the leader has sent, if etcd has not yet replaced its own", func() {
				request.DataDir = filepath.Join(root, "survivor")
				path := filepath.Join(request.DataDir, "member", "snap", "db")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				Expect(os.WriteFile(inspect.ReceivedDatabase(request.DataDir, 0x52), content, 0o600)).To(Succeed())
				setIndex(path, 5)

				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Survivor.Revision + 1))

				setIndex(inspect.ReceivedDatabase(request.DataDir, 0x52), 6)
				_, err = extract.Snapshot(request)
				Expect(err).To(And(MatchError(raftlog.ErrUnreadable), MatchError(ContainSubstring("before the snapshot file at index 82"))))
			})

			It("should not extract a database that the log does not continue", func() {
				setIndex(filepath.Join(request.DataDir, "member", "snap", "db"), 1000)
				_, err := extract.Snapshot(request)
				Expect(err).To(And(MatchError(raftlog.ErrUnreadable), MatchError(ContainSubstring("before the end of the database at index 1000"))))
				Expect(os.ReadDir(request.Store)).To(BeEmpty())
			})

			It("should not extract a damaged log, but the database without it on request", func() {
				path := filepath.Join(request.DataDir, "member", "wal", "0000000000000000-0000000000000000.wal")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				content[bytes.Index(content, []byte("last value 2"))] ^= 1
				Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
				_, err = extract.Snapshot(request)
				Expect(err).To(And(MatchError(raftlog.ErrUnreadable), MatchError(ContainSubstring("extract without the log"))))

				request.SkipLog = true
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(int64(48)))
				Expect(result.Entries).To(BeZero())
				Expect(result.Snapshot).To(Equal("Full-00000000-00000048-1795645652"))
			})

			It("should extract the entries before an incomplete one, and count the discarded data", func() {
				path := filepath.Join(request.DataDir, "member", "wal", "0000000000000000-0000000000000000.wal")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				Expect(os.Truncate(path, int64(bytes.LastIndex(content, []byte("last value"))+5))).To(Succeed())
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Killed.Revision - 1))
				Expect(result.DiscardedBytes).To(BeNumerically(">", 10))
			})

			It("should write no snapshot with a lower revision than requested, and create the directory for another one", func() {
				Expect(os.Remove(request.Store)).To(Succeed())
				request.MinRevision, request.Bump = reported.Killed.Revision+1, 1_000_000_000
				_, err := extract.Snapshot(request)
				Expect(err).To(MatchError(extract.ErrRevision))
				Expect(request.Store).NotTo(BeADirectory())

				request.MinRevision--
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(filepath.Join(request.Store, result.Snapshot)).To(BeARegularFile())
			})

			It("should not extract from a member that runs", func() {
				db, err := bolt.Open(filepath.Join(request.DataDir, "member", "snap", "db"), 0o600, nil)
				Expect(err).NotTo(HaveOccurred())
				defer func() { _ = db.Close() }()
				_, err = extract.Snapshot(request)
				Expect(err).To(MatchError(ContainSubstring("another process has opened")))
			})

			It("should not extract from a directory without files", func() {
				request.DataDir = filepath.Join(root, "missing")
				_, err := extract.Snapshot(request)
				Expect(err).To(MatchError(inspect.ErrNoFiles))
			})

			It("should remove alarms and increase the revision on request, and name the snapshot after it", func() {
				path := filepath.Join(request.DataDir, "member", "snap", "db")
				alarm, err := (&etcdserverpb.AlarmMember{MemberID: 7, Alarm: etcdserverpb.AlarmType_CORRUPT}).Marshal()
				Expect(err).NotTo(HaveOccurred())
				put(path, schema.Alarm.Name(), alarm, nil)
				request.SkipLog, request.ClearAlarms, request.Bump, request.Gzip = true, true, 1_000_000_000, true

				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Snapshot).To(Equal("Full-00000000-1000000048-1795645652.gz"))
				Expect(result.Revision).To(Equal(int64(1_000_000_048)))
				Expect(result.CompactRevision).To(Equal(int64(1_000_000_048)))
				Expect(result.ExtractedRevision).To(Equal(int64(48)))
				Expect(result.ClearedAlarms).To(Equal(1))
			})

			It("should not increase a revision that an earlier command has increased", func() {
				request.Bump, request.BumpBelow = 1_000_000_000, reported.Killed.Revision
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Killed.Revision))
				Expect(os.RemoveAll(request.Store)).To(Succeed())

				request.BumpBelow++
				result, err = extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(reported.Killed.Revision + 1_000_000_000))
			})

			It("should extract a database without a data directory, and not replace a snapshot", func() {
				request.Database, request.DataDir = filepath.Join(request.DataDir, "member", "snap", "db"), ""
				result, err := extract.Snapshot(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(result.Revision).To(Equal(int64(48)))
				content, err := os.ReadFile(filepath.Join(request.Store, result.Snapshot))
				Expect(err).NotTo(HaveOccurred())
				end := len(content) - sha256.Size
				hash := sha256.Sum256(content[:end])
				Expect(content[end:]).To(Equal(hash[:]))

				_, err = extract.Snapshot(request)
				Expect(err).To(MatchError(os.ErrExist))
				Expect(os.ReadDir(request.Store)).To(HaveLen(1))
			})
		})
	}
})

// database returns the database of the full snapshot, read as the sidecar does.
func database(store string, result extract.Result) string {
	GinkgoHelper()
	sets, err := snapshots.Sets(store)
	Expect(err).NotTo(HaveOccurred())
	Expect(sets).To(HaveLen(1))
	Expect(sets[0].Full.String()).To(Equal(result.Snapshot))
	path := filepath.Join(GinkgoT().TempDir(), "db")
	Expect(sets[0].Full.Database(path)).To(Succeed())

	return path
}

func keysIn(path string, revision int64) (keys []recorded.Key) {
	GinkgoHelper()
	Expect(inspect.View(path, inspect.Options{Log: zap.NewNop()}, func(database *inspect.Database) error {
		return database.ForEachKey([]byte{0}, []byte{}, revision, func(kv mvccpb.KeyValue) error {
			keys = append(keys, recorded.Key{
				Key: kv.Key, Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease,
			})

			return nil
		})
	})).To(Succeed())

	return keys
}

func setIndex(path string, index uint16) {
	GinkgoHelper()
	put(path, schema.Meta.Name(), schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, uint64(index)))
}

func put(path string, bucket, key, value []byte) {
	GinkgoHelper()
	db, err := bolt.Open(path, 0o600, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucket).Put(key, value) })).To(Succeed())
	Expect(db.Close()).To(Succeed())
}

// filesIn returns the modes and times of all files below a directory.
func filesIn(dir string) map[string]string {
	GinkgoHelper()
	files := map[string]string{}
	Expect(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		files[path] = info.Mode().String() + " " + info.ModTime().String()

		return err
	})).To(Succeed())

	return files
}
