// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package evidence_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var threeVoters = []state.Voter{{Name: "main-0", ID: "a"}, {Name: "main-1", ID: "b"}, {Name: "main-2", ID: "c"}}

// threeMembers is a cluster of three voting members. The volume of main-0 is lost, and its etcd has ended. The others complete linearizable reads.
func threeMembers() (*druidv1alpha1.Etcd, etcdcluster.Observation) {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Spec.Replicas = "main", 3

	return etcd, etcdcluster.Observation{
		Claims: []etcdcluster.Claim{
			{Name: "main-main-0", Ordinal: 0, Exists: true, UID: "claim-0", Lost: true},
			{Name: "main-main-1", Ordinal: 1, Exists: true, UID: "claim-1"},
			{Name: "main-main-2", Ordinal: 2, Exists: true, UID: "claim-2"},
		},
		Etcd: etcdcluster.EtcdResponses{
			Members: []etcdcluster.EndpointStatus{
				{Ordinal: 1, Reachable: true, Healthy: true, MemberID: 0xb, ClusterID: 7, RaftTerm: 4, QuorumRevision: 42},
				{Ordinal: 2, Reachable: true, Healthy: true, MemberID: 0xc, ClusterID: 7, RaftTerm: 4, QuorumRevision: 42},
			},
			MemberList: []etcdcluster.ListedMember{{ID: 0xa, Name: "main-0"}, {ID: 0xb, Name: "main-1"}, {ID: 0xc, Name: "main-2"}},
		},
	}
}

func lostMember(confirmed ...string) *state.Incident {
	return &state.Incident{ClusterID: "7", Voters: threeVoters, Lost: []state.LostVoter{{Voter: threeVoters[0], Claim: "claim-0"}}, Confirmed: confirmed, At: now}
}

// deletedMember is lostMember after the claim with the lost data was deleted.
func deletedMember(at time.Time, confirmed ...string) *state.Incident {
	incident := lostMember(confirmed...)
	incident.Lost[0].Deleted, incident.At = true, at

	return incident
}

// withEtcd returns a pod of main-0 whose container etcd has the state.
func withEtcd(container etcdcluster.Container) []etcdcluster.Pod {
	container.Name = "etcd"

	return []etcdcluster.Pod{{Name: "main-0", Phase: "Running", Containers: []etcdcluster.Container{container}}}
}

