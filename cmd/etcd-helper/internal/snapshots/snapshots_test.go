// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package snapshots_test

import (
	"bytes"
	"compress/gzip"
	"compress/lzw"
	"compress/zlib"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

var _ = Describe("ParseName", func() {
	created := time.Unix(1795645652, 0).UTC()

	DescribeTable("should return the parts of a name, from which the name can be built",
		func(name string, expected snapshots.Name) {
			found, isSnapshot := snapshots.ParseName(name)
			Expect(isSnapshot).To(BeTrue())
			Expect(found).To(Equal(expected))
			Expect(found.String()).To(Equal(name))
		},
		Entry("of a full snapshot", "Full-00000000-00000017-1795645652", snapshots.Name{Kind: snapshots.Full, Last: 17, Created: created}),
		Entry("of a compressed delta snapshot", "Incr-00000018-00000028-1795645652.gz",
			snapshots.Name{Kind: snapshots.Delta, First: 18, Last: 28, Created: created, Compression: ".gz"}),
		Entry("of a final snapshot", "Full-00000000-00000017-1795645652.final", snapshots.Name{Kind: snapshots.Full, Last: 17, Created: created, Final: true}),
		Entry("of a compressed final snapshot", "Full-00000000-00000017-1795645652.zlib.final",
			snapshots.Name{Kind: snapshots.Full, Last: 17, Created: created, Compression: ".zlib", Final: true}),
		Entry("with a revision of more digits", "Full-00000000-1000000017-1795645652.Z",
			snapshots.Name{Kind: snapshots.Full, Last: 1000000017, Created: created, Compression: ".Z"}),
	)

	DescribeTable("should reject other files",
		func(name string) {
			_, isSnapshot := snapshots.ParseName(name)
			Expect(isSnapshot).To(BeFalse())
		},
		Entry("another kind", "Other-00000000-00000017-1795645652"),
		Entry("without a time", "Full-00000000-00000017"),
		Entry("with descending revisions", "Incr-00000028-00000018-1795645652"),
		Entry("with another compression", "Full-00000000-00000017-1795645652.zip"),
		Entry("with a number that is too large", "Full-00000000-99999999999999999999-1795645652"),
	)
})

var _ = Describe("Sets", func() {
	It("should sort by the last revision and ignore other files", func() {
		dir := GinkgoT().TempDir()
		for _, name := range []string{
			"Incr-00000001-00000002-100", // before the first full snapshot
			"v2/Full-00000000-00000010-200.gz", "v2/Incr-00000011-00000020-300", "v2/Incr-00000021-00000030-400", "Full-00000000-00000025-350.final",
			"v2/Full-00000000-00000040-500/0000000001", "v2/other", "v1/Backup-1/Incr-00000031-00000033-500",
		} {
			path := filepath.Join(dir, name)
			Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
			Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		}

		sets, err := snapshots.Sets(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(namesOf(sets)).To(Equal([][]string{
			{"Full-00000000-00000010-200.gz", "Incr-00000011-00000020-300"},
			{"Full-00000000-00000025-350.final", "Incr-00000021-00000030-400", "Incr-00000031-00000033-500"},
		}))
	})

	It("should return ErrNone without a full snapshot", func() {
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "Incr-00000001-00000002-100"), nil, 0o600)).To(Succeed())
		_, err := snapshots.Sets(dir)
		Expect(err).To(MatchError(snapshots.ErrNone))
		Expect(err).To(MatchError(ContainSubstring(dir)))
	})

	It("should not return ErrNone if the directory cannot be read", func() {
		_, err := snapshots.Sets(filepath.Join(GinkgoT().TempDir(), "missing"))
		Expect(err).To(MatchError(os.ErrNotExist))
		Expect(err).NotTo(MatchError(snapshots.ErrNone))
	})
})

func namesOf(sets []snapshots.Set) (names [][]string) {
	for _, set := range sets {
		list := []string{set.Full.String()}
		for _, delta := range set.Deltas {
			list = append(list, delta.String())
		}
		names = append(names, list)
	}

	return names
}

