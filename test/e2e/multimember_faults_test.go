// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	// electionBound is how long writes may stop when the leader is lost without a word: etcd's members stand for election after one
	// to two seconds of silence (election-timeout is 1 s), and clients have to find the new leader.
	electionBound = 4 * time.Second
	// detectionBound and repairBound are how soon a fault has to show in the condition, and its repair has to begin.
	detectionBound, repairBound = 10 * time.Second, 30 * time.Second
)

// These stories disturb nodes and measure gaps, so that no other may run beside them. They share their cluster, of which each node
// has a member, with a volume that is lost with the node.
var _ = Describe("Three members, of which", Serial, Ordered, func() {
	var (
		ns   *framework.TestNamespace
		etcd *druidv1alpha1.Etcd
	)

	BeforeAll(func(ctx SpecContext) {
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		operator.PinToNode(ctx, "n1")
		ns = seed.NewNamespace(ctx, "faults")
		etcd = fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns), onDifferentNodes)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		for _, node := range []string{"n1", "n2", "n3"} {
			Expect(memberOn(ctx, ns, node)).NotTo(BeEmpty(), node)
		}
	}, NodeTimeout(specTimeout))

	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			ns.Report(ctx)
		}
	})

	It("one loses its process, its pod, its data, or its volume: the others are not touched", func(ctx SpecContext) {
		workload := ns.StartWorkload(ctx, etcd, "the leader is lost suddenly")

		By("losing the leader's process without a word")
		before, ids, victim := podsByName(ctx, ns), memberIDs(etcd), leader(etcd)
		ns.Crash(new(before[victim]), "etcd")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(findLeader(etcd)).NotTo(BeElementOf("", victim))
			g.Expect(restartsOf(podsByName(ctx, ns)[victim])["etcd"]).To(BeNumerically(">", restartsOf(before[victim])["etcd"]))
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
		})
		expectUntouched(ctx, ns, before, victim)
		Expect(memberIDs(etcd)).To(Equal(ids), "it is the same voter")

		By("losing a pod")
		workload.StartPhase("a pod is lost")
		before, victim = podsByName(ctx, ns), follower(etcd)
		ns.Kill(ctx, new(before[victim]))
		expectWithin("a lost pod is in the condition after", eventuallyNamed(ctx, ns, etcd, victim), detectionBound)
		ns.EventuallyReplaced(ctx, etcd, new(before[victim]))
		expectUntouched(ctx, ns, before, victim)
		Expect(memberIDs(etcd)).To(Equal(ids), "it is the same voter")

		By("losing the data of a member")
		workload.StartPhase("the data of a member is corrupted")
		before, victim = podsByName(ctx, ns), follower(etcd)
		ns.Corrupt(ctx, "main-"+victim)
		ns.Crash(new(before[victim]), "etcd")
		expectWithin("a member with corrupt data is in the condition after", eventuallyNamed(ctx, ns, etcd, victim), detectionBound)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
			g.Expect(memberIDs(etcd)[victim]).NotTo(Equal(ids[victim]), "it joined again")
		})
		expectUntouched(ctx, ns, before, victim)

		By("losing a volume")
		workload.StartPhase("the volume of a member is lost")
		before, victim = podsByName(ctx, ns), follower(etcd)
		claim := ns.ClaimNamed(ctx, "main-"+victim)
		ns.DeleteVolume(ctx, claim.Name)
		began := time.Now()
		ns.Kill(ctx, new(before[victim]))
		eventuallyReplacing(ctx, ns, claim.Name, "2 of 3 healthy by a quorum read")
		expectWithin("the repair of a lost volume began after", time.Since(began), repairBound)
		ns.EventuallyReplaced(ctx, etcd, new(before[victim]))
		Expect(ns.ClaimNamed(ctx, claim.Name).UID).NotTo(Equal(claim.UID))
		expectUntouched(ctx, ns, before, victim)

		phases := workload.Stop(ctx)
		Expect(max(phases[0].WriteGap, phases[0].MembersGap)).To(BeNumerically("<", electionBound), phases[0].String())
		expectNoFailures(phases[1:])
	}, SpecTimeout(specTimeout))

	It("two are cut off one after the other, and healed: they are the same voters, and nothing is deleted", func(ctx SpecContext) {
		first, second := memberOn(ctx, ns, "n3"), memberOn(ctx, ns, "n2")
		pods, claims, ids, replaced := podsByName(ctx, ns), claimUIDs(ctx, ns), memberIDs(etcd), len(eventsWithReason(ctx, ns, "ReplacingVolume"))
		workload := ns.StartWorkload(ctx, etcd, "one of three nodes is cut off")
		seed.Partition(ctx, "n3")
		expectWithin("a member that fell silent is in the condition after", eventuallyNamed(ctx, ns, etcd, first+" is Unknown (Unreachable)"), detectionBound)

		By("waiting until the API server gives the node up")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "AllMembersReady").Message).To(ContainSubstring("Member " + first + " is NotReady"))
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("True"))
		})

		By("losing the quorum")
		workload.StartPhase("two of three nodes are cut off")
		seed.Partition(ctx, "n2")
		began := time.Now()
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "QuorumLost")))
			g.Expect(framework.Condition(etcd, "AllMembersReady").Message).To(ContainSubstring("Member " + second))
		})
		expectWithin("a lost quorum is in the condition after", time.Since(began), detectionBound)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Message).To(ContainSubstring("0 of 3 healthy"))
		})

		By("healing one after the other")
		seed.Heal(ctx, "n3")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("True"))
		})
		workload.StartPhase("one of three nodes is healed")
		seed.Heal(ctx, "n2")
		ns.EventuallyReady(ctx, etcd)
		expectUntouched(ctx, ns, pods, "")
		Expect(claimUIDs(ctx, ns)).To(Equal(claims))
		Expect(memberIDs(etcd)).To(Equal(ids))
		Expect(eventsWithReason(ctx, ns, "ReplacingVolume")).To(HaveLen(replaced))

		phases := workload.Stop(ctx)
		expectShortMemberGaps(phases[0], phases[2])
	}, SpecTimeout(specTimeout))

	It("one is gone for good with its node and volume, of which somebody tells: it joins again elsewhere", func(ctx SpecContext) {
		victim, pods, ids := memberOn(ctx, ns, "n3"), podsByName(ctx, ns), memberIDs(etcd)
		claim := ns.ClaimNamed(ctx, "main-"+victim)
		workload := ns.StartWorkload(ctx, etcd, "one of three nodes is gone for good")
		seed.Partition(ctx, "n3")
		eventuallyNamed(ctx, ns, etcd, victim)
		Expect(claim.UID).To(Equal(ns.ClaimNamed(ctx, claim.Name).UID), "it may come back")
		seed.MarkOutOfService(ctx, "n3")
		began := time.Now()
		ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(eventsWithReason(ctx, ns, "FinalSnapshotTaken")).NotTo(BeEmpty()) })
		expectWithin("the repair of a node that is gone begins, with a full snapshot that was verified, after", time.Since(began), repairBound)
		eventuallyReplacing(ctx, ns, claim.Name, "can be used on node n3 alone", "2 of 3 healthy by a quorum read", "full snapshot")
		expectWithin("the volume that was lost with the node is replaced after", time.Since(began), repairBound)
		ns.EventuallyReplaced(ctx, etcd, new(pods[victim]))
		after := podsByName(ctx, ns)
		Expect(after[victim].Spec.NodeName).NotTo(Equal("n3"))
		Expect(ns.ClaimNamed(ctx, claim.Name).UID).NotTo(Equal(claim.UID))
		expectUntouched(ctx, ns, pods, victim)
		Expect(memberIDs(etcd)[victim]).NotTo(Equal(ids[victim]))
		expectShortMemberGaps(workload.Stop(ctx)...)
	}, SpecTimeout(specTimeout))
})