var _ = Describe("NextIncident", func() {
	It("records the lost member first, and the reads of the others in a later observation", func() {
		etcd, o := threeMembers()
		first, changed := evidence.NextIncident(etcd, o, now)
		Expect(changed).To(BeTrue())
		Expect(first).To(Equal(lostMember()))
		o.State.Incident = first
		next, changed := evidence.NextIncident(etcd, o, now.Add(time.Second))
		Expect(changed).To(BeTrue())
		Expect(next).To(Equal(lostMember("b", "c")))
		o.State.Incident = next
		_, changed = evidence.NextIncident(etcd, o, now.Add(time.Minute))
		Expect(changed).To(BeFalse())
	})

	DescribeTable("from the record of a lost member",
		func(change func(*etcdcluster.Observation), isChanged bool, expected *state.Incident) {
			etcd, o := threeMembers()
			o.State.Incident = lostMember("b")
			change(&o)
			next, changed := evidence.NextIncident(etcd, o, now.Add(time.Minute))
			Expect(changed).To(Equal(isChanged))
			if isChanged {
				Expect(next).To(Equal(expected))
			}
			Expect(o.State.Incident).To(Equal(lostMember("b")), "the argument stays as it is")
		},
		Entry("adds a member that completes a read", func(*etcdcluster.Observation) {}, true, lostMember("b", "c")),
		Entry("stays if only the same member completes one", func(o *etcdcluster.Observation) { o.Etcd.Members[1].Healthy = false }, false, nil),
		Entry("stays without a linearizable read", func(o *etcdcluster.Observation) {
			o.Etcd.Members[0].Healthy, o.Etcd.Members[1].Healthy = false, false
		}, false, nil),
		Entry("stays without a member list", func(o *etcdcluster.Observation) { o.Etcd.MemberList = nil }, false, nil),
		Entry("begins again when the claim was replaced: until then, its data could return and confirm writes", func(o *etcdcluster.Observation) {
			o.Claims[0].UID, o.Claims[0].Lost = "another", false
		}, true, deletedMember(now.Add(time.Minute))),
		Entry("begins again when the claim was deleted", func(o *etcdcluster.Observation) {
			o.Claims[0] = etcdcluster.Claim{Name: "main-main-0"}
		}, true, deletedMember(now.Add(time.Minute))),
		Entry("begins again if the claim is not observed", func(o *etcdcluster.Observation) { o.Claims = nil }, true, nil),
		Entry("stays while the claims cannot be read", func(o *etcdcluster.Observation) {
			o.Claims, o.Failures = nil, []etcdcluster.ReadFailure{{Section: etcdcluster.SectionClaims, Message: "timeout"}}
		}, false, nil),
		Entry("stays while the pods cannot be read", func(o *etcdcluster.Observation) {
			o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionPods, Message: "timeout"}}
		}, false, nil),
		Entry("begins again if the volume may have returned", func(o *etcdcluster.Observation) { o.Claims[0].Lost = false }, true, nil),
		Entry("begins again if the member responds", func(o *etcdcluster.Observation) {
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: 0, Reachable: true, MemberID: 0xa, ClusterID: 7})
		}, true, nil),
		Entry("begins again without the member, once it is removed", func(o *etcdcluster.Observation) { o.Etcd.MemberList = o.Etcd.MemberList[1:] }, true,
			&state.Incident{ClusterID: "7", Voters: threeVoters[1:], At: now.Add(time.Minute)}),
		Entry("ends when another member votes", func(o *etcdcluster.Observation) {
			o.Etcd.MemberList[0].ID, o.Claims[0].Lost, o.Claims[0].UID = 0xd, false, "another"
		}, true, nil),
	)

	DescribeTable("records nothing while",
		func(change func(*etcdcluster.Observation)) {
			etcd, o := threeMembers()
			change(&o)
			_, changed := evidence.NextIncident(etcd, o, now)
			Expect(changed).To(BeFalse())
		},
		Entry("no volume is lost", func(o *etcdcluster.Observation) { o.Claims[0].Lost = false }),
		Entry("etcd still runs with the lost volume", func(o *etcdcluster.Observation) {
			o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerRunning})
		}),
		Entry("the kubelet may start etcd again with the volume, which the pod still mounts", func(o *etcdcluster.Observation) {
			o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerWaiting, Reason: "CrashLoopBackOff", Restarts: 1})
		}),
		Entry("etcd has ended, and its pod is left", func(o *etcdcluster.Observation) {
			o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerTerminated})
		}),
		Entry("no quorum responds", func(o *etcdcluster.Observation) { o.Etcd.Members = nil }),
		Entry("the cluster has two members because of a scale-up", func(o *etcdcluster.Observation) {
			o.Claims[0].Lost = false
			o.Etcd.MemberList = o.Etcd.MemberList[1:]
		}),
	)

	It("keeps the record of a deleted claim, and adds the reads", func() {
		etcd, o := threeMembers()
		o.Claims[0].UID, o.Claims[0].Lost = "another", false
		o.State.Incident = deletedMember(now, "b")
		o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerRunning})
		next, changed := evidence.NextIncident(etcd, o, now.Add(time.Minute))
		Expect(changed).To(BeTrue())
		Expect(next).To(Equal(deletedMember(now, "b", "c")), "another etcd runs with another volume")
	})

	It("records a member whose claim is deleted before its etcd has ended, and the reads of the others only after its end", func() {
		etcd, o := threeMembers()
		o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerTerminated})
		running := lostMember()
		running.Lost[0].Running = true
		Expect(evidence.ChangeBefore(etcd, o, now)).To(And(HaveField("Incident", running), HaveField("ChangesIncident", true)))
		o.State.Incident = running
		Expect(evidence.ChangeBefore(etcd, o, now).ChangesIncident).To(BeFalse())

		By("observing it while it still responds")
		o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: 0, Reachable: true, MemberID: 0xa, ClusterID: 7})
		_, changed := evidence.NextIncident(etcd, o, now.Add(time.Second))
		Expect(changed).To(BeFalse())

		By("observing the replaced claim and the next pod")
		o.Etcd.Members = o.Etcd.Members[:2]
		o.Claims[0].UID, o.Claims[0].Lost = "another", false
		o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerWaiting, Reason: "ContainerCreating"})
		ended, changed := evidence.NextIncident(etcd, o, now.Add(time.Minute))
		Expect(changed).To(BeTrue())
		Expect(ended).To(Equal(deletedMember(now.Add(time.Minute))))
		o.State.Incident = ended
		next, changed := evidence.NextIncident(etcd, o, now.Add(2*time.Minute))
		Expect(changed).To(BeTrue())
		Expect(next).To(Equal(deletedMember(now.Add(time.Minute), "b", "c")))
	})

	It("keeps a member as running while its pod may restart etcd, also after its claim was deleted", func() {
		etcd, o := threeMembers()
		o.State.Incident = lostMember()
		o.State.Incident.Lost[0].Running = true
		o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerRunning})
		_, changed := evidence.NextIncident(etcd, o, now.Add(time.Minute))
		Expect(changed).To(BeFalse())
		o.Claims[0].Lost = false
		next, changed := evidence.NextIncident(etcd, o, now.Add(time.Minute))
		Expect(changed).To(BeTrue())
		Expect(next).To(BeNil(), "the volume exists again")
	})

	It("counts a new pod in which etcd has never started as none", func() {
		etcd, o := threeMembers()
		o.Pods = withEtcd(etcdcluster.Container{State: etcdcluster.ContainerWaiting, Reason: "ContainerCreating"})
		next, _ := evidence.NextIncident(etcd, o, now)
		Expect(next).To(Equal(lostMember()))
	})

	It("counts a running pod on a node that is out of service as ended", func() {
		etcd, o := threeMembers()
		o.Claims[0].Lost, o.Claims[0].Nodes, o.Nodes = false, []string{"n1"}, []etcdcluster.Node{{Name: "n1", Exists: true, OutOfService: true}}
		o.Pods = []etcdcluster.Pod{{Name: "main-0", Node: "n1", Containers: []etcdcluster.Container{{Name: "etcd", State: etcdcluster.ContainerRunning}}}}
		next, _ := evidence.NextIncident(etcd, o, now)
		Expect(next).To(Equal(lostMember()))
	})
})

