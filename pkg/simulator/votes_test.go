// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"cmp"
	"fmt"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

var _ = Describe("Gap", func() {
	page, err := os.ReadFile("../../docs/operations/changes.md")

	DescribeTable("is documented", func(step string, gap simulator.Gap) {
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(ContainSubstring(fmt.Sprintf("| %s | %s | %s |\n", step, gap.Any, cmp.Or(gap.Connected, gap.Any))))
	},
		Entry("of the leadership", "The leadership moves, or a learner is promoted", simulator.GapOfMembership),
		Entry("of a removal", "A member is removed", simulator.GapOfRemoval),
		Entry("of a restart", "A single member restarts", simulator.GapOfRestart),
	)
})

var _ = Describe("Votes", func() {
	DescribeTable("contain the quorum calculation", func(healthy, voting int, expected string) {
		Expect(simulator.Votes{Healthy: healthy, Voting: voting}.String()).To(Equal(expected))
	},
		Entry("of one member", 1, 1, "1 of 1 healthy, quorum 1, tolerance 0"),
		Entry("of two members", 2, 2, "2 of 2 healthy, quorum 2, tolerance 0"),
		Entry("of four members", 4, 4, "4 of 4 healthy, quorum 3, tolerance 1"),
		Entry("of five members of which one failed", 4, 5, "4 of 5 healthy, quorum 3, tolerance 1"),
		Entry("without a quorum", 1, 3, "1 of 3 healthy, no quorum"),
	)
})
