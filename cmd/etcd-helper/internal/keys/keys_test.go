// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"fmt"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/inspect"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/keys"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/modify"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
)

// view opens a database.
func view(path string, read func(*inspect.Database) error) error {
	return inspect.View(path, inspect.Options{Log: zap.NewNop()}, read)
}

// create returns a database with these writes, which etcd compacts to a revision. 0: it does not.
func create(compactRevision int64, write func(mvcc.KV)) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "db")
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	store := mvcc.NewStore(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	write(store)
	if compactRevision > 0 {
		mvcc.SetScheduledCompact(b.BatchTx(), compactRevision)
	}
	Expect(store.Close()).To(Succeed())
	Expect(b.Close()).To(Succeed())

	return path
}

func names(path string, selection keys.Selection) (names []string) {
	GinkgoHelper()
	Expect(view(path, func(database *inspect.Database) error {
		return keys.ForEach(database, selection, func(entry keys.Entry) error {
			names = append(names, entry.Name())

			return nil
		})
	})).To(Succeed())

	return names
}

var _ = Describe("the keys of a real etcd", func() {
	for _, version := range recorded.Versions {
		It("should be those that etcd "+version+" returned at several revisions", func() {
			root := GinkgoT().TempDir()
			Expect(recorded.Unpack(version, root, "restored")).To(Succeed())
			reported, err := recorded.Read(version)
			Expect(err).NotTo(HaveOccurred())
			path := filepath.Join(root, "restored", "member", "snap", "db")
			for _, point := range []recorded.Point{reported.Points.First, reported.Points.Middle, reported.Points.Compacted} {
				var found []recorded.Key
				Expect(view(path, func(database *inspect.Database) error {
					return keys.ForEach(database, keys.Selection{Revision: point.Revision, WithValues: true}, func(entry keys.Entry) error {
						key := entry.KeyBytes
						if entry.Key != "" {
							key = []byte(entry.Key)
						}
						found = append(found, recorded.Key{
							Key: key, Value: *entry.Value, CreateRevision: entry.CreateRevision, ModRevision: entry.ModRevision, Version: entry.Version,
						})

						return nil
					})
				})).To(Succeed())
				for i := range point.Keys {
					point.Keys[i].Lease = 0 // the restore drops them
				}
				Expect(found).To(Equal(point.Keys))
			}
		})
	}
})

