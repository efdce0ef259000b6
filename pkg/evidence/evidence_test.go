// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

func TestEvidence(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "evidence Suite")
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// observation is that of three members: a voter that completes linearizable reads, one that lags behind, and a learner.
func observation(revision int64) etcdcluster.Observation {
	return etcdcluster.Observation{Etcd: etcdcluster.EtcdResponses{
		Queried: true,
		Members: []etcdcluster.EndpointStatus{
			{Ordinal: 0, Reachable: true, Healthy: true, ClusterID: 7, RaftTerm: 4, Revision: revision, QuorumRevision: revision},
			{Ordinal: 1, Reachable: true, ClusterID: 7, RaftTerm: 3, Revision: revision + 5},
			{Ordinal: 2, Reachable: true, ClusterID: 7, RaftTerm: 4, Learner: true, Revision: revision - 5},
		},
		MemberList: []etcdcluster.ListedMember{{ID: 0xb, Name: "main-1"}, {ID: 0xa, Name: "main-0"}, {ID: 0xc, Name: "main-2", Learner: true}},
	}}
}

var _ = Describe("Next", func() {
	voters := []state.Voter{{Name: "main-0", ID: "a"}, {Name: "main-1", ID: "b"}}

	It("records the revision of a linearizable read and the voting members", func() {
		Expect(evidence.Next(nil, observation(42), now)).To(Equal(&state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now, Voters: voters}))
	})

	DescribeTable("changes the record",
		func(revision int64, after time.Duration, change func(*etcdcluster.Observation), expected *state.Evidence) {
			recorded := &state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now, Voters: voters}
			o := observation(revision)
			if change != nil {
				change(&o)
			}
			Expect(evidence.Next(recorded, o, now.Add(after))).To(Equal(expected))
			Expect(recorded.HighestRevision).To(BeEquivalentTo(42), "the argument stays as it is")
		},
		Entry("not for an idle cluster", int64(42), time.Hour, nil, nil),
		Entry("not for a higher revision within five minutes", int64(43), 5*time.Minute-1, nil, nil),
		Entry("for a higher revision after five minutes", int64(43), 5*time.Minute, nil, &state.Evidence{HighestRevision: 43, ClusterID: "7", Term: 4, At: now.Add(5 * time.Minute), Voters: voters}),
		Entry("at once for another voting member", int64(43), time.Second, func(o *etcdcluster.Observation) { o.Etcd.MemberList[2].Learner = false },
			&state.Evidence{HighestRevision: 43, ClusterID: "7", Term: 4, At: now.Add(time.Second), Voters: append(voters[:2:2], state.Voter{Name: "main-2", ID: "c"})}),
		Entry("for other voting members of an idle cluster", int64(42), time.Hour, func(o *etcdcluster.Observation) { o.Etcd.MemberList = o.Etcd.MemberList[1:] },
			&state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now, Voters: voters[:1]}),
		Entry("at once for a time of the record that is in the future", int64(43), -time.Second, nil, &state.Evidence{HighestRevision: 43, ClusterID: "7", Term: 4, At: now.Add(-time.Second), Voters: voters}),
		Entry("for the highest of two linearizable reads", int64(42), time.Hour, func(o *etcdcluster.Observation) {
			o.Etcd.Members[1].Healthy, o.Etcd.Members[1].QuorumRevision = true, 47
		}, &state.Evidence{HighestRevision: 47, ClusterID: "7", Term: 3, At: now.Add(time.Hour), Voters: voters}),
		Entry("for the highest of two linearizable reads, if the lower one is that of the last member", int64(47), time.Hour, func(o *etcdcluster.Observation) {
			o.Etcd.Members[1].Healthy, o.Etcd.Members[1].QuorumRevision = true, 41
		}, &state.Evidence{HighestRevision: 47, ClusterID: "7", Term: 4, At: now.Add(time.Hour), Voters: voters}),
		Entry("not without a linearizable read", int64(99), time.Hour, func(o *etcdcluster.Observation) { o.Etcd.Members[0].Healthy = false }, nil),
		Entry("not for members of two clusters", int64(99), time.Hour, func(o *etcdcluster.Observation) {
			o.Etcd.Members[1].Healthy, o.Etcd.Members[1].ClusterID = true, 8
		}, nil),
		Entry("without a member list, for the revision alone", int64(43), time.Hour, func(o *etcdcluster.Observation) { o.Etcd.MemberList = nil },
			&state.Evidence{HighestRevision: 43, ClusterID: "7", Term: 4, At: now.Add(time.Hour), Voters: voters}),
	)
})

