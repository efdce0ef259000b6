// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
)

var _ = Describe("Dir", func() {
	inspectMember := func(dir string) (inspect.Member, error) { return inspect.Dir(dir, 50*time.Millisecond, zap.NewNop()) }

	for _, version := range recorded.Versions {
		Describe("of etcd "+version, func() {
			var (
				root     string
				reported recorded.Reported
			)
			BeforeEach(func() {
				root = GinkgoT().TempDir()
				Expect(recorded.Unpack(version, root, "killed", "survivor")).To(Succeed())
				var err error
				reported, err = recorded.Read(version)
				Expect(err).NotTo(HaveOccurred())
			})

			It("should return the log of a member that was killed, and the revision after it", func() {
				member, err := inspectMember(filepath.Join(root, "killed"))
				Expect(err).NotTo(HaveOccurred())
				Expect(member.LogProblem).To(BeEmpty())
				Expect(member.Revision).To(Equal(int64(48))) // that of the full snapshot, for which etcd wrote its database
				Expect(member.CompactRevision).To(Equal(reported.Points.Last.CompactRevision))
				Expect(member.Log.MaxRevision).To(Equal(reported.Killed.Revision + 1)) // one entry changes nothing
				Expect(member.Log.LastTerm).To(Equal(uint64(2)))
				Expect(member.Log.LastIndex).To(BeNumerically(">", member.ConsistentIndex))
				Expect(member.Log.Commit).To(BeNumerically("<=", member.Log.LastIndex))
				Expect(member.Log.MemberID).To(MatchRegexp("^[0-9a-f]+$"))
				Expect(member.Log.ClusterID).To(MatchRegexp("^[0-9a-f]+$"))
				Expect(member.Log.Voters).To(Equal([]string{member.Log.MemberID}))
				Expect(member.Alarms).To(BeEmpty())
			})

			It("should count the write that no quorum has confirmed", func() {
				member, err := inspectMember(filepath.Join(root, "survivor"))
				Expect(err).NotTo(HaveOccurred())
				Expect(member.Revision).To(Equal(reported.Survivor.Revision))
				Expect(member.Hash).To(Equal(reported.Survivor.Hash))
				Expect(member.Log.MaxRevision).To(Equal(reported.Survivor.Revision + 1))
				Expect(member.Log.LastIndex).To(Equal(member.ConsistentIndex + 1))
				Expect(member.Log.Voters).To(And(HaveLen(3), ContainElement(member.Log.MemberID)))
			})

			It("should inspect the database that the leader has sent, if etcd has not yet replaced its own", func() {
				dir := filepath.Join(root, "survivor")
				expected, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				path := filepath.Join(dir, "member", "snap", "db")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				writeIn(path, func(tx backend.BatchTx) { schema.UnsafeUpdateConsistentIndexForce(tx, 5, 2) })

				member, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				Expect(member.LogProblem).To(ContainSubstring(".snap.db does not exist"))
				Expect(member.Revision).To(Equal(reported.Survivor.Revision))
				Expect(member.Log).To(BeNil())

				Expect(os.WriteFile(inspect.ReceivedDatabase(dir, 0x52), content, 0o600)).To(Succeed())
				Expect(inspectMember(dir)).To(Equal(expected))
			})

			It("should return the result of the database if the log is damaged", func() {
				dir := filepath.Join(root, "killed")
				intact, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				path := filepath.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				content[bytes.Index(content, []byte("third value 1"))] ^= 1
				Expect(os.WriteFile(path, content, 0o600)).To(Succeed())

				damaged, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				Expect(damaged.LogProblem).To(ContainSubstring("the write-ahead log cannot be read"))
				intact.Log, intact.LogProblem = nil, damaged.LogProblem
				Expect(damaged).To(Equal(intact))
			})

			It("should ignore a last entry that was not written completely", func() {
				dir := filepath.Join(root, "killed")
				intact, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				path := filepath.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				Expect(os.Truncate(path, int64(bytes.LastIndex(content, []byte("last value"))))).To(Succeed())

				torn, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				Expect(torn.LogProblem).To(BeEmpty())
				Expect(torn.Log.DiscardedBytes).To(BeNumerically(">", 10))
				Expect(intact.Log.DiscardedBytes).To(BeZero())
				Expect(torn.Log.LastIndex).To(Equal(intact.Log.LastIndex - 1))
				Expect(torn.Log.MaxRevision).To(Equal(intact.Log.MaxRevision - 1))
			})

			It("should count the data after an entry that was overwritten with zeros", func() {
				dir := filepath.Join(root, "killed")
				intact, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				path := filepath.Join(dir, "member", "wal", "0000000000000000-0000000000000000.wal")
				content, err := os.ReadFile(path)
				Expect(err).NotTo(HaveOccurred())
				clear(content[recordWith(path, "last value 1"):recordWith(path, "last value 2")])
				Expect(os.WriteFile(path, content, 0o600)).To(Succeed())

				damaged, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				Expect(damaged.LogProblem).To(BeEmpty())
				Expect(damaged.Log.LastIndex).To(BeNumerically("<", intact.Log.LastIndex-2))
				Expect(damaged.Log.DiscardedBytes).To(BeNumerically(">", 100))
			})

			It("should not change the data directory", func() {
				dir := filepath.Join(root, "killed")
				before := filesIn(dir)
				_, err := inspectMember(dir)
				Expect(err).NotTo(HaveOccurred())
				Expect(filesIn(dir)).To(Equal(before))
			})
		})
	}

	It("should return the raised alarms, and no log if there is none", func() {
		dir, path := recordedDB("v3.6.16")
		writeIn(path, func(tx backend.BatchTx) {
			for _, alarm := range []etcdserverpb.AlarmMember{{MemberID: 7, Alarm: etcdserverpb.AlarmType_NOSPACE}, {Alarm: etcdserverpb.AlarmType_CORRUPT}} {
				content, err := alarm.Marshal()
				Expect(err).NotTo(HaveOccurred())
				tx.UnsafePut(schema.Alarm, content, nil)
			}
		})

		member, err := inspectMember(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(member.Alarms).To(ConsistOf("NOSPACE", "CORRUPT"))
		Expect(member.Log).To(BeNil())
		Expect(member.LogProblem).To(BeEmpty())
	})
})

// recordWith returns the offset of the record of a log that contains a text.
func recordWith(path, text string) int64 {
	GinkgoHelper()
	file, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	decoder := wal.NewDecoder(fileutil.NewFileReader(file))
	for record := (walpb.Record{}); ; {
		offset := decoder.LastOffset()
		Expect(decoder.Decode(&record)).To(Succeed())
		if record.Type == wal.CrcType {
			decoder.UpdateCRC(record.Crc)
		}
		if bytes.Contains(record.Data, []byte(text)) {
			return offset
		}
	}
}

// writeIn writes to the database in a file.
func writeIn(path string, write func(backend.BatchTx)) {
	GinkgoHelper()
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	tx := b.BatchTx()
	tx.LockOutsideApply()
	write(tx)
	tx.Unlock()
	Expect(b.Close()).To(Succeed())
}

// filesIn returns the sizes and times of all files below a directory.
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
