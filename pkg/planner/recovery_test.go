// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const dwellTime = 10 * time.Minute

// withPolicy sets the recovery policy.
func withPolicy(policy druidv1alpha1.RecoveryPolicy) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) { etcd.Spec.RecoveryPolicy = &policy }
}

// quorumLoss is what the operator publishes about the lost quorum.
func (s *scenario) quorumLoss() *planner.QuorumLoss {
	GinkgoHelper()
	loss := planner.QuorumLossOf(s.Etcd, s.withConfig(), s.Now())
	Expect(loss).NotTo(BeNil())

	return loss
}

// withConfig returns the objects with the configuration of the operator, as the engine does.
func (s *scenario) withConfig() etcdcluster.Observation {
	o := s.Observe()
	if store := o.State.Store; store != nil {
		o.StoreLocation = store.String()
	}
	o.CanInspect, o.RecoveryDwellTime, o.RecoveryMaxClusters = true, s.operator.Config.RecoveryDwellTime, s.operator.Config.RecoveryMaxClusters

	return o
}

// option is the option with the source.
func (s *scenario) option(source state.RecoverySource) planner.RecoveryOption {
	GinkgoHelper()
	for _, option := range s.quorumLoss().Options {
		if option.Source == source {
			return option
		}
	}
	Fail("there is no option " + string(source))

	return planner.RecoveryOption{}
}

// choose requests the recovery from a source.
func (s *scenario) choose(source state.RecoverySource) {
	GinkgoHelper()
	token := s.option(source).Token
	s.inject("a user chooses the "+string(source), func() { s.Etcd.Annotations = map[string]string{druidv1alpha1.RecoverAnnotation: token} })
}