var _ = DescribeTable("Confirm",
	func(revision int64, expected *state.Evidence) {
		recorded := &state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now}
		Expect(evidence.Confirm(recorded, withoutList(revision), now.Add(time.Second))).To(Equal(expected))
	},
	Entry("records a higher revision before an act, although five minutes have not passed", int64(43), &state.Evidence{HighestRevision: 43, ClusterID: "7", Term: 4, At: now.Add(time.Second)}),
	Entry("records nothing if the revision is recorded", int64(42), nil),
	Entry("records a rollback", int64(41), &state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now, RolledBack: &state.RolledBack{Revision: 41, ClusterID: "7", At: now.Add(time.Second)}}),
)

var _ = DescribeTable("Confirmed",
	func(change func(*etcdcluster.Observation), expected []int, revision int64) {
		o := observation(50)
		o.State.Evidence = &state.Evidence{HighestRevision: 42}
		o.Etcd.Members[1].Healthy, o.Etcd.Members[1].QuorumRevision = true, 45
		change(&o)
		ordinals, lowest := evidence.Confirmed(o)
		Expect(ordinals).To(Equal(expected))
		Expect(lowest).To(Equal(revision))
	},
	Entry("names the voting members that have the recorded revision", func(*etcdcluster.Observation) {}, []int{0, 1}, int64(45)),
	Entry("leaves out a member that is behind the record", func(o *etcdcluster.Observation) { o.Etcd.Members[1].QuorumRevision = 41 }, []int{0}, int64(50)),
	Entry("leaves out a member that completes no linearizable read", func(o *etcdcluster.Observation) { o.Etcd.Members[0].Healthy = false }, []int{1}, int64(45)),
	Entry("names none without a record", func(o *etcdcluster.Observation) { o.State.Evidence = nil }, nil, int64(0)),
	Entry("names none if only voting members were recorded", func(o *etcdcluster.Observation) { o.State.Evidence.HighestRevision = 0 }, nil, int64(0)),
	Entry("names none of another cluster than the recorded one", func(o *etcdcluster.Observation) {
		o.State.Evidence.ClusterID, o.State.Evidence.Voters = "9", []state.Voter{{Name: "main-0"}, {Name: "main-1"}}
	}, nil, int64(0)),
	Entry("names none for members of two clusters", func(o *etcdcluster.Observation) { o.Etcd.Members[1].ClusterID = 8 }, nil, int64(0)),
)

var _ = DescribeTable("Accept",
	func(recorded *state.Evidence, value string, expected *state.Evidence, ignored string) {
		next, why := evidence.Accept(recorded, value)
		Expect(next).To(Equal(expected))
		Expect(why).To(Equal(ignored))
	},
	Entry("accepts the revision to which the cluster was rolled back", rolledBack(), "41",
		&state.Evidence{HighestRevision: 41, ClusterID: "7", Term: 4, At: now.Add(time.Hour), AcceptedRevision: 41, AcceptedRollbackAt: now.Add(time.Hour), LostRevision: 42}, ""),
	Entry("rejects another revision", rolledBack(), "42", nil, "the cluster was rolled back to revision 41"),
	Entry("rejects a value that is no revision", rolledBack(), "yes", nil, "the value is the revision that the condition RevisionConfirmed names"),
	Entry("rejects a negative revision", rolledBack(), "-1", nil, "the value is the revision that the condition RevisionConfirmed names"),
	Entry("rejects any revision if the cluster was not rolled back", &state.Evidence{HighestRevision: 42}, "42", nil, "the cluster was not rolled back"),
	Entry("rejects any revision without a record", nil, "42", nil, "the cluster was not rolled back"),
	Entry("has nothing to do after the revision was accepted", &state.Evidence{HighestRevision: 50, AcceptedRevision: 41}, "41", nil, ""),
)

