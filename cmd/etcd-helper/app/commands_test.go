// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/app"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

// maxMessage is the size of a termination message that the kubelet reads.
const maxMessage = 4096

var _ = Describe("the commands", func() {
	var (
		root, messagePath string
		reported          recorded.Reported
		out, errOut       *bytes.Buffer
	)
	run := func(args ...string) int {
		out, errOut = &bytes.Buffer{}, &bytes.Buffer{}

		return app.Run(out, errOut, args)
	}
	path := func(elements ...string) string { return filepath.Join(append([]string{root}, elements...)...) }
	result := func() (found map[string]any) {
		GinkgoHelper()
		Expect(json.Unmarshal(out.Bytes(), &found)).To(Succeed())

		return found
	}
	message := func() string {
		GinkgoHelper()
		content, err := os.ReadFile(messagePath)
		Expect(err).NotTo(HaveOccurred())
		Expect(len(content)).To(BeNumerically("<=", maxMessage))

		return string(content)
	}

	BeforeEach(func() {
		root = GinkgoT().TempDir()
		messagePath = path("termination-log")
		Expect(os.WriteFile(messagePath, nil, 0o600)).To(Succeed())
		Expect(recorded.Unpack("v3.5.27", root, "store", "killed", "restored")).To(Succeed())
		var err error
		reported, err = recorded.Read("v3.5.27")
		Expect(err).NotTo(HaveOccurred())
	})

	It("should verify a store and a restore, and then read the keys of the revision", func() {
		point := reported.Points.Compacted
		Expect(run("replay", "--snapshots="+path("store"), "--output="+path("db"), fmt.Sprint("--revision=", point.Revision), fmt.Sprint("--live-revision=", point.Revision),
			fmt.Sprint("--live-hash=", point.Hash), fmt.Sprint("--live-compact-revision=", point.CompactRevision),
			"--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(result()).To(And(HaveKeyWithValue("revision", BeEquivalentTo(point.Revision)), HaveKeyWithValue("storeVerified", true)))
		Expect(message() + "\n").To(Equal(out.String()))
		hash := result()["hash"]
		Expect(run("compare", "--database="+path("db"), "--restored="+path("restored"), "--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(result()).To(And(HaveKeyWithValue("hash", hash), HaveKeyWithValue("restoreVerified", true)))
		Expect(message() + "\n").To(Equal(out.String()))

		Expect(run("get", "--database="+path("db"), "/registry/created", "--output=raw")).To(Equal(app.ExitOK), errOut.String())
		Expect(out.String()).To(Equal("later"))
		Expect(run("get", "--database="+path("db"), "/registry/created")).To(Equal(app.ExitOK))
		Expect(out.String()).To(Equal("/registry/created\t29\t1\t5\n"))
		Expect(run("get", "--database="+path("db"), "/registry/created", "--revision=28")).To(Equal(app.ExitNotFound))
		Expect(out.String()).To(BeEmpty())
		Expect(run("get", "--database="+path("db"), "/registry/created", "--revision=99")).To(Equal(app.ExitUnavailable))

		Expect(run("list", "--database="+path("db"), "/registry/secrets/", "--values")).To(Equal(app.ExitOK))
		Expect(out.String()).To(Equal("/registry/secrets/binary\t17\t1\t3\t\"\\x01\\xff\\x02\"\n"))
		Expect(run("list", "--database="+path("db"), "-o", "json", "--limit=2")).To(Equal(app.ExitOK))
		Expect(strings.Split(strings.TrimSpace(out.String()), "\n")).To(HaveExactElements(
			`{"key":"/registry/a","createRevision":28,"modRevision":30,"version":2,"bytes":7}`, HavePrefix(`{"key":"/registry/`)))
		Expect(run("export", "--database="+path("db"), "/registry/secrets/")).To(Equal(app.ExitOK))
		Expect(out.String()).To(Equal(`{"key":"/registry/secrets/binary","createRevision":17,"modRevision":17,"version":1,"bytes":3,"value":"Af8C"}` + "\n"))

		Expect(run("diff", "--database="+path("db"), "--revision=28", "--other-revision=30", "/registry/")).To(Equal(app.ExitOK))
		Expect(out.String()).To(Equal("< /registry/a\t28\t1\t1\n> /registry/a\t30\t2\t7\n+ /registry/created\t29\t1\t5\n"))
		Expect(run("diff", "--database="+path("db"), "--other-database="+path("restored", "member", "snap", "db"))).To(Equal(app.ExitOK))
		Expect(out.String()).To(BeEmpty())
		Expect(run("diff", "--database="+path("db"), "--revision=30", "--other-revision=28", "-o", "json", "/registry/c")).To(Equal(app.ExitOK))
		Expect(out.String()).To(Equal(`{"change":"removed","before":{"key":"/registry/created","createRevision":29,"modRevision":29,"version":1,"bytes":5}}` + "\n"))
	})

	It("should replay to a time", func() {
		Expect(run("replay", "--snapshots="+path("store"), "--output="+path("db"), "--time="+reported.Points.BeforeTime.Time.Format("2006-01-02T15:04:05.999Z"))).To(Equal(app.ExitOK), errOut.String())
		Expect(result()).To(HaveKeyWithValue("revision", BeEquivalentTo(reported.Points.BeforeTime.Revision)))
	})

	It("should extract a member, whose snapshot can be replayed and increased", func() {
		Expect(os.MkdirAll(path("new", "v2"), 0o700)).To(Succeed())
		Expect(run("extract", "--data-dir="+path("killed"), "--store-dir="+path("new", "v2"), "--gzip", "--clear-alarms", "--work-dir="+root,
			"--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(result()).To(HaveKeyWithValue("hash", BeEquivalentTo(reported.Killed.Hash)))
		Expect(errOut.String()).To(BeEmpty()) // requests in the log contain keys
		Expect(message() + "\n").To(Equal(out.String()))

		Expect(run("replay", "--snapshots="+path("new"), "--output="+path("db"))).To(Equal(app.ExitOK), errOut.String())
		Expect(result()).To(HaveKeyWithValue("hash", BeEquivalentTo(reported.Killed.Hash)))
		Expect(run("bump", "--database="+path("db"), "--by=1000000000")).To(Equal(app.ExitOK), errOut.String())
		Expect(out.String()).To(Equal("{\"revision\":1000000059}\n"))
		Expect(run("clear-alarms", "--database="+path("db"))).To(Equal(app.ExitOK), errOut.String())
		Expect(out.String()).To(Equal("{\"clearedAlarms\":0}\n"))
	})

	It("should inspect the snapshots, and shorten the termination message", func() {
		Expect(run("inspect", "--snapshots="+path("store"), "--work-dir="+root, "--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(result()["sets"]).To(HaveLen(2))
		full := out.String()
		Expect(message() + "\n").To(Equal(full))

		// More snapshots than a termination message can list.
		sets, err := snapshots.Sets(path("store"))
		Expect(err).NotTo(HaveOccurred())
		content, err := os.ReadFile(sets[1].Deltas[0].Path)
		Expect(err).NotTo(HaveOccurred())
		for i := range 60 {
			Expect(os.WriteFile(path("store", fmt.Sprintf("Full-00000000-%08d-%d", 100+i, i)), content, 0o600)).To(Succeed())
		}
		Expect(run("inspect", "--snapshots="+path("store"), "--work-dir="+root, "--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(len(out.Bytes())).To(BeNumerically(">", maxMessage))
		short := struct {
			Sets []struct {
				Full       string `json:"full"`
				DeltaCount int    `json:"deltaCount"`
			} `json:"sets"`
			Omitted int `json:"omitted"`
		}{}
		Expect(json.Unmarshal([]byte(message()), &short)).To(Succeed())
		Expect(short.Omitted + len(short.Sets)).To(Equal(62))
		Expect(short.Sets[len(short.Sets)-1].Full).To(Equal("Full-00000000-00000159-59"))
	})

	It("should print the largest prefixes, and shorten the termination message", func() {
		db := path("many")
		b := backend.NewDefaultBackend(zap.NewNop(), db)
		store := mvcc.NewStore(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
		for i := range 60 {
			store.Put([]byte(fmt.Sprintf("/registry/%060d/a", i)), make([]byte, i), lease.NoLease)
		}
		Expect(store.Close()).To(Succeed())
		Expect(b.Close()).To(Succeed())

		Expect(run("prefixes", "--database="+db, "--limit=50", "--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(result()["prefixes"]).To(HaveLen(50))
		short := struct {
			Prefixes []struct {
				Prefix string `json:"prefix"`
			} `json:"prefixes"`
			Others int `json:"others"`
		}{}
		Expect(json.Unmarshal([]byte(message()), &short)).To(Succeed())
		Expect(short.Prefixes[0].Prefix).To(Equal(fmt.Sprintf("/registry/%060d/", 59)))
		Expect(short.Others + len(short.Prefixes)).To(Equal(60))

		Expect(run("prefixes", "--data-dir="+path("killed"), "--segments=1")).To(Equal(app.ExitOK), errOut.String())
		Expect(result()["prefixes"]).To(HaveExactElements(HaveKeyWithValue("prefix", "/registry/")))
	})

	It("should cut a long error at a character", func() {
		Expect(run("replay", "--snapshots="+path("store"), "--output="+path("db"), "--time="+strings.Repeat("ä", 3000), "--termination-message-path="+messagePath)).To(Equal(app.ExitFailed))
		Expect(message()).To(HavePrefix("--time: "))
		Expect(strings.ToValidUTF8(message(), "")).To(Equal(message()))
	})

	DescribeTable("should exit with a code of their own",
		func(expected int, text string, prepare func(), args ...string) {
			if prepare != nil {
				prepare()
			}
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "ROOT", root)
			}
			Expect(run(args...)).To(Equal(expected))
			Expect(errOut.String()).To(ContainSubstring(text))
			Expect(out.String()).To(BeEmpty())
		},
		Entry("for a damaged snapshot", app.ExitDamaged, "is damaged", func() { overwrite(root, "store/etcd/v2/Incr-00000018-*") }, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--revision=47"),
		Entry("for missing events", app.ExitGap, "events are missing", func() { remove(root, "store/etcd/v2/Incr-00000018-*") }, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--revision=47"),
		Entry("for a revision that is not available", app.ExitUnavailable, "available revisions", nil, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--revision=99"),
		Entry("for another hash", app.ExitHashDiffers, "differs from the live etcd", nil,
			"replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--live-revision=47", "--live-hash=1", "--live-compact-revision=44"),
		Entry("for another restored database", app.ExitRestoreDiffers, "differs from the snapshots", nil,
			"compare", "--database=ROOT/killed/member/snap/db", "--restored=ROOT/restored"),
		Entry("without a restored database", app.ExitNoFiles, "no files", nil, "compare", "--database=ROOT/killed/member/snap/db", "--restored=ROOT/missing"),
		Entry("without a full snapshot", app.ExitNoSnapshot, "no full snapshot", nil, "replay", "--snapshots=ROOT/killed", "--output=ROOT/db"),
		Entry("without a log", app.ExitLog, "no write-ahead log", nil, "extract", "--data-dir=ROOT/restored", "--store-dir=ROOT"),
		Entry("for an output that exists", app.ExitFailed, "--output", nil, "replay", "--snapshots=ROOT/store", "--output=ROOT/termination-log"),
		Entry("for a hash of a compacted revision", app.ExitFailed, "use a revision that etcd has not compacted", nil,
			"replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--live-hash=1", "--live-compact-revision=44", "--live-revision=44"),
		Entry("for a hash without its compact revision", app.ExitFailed, "live-compact-revision", nil, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--live-hash=1"),
		Entry("for a wrong time", app.ExitFailed, "use a time in the form", nil, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--time=yesterday"),
		Entry("for a revision and a time", app.ExitFailed, "[revision time]", nil, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--time=x", "--revision=3"),
		Entry("for a negative revision", app.ExitFailed, "use a positive number", nil, "replay", "--snapshots=ROOT/store", "--output=ROOT/db", "--revision=-3"),
		Entry("for an unknown format", app.ExitFailed, "--output=yaml", nil, "list", "--database=ROOT/restored/member/snap/db", "-o", "yaml"),
		Entry("for the format raw of a list", app.ExitFailed, "--output=raw", nil, "list", "--database=ROOT/restored/member/snap/db", "-o", "raw"),
		Entry("for a decreased revision", app.ExitFailed, "use a positive number", nil, "bump", "--database=ROOT/restored/member/snap/db", "--by=-1"),
		Entry("for no prefixes", app.ExitFailed, "--limit is 0", nil, "prefixes", "--database=ROOT/restored/member/snap/db", "--limit=0"),
		Entry("without a database", app.ExitNoDatabase, "no database", nil, "list", "--database=ROOT/missing"),
	)
})

// find returns the only file with the pattern.
func find(root, pattern string) string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(HaveLen(1))

	return found[0]
}

func remove(root, pattern string) {
	GinkgoHelper()
	Expect(os.Remove(find(root, pattern))).To(Succeed())
}

// overwrite flips a bit in the middle of a file.
func overwrite(root, pattern string) {
	GinkgoHelper()
	path := find(root, pattern)
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	content[len(content)/2] ^= 1
	Expect(os.WriteFile(path, content, 0o600)).To(Succeed()) // #nosec G703 -- a path in the directory of the test
}
