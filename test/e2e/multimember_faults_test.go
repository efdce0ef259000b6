// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	// electionBound bounds the time without writes when the leader crashes. The members start an election one to two seconds
	// after the last heartbeat (election-timeout is 1 s). Clients then have to find the new leader.
	electionBound = 4 * time.Second
	// detectionBound bounds the time until a condition reports a fault. repairBound bounds the time until the operator
	// starts the repair.
	detectionBound, repairBound = 10 * time.Second, 30 * time.Second
)

// This test measures gaps, and disturbs no member of another test.
var _ = Describe("A cluster of three members", quiet, framework.NeedsSeed("kills processes and damages volumes"), framework.NeedsRestore("validates the data after a crash"), func() {
	It("recovers from the loss of a process, a pod, the data or the volume of one member without an effect on the other members", gate, func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "losses")
		// With a store, the first member would restart alone, and its sidecar would search for other members for a minute.
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), onDifferentNodes)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		workload := ns.StartWorkload(ctx, etcd, "the leader crashes")

		By("crashing the process of the leader")
		before, ids, victim := podsByName(ctx, ns), memberIDs(etcd), leader(etcd)
		ns.Crash(new(before[victim]), "etcd")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(findLeader(etcd)).NotTo(BeElementOf("", victim))
			g.Expect(restartsOf(podsByName(ctx, ns)[victim])["etcd"]).To(BeNumerically(">", restartsOf(before[victim])["etcd"]))
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
		})
		expectUntouched(ctx, ns, before, victim)
		Expect(memberIDs(etcd)).To(Equal(ids), "the member ID is the same")

		By("deleting a pod")
		workload.StartPhase("a pod is deleted")
		before, victim = podsByName(ctx, ns), follower(etcd)
		ns.Kill(ctx, new(before[victim]))
		expectWithin("the condition reports a deleted pod after", eventuallyNamed(ctx, ns, etcd, victim), detectionBound)
		ns.EventuallyReplaced(ctx, etcd, new(before[victim]))
		expectUntouched(ctx, ns, before, victim)
		Expect(memberIDs(etcd)).To(Equal(ids), "the member ID is the same")

		By("corrupting the data of a member")
		workload.StartPhase("the data of a member is corrupted")
		before, victim = podsByName(ctx, ns), follower(etcd)
		ns.Corrupt(ctx, "main-"+victim)
		ns.Crash(new(before[victim]), "etcd")
		expectWithin("the condition reports a member with corrupt data after", eventuallyNamed(ctx, ns, etcd, victim), detectionBound)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
			g.Expect(memberIDs(etcd)[victim]).NotTo(Equal(ids[victim]), "the member joined again")
		})
		expectUntouched(ctx, ns, before, victim)

		By("deleting a volume")
		workload.StartPhase("the volume of a member is deleted")
		before, victim = podsByName(ctx, ns), follower(etcd)
		claim := ns.ClaimNamed(ctx, "main-"+victim)
		ns.DeleteVolume(ctx, claim.Name)
		began := time.Now()
		ns.Kill(ctx, new(before[victim]))
		eventuallyReplacing(ctx, ns, claim.Name, "2 of 3 healthy by a quorum read")
		expectWithin("the repair of a deleted volume starts after", time.Since(began), repairBound)
		ns.EventuallyReplaced(ctx, etcd, new(before[victim]))
		Expect(ns.ClaimNamed(ctx, claim.Name).UID).NotTo(Equal(claim.UID))
		expectUntouched(ctx, ns, before, victim)

		By("replacing the volume of a member with the commands of the runbook")
		workload.StartPhase("a user replaces the volume of a member")
		before, victim = podsByName(ctx, ns), follower(etcd)
		const page = "operations/recover-a-member.md"
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": "main", "ORDINAL": strings.TrimPrefix(victim, "main-")}
		Expect(ns.Follow(ctx, page, "Recover a member", placeholders)).To(ContainSubstring(victim + " Ready"))
		claims := claimUIDs(ctx, ns)
		ns.Follow(ctx, page, "The data is corrupt", placeholders)
		ns.EventuallyReplaced(ctx, etcd, new(before[victim]))
		replaced := claimUIDs(ctx, ns)
		Expect(replaced["main-"+victim]).NotTo(Equal(claims["main-"+victim]))
		delete(claims, "main-"+victim)
		delete(replaced, "main-"+victim)
		Expect(replaced).To(Equal(claims))
		expectUntouched(ctx, ns, before, victim)

		phases := workload.Stop(ctx)
		expectBelow(max(phases[0].WriteGap, phases[0].MembersGap), electionBound, phases[0].String())
		expectNoFailures(phases[1:])
	}, SpecTimeout(specTimeout))
})