var _ = Describe("File", func() {
	for _, version := range recorded.Versions {
		Describe("of the sidecar for etcd "+version, func() {
			var set snapshots.Set

			BeforeEach(func() {
				dir := GinkgoT().TempDir()
				Expect(recorded.Unpack(version, dir, "store")).To(Succeed())
				sets, err := snapshots.Sets(filepath.Join(dir, "store"))
				Expect(err).NotTo(HaveOccurred())
				Expect(sets).To(HaveLen(2))
				set = sets[0]
			})

			It("should return the events with leases and the times at which the sidecar received them", func() {
				var events []snapshots.Event
				for _, delta := range set.Deltas {
					some, err := delta.Events()
					Expect(err).NotTo(HaveOccurred())
					Expect(some[0].Event.Kv.ModRevision).To(Equal(delta.First))
					Expect(some[len(some)-1].Event.Kv.ModRevision).To(Equal(delta.Last))
					events = append(events, some...)
				}
				expiration, leased := 0, 0
				for _, event := range events {
					Expect(event.Time).To(BeTemporally("~", set.Full.Created, time.Minute))
					if string(event.Event.Kv.Key) == "/registry/masterleases/10.0.0.1" {
						Expect(event.Event.Type).To(Equal(mvccpb.DELETE))
						expiration++
					}
					if string(event.Event.Kv.Key) == "/registry/leased" {
						Expect(event.Event.Kv.Lease).NotTo(BeZero())
						leased++
					}
				}
				Expect(expiration).To(Equal(1))
				Expect(leased).To(Equal(1))
			})

			It("should return the database of a full snapshot without the hash", func() {
				path := filepath.Join(GinkgoT().TempDir(), "db")
				Expect(set.Full.Database(path)).To(Succeed())
				info, err := os.Stat(path)
				Expect(err).NotTo(HaveOccurred())
				Expect(info.Size() % 4096).To(BeZero())
			})

			It("should not replace an existing file", func() {
				path := filepath.Join(GinkgoT().TempDir(), "db")
				Expect(os.WriteFile(path, []byte("other"), 0o600)).To(Succeed())
				Expect(set.Full.Database(path)).To(MatchError(os.ErrExist))
				Expect(os.ReadFile(path)).To(Equal([]byte("other")))
			})

			DescribeTable("should return ErrDamaged for any flipped byte, and no database",
				func(file func() *snapshots.File) {
					content, err := os.ReadFile(file().Path)
					Expect(err).NotTo(HaveOccurred())
					path := filepath.Join(GinkgoT().TempDir(), "db")
					for _, position := range []int{12, len(content) / 3, len(content) / 2, len(content) - 1} {
						damaged := bytes.Clone(content)
						damaged[position] ^= 0x10
						Expect(os.WriteFile(file().Path, damaged, 0o600)).To(Succeed())
						expectDamaged(*file(), path)
					}
				},
				Entry("in a full snapshot", func() *snapshots.File { return &set.Full }),
				Entry("in a delta snapshot", func() *snapshots.File { return &set.Deltas[0] }),
			)

			It("should return ErrDamaged if the content was changed before its compression", func() {
				for _, file := range []*snapshots.File{&set.Full, &set.Deltas[0]} {
					content := decompress(file.Path)
					content[len(content)/2] ^= 1
					file.Path = filepath.Join(GinkgoT().TempDir(), strings.TrimSuffix(filepath.Base(file.Path), ".gz"))
					file.Compression = ""
					Expect(os.WriteFile(file.Path, content, 0o600)).To(Succeed())
					expectDamaged(*file, file.Path+".db")
				}
			})

			It("should return ErrDamaged without a hash", func() {
				for _, file := range []*snapshots.File{&set.Full, &set.Deltas[0]} {
					content := decompress(file.Path)
					file.Compression = ""
					for _, size := range []int{0, sha256.Size, len(content) - sha256.Size} {
						Expect(os.WriteFile(file.Path, content[:size], 0o600)).To(Succeed())
						expectDamaged(*file, file.Path+".db")
					}
				}
			})
		})
	}

	DescribeTable("should read the compressions of the sidecar",
		func(extension string, compress func(io.Writer) io.WriteCloser) {
			events := []byte(`[{"etcdEvent":{"kv":{"key":"YQ==","create_revision":2,"mod_revision":2,"version":1,"value":"Yg==","lease":7}},"time":"2026-11-25T22:27:36Z"}]`)
			hash := sha256.Sum256(events)
			content := &bytes.Buffer{}
			writer := compress(content)
			_, err := writer.Write(append(bytes.Clone(events), hash[:]...))
			Expect(err).NotTo(HaveOccurred())
			Expect(writer.Close()).To(Succeed())
			path := filepath.Join(GinkgoT().TempDir(), "Incr-00000002-00000002-1"+extension)
			Expect(os.WriteFile(path, content.Bytes(), 0o600)).To(Succeed())
			name, _ := snapshots.ParseName(filepath.Base(path))

			found, err := snapshots.File{Name: name, Path: path}.Events()
			Expect(err).NotTo(HaveOccurred())
			Expect(found).To(HaveLen(1))
			Expect(*found[0].Event.Kv).To(Equal(mvccpb.KeyValue{Key: []byte("a"), Value: []byte("b"), CreateRevision: 2, ModRevision: 2, Version: 1, Lease: 7}))
		},
		Entry("gzip", ".gz", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		Entry("zlib", ".zlib", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }),
		Entry("lzw", ".Z", func(w io.Writer) io.WriteCloser { return lzw.NewWriter(w, lzw.LSB, 8) }),
	)
})

func expectDamaged(file snapshots.File, path string) {
	GinkgoHelper()
	var err error
	if file.Kind == snapshots.Full {
		err = file.Database(path)
		Expect(path).NotTo(BeAnExistingFile())
	} else {
		_, err = file.Events()
	}
	Expect(err).To(MatchError(snapshots.ErrDamaged))
	Expect(err).To(MatchError(ContainSubstring(filepath.Base(file.Path))))
}

func decompress(path string) []byte {
	GinkgoHelper()
	file, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	content, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	data, err := io.ReadAll(content)
	Expect(err).NotTo(HaveOccurred())

	return data
}
