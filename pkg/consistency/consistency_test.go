// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package consistency_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// hash is a member with a hash and a compact revision.
type hash struct {
	hash      uint32
	compacted int64
	err       error
}

func (h hash) HashKV(context.Context, int64) (uint32, int64, error) {
	return h.hash, h.compacted, h.err
}

// hasherFunc is a member that reports its calls.
type hasherFunc func(revision int64)

func (f hasherFunc) HashKV(_ context.Context, revision int64) (uint32, int64, error) {
	f(revision)

	return 0, 0, nil
}

// hashes returns the hashes of members.
func hashes(values ...uint32) []state.MemberHash {
	var result []state.MemberHash
	for i, value := range values {
		result = append(result, state.MemberHash{Name: fmt.Sprintf("main-%d", i), ID: fmt.Sprintf("a%d", i), Hash: value})
	}

	return result
}

var _ = Describe("Consistency", func() {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	Describe("VotersOf", func() {
		var o etcdcluster.Observation
		var etcd *druidv1alpha1.Etcd
		BeforeEach(func() {
			etcd = &druidv1alpha1.Etcd{}
			etcd.Namespace, etcd.Name, etcd.Spec.Replicas = "demo", "main", 3
			o = etcdcluster.Observation{}
			o.Etcd.Queried = true
			for i := range 3 {
				id := uint64(0xa0 + i) // #nosec G115 -- 0 to 2
				o.Pods = append(o.Pods, etcdcluster.Pod{Name: fmt.Sprintf("main-%d", i), Ordinal: i, Ready: true})
				o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: fmt.Sprintf("main-%d", i)})
				o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{
					Ordinal: i, Reachable: true, Healthy: true, MemberID: id, LeaderID: 0xa0, Revision: 12 - int64(i), Version: "3.4.34",
				})
			}
		})

		It("returns the followers before the leader, and a revision that all of them have", func() {
			voters, revision, err := consistency.VotersOf(etcd, o)
			Expect(err).NotTo(HaveOccurred())
			Expect(revision).To(BeEquivalentTo(10))
			Expect(voters).To(Equal([]consistency.Member{{Name: "main-1", ID: 0xa1, Ordinal: 1}, {Name: "main-2", ID: 0xa2, Ordinal: 2}, {Name: "main-0", ID: 0xa0}}))
		})

		It("includes members that a scale-in has not removed yet", func() {
			etcd.Spec.Replicas, o.State.Size = 1, 3
			voters, _, err := consistency.VotersOf(etcd, o)
			Expect(err).NotTo(HaveOccurred())
			Expect(voters).To(HaveLen(3))
		})

		It("does not wait for a member of a scale-up that was taken back before the member started", func() {
			etcd.Spec.Replicas, o.State.Size, o.State.Replicas = 3, 5, new(int32(3))
			voters, _, err := consistency.VotersOf(etcd, o)
			Expect(err).NotTo(HaveOccurred())
			Expect(voters).To(HaveLen(3))
		})

		It("returns the only member of a cluster", func() {
			etcd.Spec.Replicas, o.Pods, o.Etcd.MemberList = 1, o.Pods[:1], o.Etcd.MemberList[:1]
			voters, _, err := consistency.VotersOf(etcd, o)
			Expect(err).NotTo(HaveOccurred())
			Expect(voters).To(ConsistOf(HaveField("Name", "main-0")))
		})

		It("ignores a learner that is no member of the Etcd", func() {
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 7, Name: "other", Learner: true})
			voters, _, err := consistency.VotersOf(etcd, o)
			Expect(err).NotTo(HaveOccurred())
			Expect(voters).To(HaveLen(3))
		})

		It("ignores a member that a scale-up has not started yet after a difference, which the scale-up waits for", func() {
			etcd.Spec.Replicas, o.State.Size, o.State.Replicas = 5, 5, new(int32(3))
			o.State.Inconsistency = &state.Inconsistency{Comparisons: 1, Members: hashes(1, 1, 2)}
			voters, _, err := consistency.VotersOf(etcd, o)
			Expect(err).NotTo(HaveOccurred())
			Expect(voters).To(HaveLen(3))
		})

		DescribeTable("returns all voting members or none", func(reason string, change func()) {
			change()
			_, _, err := consistency.VotersOf(etcd, o)
			Expect(err).To(And(MatchError(consistency.ErrNotComparable), MatchError(ContainSubstring(reason))))
		},
			Entry("with a member that is not healthy", "main-1 is not healthy", func() { o.Etcd.Members[1] = etcdcluster.EndpointStatus{Ordinal: 1, Reachable: true} }),
			Entry("with a member that does not respond", "main-2 is not healthy", func() { o.Etcd.Members[2] = etcdcluster.EndpointStatus{Ordinal: 2} }),
			Entry("without any response, although all pods are ready", "main-0 is not healthy", func() { o.Etcd = etcdcluster.EtcdResponses{MemberList: o.Etcd.MemberList} }),
			Entry("with a learner", "main-1 does not vote", func() { o.Etcd.MemberList[1].Learner = true }),
			Entry("with a member that has not joined", "main-2 does not vote", func() { o.Etcd.MemberList = o.Etcd.MemberList[:2] }),
			Entry("with a member that a scale-up has not started yet", "main-3 is not healthy", func() { etcd.Spec.Replicas, o.State.Size, o.State.Replicas = 5, 5, new(int32(3)) }),
			Entry("with a response of another member", "main-1 responds with another ID", func() { o.Etcd.Members[1].MemberID = 0xb1 }),
			Entry("with a voting member of another cluster", "3 of 4 voting members", func() { o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: 7, Name: "old-0"}) }),
			Entry("without a member", "0 of 0 voting members", func() { etcd.Spec.Replicas, o.Pods, o.Etcd.MemberList = 0, nil, nil }),
			Entry("with a member whose revision is not known", "main-0 has returned no revision", func() { o.Etcd.Members[0].Revision = 0 }),
			Entry("with two versions of etcd", "the members run etcd 3.4.34 and 3.5.27", func() { o.Etcd.Members[2].Version = "3.5.27" }),
		)
	})

	DescribeTable("Remedy keeps the quorum", func(isSurge bool, remedy string) {
		Expect(consistency.Remedy(isSurge)).To(ContainSubstring(remedy))
	},
		Entry("of three members", false, "replace the volume of the other"),
		Entry("of the two members of a surge", true, "`etcdctl member remove`"),
	)

	Describe("Compare", func() {
		compare := func(results ...hash) (consistency.Comparison, error) {
			var members []consistency.Member
			for i := range results {
				members = append(members, consistency.Member{Name: fmt.Sprintf("main-%d", len(results)-1-i), ID: 0xa, Ordinal: i})
			}

			return consistency.Compare(context.Background(), members, 7, func(m consistency.Member) (consistency.Hasher, error) { return results[m.Ordinal], nil })
		}

		It("returns the hashes, sorted by the names of the members, and the revisions", func() {
			Expect(compare(hash{hash: 1, compacted: 5}, hash{hash: 2, compacted: 5})).To(Equal(consistency.Comparison{
				Revision: 7, Compacted: 5, Hashes: []state.MemberHash{{Name: "main-0", ID: "a", Hash: 2}, {Name: "main-1", ID: "a", Hash: 1}},
			}))
		})

		It("reads the hashes at the revision, one member after the other", func() {
			var read []string
			_, err := consistency.Compare(context.Background(), []consistency.Member{{Name: "main-1"}, {Name: "main-0"}}, 7, func(m consistency.Member) (consistency.Hasher, error) {
				return hasherFunc(func(revision int64) { read = append(read, fmt.Sprintf("%s at %d", m.Name, revision)) }), nil
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(read).To(HaveExactElements("main-1 at 7", "main-0 at 7"))
		})

		It("compares no hashes of members that are compacted at different revisions, as by a compaction between two calls", func() {
			_, err := compare(hash{hash: 1, compacted: 3}, hash{hash: 2, compacted: 5})
			Expect(err).To(And(MatchError(consistency.ErrNotComparable), MatchError(ContainSubstring("compacted at different revisions, 3 and 5"))))
		})

		It("compares nothing if a member does not respond, and names it", func() {
			_, err := compare(hash{hash: 1}, hash{hash: 2}, hash{err: errors.New("timeout")})
			Expect(err).To(MatchError("hash of the keys of member main-0 at revision 7: timeout"))
		})
	})

	Describe("Next", func() {
		found := func(revision int64, values ...uint32) consistency.Comparison {
			return consistency.Comparison{Revision: revision, Compacted: revision - 1, Hashes: hashes(values...)}
		}

		It("counts the comparisons that find the same difference, at any revision", func() {
			first := consistency.Next(nil, found(7, 1, 1, 2), noon)
			Expect(first).To(Equal(&state.Inconsistency{Since: noon, At: noon, Revision: 7, Compacted: 6, Comparisons: 1, Members: hashes(1, 1, 2)}))
			second := consistency.Next(first, found(20, 8, 8, 9), noon.Add(time.Minute))
			Expect(second).To(Equal(&state.Inconsistency{Since: noon, At: noon.Add(time.Minute), Revision: 20, Compacted: 19, Comparisons: 2, Members: hashes(8, 8, 9)}))
			Expect(consistency.IsConfirmed(second)).To(BeFalse())
			Expect(consistency.IsConfirmed(consistency.Next(second, found(21, 3, 3, 4), noon.Add(2*time.Minute)))).To(BeTrue())
		})

		DescribeTable("begins again", func(next []state.MemberHash) {
			before := &state.Inconsistency{Since: noon, At: noon, Comparisons: 2, Members: hashes(1, 1, 2)}
			Expect(consistency.Next(before, consistency.Comparison{Hashes: next}, noon.Add(time.Minute))).To(And(HaveField("Comparisons", 1), HaveField("Since", noon.Add(time.Minute))))
		},
			Entry("with another member that differs", hashes(1, 2, 1)),
			Entry("with one more member that differs", hashes(1, 2, 3)),
			Entry("with another member of the same name", append(hashes(1, 1), state.MemberHash{Name: "main-2", ID: "b2", Hash: 2})),
			Entry("with another number of members", hashes(1, 1, 2, 1, 1)),
		)

		It("ends when all members have the same data", func() {
			Expect(consistency.Next(&state.Inconsistency{Comparisons: 2, Members: hashes(1, 1, 2)}, found(8, 5, 5, 5), noon)).To(BeNil())
		})
	})

	DescribeTable("Minority", func(values []uint32, hasMajority bool, names ...string) {
		found := &state.Inconsistency{Members: hashes(values...)}
		_, has := consistency.Majority(found)
		Expect(has).To(Equal(hasMajority))
		differing := []string{}
		for _, member := range consistency.Minority(found) {
			differing = append(differing, member.Name)
		}
		Expect(differing).To(HaveExactElements(names))
	},
		Entry("one of three", []uint32{1, 2, 1}, true, "main-1"),
		Entry("the first of three", []uint32{2, 1, 1}, true, "main-0"),
		Entry("two of five with the same data", []uint32{1, 2, 1, 2, 1}, true, "main-1", "main-3"),
		Entry("two of five with different data", []uint32{3, 1, 1, 2, 1}, true, "main-0", "main-3"),
		Entry("one of two", []uint32{1, 2}, false),
		Entry("three different", []uint32{1, 2, 3}, false),
		Entry("two of four", []uint32{1, 1, 2, 2}, false),
		Entry("two, two and one", []uint32{1, 1, 2, 2, 3}, false),
	)

	It("describes the evidence", func() {
		Expect(consistency.Describe(state.Inconsistency{Revision: 7, Compacted: 3, Members: hashes(0xab, 2)})).To(Equal("at revision 7, compacted at 3, main-0 has hash 000000ab, main-1 has hash 00000002"))
	})

	It("has neither a majority nor a minority without a difference", func() {
		_, has := consistency.Majority(nil)
		Expect(has || consistency.IsConfirmed(nil)).To(BeFalse())
		Expect(consistency.Minority(nil)).To(BeEmpty())
	})
})
