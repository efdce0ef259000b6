// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// recordingOf returns the recording of a text in the notation of promtool. It begins at 10:00.
func recordingOf(series string) *Recording {
	GinkgoHelper()

	recording, err := ReadRecording(strings.NewReader("# The first sample is of 2026-01-02T10:00:00Z\nload 15s\n" + series))
	Expect(err).NotTo(HaveOccurred())

	return recording
}

var _ = Describe("A recording", func() {
	DescribeTable("writes samples in the shortest notation", func(samples, expected string) {
		recording := recordingOf("  up{} " + samples)
		Expect(encode(recording.Series[0].Samples)).To(Equal(expected))
	},
		Entry("one value", "7", "7"),
		Entry("a constant value", "1 1 1", "1x2"),
		Entry("a counter that increases evenly", "10 12 14 16", "10+2x3"),
		Entry("a value that decreases", "10 8 6", "10-2x2"),
		Entry("two values", "1 5", "1 5"),
		Entry("missing values", "_ _ 3 _", "_x2 3 _"),
		Entry("a series that ends", "3 3 stale", "3x1 stale"),
		Entry("fractions, which it does not add", "0.1 0.2 0.3", "0.1 0.2 0.3"),
		Entry("large values", "8589934592 8589934592", "8589934592x1"),
	)

	It("reads what it has written", func() {
		recording := recordingOf(`  up{pod="a"} 1x3 _ 0 stale` + "\n" + `  total{pod="b",le="+Inf"} 0+3x5 0.25`)

		var text bytes.Buffer
		_, err := recording.WriteTo(&text)
		Expect(err).NotTo(HaveOccurred())

		again, err := ReadRecording(bytes.NewReader(text.Bytes()))
		Expect(err).NotTo(HaveOccurred())
		Expect(again.Start).To(Equal(time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)))
		Expect(again.End()).To(Equal(recording.Start.Add(6 * interval)))

		var second bytes.Buffer
		_, err = again.WriteTo(&second)
		Expect(err).NotTo(HaveOccurred())
		Expect(second.String()).To(Equal(text.String()))
	})
})

var _ = Describe("The import of scrapes", func() {
	var directory string

	scrape := func(job, namespace, pod string, at time.Duration, text string) {
		GinkgoHelper()

		file := filepath.Join(directory, job, namespace, pod, fmt.Sprintf("%d.txt", time.Date(2026, 1, 2, 10, 0, 1, 0, time.UTC).Add(at).UnixMilli()))
		Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
	}

	imported := func(names *Names) string {
		GinkgoHelper()

		recording, err := Import(directory, map[string]bool{"ready": true}, names)
		Expect(err).NotTo(HaveOccurred())

		var text bytes.Buffer
		_, err = recording.WriteTo(&text)
		Expect(err).NotTo(HaveOccurred())

		return text.String()
	}

	BeforeEach(func() { directory = GinkgoT().TempDir() })

	It("adds the labels of the target, ends series that disappear, and omits other metrics", func() {
		scrape("operator", "seed", "operator-0", 0, "# TYPE ready gauge\nready{etcd_namespace=\"e2e-b-x\"} 1\nready{etcd_namespace=\"e2e-a-x\"} 1\nother 1\n")
		scrape("operator", "seed", "operator-0", 15*time.Second, "ready{etcd_namespace=\"e2e-b-x\"} 1\n")
		scrape("operator", "seed", "operator-0", 45*time.Second, "ready{etcd_namespace=\"e2e-b-x\"} 2\n")
		scrape("etcd", "e2e-a-x", "main-0", 15*time.Second, "ready 5\n")
		scrape("etcd", "e2e-a-x", "main-0", 30*time.Second, "")

		Expect(strings.Split(strings.TrimSpace(imported(&Names{})), "\n")).To(ConsistOf(
			"# The first sample is of 2026-01-02T10:00:00Z",
			"load 15s",
			`  ready{etcd_namespace="shoot--core--prod-eu",job="gardener-extension-etcd-druid",namespace="seed",pod="operator-0"} 1 stale`,
			`  ready{etcd_namespace="shoot--retail--prod-eu",job="gardener-extension-etcd-druid",namespace="seed",pod="operator-0"} 1x1 _ 2`,
			`  ready{job="etcd",namespace="shoot--core--prod-eu",pod="main-0"} _ 5 stale`,
		))
	})

	It("renames the namespaces in the output of a command, and keeps the columns of a list", func() {
		scrape("etcd", "e2e-a-x", "main-0", 0, "ready 5\n")
		scrape("etcd", "e2e-peer-tls-hibernated-x", "main-0", 0, "ready 5\n")

		names := &Names{}
		imported(names)

		Expect(names.Text("NAMESPACE                  NAME\ne2e-a-x                    main\ne2e-peer-tls-hibernated-x  main")).To(Equal(
			"NAMESPACE                  NAME\nshoot--core--prod-eu       main\nshoot--retail--prod-eu     main"))
		Expect(names.Text("ETCD  e2e-a-x/main")).To(Equal("ETCD  shoot--core--prod-eu/main"))
	})

	It("refuses a directory without scrapes", func() {
		_, err := Import(directory, nil, &Names{})
		Expect(err).To(MatchError(ContainSubstring("no scrapes")))
	})
})