// These tests evict members, partition nodes and measure gaps. Therefore no other test may run at the same time. They share a cluster with a member on each
// node. The volumes of the members are local to their nodes.
var _ = Describe("A cluster of three members on different nodes", quiet, Serial, Ordered, framework.NeedsSeed("partitions nodes"), framework.NeedsRestore("validates the data after a crash"), func() {
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

	It("allows an administrator to drain one node at a time, and does not count the pod of a Job as a member", func(ctx SpecContext) {
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)

		By("running a pod with the labels of a compaction Job")
		compacting := compactingPod()
		ns.Create(ctx, compacting)
		Eventually(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(compacting), compacting)).To(Succeed())
			g.Expect(framework.IsPodReady(compacting)).To(BeTrue())
		}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main"}}
		Eventually(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(budget), budget)).To(Succeed())
			g.Expect(budget.Status).To(And(HaveField("ExpectedPods", int32(3)), HaveField("CurrentHealthy", int32(3)), HaveField("DisruptionsAllowed", int32(1))))
		}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		Expect(endpoints(ctx, ns, "main-client")).To(ConsistOf("main-0", "main-1", "main-2"))
		ns.Kill(ctx, compacting)

		By("evicting a second member only after the first has recovered")
		first, second := memberPod(ctx, ns, 1), memberPod(ctx, ns, 2) // the write log uses the first member
		Expect(evict(ctx, ns, first)).To(Succeed())
		Expect(evict(ctx, ns, second)).To(Satisfy(apierrors.IsTooManyRequests))
		writeLog.Write(ctx, 5) // two of three members are healthy

		Eventually(evict).WithArguments(ctx, ns, second).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		Expect(memberPod(ctx, ns, 1)).To(And(HaveField("UID", Not(Equal(first.UID))), Satisfy(framework.IsPodReady)), "the second eviction succeeded after the recovery of the first member")

		ns.EventuallyReplaced(ctx, etcd, second)
		Expect(ns.IsGone(ctx, compacting)).To(BeTrue())
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))

	It("keeps all members and volumes when two nodes are partitioned one after another and healed", func(ctx SpecContext) {
		first, second := memberOn(ctx, ns, "n3"), memberOn(ctx, ns, "n2")
		pods, claims, ids, replaced := podsByName(ctx, ns), claimUIDs(ctx, ns), memberIDs(etcd), len(eventsWithReason(ctx, ns, "ReplacingVolume"))
		workload := ns.StartWorkload(ctx, etcd, "one of three nodes is partitioned")
		seed.Partition(ctx, "n3")
		expectWithin("the condition reports an unreachable member after", eventuallyNamed(ctx, ns, etcd, first+" is Unknown (Unreachable)"), detectionBound)

		By("waiting until Kubernetes marks the pods of the node as not ready")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "AllMembersReady").Message).To(ContainSubstring("Member " + first + " is NotReady"))
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("True"))
		})

		By("partitioning a second node")
		workload.StartPhase("two of three nodes are partitioned")
		seed.Partition(ctx, "n2")
		began := time.Now()
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready")).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "QuorumLost")))
			g.Expect(framework.Condition(etcd, "AllMembersReady").Message).To(ContainSubstring("Member " + second))
		})
		expectWithin("the condition reports a lost quorum after", time.Since(began), detectionBound)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Reconciled").Message).To(ContainSubstring("0 of 3 healthy"))
		})

		By("healing one node after another")
		seed.Heal(ctx, "n3")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("True"))
		})
		workload.StartPhase("the first of two nodes is healed")
		seed.Heal(ctx, "n2")
		ns.EventuallyReady(ctx, etcd)
		expectUntouched(ctx, ns, pods, "")
		Expect(claimUIDs(ctx, ns)).To(Equal(claims))
		Expect(memberIDs(etcd)).To(Equal(ids))
		Expect(eventsWithReason(ctx, ns, "ReplacingVolume")).To(HaveLen(replaced))

		phases := workload.Stop(ctx)
		expectShortMemberGaps(phases[0], phases[2])
	}, SpecTimeout(specTimeout))

	It("replaces a member on another node after a user marks its node as out of service", func(ctx SpecContext) {
		victim, pods, ids := memberOn(ctx, ns, "n3"), podsByName(ctx, ns), memberIDs(etcd)
		claim := ns.ClaimNamed(ctx, "main-"+victim)
		workload := ns.StartWorkload(ctx, etcd, "one of three nodes is lost")
		seed.Partition(ctx, "n3")
		eventuallyNamed(ctx, ns, etcd, victim)
		Expect(claim.UID).To(Equal(ns.ClaimNamed(ctx, claim.Name).UID), "the node may recover")

		By("following the commands of the runbook for a lost node, which wait until all members are ready")
		const page = "operations/recover-a-member.md"
		placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": "main", "NODE": "n3"}
		followed := make(chan struct{})
		DeferCleanup(removeOutOfServiceTaint, "n3")
		go func() {
			defer GinkgoRecover()
			defer close(followed)
			ns.Follow(ctx, page, "The node is lost", placeholders)
		}()
		Eventually(isOutOfService).WithContext(ctx).WithArguments("n3").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval / 5).Should(BeTrue())
		began := time.Now()
		ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(eventsWithReason(ctx, ns, "FullSnapshotTaken")).NotTo(BeEmpty()) })
		expectWithin("the repair after the loss of a node starts with a verified full snapshot after", time.Since(began), repairBound)
		eventuallyReplacing(ctx, ns, claim.Name, "can be used on node n3 alone", "2 of 3 healthy by a quorum read", "full snapshot")
		expectWithin("the operator replaces the volume of the lost node after", time.Since(began), repairBound)
		ns.EventuallyReplaced(ctx, etcd, new(pods[victim]))
		after := podsByName(ctx, ns)
		Expect(after[victim].Spec.NodeName).NotTo(Equal("n3"))
		Expect(ns.ClaimNamed(ctx, claim.Name).UID).NotTo(Equal(claim.UID))
		expectUntouched(ctx, ns, pods, victim)
		Expect(memberIDs(etcd)[victim]).NotTo(Equal(ids[victim]))
		expectShortMemberGaps(workload.Stop(ctx)...)
		Eventually(followed).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).Should(BeClosed())

		By("using the node again")
		seed.Heal(ctx, "n3")
		ns.Follow(ctx, page, "The node has recovered", placeholders)
		Expect(isOutOfService(ctx, "n3")).To(BeFalse())
	}, SpecTimeout(specTimeout))
})
