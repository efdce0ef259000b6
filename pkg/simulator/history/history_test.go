// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

var _ = Describe("A history", func() {
	write := func(position history.Position, count int) history.Position {
		for range count {
			position = position.Next()
		}

		return position
	}

	It("contains its earlier writes", func() {
		early := write(history.New(), 3)
		late := write(early, 2)
		Expect(late.Contains(early)).To(BeTrue())
		Expect(early.Contains(late)).To(BeFalse())
		Expect(history.Position{}.Contains(early)).To(BeFalse())
		Expect(late.Contains(history.Position{})).To(BeTrue())
	})

	It("knows two writes with the same revision apart after a restore", func() {
		snapshot := write(history.New(), 3)
		lost := write(snapshot, 2)
		restored := write(snapshot.Restored(), 5)
		Expect(restored.Revision).To(BeNumerically(">", lost.Revision))
		Expect(restored.Contains(snapshot)).To(BeTrue())
		Expect(restored.Contains(lost)).To(BeFalse())
		Expect(lost.Contains(restored)).To(BeFalse())
		Expect(write(restored.Restored(), 1).Contains(snapshot)).To(BeTrue(), "also after two restores")
		Expect(write(restored.Restored(), 1).Contains(lost)).To(BeFalse())
	})

	It("names acknowledged writes that nothing contains, until their loss is reported", func() {
		acknowledged := history.Acknowledged{}
		snapshot := write(history.New(), 3)
		acknowledged.Acknowledge(snapshot)
		acknowledged.Acknowledge(write(snapshot, 2))
		contained := func(by history.Position) func(history.Position) bool { return by.Contains }
		Expect(acknowledged.Lost(contained(write(snapshot, 2)))).To(BeEmpty())
		restored := snapshot.Restored()
		Expect(acknowledged.Lost(contained(restored))).To(ConsistOf(HaveField("Revision", int64(6))))

		acknowledged.Report(contained(restored))
		Expect(acknowledged.Lost(contained(restored))).To(BeEmpty())
		acknowledged.Acknowledge(write(restored, 1))
		Expect(acknowledged.Lost(contained(restored))).To(HaveLen(1), "a later loss is not reported")
	})

	DescribeTable("is kept by the voting members", func(want bool, revisions ...int64) {
		base := history.New()
		acknowledged := write(base, 4)
		var voters []history.Voter
		for _, revision := range revisions {
			position := base
			for position.Revision < revision {
				position = position.Next()
			}
			voters = append(voters, history.Voter{Position: position, Intact: revision > 0})
		}
		Expect(history.IsCommitted(acknowledged, voters)).To(Equal(want))
	},
		Entry("if all hold the write", true, int64(5), int64(5), int64(5)),
		Entry("if a quorum holds it", true, int64(5), int64(5), int64(1)),
		Entry("if one of the two intact ones holds it: the other one alone is no quorum", true, int64(5), int64(0), int64(1)),
		Entry("not if two of three do not hold it: they could elect a leader", false, int64(5), int64(1), int64(1)),
		Entry("not if none holds it", false, int64(0), int64(1), int64(0)),
	)
})

var _ = Describe("A store", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	It("restores the snapshot with the highest revision, as the sidecar does", func() {
		store, old := history.Store{}, history.New().Next().Next()
		_, err := store.Newest()
		Expect(err).To(MatchError(history.ErrEmpty))
		_, err = store.Add(old, now, false)
		Expect(err).NotTo(HaveOccurred())
		_, err = store.Add(old.Next(), now, true)
		Expect(err).NotTo(HaveOccurred())
		_, err = store.Add(history.New(), now.Add(time.Hour), false)
		Expect(err).NotTo(HaveOccurred())
		_, err = store.Add(history.New().At(9), now.Add(time.Hour), true)
		Expect(err).NotTo(HaveOccurred())
		newest, err := store.Newest()
		Expect(err).NotTo(HaveOccurred())
		Expect(newest.Position.Revision).To(Equal(int64(4)), "the newest in time has revision 1, and the delta snapshot with revision 9 continues another history")
		full, err := store.NewestFull()
		Expect(err).NotTo(HaveOccurred())
		Expect(full.Position.Revision).To(Equal(int64(3)))
	})

	It("accepts nothing and returns nothing while it is unreachable", func() {
		store := history.Store{}
		_, err := store.Add(history.New(), now, false)
		Expect(err).NotTo(HaveOccurred())
		store.Down = true
		_, err = store.Add(history.New().Next(), now, false)
		Expect(err).To(MatchError(history.ErrUnreachable))
		_, err = store.Newest()
		Expect(err).To(MatchError(history.ErrUnreachable))
		Expect(store.Contains(history.New())).To(BeFalse(), "another history")
		Expect(store.IsEmpty()).To(BeFalse())
	})

	It("is rolled back and emptied, and its snapshots are put back", func() {
		store, first := history.Store{}, history.New().Next()
		for _, position := range []history.Position{first, first.Next()} {
			_, err := store.Add(position, now, false)
			Expect(err).NotTo(HaveOccurred())
		}
		before := store.Clone()
		store.RollBack(1)
		Expect(store.Contains(first)).To(BeTrue())
		Expect(store.Contains(first.Next())).To(BeFalse())
		store.PutBack()
		store.RollBackTo(first.Revision)
		Expect(store.Contains(first)).To(BeTrue())
		Expect(store.Contains(first.Next())).To(BeFalse())
		store.Empty()
		Expect(store.IsEmpty()).To(BeTrue())
		store.PutBack()
		Expect(store.Contains(first.Next())).To(BeTrue())
		Expect(before.Len()).To(Equal(2), "a copy is independent")
	})
})