var _ = Describe("A rollback", func() {
	recorded := &state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now}

	It("is recorded at once, and new writes do not hide it", func() {
		next := evidence.Next(recorded, withoutList(41), now.Add(time.Second))
		Expect(next).To(Equal(&state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now, RolledBack: &state.RolledBack{Revision: 41, ClusterID: "7", At: now.Add(time.Second)}}))
		Expect(evidence.Next(next, withoutList(99), now.Add(time.Hour))).To(BeNil())
	})

	It("is recorded again if a quorum returns an even lower revision", func() {
		next := evidence.Next(recorded, withoutList(41), now.Add(time.Second))
		next = evidence.Next(next, withoutList(5), now.Add(time.Minute))
		Expect(next.RolledBack).To(Equal(&state.RolledBack{Revision: 5, ClusterID: "7", At: now.Add(time.Minute)}))
		Expect(next.HighestRevision).To(BeEquivalentTo(42))
	})

	It("does not end with new writes if the cluster ID was not recorded", func() {
		next := evidence.Next(&state.Evidence{HighestRevision: 42, Voters: []state.Voter{{Name: "main-0"}, {Name: "main-1"}}}, withoutList(41), now)
		Expect(next.RolledBack).NotTo(BeNil())
		Expect(evidence.Next(next, withoutList(99), now.Add(time.Hour))).To(BeNil())
	})

	It("is recorded for another cluster, and ends when the members of the recorded cluster respond again", func() {
		of := func(cluster uint64, revision int64) etcdcluster.Observation {
			o := observation(revision)
			o.Etcd.Members, o.Etcd.MemberList = o.Etcd.Members[:1], o.Etcd.MemberList[1:2]
			o.Etcd.Members[0].ClusterID = cluster

			return o
		}
		first := evidence.Next(nil, observation(42), now)
		next := evidence.Next(first, of(8, 99), now.Add(time.Second))
		Expect(next.RolledBack).To(Equal(&state.RolledBack{Revision: 99, ClusterID: "8", At: now.Add(time.Second)}))
		Expect(next.Voters).To(Equal(first.Voters), "the voting members are those of the recorded cluster")
		Expect(evidence.Next(next, of(8, 100), now.Add(time.Hour))).To(BeNil())
		Expect(evidence.Next(next, observation(42), now.Add(time.Hour))).To(Equal(first))
		accepted, _ := evidence.Accept(next, "99")
		Expect(accepted).To(And(HaveField("ClusterID", "8"), HaveField("HighestRevision", BeEquivalentTo(99)), HaveField("RolledBack", BeNil())))
	})

	It("is decided by the revision alone if a single member has another cluster ID, for example after its sidecar restored it", func() {
		o := observation(42)
		o.Etcd.MemberList = o.Etcd.MemberList[1:2]
		first := evidence.Next(nil, o, now)
		o.Etcd.Members[0].ClusterID = 8
		Expect(evidence.Next(first, o, now.Add(time.Second))).To(And(HaveField("ClusterID", "8"), HaveField("RolledBack", BeNil())))
	})

	Describe("of a single member that its sidecar restored, so that it has another cluster ID", func() {
		of := func(cluster uint64, revision int64) etcdcluster.Observation {
			o := observation(revision)
			o.Etcd.Members, o.Etcd.MemberList = o.Etcd.Members[:1], o.Etcd.MemberList[1:2]
			o.Etcd.Members[0].ClusterID = cluster

			return o
		}
		first := evidence.Next(nil, of(7, 42), now)
		restored := evidence.Next(first, of(8, 41), now.Add(time.Second))

		It("does not end with new writes", func() {
			Expect(restored.RolledBack).To(Equal(&state.RolledBack{Revision: 41, ClusterID: "8", At: now.Add(time.Second)}))
			Expect(evidence.Next(restored, of(8, 42), now.Add(time.Minute))).To(BeNil())
			Expect(evidence.Next(restored, of(8, 99), now.Add(time.Hour))).To(BeNil())
		})

		It("does not end when its sidecar restores it once more", func() {
			Expect(evidence.Next(restored, of(9, 99), now.Add(time.Hour))).To(BeNil())
		})

		It("ends when the recorded cluster responds again with the recorded revision", func() {
			Expect(evidence.Next(restored, of(7, 42), now.Add(time.Hour))).To(Equal(first))
		})

		It("does not end with new writes after the recorded cluster has responded with a lower revision", func() {
			next := evidence.Next(restored, of(7, 41), now.Add(time.Hour))
			Expect(next.RolledBack).To(Equal(&state.RolledBack{Revision: 41, ClusterID: "7", At: now.Add(time.Hour)}))
			Expect(evidence.Next(next, of(7, 99), now.Add(2*time.Hour))).To(BeNil())
		})
	})

	It("is not assumed for a member that lags behind", func() {
		o := withoutList(40)
		o.Etcd.Members = o.Etcd.Members[1:]
		Expect(evidence.Next(recorded, o, now.Add(time.Hour))).To(BeNil())
	})

	It("ends when a user accepts the revision", func() {
		etcd := &druidv1alpha1.Etcd{}
		o := etcdcluster.Observation{State: state.State{Evidence: rolledBack()}}
		Expect(evidence.IsRolledBack(etcd, o)).To(BeTrue())
		etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": "40"}
		Expect(evidence.IsRolledBack(etcd, o)).To(BeTrue())
		etcd.Annotations["druid.gardener.cloud/accept-revision"] = "41"
		Expect(evidence.IsRolledBack(etcd, o)).To(BeFalse())
	})
})