var _ = Describe("Traces of a recovery from a lost quorum", func() {
	created := func(replicas int32, policy druidv1alpha1.RecoveryPolicy, change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(replicas, append(change, withPolicy(policy))...)
		s.operator.Config.RecoveryDwellTime, s.operator.Config.RecoveryMaxClusters = dwellTime, 3
		s.run()
		s.expectDone()
		Expect(s.Write(100)).To(BeTrue())
		s.RenewLeases()
		s.runFor(2)
		s.resetTrace()

		return s
	}
	// loseAtOnce loses two of three volumes at the same time. The store lacks the last writes, and the remaining member has them.
	loseAtOnce := func(s *scenario) {
		GinkgoHelper()
		s.Store.Down = true
		Expect(s.Write(20)).To(BeTrue())
		s.inject("the volumes of main-1 and main-2 are lost", func() {
			for _, ordinal := range []int{1, 2} {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
		})
		s.run()
		s.Store.Down = false
	}
	// loseInTurn loses the volume of one member, and that of another one after its claim was replaced and a quorum has responded without it. No volume
	// is provisioned for the new claim meanwhile. The store lacks the last writes.
	loseInTurn := func(s *scenario) {
		GinkgoHelper()
		s.SetClassBroken("", true)
		s.inject("node n2 is gone", func() { s.RemoveNode("n2") })
		s.runUntil(func() bool {
			incident := s.Objects.State.Incident

			return incident != nil && incident.Lost[0].Deleted && len(incident.Confirmed) == 2
		})
		s.Store.Down = true
		Expect(s.Write(20)).To(BeTrue())
		s.inject("node n3 is gone", func() { s.RemoveNode("n3"); s.Store.Down = false })
		s.runUntil(func() bool { return s.Objects.State.Recovery != nil })
		s.SetClassBroken("", false)
	}
	// recovered expects that nothing of the recovery is left, and that the cluster has all acknowledged writes up to the revision.
	recovered := func(s *scenario, bump int64) {
		GinkgoHelper()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(121 + bump))
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.Objects.State.Recovery).To(BeNil())
		Expect(s.Objects.State.Incident).To(BeNil())
		Expect(s.Etcd.Annotations).To(BeEmpty())
		Expect(s.Objects.RecoveryJob.Exists).To(BeFalse())
	}

	It("recovers without a loss and without a choice after members were lost in turn, by the policy AutoIfNoLoss", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAutoIfNoLoss, withStore)
		loseInTurn(s)
		s.idleTicks = 200
		s.run()
		recovered(s, 0)
		Expect(s.Objects.State.Evidence.AcceptedRevision).To(BeZero(), "nothing is lost")
		s.expectGolden("three-recovered-without-loss")
	})

	It("states the loss after members were lost at once, and recovers from the remaining member when a user chooses that", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		Expect(s.steps).To(BeEmpty(), "nothing is changed without a choice")
		members, store := s.option(state.RecoverMembers), s.option(state.RecoverStore)
		Expect(members.Revision).To(BeEquivalentTo(121))
		Expect(members.Text).To(ContainSubstring("0 of the known revisions are lost; acknowledged writes after 2026-01-01T12:"))
		Expect(store.Revision).To(BeEquivalentTo(101))
		Expect(store.Text).To(ContainSubstring("20 of the known revisions are lost, these are the writes after 2026-01-01T12:"))
		s.choose(state.RecoverMembers)
		s.run()
		recovered(s, 1_000_000_000)
		s.expectGolden("three-recovered-from-a-member")
	})

	It("recovers from the store when a user chooses that, and increases the revision", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverStore)
		s.run()
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(1_000_000_101))
		Expect(s.Acknowledged.Lost(s.IsKept)).To(BeEmpty(), "the loss was reported")
		Expect(s.Objects.State.Evidence.AcceptedRevision).To(BeEquivalentTo(1_000_000_101))
	})

	DescribeTable("does nothing without a choice",
		func(policy druidv1alpha1.RecoveryPolicy, change func(*scenario)) {
			s := created(3, policy, withStore)
			change(s)
			loseAtOnce(s)
			s.idleTicks = 200
			s.run()
			Expect(s.steps).NotTo(HaveKey("RecoverData"))
			Expect(s.Objects.State.Restore).To(BeEmpty())
			Expect(s.Objects.PodFor(0)).NotTo(BeNil())
			Expect(s.violations()).To(BeEmpty())
		},
		Entry("with Ask", druidv1alpha1.RecoveryPolicyAsk, func(*scenario) {}),
		Entry("with Never", druidv1alpha1.RecoveryPolicyNever, func(*scenario) {}),
		Entry("with AutoIfNoLoss, since members that were lost at once prove nothing", druidv1alpha1.RecoveryPolicyAutoIfNoLoss, func(*scenario) {}),
		Entry("with Auto, if the operator may not choose", druidv1alpha1.RecoveryPolicyAuto, func(s *scenario) { s.operator.Config.RecoveryMaxClusters = -1 }),
	)

	It("recovers from the newest data by the policy Auto, after a time", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		loseAtOnce(s)
		lostAt := s.Objects.State.Recovery.LostAt
		Expect(s.Objects.State.Restore).To(BeEmpty())
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		Expect(s.Now().Sub(lostAt)).To(BeNumerically(">=", dwellTime))
		s.run()
		recovered(s, 1_000_000_000)
	})

	It("does not choose the store by itself while the revision of a member is not known", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		withPolicy(druidv1alpha1.RecoveryPolicyAuto)(s.Etcd)
		o, later := s.withConfig(), s.Now().Add(dwellTime)
		Expect(planner.For(s.Etcd, o, later).Recovery.Source).To(Equal(state.RecoverMembers))
		o.Etcd.Members, o.Inspections = nil, nil
		p := planner.For(s.Etcd, o, later)
		Expect(p.Recovery.Source).To(BeEmpty())
		Expect(planner.QuorumLossOf(s.Etcd, o, later).WaitsForChoice(o, later)).To(Equal("the revision of main-0 is not known yet"))
	})

	DescribeTable("does not choose by itself while not all members have the same data", func(policy druidv1alpha1.RecoveryPolicy, lose func(*scenario)) {
		s := created(3, policy, withStore)
		lose(s)
		s.Objects.State.Inconsistency = &state.Inconsistency{Revision: 100, Members: []state.MemberHash{{Name: "main-0", ID: "a1", Hash: 7}, {Name: "main-1", ID: "a2", Hash: 8}}}
		s.idleTicks = 300
		s.run()
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.quorumLoss().String()).To(ContainSubstring("Not all members have the same data: "))
		Expect(s.option(state.RecoverMembers).Unusable).To(BeEmpty(), "a user can choose it")
	},
		Entry("with AutoIfNoLoss, although the log has every write", druidv1alpha1.RecoveryPolicyAutoIfNoLoss, loseInTurn),
		Entry("with Auto", druidv1alpha1.RecoveryPolicyAuto, loseAtOnce),
	)

	It("withdraws a choice if a lost member returns, and the cluster recovers by itself", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAutoIfNoLoss, withStore)
		loseInTurn(s)
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		s.inject("node n3 returns with its volume", func() { s.Node("n3").Gone = false; s.Refresh() })
		s.run()
		Expect(s.trace).To(ContainElement(ContainSubstring("the recovery is withdrawn, and the members start again with their volumes: 2 of 3 voting members have their data, and can be a quorum again")))
		Expect(s.steps).NotTo(HaveKey("RecoverData"))
		recovered(s, 0)
	})

	It("continues an earlier restore after a withdrawal", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		s.Objects.State.Verified = &state.VerifiedRestore{Revision: 7}
		s.inject("the newest log lacks the stated revision", func() { s.Volumes["main-main-0"].Data = s.Data.At(120) })
		s.runUntil(func() bool { return s.Objects.State.Recovery.Withdrawn != "" })
		Expect(s.Objects.State.Restore).To(Equal(state.RestoreJoin))
		Expect(s.Objects.State.Verified).NotTo(BeNil())
	})

	It("does not choose by itself while too many clusters have no quorum, and says so", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		loseAtOnce(s)
		s.Objects.ClustersWithoutQuorum = []string{"a/main", "b/main", "c/main"}
		s.idleTicks = 200
		s.run()
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.last).To(ContainSubstring("4 clusters have lost their quorum at about the same time, more than the 3 of controllers.etcd.recovery.maxClusters; this may be a fault of the network or of the nodes (a/main, b/main, c/main)"))
		s.Objects.ClustersWithoutQuorum = []string{"a/main", "b/main"}
		s.run()
		recovered(s, 1_000_000_000)
	})

	DescribeTable("withdraws a choice before anything is stored, starts the members again, and does not repeat it by itself, if",
		func(happen func(*scenario), why string) {
			s := created(3, druidv1alpha1.RecoveryPolicyAutoIfNoLoss, withStore)
			loseInTurn(s)
			s.idleTicks = 200
			s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
			s.inject("something is not as it was", func() { happen(s) })
			s.run()
			Expect(s.steps).NotTo(HaveKey("RecoverData"))
			Expect(s.Objects.State.Restore).To(BeEmpty())
			Expect(s.Objects.State.Recovery.Withdrawn).To(ContainSubstring(why))
			Expect(s.Objects.PodFor(0)).NotTo(BeNil(), "the members are started again")
			Expect(strings.Count(strings.Join(s.trace, "\n"), "the recovery is withdrawn")).To(Equal(1))
			Expect(s.violations()).To(BeEmpty())
		},
		Entry("the proof is missing", func(s *scenario) { s.Objects.State.Incident.Confirmed = nil }, "it is not proven that nothing is lost"),
		Entry("the newest log lacks the stated revision", func(s *scenario) { s.Volumes["main-main-0"].Data = s.Data.At(120) }, "ends with revision 120 at most, and revision 121 was stated"),
		Entry("the newest log is from before the recorded term", func(s *scenario) { s.Objects.State.Evidence.Term = 9 }, "and a quorum had term 9"),
		Entry("no volume has data", func(s *scenario) { s.LoseVolume(0) }, "no volume has the data of a voting member"),
		Entry("a user forbids recoveries", func(s *scenario) { withPolicy(druidv1alpha1.RecoveryPolicyNever)(s.Etcd) }, "the recovery policy is Never"),
	)

	DescribeTable("gives a token no effect",
		func(change func(*scenario), message string) {
			s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
			loseAtOnce(s)
			token := s.option(state.RecoverMembers).Token
			s.Etcd.Annotations = map[string]string{druidv1alpha1.RecoverAnnotation: token}
			change(s)
			chosen, ignored := planner.EvaluateRecovery(s.Etcd, s.withConfig(), s.Now())
			Expect(chosen).To(BeNil())
			Expect(ignored).To(ContainSubstring(message))
			Expect(planner.For(s.Etcd, s.withConfig(), s.Now()).Restore).To(BeEmpty())
		},
		Entry("if it is another one", func(s *scenario) { s.Etcd.Annotations[druidv1alpha1.RecoverAnnotation] = "members-00000000" }, "no option has the token members-00000000"),
		Entry("after the data has changed", func(s *scenario) { s.Volumes["main-main-0"].Data = s.Data.At(120); s.Refresh() }, "the facts have changed"),
		Entry("after a higher revision is known", func(s *scenario) { s.Objects.State.Evidence.HighestRevision = 130 }, "the facts have changed"),
		Entry("with the policy Never", func(s *scenario) { withPolicy(druidv1alpha1.RecoveryPolicyNever)(s.Etcd) }, "the recovery policy is Never"),
		Entry("without a store", func(s *scenario) { s.Etcd.Spec.Backup.Store = nil }, "there is no backup store through which"),
		Entry("while a quorum is possible", func(s *scenario) { s.Volumes["main-main-1"].Lost = false; s.Refresh() }, "the quorum is not lost forever"),
	)

	// stored stops the simulation when a Job has copied the data of the remaining member.
	stored := func() *scenario {
		GinkgoHelper()
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.State.Recovery.Stored != nil })

		return s
	}

	It("copies the data again if the snapshot is removed from the bucket", func() {
		s := stored()
		s.inject("the snapshot is removed from the bucket", func() { s.Store.RollBack(s.Store.Len() - 1) })
		s.run()
		Expect(s.steps["RecoverData"]).To(Equal(2))
		recovered(s, 1_000_000_000)
	})

	DescribeTable("copies the data again if the first member would restore from another store", func(phase state.RestorePhase) {
		s := stored()
		s.runUntil(func() bool { return s.Objects.State.Restore == phase })
		s.Objects.State.Recovery.Stored.Store = "S3 bucket a"
		if verified := s.Objects.State.Verified; verified != nil {
			verified.Store = "S3 bucket a"
		}
		o := s.withConfig()
		o.TargetStore = "S3 bucket b"
		p := planner.For(s.Etcd, o, s.Now())
		Expect(p.Restore).To(Equal(state.RestoreRecover), "the members do not start again: %s", p.Reason)
		Expect(p.Recovery.Stored).To(BeNil())
		Expect(p.Recovery.Outdated).To(Equal(o.RecoveryJob.UID))
		Expect(p.Reason).To(ContainSubstring("would restore from S3 bucket b"))
		o.State.Recovery = p.Recovery
		o.State.Restore = p.Restore
		Expect(planner.For(s.Etcd, o, s.Now()).Step).To(Equal(plan.DeleteRestoreJob{Meta: plan.Meta{Object: "main-recover", UID: o.RecoveryJob.UID}}))
	},
		Entry("before the verification", state.RestoreRecover),
		Entry("before the claims are deleted", state.RestoreDiscard),
	)

	It("waits for the previous store if the claim with the data is deleted", func() {
		s := stored()
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreDiscard && !s.Objects.ClaimFor(0).Exists })
		o := s.withConfig()
		o.State.Verified.Store, o.TargetStore = "S3 bucket a", "S3 bucket b"
		Expect(planner.For(s.Etcd, o, s.Now())).To(And(HaveField("Restore", state.RestoreDiscard), HaveField("Step", BeNil()), HaveField("WaitsFor", ContainSubstring("the previous backup store in the spec"))))
	})

	It("keeps the record of the recovery until no claim is left, also during a requested restore", func() {
		s := stored()
		s.inject("a user requests a restore that accepts the revision", func() {
			s.Etcd.Annotations = map[string]string{druidv1alpha1.RestoreAnnotation: druidv1alpha1.RestoreFromStoreUnverified}
		})
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreDiscard })
		Expect(s.Objects.State.Recovery.IsActive()).To(BeTrue())
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreStart })
		Expect(s.Objects.State.Recovery).To(BeNil())
	})

	It("does not continue with another snapshot than the one that it has stored", func() {
		s := stored()
		s.inject("a newer snapshot is in the bucket", func() {
			_, err := s.Store.Add(s.Data.Bumped(2_000_000_000), s.Now(), false)
			Expect(err).NotTo(HaveOccurred())
		})
		s.run()
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.last).To(ContainSubstring("No data is deleted. Check the store for newer snapshots"))
		Expect(s.Objects.Pods).To(BeEmpty(), "the members do not continue a history that the store does not have")
	})

	It("recovers without a loss after the lost member was removed, and its replacement has not caught up", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAutoIfNoLoss, withStore)
		s.CatchUpTicks = 1000
		s.inject("the volume of main-1 is lost", func() { s.LoseVolume(1); s.DeletePod(1) })
		s.runUntil(func() bool {
			incident := s.Objects.State.Incident

			return incident != nil && len(incident.Voters) == 2 && len(incident.Confirmed) == 2
		})
		Expect(s.Write(20)).To(BeTrue())
		s.inject("the volume of main-2 is lost", func() { s.LoseVolume(2); s.DeletePod(2) })
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		s.CatchUpTicks = 3
		s.run()
		recovered(s, 0)
	})

	It("counts a lost volume as lost although its member has a new claim, until that has a volume", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAutoIfNoLoss, withStore)
		loseInTurn(s)
		o := s.withConfig()
		Expect(s.quorumLoss().Lost).To(ContainElement("the volume of member main-1 was lost, and its new claim main-main-1 has no volume"))
		o.ClaimFor(1).Volume = "pv-9"
		Expect(planner.QuorumLossOf(s.Etcd, o, s.Now())).To(BeNil(), "a member may have joined while the operator did not run, and is not reachable now")
	})

	It("begins the dwell time again if a quorum was possible meanwhile", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		loseAtOnce(s)
		lostAt := s.Objects.State.Recovery.LostAt
		s.inject("the volume of main-1 exists again, and main-0 is unreachable", func() {
			s.Volumes["main-main-1"].Lost = false
			s.PartitionNode(s.Objects.PodFor(0).Node, true)
			s.Refresh()
		})
		s.runFor(4)
		Expect(s.Objects.State.Recovery).To(BeNil())
		s.inject("the volume of main-1 is lost again", func() { s.LoseVolume(1); s.Refresh() })
		s.runFor(4)
		Expect(s.Objects.State.Recovery).NotTo(BeNil(), s.last)
		Expect(s.Objects.State.Recovery.LostAt).To(BeTemporally(">", lostAt))
	})

	It("ignores the record of an earlier loss if a quorum has responded since", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		outdated := &state.Recovery{LostAt: s.Now().Add(-time.Hour), Token: "members-1", Withdrawn: "no volume has data"}
		loseAtOnce(s)
		s.Objects.State.Recovery = outdated
		s.runFor(2)
		Expect(s.Objects.State.Restore).To(BeEmpty(), "the dwell time begins now")
		Expect(s.Objects.State.Recovery.LostAt).To(BeTemporally("~", s.Now(), time.Minute))
		Expect(s.Objects.State.Recovery.Withdrawn).To(BeEmpty())
	})

	DescribeTable("recovers although the clock was ahead when a quorum responded last", func(policy druidv1alpha1.RecoveryPolicy) {
		s := created(3, policy, withStore)
		loseAtOnce(s)
		s.Objects.State.Recovery, s.Objects.State.Evidence.At = nil, s.Now().Add(24*time.Hour)
		if s.run(); policy == druidv1alpha1.RecoveryPolicyAsk {
			s.choose(state.RecoverMembers)
		}
		s.idleTicks = 200
		s.run()
		recovered(s, 1_000_000_000)
	},
		Entry("when a user chooses an option", druidv1alpha1.RecoveryPolicyAsk),
		Entry("by the policy Auto", druidv1alpha1.RecoveryPolicyAuto),
	)

	It("does not choose again with the token of a withdrawn recovery", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		token := s.Etcd.Annotations[druidv1alpha1.RecoverAnnotation]
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		newest := s.Volumes["main-main-0"].Data
		s.inject("the newest log lacks the stated revision", func() { s.Volumes["main-main-0"].Data = s.Data.At(120) })
		s.run()
		Expect(s.Objects.State.Recovery.Withdrawn).NotTo(BeEmpty())
		s.inject("the data is as before, and the annotation is set again", func() {
			s.Volumes["main-main-0"].Data = newest
			s.Etcd.Annotations = map[string]string{druidv1alpha1.RecoverAnnotation: token}
			s.Refresh()
		})
		s.runFor(5)
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.Etcd.Annotations).To(BeEmpty(), "the event says why it is ignored")
		s.choose(state.RecoverMembers)
		s.run()
		recovered(s, 1_000_000_000)
	})

	// storing stops the simulation when the first Job has failed to copy the data of the remaining member.
	storing := func() *scenario {
		GinkgoHelper()
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.State.Recovery.IsActive() && s.Objects.State.Recovery.Claim != "" })
		s.inject("the store is unreachable", func() { s.Store.Down = true })
		s.runUntil(func() bool { return s.Objects.RecoveryJob.Failed && s.Objects.State.Recovery.Job != "" })

		return s
	}

	It("repeats a Job that has failed", func() {
		s := storing()
		s.runFor(60)
		Expect(s.steps["RecoverData"]).To(BeNumerically("~", 3, 1), "at most every two minutes")
		Expect(s.Objects.Pods).To(BeEmpty())
		s.inject("the store is reachable again", func() { s.Store.Down = false })
		s.run()
		recovered(s, 1_000_000_000)
	})

	DescribeTable("does not withdraw after a Job may have copied the data into the store, if",
		func(happen func(*scenario), why string) {
			s := storing()
			s.inject("something is not as it was", func() { happen(s); s.Store.Down = false; s.Refresh() })
			s.idleTicks = 100
			s.run()
			Expect(s.Objects.State.Restore).To(Equal(state.RestoreRecover), strings.Join(s.trace, "\n"))
			Expect(s.Objects.State.Recovery.Withdrawn).To(BeEmpty())
			Expect(s.Objects.Pods).To(BeEmpty(), "no member continues a history that the store does not have")
			Expect(s.last).To(ContainSubstring(why))
			Expect(s.violations()).To(BeEmpty())
		},
		Entry("its Job is deleted and the volume is lost", func(s *scenario) { s.Objects.RecoveryJob = etcdcluster.RecoveryJob{}; s.LoseVolume(0) }, "no volume has the data of a voting member"),
		Entry("the data is refused now", func(s *scenario) { s.Volumes["main-main-0"].Data = s.Data.At(120) }, "Job main-recover failed: the data has revision 120"),
	)

	It("records the Job that may copy something before it has a pod", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.RecoveryJob.Exists && !s.Objects.RecoveryJob.Suspended })
		Expect(s.Objects.State.Recovery.Job).To(Equal(s.Objects.RecoveryJob.UID))
		s.inject("the Job has copied the data, is deleted before the operator has read its result, and the policy is Never", func() {
			s.Tick()
			s.Objects.RecoveryJob = etcdcluster.RecoveryJob{}
			withPolicy(druidv1alpha1.RecoveryPolicyNever)(s.Etcd)
		})
		s.runFor(20)
		Expect(s.Objects.State.Recovery == nil || s.Objects.State.Recovery.Withdrawn == "").To(BeTrue(), "a member would continue a history that the store does not have")
	})

	It("withdraws after the suspended Job is deleted if a user forbids recoveries", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.RecoveryJob.Exists })
		s.inject("a user forbids recoveries", func() { withPolicy(druidv1alpha1.RecoveryPolicyNever)(s.Etcd) })
		s.run()
		Expect(s.Objects.RecoveryJob.Exists).To(BeFalse())
		Expect(s.steps).NotTo(HaveKey("ResumeJob"))
		Expect(s.Objects.State.Recovery.Withdrawn).To(Equal("the recovery policy is Never"))
		Expect(s.Objects.Pods).NotTo(BeEmpty())
	})

	It("does not resume the Job of a policy while too many clusters have no quorum", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		loseAtOnce(s)
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.RecoveryJob.Exists })
		s.Objects.ClustersWithoutQuorum = []string{"a/main", "b/main", "c/main", "d/main"}
		s.runFor(20)
		Expect(s.steps).NotTo(HaveKey("ResumeJob"))
		Expect(s.last).To(ContainSubstring("(a/main, b/main, c/main and 1 others)"))
		s.Objects.ClustersWithoutQuorum = nil
		s.run()
		recovered(s, 1_000_000_000)
	})

	It("increases the revision of the store once, although the first Job has failed after it had copied", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverStore)
		hasFailed := false
		s.operator.OnObserve = func(o *etcdcluster.Observation) {
			if job := &s.Objects.RecoveryJob; job.Result != nil && !hasFailed {
				hasFailed = true
				job.Result, job.Failed, job.Message = nil, true, "its pod was deleted"
				o.RecoveryJob = *job
			}
		}
		s.idleTicks = 100
		s.run()
		Expect(hasFailed).To(BeTrue())
		s.expectDone()
		Expect(s.Data.Revision).To(BeEquivalentTo(1_000_000_101))
	})

	It("repeats an inspection that has failed before it withdraws", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAutoIfNoLoss, withStore)
		loseInTurn(s)
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		s.operator.OnObserve = func(o *etcdcluster.Observation) {
			for i := range o.Inspections {
				o.Inspections[i].Result, o.Inspections[i].Failed, o.Inspections[i].Message = nil, true, "the image could not be pulled"
			}
		}
		s.runFor(20)
		Expect(s.last).To(ContainSubstring("main-0-inspect failed: the image could not be pulled"))
		s.operator.OnObserve = nil
		s.run()
		recovered(s, 0)
	})

	It("counts the dwell time from the start of the operator, because it may not know the other clusters before", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		loseAtOnce(s)
		s.Advance(time.Hour)
		s.operator.Start = s.Now()
		s.runFor(2)
		Expect(s.Objects.State.Restore).To(BeEmpty())
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		Expect(s.Now().Sub(s.operator.Start)).To(BeNumerically(">=", dwellTime))
	})

	It("chooses once, also while members join after an earlier restore", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore)
		loseAtOnce(s)
		s.Objects.State.Restore, s.Objects.State.Verified = state.RestoreJoin, &state.VerifiedRestore{Revision: 7}
		s.idleTicks = 200
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		s.inject("the newest log is from before the recorded term", func() { s.Objects.State.Evidence.Term = 9 })
		s.runFor(600)
		Expect(strings.Count(strings.Join(s.trace, "\n"), "all members are stopped first")).To(Equal(1))
		Expect(s.Objects.State.Recovery.Withdrawn).NotTo(BeEmpty())
	})

	DescribeTable("does not choose writes that users have given up", func(change func(*state.Evidence), policy druidv1alpha1.RecoveryPolicy, expected state.RecoverySource, text string) {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		withPolicy(policy)(s.Etcd)
		change(s.Objects.State.Evidence)
		o, later := s.withConfig(), s.Now().Add(dwellTime)
		for _, lease := range []*etcdcluster.Lease{&o.FullSnapshotLease, &o.DeltaSnapshotLease} {
			lease.Holder, lease.RenewTime = "500", s.Now().Add(-2*time.Hour)
		}
		loss := planner.QuorumLossOf(s.Etcd, o, later)
		Expect(loss.String()).To(ContainSubstring(text))
		if expected == "" {
			Expect(planner.For(s.Etcd, o, later).Restore).To(BeEmpty())
		} else {
			Expect(loss.Known).To(BeEquivalentTo(121))
			Expect(planner.For(s.Etcd, o, later).Recovery.Source).To(Equal(expected))
		}
	},
		Entry("in the store after a user has accepted a rollback", func(recorded *state.Evidence) {
			recorded.AcceptedRevision, recorded.LostRevision, recorded.AcceptedRollbackAt = 41, 500, recorded.At.Add(-time.Hour)
		}, druidv1alpha1.RecoveryPolicyAuto, state.RecoverMembers, "They may contain writes that were given up, and may lack later ones: a user accepted revision 41"),
		Entry("or not, after a rollback that no user has accepted", func(recorded *state.Evidence) {
			recorded.HighestRevision, recorded.RolledBack = 500, &state.RolledBack{Revision: 41, At: recorded.At}
		}, druidv1alpha1.RecoveryPolicyAuto, state.RecoverySource(""), "The cluster has lost acknowledged writes before: a quorum returned revision 41"),
	)

	DescribeTable("says why no recovery can begin", func(change func(*scenario), text string) {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		change(s)
		result := s.operator.Reconcile()
		loss, waits := result.QuorumLoss(s.Now())
		Expect(loss).NotTo(BeNil())
		Expect(waits).To(ContainSubstring(text))
		if s.Etcd.Annotations == nil {
			s.Etcd.Annotations = map[string]string{}
		}
		s.Etcd.Annotations[druidv1alpha1.RecoverAnnotation] = s.option(state.RecoverMembers).Token
		result = s.operator.Reconcile()
		Expect(result.Requests).To(ContainElement(And(HaveField("Annotation", druidv1alpha1.RecoverAnnotation), HaveField("Ignored", waits))))
	},
		Entry("of a suspended Etcd", func(s *scenario) {
			s.Etcd.Annotations = map[string]string{druidv1alpha1.SuspendEtcdSpecReconcileAnnotation: ""}
		}, "the Etcd is suspended"),
		Entry("of an Etcd without an accepted generation", func(s *scenario) {
			s.Objects.State.Accepted, s.Etcd.Spec.Etcd.Version = nil, new("9.9")
			s.IncrementGeneration()
		}, "no generation of the Etcd is accepted: "),
	)

	It("states no token with the policy Never", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyNever, withStore)
		loseAtOnce(s)
		Expect(s.quorumLoss().String()).To(And(ContainSubstring("members: the data of main-0"), Not(ContainSubstring("token"))))
	})

	It("withdraws if the first Job refuses the data", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.State.Recovery.IsActive() && s.Objects.State.Recovery.Claim != "" })
		s.inject("the volume lacks the stated revision", func() { s.Volumes["main-main-0"].Data = s.Data.At(120) })
		s.run()
		Expect(s.Objects.State.Restore).To(BeEmpty())
		Expect(s.Objects.State.Recovery.Withdrawn).To(ContainSubstring("Job main-recover has copied nothing: the data has revision 120"))
		Expect(s.Objects.Pods).NotTo(BeEmpty())
	})

	It("continues after a hibernation", func() {
		s := storing()
		s.inject("the cluster is to hibernate, and the store is reachable", func() { s.Etcd.Spec.Replicas, s.Store.Down = 0, false; s.IncrementGeneration() })
		s.runFor(20)
		Expect(s.Objects.State.Restore).To(Equal(state.RestoreRecover))
		s.inject("the cluster is to wake up", func() { s.Etcd.Spec.Replicas = 3; s.IncrementGeneration() })
		s.run()
		recovered(s, 1_000_000_000)
	})

	It("does not count the learner of a volume migration as a lost voting member", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAuto, withStore, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("slow") })
		s.CatchUpTicks = 1000
		s.inject("another storage class is requested", func() { s.Etcd.Spec.StorageClass = new("fast"); s.IncrementGeneration() })
		s.runUntil(func() bool {
			return len(s.Objects.Pods) == 4 && s.Objects.PodFor(3).Ready == false && len(s.Members) == 4
		})
		s.inject("the volumes of main-2 and of the extra member are lost, and the others are unreachable", func() {
			s.LoseVolume(2)
			s.LoseVolume(3)
			s.DeletePod(2)
			s.DeletePod(3)
			s.StopEtcd(0)
			s.StopEtcd(1)
			s.Refresh()
		})
		Expect(planner.QuorumLossOf(s.Etcd, s.withConfig(), s.Now())).To(BeNil(), "two of three voting members have their data")
	})

	It("offers no option while members of the joined cluster vote", func() {
		s := newScenario(3, withStore, withPolicy(druidv1alpha1.RecoveryPolicyAuto), joining)
		s.operator.Config.RecoveryDwellTime, s.operator.Config.RecoveryMaxClusters = dwellTime, 3
		s.AddExisting("old-0", "old-1", "old-2")
		s.run()
		s.inject("all volumes are lost, and the joined cluster does not respond", func() {
			for ordinal := range 3 {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}
			for _, name := range []string{"old-0", "old-1", "old-2"} {
				s.StopExisting(name, true)
			}
			s.Refresh()
		})
		s.idleTicks = 200
		s.runFor(250)
		Expect(s.steps).NotTo(HaveKey("RecoverData"))
		Expect(s.quorumLoss().Options).To(HaveEach(HaveField("Unusable", ContainSubstring("members of the cluster that the Etcd has joined vote"))))
	})

	It("waits for all pods, and for facts", func() {
		s := created(3, druidv1alpha1.RecoveryPolicyAsk, withStore)
		loseAtOnce(s)
		s.choose(state.RecoverMembers)
		s.runUntil(func() bool { return s.Objects.State.Restore == state.RestoreRecover })
		p := planner.For(s.Etcd, s.withConfig(), s.Now())
		Expect(p.WaitsFor).To(ContainSubstring("pod main-0 to be gone"))
		Expect(p.Replicas).To(BeZero())
		o := s.withConfig()
		o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionLeases, Message: "timeout"}}
		Expect(planner.For(s.Etcd, o, s.Now())).To(And(HaveField("Step", BeNil()), HaveField("WaitsFor", "reading Leases: timeout"), HaveField("Stage", plan.StageRestore)))
	})
})
