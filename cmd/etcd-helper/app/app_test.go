// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/app"
)

var _ = Describe("inspect", func() {
	var (
		dir, db, messagePath string
		out, errOut          *bytes.Buffer
	)

	run := func(args ...string) int { return app.Run(out, errOut, append([]string{"inspect"}, args...)) }
	message := func() string {
		GinkgoHelper()
		content, err := os.ReadFile(messagePath)
		Expect(err).NotTo(HaveOccurred())

		return string(content)
	}

	BeforeEach(func() {
		dir, out, errOut = GinkgoT().TempDir(), &bytes.Buffer{}, &bytes.Buffer{}
		db, messagePath = filepath.Join(dir, "member", "snap", "db"), filepath.Join(dir, "termination-log")
		Expect(os.MkdirAll(filepath.Dir(db), 0o700)).To(Succeed())
		Expect(os.WriteFile(messagePath, []byte("an earlier and longer message"), 0o600)).To(Succeed()) // the kubelet creates the file
	})

	It("should write the result to stdout and to the termination message", func() {
		b := backend.NewDefaultBackend(zap.NewNop(), db)
		store := mvcc.NewStore(zap.NewNop(), b, nil, mvcc.StoreConfig{})
		store.Put([]byte("key"), []byte("value"), 0)
		Expect(store.Close()).To(Succeed())
		Expect(b.Close()).To(Succeed())

		Expect(run("--data-dir="+dir, "--termination-message-path="+messagePath)).To(Equal(app.ExitOK), errOut.String())
		Expect(message()).To(MatchRegexp(`^\{"revision":2,"keys":1,"hash":\d+\}$`))
		Expect(out.String()).To(Equal(message() + "\n"))
		Expect(errOut.String()).To(BeEmpty())
	})

	It("should write an error to stderr and to the termination message, and distinguish it by the exit code", func() {
		empty := filepath.Join(dir, "empty")
		Expect(run("--data-dir="+empty, "--termination-message-path="+messagePath)).To(Equal(app.ExitNoFiles))
		Expect(message()).To(Equal("no files: " + empty + " is empty or does not exist"))
		Expect(errOut.String()).To(Equal("etcd-helper: " + message() + "\n"))
		Expect(out.String()).To(BeEmpty())

		Expect(os.WriteFile(db, nil, 0o600)).To(Succeed())
		Expect(run("--data-dir="+dir, "--termination-message-path="+messagePath)).To(Equal(app.ExitNoDatabase))
		Expect(message()).To(Equal("no database: " + db + " is empty"))

		Expect(os.WriteFile(db, []byte(strings.Repeat("something else", 1000)), 0o600)).To(Succeed())
		Expect(run("--data-dir="+dir, "--termination-message-path="+messagePath)).To(Equal(app.ExitCorrupt))
		Expect(message()).To(HavePrefix("the database is corrupt: opening " + db))
	})

	It("should fail if the termination message cannot be written", func() {
		Expect(run("--data-dir="+dir, "--termination-message-path="+filepath.Join(dir, "missing", "file"))).NotTo(Equal(app.ExitOK))
		Expect(errOut.String()).To(ContainSubstring("writing the termination message"))
	})

	DescribeTable("should reject wrong arguments",
		func(named string, args ...string) {
			Expect(app.Run(out, errOut, args)).To(Equal(app.ExitFailed))
			Expect(errOut.String()).To(ContainSubstring(named))
		},
		Entry("no data directory", "[data-dir snapshots]", "inspect"),
		Entry("an unknown flag", "--other", "inspect", "--other"),
		Entry("an argument", "argument", "inspect", "--data-dir=x", "argument"),
		Entry("an unknown command", "other", "other"),
	)
})