var _ = Describe("A restore", func() {
	It("begins with the revision that the store restores, and with no rollback", func() {
		verified := &state.VerifiedRestore{Revision: 41, Keys: 40, Known: 101, AcceptedRevision: 40, At: now}
		Expect(evidence.Restored(verified)).To(Equal(&state.Evidence{HighestRevision: 41, At: now, AcceptedRevision: 40, AcceptedRollbackAt: now}))
		Expect(evidence.Restored(nil)).To(BeNil(), "nothing is known after a restore without a verification")
	})

	It("is what a revision is accepted for while it is requested", func() {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": "41", "druid.gardener.cloud/restore": "from-store"}
		o := etcdcluster.Observation{State: state.State{Evidence: rolledBack()}}
		Expect(evidence.IsRolledBack(etcd, o)).To(BeTrue())
		etcd.DeletionTimestamp = &metav1.Time{Time: now}
		Expect(evidence.IsRolledBack(etcd, o)).To(BeFalse(), "a deleted Etcd is not restored")
		delete(etcd.Annotations, "druid.gardener.cloud/accept-revision")
		Expect(evidence.IsRolledBack(etcd, o)).To(BeTrue(), "no user has accepted the rollback")
	})
})

var _ = Describe("Writes that a user has given up", func() {
	accepted := func(change func(*etcdcluster.Observation)) *state.Evidence {
		o := withoutList(41)
		change(&o)
		next, _ := evidence.Accept(evidence.Next(&state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now}, o, now.Add(time.Second)), "41")

		return next
	}
	lease := func(revision string, renewed time.Time) etcdcluster.Lease {
		return etcdcluster.Lease{Exists: true, Holder: revision, RenewTime: renewed}
	}
	nothing := func(*etcdcluster.Observation) {}

	It("have at most the highest revision that a quorum had returned, or that of the newest snapshot", func() {
		Expect(accepted(nothing).LostRevision).To(BeEquivalentTo(42))
		Expect(accepted(func(o *etcdcluster.Observation) { o.DeltaSnapshotLease = lease("47", now) }).LostRevision).To(BeEquivalentTo(47))
		Expect(accepted(func(o *etcdcluster.Observation) { o.FullSnapshotLease = lease("40", now) }).LostRevision).To(BeEquivalentTo(42))
	})

	It("are recorded also if the cluster has a higher revision, because the store may combine both clusters", func() {
		recorded := &state.Evidence{HighestRevision: 42, ClusterID: "7", RolledBack: &state.RolledBack{Revision: 99, ClusterID: "8", At: now}}
		next, _ := evidence.Accept(recorded, "99")
		Expect(next.LostRevision).To(BeEquivalentTo(42))
	})

	full := func(lease etcdcluster.Lease) func(*etcdcluster.Observation) {
		return func(o *etcdcluster.Observation) { o.FullSnapshotLease = lease }
	}
	elsewhere := func(o *etcdcluster.Observation) {
		o.StoreLocation, o.FullSnapshotLease = `S3 container "a" prefix "b"`, lease("43", now.Add(time.Minute))
		o.FullSnapshotLease.Store = `S3 container "old" prefix "b"`
	}

	DescribeTable("are recorded", func(change func(*etcdcluster.Observation), expected int) {
		before, o := accepted(nothing), withoutList(60)
		change(&o)
		Expect(evidence.Next(before, o, now.Add(time.Hour))).To(HaveField("LostRevision", BeEquivalentTo(expected)))
	},
		Entry("while there is no full snapshot", nothing, 42),
		Entry("while the newest full snapshot has no higher revision", full(lease("42", now.Add(time.Minute))), 42),
		Entry("while the newest full snapshot is from before the rollback", full(lease("50", now)), 42),
		Entry("while the newest full snapshot is in an earlier store", elsewhere, 42),
		Entry("until a full snapshot has a higher revision", full(lease("43", now.Add(time.Minute))), 0),
	)

	It("are recorded while the cluster is rolled back again", func() {
		next := evidence.Next(accepted(nothing), withoutList(40), now.Add(time.Hour))
		Expect(next).To(And(HaveField("RolledBack", Not(BeNil())), HaveField("LostRevision", BeEquivalentTo(42))))
		o := withoutList(60)
		full(lease("43", now.Add(time.Minute)))(&o)
		Expect(evidence.Next(next, o, now.Add(2*time.Hour))).To(BeNil())
	})

	DescribeTable("may be restored", func(revision int64, change func(*etcdcluster.Observation), expected bool) {
		// The cluster was rolled back from revision 100 to 41, and has returned revision 60 since.
		o := etcdcluster.Observation{State: state.State{Evidence: &state.Evidence{HighestRevision: 60, AcceptedRevision: 41, AcceptedRollbackAt: now, LostRevision: 100}}}
		change(&o)
		lost := evidence.MayRestoreLost(o, revision)
		if !expected {
			Expect(lost).To(BeEmpty())

			return
		}
		Expect(lost).To(Equal("a user accepted revision 41, and the lost writes had revisions up to 100"))
	},
		Entry("from a store with a higher revision than that of the cluster", int64(61), nothing, true),
		Entry("from a store with the highest lost revision", int64(100), func(o *etcdcluster.Observation) { o.State.Evidence.HighestRevision = 130 }, true),
		Entry("from a store with newer writes, unless a full snapshot contains these", int64(130), func(o *etcdcluster.Observation) { o.State.Evidence.HighestRevision = 130 }, true),
		Entry("not from a store with a full snapshot of newer writes", int64(130), func(o *etcdcluster.Observation) {
			o.State.Evidence.HighestRevision, o.FullSnapshotLease = 130, lease("101", now.Add(time.Minute))
		}, false),
		Entry("from a store with a revision that the cluster has reached", int64(60), nothing, true),
		Entry("from a store with a newer delta snapshot: the Lease may record an earlier one", int64(70), func(o *etcdcluster.Observation) { o.DeltaSnapshotLease = lease("70", now.Add(time.Minute)) }, true),
		Entry("not from a store whose newest snapshot is a full one since the rollback", int64(60), func(o *etcdcluster.Observation) { o.FullSnapshotLease = lease("60", now.Add(time.Minute)) }, false),
		Entry("from a store whose full snapshot is older than the rollback", int64(60), func(o *etcdcluster.Observation) { o.FullSnapshotLease = lease("60", now) }, true),
		Entry("not up to the accepted revision", int64(41), nothing, false),
		Entry("not without a record", int64(99), func(o *etcdcluster.Observation) { o.State.Evidence = nil }, false),
		Entry("not if no writes were lost", int64(99), func(o *etcdcluster.Observation) { o.State.Evidence.LostRevision = 0 }, false),
	)
})

func rolledBack() *state.Evidence {
	return &state.Evidence{HighestRevision: 42, ClusterID: "7", Term: 4, At: now, RolledBack: &state.RolledBack{Revision: 41, ClusterID: "7", At: now.Add(time.Hour)}}
}

// withoutList is observation without a member list.
func withoutList(revision int64) etcdcluster.Observation {
	o := observation(revision)
	o.Etcd.MemberList = nil

	return o
}
