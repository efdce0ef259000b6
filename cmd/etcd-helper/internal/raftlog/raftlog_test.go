// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package raftlog_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/etcd-helper/internal/raftlog"
)

func TestRaftlog(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "raftlog Suite")
}

// change is an entry of the log that changes a member.
func change(kind raftpb.ConfChangeType, id uint64) raftpb.Entry {
	data, err := (&raftpb.ConfChange{Type: kind, NodeID: id}).Marshal()
	if err != nil {
		panic(err)
	}

	return raftpb.Entry{Type: raftpb.EntryConfChange, Data: data}
}

var _ = DescribeTable("The voting members after all entries",
	func(snapshot []uint64, entries []raftpb.Entry, expected ...uint64) {
		log := raftlog.Log{Snapshot: raftpb.SnapshotMetadata{ConfState: raftpb.ConfState{Voters: snapshot, Learners: []uint64{9}}}, Entries: entries}
		voters, _, err := log.Voters()
		Expect(err).NotTo(HaveOccurred())
		Expect(voters).To(BeEquivalentTo(expected))
	},
	Entry("are those of the snapshot file", []uint64{3, 1}, []raftpb.Entry{{Type: raftpb.EntryNormal, Data: []byte("put")}}, uint64(1), uint64(3)),
	Entry("are those of the first entries of a new member", nil, []raftpb.Entry{change(raftpb.ConfChangeAddNode, 2), change(raftpb.ConfChangeAddNode, 1)}, uint64(1), uint64(2)),
	Entry("do not contain a removed member", []uint64{1, 2, 3}, []raftpb.Entry{change(raftpb.ConfChangeRemoveNode, 2)}, uint64(1), uint64(3)),
	Entry("do not contain a learner", []uint64{1, 3}, []raftpb.Entry{change(raftpb.ConfChangeAddLearnerNode, 4), change(raftpb.ConfChangeUpdateNode, 4)}, uint64(1), uint64(3)),
	Entry("contain a promoted learner", []uint64{1, 3}, []raftpb.Entry{change(raftpb.ConfChangeAddLearnerNode, 4), change(raftpb.ConfChangeAddNode, 4)}, uint64(1), uint64(3), uint64(4)),
)

var _ = It("reports the voting members that entries above the commit index remove, because these entries may not be committed", func() {
	entries := []raftpb.Entry{change(raftpb.ConfChangeRemoveNode, 1), change(raftpb.ConfChangeAddNode, 4), change(raftpb.ConfChangeRemoveNode, 4), change(raftpb.ConfChangeRemoveNode, 9)}
	for i := range entries {
		entries[i].Index = uint64(i + 11) // #nosec G115 -- a few entries
	}
	log := raftlog.Log{
		HardState: raftpb.HardState{Commit: 11}, Entries: entries,
		Snapshot: raftpb.SnapshotMetadata{Index: 10, ConfState: raftpb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{9}}},
	}
	voters, former, err := log.Voters()
	Expect(err).NotTo(HaveOccurred())
	Expect(voters).To(Equal([]uint64{2, 3}))
	Expect(former).To(Equal([]uint64{4}), "the removal of 1 is committed, and 9 never voted")
})

var _ = It("refuses a change of the members that it does not know", func() {
	for _, entry := range []raftpb.Entry{{Type: raftpb.EntryConfChange, Data: []byte("x")}, {Type: raftpb.EntryConfChangeV2}} {
		_, _, err := (&raftlog.Log{Entries: []raftpb.Entry{entry}}).Voters()
		Expect(err).To(MatchError(raftlog.ErrUnreadable))
	}
})