var _ = Describe("keys", func() {
	It("should select by prefix, in pages, and quote what is not text", func() {
		path := create(0, func(store mvcc.KV) {
			for i := range 250 {
				store.Put(fmt.Appendf(nil, "/a/%03d", i), nil, lease.NoLease)
			}
			for _, key := range []string{"/b", "\xff\x01", "\xff\xff", "/line\n"} {
				store.Put([]byte(key), nil, lease.NoLease)
			}
		})
		Expect(names(path, keys.Selection{Prefix: "/a/"})).To(HaveLen(250))
		Expect(names(path, keys.Selection{Prefix: "/a/24"})).To(HaveLen(10))
		Expect(names(path, keys.Selection{})).To(HaveLen(254))
		Expect(names(path, keys.Selection{Prefix: "/b"})).To(Equal([]string{"/b"}))
		Expect(names(path, keys.Selection{Prefix: "\xff"})).To(Equal([]string{`"\xff\x01"`, `"\xff\xff"`}))
		Expect(names(path, keys.Selection{Prefix: "/l"})).To(Equal([]string{`"/line\n"`}))
		Expect(names(path, keys.Selection{Prefix: "/a/", Revision: 11})).To(HaveLen(10))
		Expect(names(path, keys.Selection{Prefix: "/c"})).To(BeEmpty())
	})

	It("should return one key, with its value on request", func() {
		path := create(0, func(store mvcc.KV) {
			store.Put([]byte("/a"), []byte("first"), 7)
			store.Put([]byte("/a"), []byte("second"), lease.NoLease)
			store.Put([]byte("/ab"), []byte("other"), lease.NoLease)
		})
		Expect(view(path, func(database *inspect.Database) error {
			value := []byte("first")
			Expect(keys.Get(database, "/a", keys.Selection{Revision: 2, WithValues: true})).To(Equal(
				keys.Entry{Key: "/a", CreateRevision: 2, ModRevision: 2, Version: 1, Lease: "0000000000000007", Bytes: 5, Value: &value}))
			Expect(keys.Get(database, "/a", keys.Selection{})).To(Equal(
				keys.Entry{Key: "/a", CreateRevision: 2, ModRevision: 3, Version: 2, Bytes: 6}))
			_, err := keys.Get(database, "/", keys.Selection{})
			Expect(err).To(And(MatchError(keys.ErrNotFound), MatchError(ContainSubstring(`"/" at revision 4`))))

			return nil
		})).To(Succeed())
	})

	DescribeTable("should name the revisions that the database contains",
		func(revision int64, text string) {
			path := create(3, func(store mvcc.KV) {
				for range 4 {
					store.Put([]byte("/a"), nil, lease.NoLease)
				}
			})
			err := view(path, func(database *inspect.Database) error {
				return keys.ForEach(database, keys.Selection{Revision: revision}, func(keys.Entry) error { return nil })
			})
			Expect(err).To(And(MatchError(keys.ErrRevision), MatchError(ContainSubstring(text))))
		},
		Entry("for a compacted one", int64(2), "2: it is compacted to revision 3; use a revision from 3 to 5"),
		Entry("for a future one", int64(6), "6: its last revision is 5; use a revision from 3 to 5"),
	)

	It("should return the differences between two revisions and two databases", func() {
		write := func(store mvcc.KV) {
			store.Put([]byte("/changed"), []byte("1"), lease.NoLease)
			store.Put([]byte("/recreated"), []byte("1"), lease.NoLease)
			store.Put([]byte("/removed"), []byte("1"), lease.NoLease)
			store.Put([]byte("/same"), []byte("1"), lease.NoLease)
			store.Put([]byte("/other"), []byte("1"), lease.NoLease)
		}
		before := create(0, write)
		after := create(0, func(store mvcc.KV) {
			write(store)
			store.Put([]byte("/added"), []byte("1"), lease.NoLease)
			store.Put([]byte("/changed"), []byte("2"), lease.NoLease)
			store.DeleteRange([]byte("/recreated"), nil)
			store.Put([]byte("/recreated"), []byte("1"), lease.NoLease)
			store.DeleteRange([]byte("/removed"), nil)
			store.Put([]byte("/same"), []byte("1"), lease.NoLease) // another version
			store.Put([]byte("/z"), []byte("1"), lease.NoLease)
		})
		diff := func(a, b *inspect.Database, first, second keys.Selection) (changes []string) {
			Expect(keys.Diff(a, b, first, second, func(change keys.Change) error {
				entry := change.Before
				if entry == nil {
					entry = change.After
				}
				changes = append(changes, change.Change+" "+entry.Key)

				return nil
			})).To(Succeed())

			return changes
		}
		Expect(view(before, func(a *inspect.Database) error {
			return view(after, func(b *inspect.Database) error {
				all := []string{"added /added", "changed /changed", "changed /recreated", "removed /removed", "added /z"}
				Expect(diff(a, b, keys.Selection{}, keys.Selection{})).To(Equal(all))
				Expect(diff(b, b, keys.Selection{Revision: 6}, keys.Selection{})).To(Equal(all))
				Expect(diff(b, a, keys.Selection{}, keys.Selection{})).To(Equal(
					[]string{"removed /added", "changed /changed", "changed /recreated", "added /removed", "removed /z"}))
				Expect(diff(a, b, keys.Selection{Prefix: "/r"}, keys.Selection{})).To(Equal([]string{"changed /recreated", "removed /removed"}))
				Expect(diff(a, a, keys.Selection{}, keys.Selection{})).To(BeEmpty())
				Expect(keys.Diff(a, b, keys.Selection{Revision: 99}, keys.Selection{}, nil)).To(MatchError(keys.ErrRevision))
				Expect(keys.Diff(a, b, keys.Selection{}, keys.Selection{Revision: 99}, nil)).To(MatchError(keys.ErrRevision))

				return nil
			})
		})).To(Succeed())
	})

	It("should return the prefixes that use the most space, with their history", func() {
		path := create(0, func(store mvcc.KV) {
			for i := range 3 {
				store.Put(fmt.Appendf(nil, "/registry/pods/ns/%d", i), make([]byte, 1000), lease.NoLease)
			}
			for range 10 {
				store.Put([]byte("/registry/leases/ns/a"), make([]byte, 500), lease.NoLease)
			}
			store.Put([]byte("/registry/secrets/ns/a"), make([]byte, 100), lease.NoLease)
			store.DeleteRange([]byte("/registry/secrets/ns/a"), nil)
			store.Put([]byte("plain"), nil, lease.NoLease)
			store.Put([]byte("relative/key"), nil, lease.NoLease)
			store.Put([]byte("/registry/"+strings.Repeat("x", 300)+"/a"), nil, lease.NoLease)
		})
		_, err := modify.Bump(path, 100, 0, zap.NewNop()) // its record has no key
		Expect(err).NotTo(HaveOccurred())
		Expect(view(path, func(database *inspect.Database) error {
			usage, err := keys.Prefixes(database, 2, 2)
			Expect(err).NotTo(HaveOccurred())
			Expect(usage.Prefixes).To(HaveLen(2))
			Expect(usage.Others).To(Equal(4))
			Expect(usage.FileBytes).To(BeNumerically(">", 10_000))
			Expect(usage.Prefixes[0]).To(And(HaveField("Prefix", "/registry/leases/"), HaveField("Keys", int64(1)), HaveField("History", int64(9)),
				HaveField("Bytes", BeNumerically("~", 530, 10)), HaveField("HistoryBytes", BeNumerically("~", 9*530, 90))))
			Expect(usage.Prefixes[1]).To(And(HaveField("Prefix", "/registry/pods/"), HaveField("Keys", int64(3)), HaveField("History", int64(0)),
				HaveField("HistoryBytes", int64(0))))

			usage, err = keys.Prefixes(database, 1, 10)
			Expect(err).NotTo(HaveOccurred())
			Expect(usage.Prefixes).To(HaveExactElements(HaveField("Prefix", "/registry/"), HaveField("Prefix", "relative/"), HaveField("Prefix", "")))
			Expect(usage.Prefixes[0]).To(And(HaveField("Keys", int64(5)), HaveField("History", int64(11))))

			usage, err = keys.Prefixes(database, 5, 10)
			Expect(err).NotTo(HaveOccurred())
			Expect(usage.Prefixes).To(ContainElement(HaveField("Prefix", "/registry/pods/ns/")))
			for _, prefix := range usage.Prefixes {
				Expect(len(prefix.Prefix)).To(BeNumerically("<=", 128))
			}

			return nil
		})).To(Succeed())
	})
})
