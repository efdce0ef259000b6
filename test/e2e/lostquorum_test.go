// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The loss of two of three volumes", func() {
	DescribeTable("at once states the options, and the cluster is recovered from the one that a user chooses",
		func(ctx SpecContext, option, data string, isLong bool) {
			ns := seed.NewNamespace(ctx, "lost-quorum")
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns), withSmallJobs)
			writeLog := createWithSnapshot(ctx, ns, etcd)
			placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": "main"}

			By("losing two volumes at once, under load")
			pods, claims := podsByName(ctx, ns), claimUIDs(ctx, ns)
			rejected := writeInBackground(ctx, writeLog)
			for _, pod := range []string{"main-1", "main-2"} {
				ns.DeleteVolume(ctx, "main-"+pod) // the operator does not check the volume while the member is healthy
			}
			for _, pod := range []string{"main-1", "main-2"} {
				ns.Kill(ctx, new(pods[pod]))
			}
			Expect(<-rejected).To(HaveOccurred())
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "Reconciled").Message).To(And(
					ContainSubstring("the quorum of 2 cannot recover"), ContainSubstring("claim main-main-1 does not exist"), ContainSubstring("claim main-main-2 does not exist"),
					ContainSubstring("data of main-0"), ContainSubstring("newest full snapshot: 2"), ContainSubstring("the operator changes nothing")))
				g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("False"))
				g.Expect(framework.Condition(etcd, "QuorumRecoverable")).To(And(HaveField("Reason", "ChoiceRequired"), HaveField("Message", ContainSubstring("members (token "))))
			})
			Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "QuorumLost").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).ShouldNot(BeEmpty(), ns.State)
			Consistently(func(g Gomega) {
				g.Expect(claimUIDs(ctx, ns)).To(Equal(claims))
				g.Expect(podsByName(ctx, ns)["main-0"].UID).To(Equal(pods["main-0"].UID))
				g.Expect(eventsWithReason(ctx, ns, "ReplacingVolume")).To(BeEmpty())
			}).WithContext(ctx).WithTimeout(5*time.Second).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)

			By("choosing the " + option)
			stated := regexp.MustCompile(option + ` \(token (` + option + `-[0-9a-f]{8})\): ` + data).FindStringSubmatch(ns.Follow(ctx, "operations/recover-quorum.md", "Options", placeholders))
			Expect(stated).To(HaveLen(3))
			known, err := strconv.ParseInt(stated[2], 10, 64)
			Expect(err).NotTo(HaveOccurred())
			chosen := time.Now()
			lastRevision, followed, target := writeLog.Revision, make(chan struct{}), etcd.DeepCopy()
			go func() {
				defer GinkgoRecover()
				defer close(followed)
				if option == "members" {
					ns.Follow(ctx, "operations/recover-quorum.md", "Choose", placeholders)
				} else {
					ns.Patch(ctx, target, func(etcd *druidv1alpha1.Etcd) {
						metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.RecoverAnnotation, stated[1])
					})
				}
			}()
			reportRecovery(ctx, ns, etcd, chosen, isLong)
			Eventually(followed).WithContext(ctx).WithTimeout(framework.ReadyTimeout).Should(BeClosed())
			remaining := &corev1.PersistentVolumeClaimList{} // a member that has not joined yet has no claim
			Expect(ns.Client.List(ctx, remaining, client.InNamespace(ns.Name))).To(Succeed())
			Expect(remaining.Items).To(And(Not(BeEmpty()), HaveEach(HaveField("UID", Not(BeElementOf(slices.Collect(maps.Values(claims))))))))
			expectLoss(ctx, writeLog, max(lastRevision-known, 0))
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "RevisionConfirmed").Message).To(ContainSubstring("since revision 10000"), "the revision is increased")
			})
		},
		Entry("for the remaining member", gate, SpecPriority(7), framework.NeedsSeed("deletes volumes"), framework.NeedsRestore("restores a snapshot"),
			"members", dataOfMember, false, SpecTimeout(specTimeout)),
		Entry("for the backup store, until all members are ready", Label("long"), framework.NeedsSeed("deletes volumes"), framework.NeedsRestore("restores a snapshot"),
			"store", `the snapshots with revision (\d+) of 2`, true, SpecTimeout(specTimeout)),
	)

	DescribeTable("one after the other loses no acknowledged write with the recovery policy AutoIfNoLoss",
		func(ctx SpecContext, version string) {
			ns := seed.NewNamespace(ctx, "lost-in-turn")
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3), withLocalStore(ns), withSmallJobs, onLabeledNodes(ns))
			etcd.Spec.SchedulingConstraints.Affinity.PodAntiAffinity = nil
			etcd.Spec.RecoveryPolicy = new(druidv1alpha1.RecoveryPolicyAutoIfNoLoss)
			if version != "" {
				etcd.Spec.Etcd.Version = new(version)
			}
			labelNode(ctx, ns, "n1")
			labelNode(ctx, ns, "n2")
			writeLog := createWithSnapshot(ctx, ns, etcd)

			By("losing one volume, whose member cannot be replaced, and later another one under load")
			pods := podsByName(ctx, ns)
			unlabelNodes(ctx, ns, "n1", "n2")
			loseMember(ctx, ns, pods["main-1"])
			Eventually(func(g Gomega) {
				incident := recordOf(ctx, ns, etcd).Incident
				g.Expect(incident).NotTo(BeNil())
				g.Expect(incident.Lost).To(HaveEach(HaveField("Deleted", true)))
				g.Expect(incident.Confirmed).To(HaveLen(2))
			}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
			rejected := writeInBackground(ctx, writeLog)
			loseMember(ctx, ns, pods["main-2"])
			Expect(<-rejected).To(HaveOccurred())
			Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "RecoveringQuorum").WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).
				Should(ContainElement(ContainSubstring("chosen by the recovery policy AutoIfNoLoss")), ns.State)
			chosen := time.Now()
			labelNode(ctx, ns, "n1")
			labelNode(ctx, ns, "n2")
			if version != "" {
				expectStored(ctx, ns, etcd, writeLog)
				return
			}
			reportRecovery(ctx, ns, etcd, chosen, true)
			found := writeLog.EventuallyRead(ctx)
			for key, value := range writeLog.Written() {
				Expect(found).To(HaveKeyWithValue(key, value))
			}
			AddReportEntry(fmt.Sprintf("lost 0 of %d acknowledged writes after two members were lost one after the other", len(writeLog.Written())), ReportEntryVisibilityAlways)
			ns.Eventually(ctx, etcd, func(g Gomega) {
				g.Expect(framework.Condition(etcd, "RevisionConfirmed").Message).To(Equal("No quorum has returned a lower revision than an earlier one"), "no loss was accepted")
			})
		},
		Entry("until all members are ready", Label("long"), framework.NeedsSeed("deletes volumes and selects nodes of the seed"), framework.NeedsRestore("restores a snapshot"),
			"", SpecTimeout(specTimeout)),
		Entry("of etcd 3.5, until the store has all of them", Label("long"), framework.NeedsSeed("deletes volumes and selects nodes of the seed"), "3.5", SpecTimeout(specTimeout)),
	)
})