var _ = DescribeTable("UnprovenLoss",
	func(change func(*state.State, *etcdcluster.Inspection), expected string) {
		recorded := state.State{Incident: deletedMember(now, "b", "c"), Evidence: &state.Evidence{HighestRevision: 42, Term: 4, Voters: threeVoters}}
		found := etcdcluster.Inspection{Revision: 40, Log: &etcdcluster.InspectedLog{
			ClusterID: "7", MemberID: "c", LastTerm: 4, LastIndex: 100, MaxRevision: 50, Voters: []string{"a", "b", "c"},
		}}
		change(&recorded, &found)
		unproven := evidence.UnprovenLoss(recorded, found, now.Add(-time.Hour))
		if expected == "" {
			Expect(unproven).To(BeEmpty())
		} else {
			Expect(unproven).To(ContainSubstring(expected))
		}
	},
	Entry("is empty if one of three was lost before a read of each other member", func(*state.State, *etcdcluster.Inspection) {}, ""),
	Entry("names a lost member whose claim is left: its data may have returned while the operator did not run", func(s *state.State, _ *etcdcluster.Inspection) {
		s.Incident.Lost[0].Deleted = false
	}, "2 of 3 voting members could confirm"),
	Entry("names a member that voted until an entry removed it that may not be committed", func(_ *state.State, found *etcdcluster.Inspection) {
		found.Log.Voters, found.Log.FormerVoters = []string{"b", "c"}, []string{"d"}
	}, "member d became a voting member"),
	Entry("is empty if the entry that removed the lost member may not be committed", func(_ *state.State, found *etcdcluster.Inspection) {
		found.Log.Voters, found.Log.FormerVoters = []string{"b", "c"}, []string{"a"}
	}, ""),
	Entry("is empty if the lost member was removed, since both others must confirm then", func(_ *state.State, found *etcdcluster.Inspection) {
		found.Log.Voters = []string{"b", "c"}
	}, ""),
	Entry("is empty if the removal of the lost member is recorded", func(s *state.State, found *etcdcluster.Inspection) {
		s.Incident = &state.Incident{ClusterID: "7", Voters: threeVoters[1:], Confirmed: []string{"b", "c"}, At: now}
		found.Log.Voters = []string{"b", "c"}
	}, ""),
	Entry("is empty if one of the others was removed too", func(_ *state.State, found *etcdcluster.Inspection) { found.Log.Voters = []string{"c"} }, ""),
	Entry("names members that are lost at once", func(s *state.State, _ *etcdcluster.Inspection) { s.Incident = nil }, "no linearizable read is recorded after the first loss"),
	Entry("names a record from before the evidence", func(s *state.State, _ *etcdcluster.Inspection) { s.Evidence = nil }, "no linearizable read is recorded"),
	Entry("names a member that completed no read after the loss: another leader may have committed without it", func(s *state.State, _ *etcdcluster.Inspection) {
		s.Incident.Confirmed = []string{"b"}
	}, "no linearizable read of member c is recorded"),
	Entry("names a member that joined and voted afterwards", func(_ *state.State, found *etcdcluster.Inspection) {
		found.Log.Voters = []string{"b", "c", "d"}
	}, "member d became a voting member"),
	Entry("names two members that could confirm without the third one, if none is lost", func(s *state.State, _ *etcdcluster.Inspection) { s.Incident.Lost = nil }, "2 of 3 voting members could confirm"),
	Entry("names two of five lost members that were removed: two of the others are a quorum then", func(s *state.State, found *etcdcluster.Inspection) {
		s.Incident.Voters = append(s.Incident.Voters[:3:3], state.Voter{Name: "main-3", ID: "d"}, state.Voter{Name: "main-4", ID: "e"})
		s.Incident.Lost = []state.LostVoter{{Voter: s.Incident.Voters[0], Deleted: true}, {Voter: s.Incident.Voters[4], Deleted: true}}
		found.Log.Voters = []string{"b", "c", "d"}
	}, "2 of 3 voting members could confirm"),
	Entry("is empty while these two are still members", func(s *state.State, found *etcdcluster.Inspection) {
		s.Incident.Voters = append(s.Incident.Voters[:3:3], state.Voter{Name: "main-3", ID: "d"}, state.Voter{Name: "main-4", ID: "e"})
		s.Incident.Lost = []state.LostVoter{{Voter: s.Incident.Voters[0], Deleted: true}, {Voter: s.Incident.Voters[4], Deleted: true}}
		found.Log.Voters = []string{"a", "b", "c", "d", "e"}
	}, ""),
	Entry("names removals in between, after which a quorum did not need the member", func(s *state.State, found *etcdcluster.Inspection) {
		s.Incident.Voters = append(s.Incident.Voters[:3:3], state.Voter{Name: "main-3", ID: "d"}, state.Voter{Name: "main-4", ID: "e"})
		s.Incident.Lost = []state.LostVoter{{Voter: s.Incident.Voters[0], Deleted: true}, {Voter: s.Incident.Voters[4], Deleted: true}}
		found.Log.Voters = []string{"c", "d"}
	}, "2 of 3 voting members could confirm"),
	Entry("names a member that was removed", func(_ *state.State, found *etcdcluster.Inspection) { found.Log.Voters = []string{"b"} }, "without member c"),
	Entry("names another cluster", func(_ *state.State, found *etcdcluster.Inspection) { found.Log.ClusterID = "8" }, "belongs to cluster 8"),
	Entry("names a member of an earlier term, for example a leader that was partitioned", func(_ *state.State, found *etcdcluster.Inspection) { found.Log.LastTerm = 3 }, "the log ends with term 3"),
	Entry("names a log that lacks the recorded revision", func(_ *state.State, found *etcdcluster.Inspection) { found.Log.MaxRevision = 41 }, "at most revision 41"),
	Entry("names a damaged end of the log", func(_ *state.State, found *etcdcluster.Inspection) { found.Log.DiscardedBytes = 12 }, "12 bytes at the end"),
	Entry("names a log that cannot be read", func(_ *state.State, found *etcdcluster.Inspection) { found.Log, found.LogProblem = nil, "damaged" }, "cannot be read: damaged"),
	Entry("names an earlier rollback", func(s *state.State, _ *etcdcluster.Inspection) {
		s.Evidence.RolledBack = &state.RolledBack{Revision: 3}
	}, "has lost acknowledged writes before"),
)

