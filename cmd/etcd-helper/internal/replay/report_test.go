// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/zap"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/recorded"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/replay"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/snapshots"
)

var _ = Describe("Inspect", func() {
	for _, version := range recorded.Versions {
		Describe("of the store of etcd "+version, func() {
			var (
				store, work string
				sets        []snapshots.Set
			)
			BeforeEach(func() {
				root := GinkgoT().TempDir()
				Expect(recorded.Unpack(version, root, "store")).To(Succeed())
				store, work = filepath.Join(root, "store"), GinkgoT().TempDir()
				var err error
				sets, err = snapshots.Sets(store)
				Expect(err).NotTo(HaveOccurred())
			})

			It("should return the revisions and the leases of all snapshots", func() {
				report, err := replay.Inspect(store, work, zap.NewNop())
				Expect(err).NotTo(HaveOccurred())
				Expect(report.Sets).To(HaveLen(2))
				first, second := report.Sets[0], report.Sets[1]
				Expect(first).To(And(HaveField("BaseRevision", int64(17)), HaveField("BaseCompactRevision", int64(0)), HaveField("Revision", int64(47)), HaveField("Problem", "")))
				Expect(second).To(And(HaveField("BaseRevision", int64(48)), HaveField("BaseCompactRevision", int64(44)), HaveField("Revision", int64(52)), HaveField("DeltaCount", 1)))
				reported, err := recorded.Read(version)
				Expect(err).NotTo(HaveOccurred())
				Expect(second.Hash).To(Equal(reported.Points.Last.Hash))
				Expect(first.Keys).To(Equal(int64(len(reported.Points.Compacted.Keys))))
				leased := 0
				for _, delta := range first.Deltas {
					leased += delta.Leased
					Expect(*delta.FirstTime).NotTo(BeTemporally(">", *delta.LastTime))
				}
				Expect(leased).To(Equal(1))
				Expect(*first.Time).To(BeTemporally("==", *first.Deltas[len(first.Deltas)-1].LastTime))
				Expect(os.ReadDir(work)).To(BeEmpty())
			})

			It("should return the problems of snapshots, and read the others", func() {
				content, err := os.ReadFile(sets[0].Deltas[1].Path)
				Expect(err).NotTo(HaveOccurred())
				content[len(content)/2] ^= 1
				Expect(os.WriteFile(sets[0].Deltas[1].Path, content, 0o600)).To(Succeed())
				Expect(os.WriteFile(sets[1].Full.Path, content, 0o600)).To(Succeed())

				report, err := replay.Inspect(store, work, zap.NewNop())
				Expect(err).NotTo(HaveOccurred())
				Expect(report.Sets[0]).To(And(HaveField("Revision", int64(28)), HaveField("Problem", ContainSubstring("the snapshot is damaged"))))
				Expect(report.Sets[0].Deltas[1].Problem).To(ContainSubstring("the snapshot is damaged"))
				Expect(report.Sets[0].Deltas[2].Problem).To(BeEmpty())
				Expect(report.Sets[1]).To(And(HaveField("Revision", int64(0)), HaveField("Problem", ContainSubstring(sets[1].Full.String()))))
			})

			It("should shorten the report until only the newest full snapshot remains", func() {
				report, err := replay.Inspect(store, work, zap.NewNop())
				Expect(err).NotTo(HaveOccurred())
				newest := report.Sets[1].Full
				Expect(report.Shorten()).To(BeTrue())
				Expect(report.Sets).To(HaveEach(HaveField("Deltas", BeNil())))
				Expect(report.Shorten()).To(BeTrue())
				Expect(report.Sets).To(HaveExactElements(HaveField("Full", newest)))
				Expect(report.Omitted).To(Equal(1))
				Expect(report.Shorten()).To(BeFalse())
			})
		})
	}
})
