// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"errors"
	"net"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

var _ = Describe("An attempt of a workload to connect", func() {
	var reports []string

	report := func(text string) { reports = append(reports, text) }

	BeforeEach(func() { reports = nil })

	It("is reported if no connection is established", func() {
		_, err := framework.AttemptConnection("main-client", func() (net.Conn, error) { return nil, errors.New("refused") }, report)
		Expect(err).To(MatchError("refused"))
		Expect(reports).To(ConsistOf(ContainSubstring("the connection to main-client failed: refused after")))
	})

	It("is reported once if the connection ends without a response", func() {
		near, far := net.Pipe()
		connection, err := framework.AttemptConnection("main-client", func() (net.Conn, error) { return near, nil }, report)
		Expect(err).NotTo(HaveOccurred())
		Expect(far.Close()).To(Succeed())
		_, err = connection.Read(make([]byte, 1))
		Expect(err).To(HaveOccurred())
		Expect(connection.Close()).To(Succeed())
		Expect(reports).To(ConsistOf(ContainSubstring("the connection to main-client ended without a response: EOF after")))
	})

	It("is not reported if the response is fast", func() {
		near, far := net.Pipe()
		connection, err := framework.AttemptConnection("main-client", func() (net.Conn, error) { return near, nil }, report)
		Expect(err).NotTo(HaveOccurred())

		go func() { _, _ = far.Write([]byte{1}) }()

		Expect(connection.Read(make([]byte, 1))).To(Equal(1))
		Expect(connection.Close()).To(Succeed())
		Expect(reports).To(BeEmpty())
	})
})