// dataOfMember is how the condition states the remaining member.
const dataOfMember = `the data of main-0 with revision (\d+) or a higher one: 0 of the known revisions are lost`

// createWithSnapshot creates an Etcd, waits for its first full snapshot, and writes.
func createWithSnapshot(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) *framework.WriteLog {
	GinkgoHelper()
	ns.Create(ctx, etcd)
	ns.EventuallyReady(ctx, etcd)
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "BackupReady").Status).To(BeEquivalentTo("True"))
	})
	writeLog := ns.NewWriteLog(etcd)
	writeLog.Write(ctx, 20)

	return writeLog
}

// writeInBackground writes until etcd rejects a write. The channel returns its error.
func writeInBackground(ctx context.Context, writeLog *framework.WriteLog) <-chan error {
	rejected := make(chan error, 1)
	go func() {
		defer GinkgoRecover()
		rejected <- writeLog.WriteUntilRejected(ctx)
	}()

	return rejected
}

// reportRecovery waits until the first member of a recovered cluster is healthy, or until all members are ready. It reports the times since the choice.
func reportRecovery(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, chosen time.Time, isComplete bool) {
	GinkgoHelper()
	since := func() time.Duration { return time.Since(chosen).Round(time.Second) }
	Eventually(func() string { return string(recordOf(ctx, ns, etcd).Restore) }).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).
		ShouldNot(Or(BeEmpty(), Equal("recover")), ns.State)
	stored := since()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("True"))
	})
	report := fmt.Sprintf("since the choice: verified snapshot after %s, first member healthy after %s", stored, since())
	if isComplete {
		ns.EventuallyReady(ctx, etcd)
		report += fmt.Sprintf(", all members ready after %s", since())
	}
	AddReportEntry(report, ReportEntryVisibilityAlways)
}

// expectLoss expects that at most the stated number of writes is lost. Each write of the log has a revision of its own.
func expectLoss(ctx context.Context, writeLog *framework.WriteLog, stated int64) {
	GinkgoHelper()
	read, lost := writeLog.EventuallyRead(ctx), 0
	for key := range writeLog.Written() {
		if _, isKept := read[key]; !isKept {
			lost++
		}
	}
	Expect(lost).To(BeNumerically("<=", stated), "lost acknowledged writes")
	AddReportEntry(fmt.Sprintf("lost %d of %d acknowledged writes after two members were lost at once, up to %d were stated", lost, len(writeLog.Written()), stated), ReportEntryVisibilityAlways)
}

// expectStored expects that a Job has stored every acknowledged write, and that this is proven. The sidecar of the seed cannot restore a database of etcd
// 3.5.
func expectStored(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, writeLog *framework.WriteLog) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		recovery := recordOf(ctx, ns, etcd).Recovery
		g.Expect(recovery).NotTo(BeNil())
		g.Expect(recovery.Withdrawn).To(BeEmpty())
		g.Expect(recovery.Stored).NotTo(BeNil())
		g.Expect(recovery.Proven).To(BeTrue())
		g.Expect(recovery.Stored.Extracted).To(BeNumerically(">=", writeLog.Revision))
	}).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
}

// loseMember deletes the volume and the pod of a member.
func loseMember(ctx context.Context, ns *framework.TestNamespace, pod corev1.Pod) {
	GinkgoHelper()
	ns.DeleteVolume(ctx, "main-"+pod.Name)
	ns.Kill(ctx, &pod)
}

// unlabelNodes removes the label of the namespace from nodes, so that no pod of the Etcd can start.
func unlabelNodes(ctx context.Context, ns *framework.TestNamespace, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		node := &corev1.Node{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())
		before := node.DeepCopy()
		delete(node.Labels, nodeLabel(ns))
		Expect(ns.Client.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
	}
}

// recordOf returns the record on the ManagedResource.
func recordOf(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) state.State {
	GinkgoHelper()
	record, err := state.Decode(managedResource(ctx, ns, etcd).Annotations)
	Expect(err).NotTo(HaveOccurred())

	return record
}
