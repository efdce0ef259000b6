// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
)

// run runs the plugin without a cluster, and returns its exit code and what it prints.
func run(args ...string) (int, string) {
	GinkgoHelper()
	out := &bytes.Buffer{}
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out}
	args = append([]string{"--kubeconfig", filepath.Join(GinkgoT().TempDir(), "none")}, args...)

	return app.Run(context.Background(), streams, args), out.String()
}

var _ = Describe("The command line", func() {
	DescribeTable("ends with the code for", func(code int, says string, args ...string) {
		actual, text := run(args...)
		Expect(actual).To(Equal(code), text)
		Expect(text).To(ContainSubstring(says))
	},
		Entry("what is done: help", 0, "kubectl etcd", "--help"),
		Entry("what is done: its version", 0, "kubectl etcd version v", "--version"),
		Entry("what cannot be done: no cluster", 1, "error: ", "status", "-n", "demo"),
		Entry("an unknown command, and names the help", 2, "See kubectl etcd --help.", "stauts"),
		Entry("an unknown flag", 2, "unknown flag: --color", "status", "--color"),
		Entry("two names", 2, "one name of an Etcd is expected, not 2: a b", "status", "a", "b"),
		Entry("arguments of etcdctl without a dash", 2, "follow --", "ctl", "member", "list"),
		Entry("an adoption that is not a dry run", 2, "dry-run", "adopt", "main"),
		Entry("an unknown format", 2, "yml", "status", "-o", "yml"),
	)

	It("writes no control character of its input to the terminal", func() {
		_, text := run("status", "\x1b[2J\x07main", "b\u009b31m\u202e\xff")
		Expect(text).To(ContainSubstring(`\u001b[2J\u0007main b\u009b31m\u202e\ufffd`))
	})

	It("completes its commands", func() {
		code, text := run("__complete", "")
		Expect(code).To(Equal(0))
		for _, command := range strings.Fields("status plan why adopt logs ctl snapshot compact defrag reconcile suspend resume protect unprotect report hibernate wake rotate-ca restore recover accept-revision replace-volume release-store skip-final-snapshot require-final-snapshot disable-peer-tls") {
			Expect("\n" + text).To(ContainSubstring("\n" + command + "\t"))
		}
	})
})
