// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
)

// dataDir returns a data directory with an empty directory for the database, and the path of the database.
func dataDir() (dir, path string) {
	GinkgoHelper()
	dir = GinkgoT().TempDir()
	Expect(os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700)).To(Succeed())

	return dir, filepath.Join(dir, "member", "snap", "db")
}

// recordedDB returns a data directory with a recorded database.
func recordedDB(name string) (dir, path string) {
	GinkgoHelper()
	file, err := os.Open(filepath.Join("testdata", name+".db.gz"))
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	content, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	data, err := io.ReadAll(content)
	Expect(err).NotTo(HaveOccurred())
	dir, path = dataDir()
	Expect(os.WriteFile(path, data, 0o600)).To(Succeed())

	return dir, path
}

func inspectDir(dir string) (inspect.Result, error) {
	return inspect.DataDir(dir, 50*time.Millisecond, zap.NewNop())
}

// openedByEtcd opens the database as etcd does when it starts, and returns what etcd knows then.
func openedByEtcd(path string) inspect.Result {
	GinkgoHelper()
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	defer func() { _ = b.Close() }()
	store := mvcc.NewStore(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() { _ = store.Close() }()
	keys, err := store.Range(GinkgoT().Context(), []byte{0}, []byte{}, mvcc.RangeOptions{Count: true})
	Expect(err).NotTo(HaveOccurred())
	hash, revision, err := store.HashStorage().HashByRev(0)
	Expect(err).NotTo(HaveOccurred())

	return inspect.Result{Revision: revision, CompactRevision: max(store.FirstRev(), 0), Keys: int64(keys.Count), Hash: hash.Hash}
}

var _ = Describe("DataDir", func() {
	DescribeTable("should return what etcd reported about its database",
		func(name string) {
			content, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			Expect(err).NotTo(HaveOccurred())
			reported := inspect.Result{}
			Expect(json.Unmarshal(content, &reported)).To(Succeed())

			dir, _ := recordedDB(name)
			Expect(inspectDir(dir)).To(Equal(reported))
		},
		Entry("etcd 3.4", "v3.4.34"),
		Entry("etcd 3.5", "v3.5.21"),
		Entry("etcd 3.6", "v3.6.16"),
	)

	It("should return what etcd knows when it starts after an interrupted compaction", func() {
		dir, path := recordedDB("v3.6.16")
		before, err := inspectDir(dir)
		Expect(err).NotTo(HaveOccurred())
		b := backend.NewDefaultBackend(zap.NewNop(), path)
		mvcc.SetScheduledCompact(b.BatchTx(), before.Revision)
		Expect(b.Close()).To(Succeed())

		result, err := inspectDir(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(result.CompactRevision).To(Equal(before.Revision))
		Expect(result.Hash).NotTo(Equal(before.Hash))
		Expect(result).To(Equal(openedByEtcd(path)))
	})

	It("should return revision 1 and no keys for a database in which nothing was written", func() {
		dir, path := dataDir()
		Expect(openedByEtcd(path).Revision).To(Equal(int64(1)))

		Expect(inspectDir(dir)).To(And(HaveField("Revision", int64(1)), HaveField("Keys", int64(0)), HaveField("CompactRevision", int64(0))))
	})

	It("should not write to the data directory, also after an interrupted compaction", func() {
		dir, path := recordedDB("v3.6.16")
		b := backend.NewDefaultBackend(zap.NewNop(), path)
		mvcc.SetScheduledCompact(b.BatchTx(), 40)
		Expect(b.Close()).To(Succeed())
		before, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		// The database of a volume that is mounted read-only cannot be opened for writes.
		Expect(os.Chmod(path, 0o400)).To(Succeed())
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())

		_, err = inspectDir(dir)
		Expect(err).NotTo(HaveOccurred())
		after, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(sha256.Sum256(after)).To(Equal(sha256.Sum256(before)))
		Expect(os.Stat(path)).To(HaveField("ModTime()", info.ModTime()))
		Expect(filepath.Glob(filepath.Join(dir, "member", "*", "*"))).To(ConsistOf(path))
	})

	It("should not read a database that another process has opened", func() {
		dir, path := recordedDB("v3.6.16")
		db, err := bolt.Open(path, 0o600, nil)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = db.Close() }()

		_, err = inspectDir(dir)
		Expect(err).To(MatchError(ContainSubstring("another process has opened " + path)))
		Expect(err).NotTo(Or(MatchError(inspect.ErrCorrupt), MatchError(inspect.ErrNoDatabase)))
	})

	DescribeTable("should return ErrNoDatabase",
		func(prepare func(path string)) {
			dir, path := dataDir()
			prepare(path)

			_, err := inspectDir(dir)
			Expect(err).To(MatchError(inspect.ErrNoDatabase))
			Expect(err).To(MatchError(ContainSubstring(path)))
		},
		Entry("without the file, next to another one", func(path string) {
			Expect(os.WriteFile(filepath.Join(filepath.Dir(path), "0.snap"), nil, 0o600)).To(Succeed())
		}),
		Entry("if the file is empty", func(path string) { Expect(os.WriteFile(path, nil, 0o600)).To(Succeed()) }),
	)

	DescribeTable("should return ErrNoFiles",
		func(prepare func(path string)) {
			dir, path := dataDir()
			prepare(path)

			_, err := inspectDir(dir)
			Expect(err).To(MatchError(inspect.ErrNoFiles))
			Expect(err).To(MatchError(ContainSubstring(dir)))
		},
		Entry("with empty directories", func(string) {}),
		Entry("without the directories", func(path string) { Expect(os.RemoveAll(filepath.Dir(filepath.Dir(path)))).To(Succeed()) }),
		Entry("without the data directory", func(path string) { Expect(os.RemoveAll(filepath.Dir(filepath.Dir(filepath.Dir(path))))).To(Succeed()) }),
	)

	It("should not return ErrNoFiles if the data directory cannot be read", func() {
		_, err := inspectDir(string([]byte{'/', 0}))
		Expect(err).To(HaveOccurred())
		Expect(err).NotTo(Or(MatchError(inspect.ErrNoFiles), MatchError(inspect.ErrNoDatabase)))
	})

	DescribeTable("should return ErrCorrupt",
		func(damage func(path string)) {
			dir, path := recordedDB("v3.6.16")
			damage(path)

			_, err := inspectDir(dir)
			Expect(err).To(MatchError(inspect.ErrCorrupt))
			Expect(err).To(MatchError(ContainSubstring(path)))
		},
		Entry("if the file is something else", func(path string) { Expect(os.WriteFile(path, make([]byte, 100_000), 0o600)).To(Succeed()) }),
		Entry("if the file is a text", func(path string) { Expect(os.WriteFile(path, []byte("not a database"), 0o600)).To(Succeed()) }),
		Entry("if the end of the file is missing", func(path string) { Expect(os.Truncate(path, 3*4096)).To(Succeed()) }),
		Entry("if it has no bucket for keys", func(path string) {
			db, err := bolt.Open(path, 0o600, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(db.Update(func(tx *bolt.Tx) error { return tx.DeleteBucket(schema.Key.Name()) })).To(Succeed())
			Expect(db.Close()).To(Succeed())
		}),
		Entry("if a key is not a revision", func(path string) {
			write(path, []byte("short"), []byte("value"))
		}),
		Entry("if two keys have the same revision", func(path string) {
			key := mvcc.RevToBytes(mvcc.Revision{Main: 40}, mvcc.NewRevBytes())
			write(path, append(key, 't'), valueOf(path, key))
		}),
		Entry("if a value is not a key-value pair", func(path string) {
			write(path, mvcc.RevToBytes(mvcc.Revision{Main: 1000}, mvcc.NewRevBytes()), []byte("value"))
		}),
	)

	It("should not return ErrNoFiles if a subdirectory disappears while it is read", func() {
		files := disappearing{fstest.MapFS{"member/snap": {Mode: fs.ModeDir}}}
		err := inspect.WithoutDatabase(files, "/data", "/data/member/snap/db")
		Expect(err).To(MatchError(ContainSubstring("reading the data directory: ")))
		Expect(err).NotTo(Or(MatchError(inspect.ErrNoFiles), MatchError(inspect.ErrNoDatabase)))
	})

	Describe("after a page of the file could not be accessed", func() {
		var (
			path    string
			fault   error
			results []error
		)
		repeat := func() (inspect.Result, error) {
			return inspect.RepeatAfterFault(path, func() (inspect.Result, error) {
				err := results[0]
				results = results[1:]
				if err != nil {
					return inspect.Result{}, err
				}

				return inspect.Result{Revision: 7}, nil
			})
		}
		BeforeEach(func() {
			_, path = recordedDB("v3.6.16")
			Expect(os.Truncate(path, 3*4096)).To(Succeed())
			_, fault = inspect.File(path, time.Second, zap.NewNop())
			Expect(fault).To(MatchError(inspect.ErrCorrupt))
		})

		It("should return the error of reading the file, and not ErrCorrupt", func() {
			path, results = filepath.Dir(path), []error{fault}
			_, err := repeat()
			Expect(err).To(MatchError(ContainSubstring("reading the file of the database: ")))
			Expect(err).NotTo(MatchError(inspect.ErrCorrupt))
		})

		It("should return the result if the page can be accessed afterwards", func() {
			results = []error{fault, nil}
			Expect(repeat()).To(Equal(inspect.Result{Revision: 7}))
		})

		It("should return ErrCorrupt if it cannot, although the file can be read", func() {
			results = []error{fault, fault}
			_, err := repeat()
			Expect(err).To(MatchError(inspect.ErrCorrupt))
			Expect(results).To(BeEmpty())
		})

		It("should not repeat it after another panic", func() {
			results = []error{inspect.ErrCorrupt}
			_, err := repeat()
			Expect(err).To(MatchError(inspect.ErrCorrupt))
		})
	})

	It("should survive any page that is overwritten", func() {
		_, intact := recordedDB("v3.6.16")
		content, err := os.ReadFile(intact)
		Expect(err).NotTo(HaveOccurred())
		const page = 4096
		failures := 0
		dir, path := dataDir()
		for offset := int64(0); offset < int64(len(content)); offset += page {
			if bytes.Equal(content[offset:offset+page], make([]byte, page)) {
				continue // not used
			}
			for _, value := range []byte{0x00, 0xff, 't'} {
				Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
				file, err := os.OpenFile(path, os.O_WRONLY, 0)
				Expect(err).NotTo(HaveOccurred())
				_, err = file.WriteAt(bytes.Repeat([]byte{value}, page), offset)
				Expect(err).NotTo(HaveOccurred())
				Expect(file.Close()).To(Succeed())

				if _, err := inspectDir(dir); err != nil {
					Expect(err).To(MatchError(inspect.ErrCorrupt), "page at %d", offset)
					failures++
				}
			}
		}
		Expect(failures).To(BeNumerically(">", 2))
	})
})

// disappearing is a file system whose directory member does not exist any more when it is read.
type disappearing struct{ fstest.MapFS }

func (d disappearing) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "member" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}

	return d.MapFS.ReadDir(name)
}

// valueOf returns the value of a key in the bucket for keys.
func valueOf(path string, key []byte) (value []byte) {
	GinkgoHelper()
	db, err := bolt.Open(path, 0o600, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(db.View(func(tx *bolt.Tx) error { value = bytes.Clone(tx.Bucket(schema.Key.Name()).Get(key)); return nil })).To(Succeed())
	Expect(db.Close()).To(Succeed())
	Expect(value).NotTo(BeEmpty())

	return value
}

// write writes a pair into the bucket for keys.
func write(path string, key, value []byte) {
	GinkgoHelper()
	db, err := bolt.Open(path, 0o600, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(db.Update(func(tx *bolt.Tx) error { return tx.Bucket(schema.Key.Name()).Put(key, value) })).To(Succeed())
	Expect(db.Close()).To(Succeed())
}
