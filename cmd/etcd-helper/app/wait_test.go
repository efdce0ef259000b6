// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app_test

import (
	"bytes"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/app"
)

var _ = Describe("wait", func() {
	var out, errOut *bytes.Buffer
	BeforeEach(func() { out, errOut = &bytes.Buffer{}, &bytes.Buffer{} })

	It("should end after its time", func() {
		Expect(app.Run(out, errOut, []string{"wait", "--for=1ms"})).To(Equal(app.ExitOK), errOut.String())
		Expect(out.String() + errOut.String()).To(BeEmpty())
	})

	DescribeTable("should reject wrong flags",
		func(text string, args ...string) {
			Expect(app.Run(out, errOut, append([]string{"wait"}, args...))).To(Equal(app.ExitFailed))
			Expect(errOut.String()).To(ContainSubstring(text))
		},
		Entry("no time", `"for" not set`),
		Entry("a negative time", "--for is -1s: use a positive duration", "--for=-1s"),
		Entry("an argument", "unknown command", "--for=1s", "get"),
	)
})