var _ = DescribeTable("MayProveNoLoss",
	func(incident *state.Incident, id string, expected bool) {
		recorded := state.State{Incident: incident, Evidence: &state.Evidence{}}
		Expect(evidence.MayProveNoLoss(recorded, id, time.Time{})).To(Equal(expected))
		recorded.Evidence.RolledBack = &state.RolledBack{Revision: 3}
		Expect(evidence.MayProveNoLoss(recorded, id, time.Time{})).To(BeFalse(), "writes were lost before")
		recorded.Evidence = nil
		Expect(evidence.MayProveNoLoss(recorded, id, time.Time{})).To(BeFalse(), "no read is recorded")
	},
	Entry("is true for a member that completed a read after the loss", deletedMember(now, "b", "c"), "c", true),
	Entry("is false for another one", deletedMember(now, "b"), "c", false),
	Entry("is false while the claim of the lost member is left", lostMember("b", "c"), "c", false),
	Entry("is false if nothing is recorded", nil, "c", false),
	Entry("is true after the lost member was removed", &state.Incident{Voters: threeVoters[1:], Confirmed: []string{"b", "c"}}, "c", true),
)

var _ = It("does not take a volume as proof that was created after the reads: its data may be older", func() {
	recorded := state.State{Incident: deletedMember(now, "b", "c"), Evidence: &state.Evidence{HighestRevision: 42, Term: 4, Voters: threeVoters}}
	found := etcdcluster.Inspection{Log: &etcdcluster.InspectedLog{ClusterID: "7", MemberID: "c", LastTerm: 4, MaxRevision: 50, Voters: []string{"a", "b", "c"}}}
	Expect(evidence.UnprovenLoss(recorded, found, now.Add(time.Second))).To(ContainSubstring("its claim was created at 2"))
	Expect(evidence.MayProveNoLoss(recorded, "c", now.Add(time.Second))).To(BeFalse())
	Expect(evidence.MayProveNoLoss(recorded, "c", now)).To(BeTrue())
})
