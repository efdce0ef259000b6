// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var _ = Describe("StatusFor", func() {
	var facts report.Facts

	BeforeEach(func() {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.Generation = "main", "demo", 2
		etcd.Spec.Replicas = 1
		etcd.Status.ObservedGeneration = new(int64(2))
		etcd.Status.Conditions = []druidv1alpha1.Condition{
			{Type: "Ready", Status: "True"}, {Type: "Reconciled", Status: "True", Message: "The cluster is as the spec describes it"},
		}
		facts = report.Facts{Etcd: etcd, Canonical: etcd, Now: now}
		facts.Observation.Pods = []etcdcluster.Pod{{Name: "main-0", Phase: "Running", Ready: true}}
		facts.Observation.Etcd = etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{
			{Reachable: true, Healthy: true, MemberID: 0xab, LeaderID: 0xab, Version: "3.5.9", Revision: 12, DBSize: 2048},
		}}
	})

	It("reports a healthy cluster with the status of its member", func() {
		status := report.StatusFor(facts)
		Expect(status.Healthy).To(BeTrue())
		Expect(status.State).To(Equal("Ready"))
		Expect(status.Serving).To(Equal(1))
		Expect(status.QuotaBytes).To(Equal(int64(8589934592)), "the default")
		Expect(status.Members).To(ConsistOf(report.Member{Name: "main-0", ID: "ab", Role: "Leader", State: "Healthy", Version: "3.5.9", Revision: 12, DBSize: 2048}))
	})

	DescribeTable("the state in a word", func(change func(*report.Facts), state string, healthy bool) {
		change(&facts)
		status := report.StatusFor(facts)
		Expect(status.State).To(Equal(state))
		Expect(status.Healthy).To(Equal(healthy))
	},
		Entry("a condition is False", func(f *report.Facts) {
			f.Etcd.Status.Conditions = append(f.Etcd.Status.Conditions, druidv1alpha1.Condition{Type: "BackupReady", Status: "False"})
		}, "Degraded", false),
		Entry("a condition that is good when False is True", func(f *report.Facts) {
			f.Etcd.Status.Conditions = append(f.Etcd.Status.Conditions, druidv1alpha1.Condition{Type: "ClusterIDMismatch", Status: "True"})
		}, "Degraded", false),
		Entry("an alarm is raised", func(f *report.Facts) {
			f.Observation.Etcd.Alarms = []etcdcluster.Alarm{{MemberID: 0xab, Type: etcdcluster.AlarmNoSpace}}
		}, "Degraded", false),
		Entry("the operator failed", func(f *report.Facts) {
			f.Etcd.Status.LastErrors = []druidv1alpha1.LastError{{Description: "no"}}
		}, "Degraded", false),
		Entry("the quorum is lost", func(f *report.Facts) { f.Etcd.Status.Conditions[0].Status = "False" }, "NotReady", false),
		Entry("the operator has not reported a condition yet", func(f *report.Facts) { f.Etcd.Status.Conditions = nil }, "Unknown", false),
		Entry("the operator has not observed the loss of the quorum yet", func(f *report.Facts) {
			f.Canonical.Spec.Replicas = 3
		}, "NotReady", false),
		Entry("the operator has reported no condition, and the quorum is lost", func(f *report.Facts) {
			f.Canonical.Spec.Replicas, f.Etcd.Status.Conditions = 3, nil
		}, "NotReady", false),
		Entry("the operator has not observed the loss of one of three members yet", func(f *report.Facts) {
			f.Canonical.Spec.Replicas = 3
			f.Observation.Etcd.Members = append(f.Observation.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: 1, Reachable: true, Healthy: true})
		}, "Degraded", false),
		Entry("pods may not be read", func(f *report.Facts) {
			f.Observation = etcdcluster.Observation{Failures: []etcdcluster.ReadFailure{{Section: etcdcluster.SectionPods, Message: "forbidden"}}}
		}, "Ready", true),
		Entry("the members are managed externally and cannot be reached", func(f *report.Facts) {
			f.Observation, f.Canonical.Spec.ExternallyManagedMemberAddresses = etcdcluster.Observation{}, []string{"192.0.2.1"}
		}, "Ready", true),
		Entry("it hibernates", func(f *report.Facts) { f.Canonical.Spec.Replicas, f.Observation.Pods = 0, nil }, "Hibernated", true),
		Entry("it is being deleted", func(f *report.Facts) { f.Etcd.DeletionTimestamp = &metav1.Time{Time: now} }, "Deleting", false),
	)

	DescribeTable("the state of a member", func(change func(*report.Facts), state string) {
		change(&facts)
		Expect(report.StatusFor(facts).Members[0].State).To(Equal(state))
	},
		Entry("it has no pod", func(f *report.Facts) { f.Observation.Pods, f.Observation.Etcd = nil, etcdcluster.EtcdResponses{} }, "PodMissing"),
		Entry("its pod stops", func(f *report.Facts) {
			f.Observation.Pods[0].Deleting, f.Observation.Etcd = true, etcdcluster.EtcdResponses{}
		}, "PodTerminating"),
		Entry("it is a learner", func(f *report.Facts) {
			f.Observation.Etcd.Members[0].Healthy, f.Observation.Etcd.Members[0].Learner = false, true
		}, "Learner"),
		Entry("it is unreachable", func(f *report.Facts) {
			f.Observation.Pods[0].Ready, f.Observation.Etcd.Members[0] = false, etcdcluster.EndpointStatus{Error: "no"}
		}, "Unreachable"),
		Entry("the operator reports the reason", func(f *report.Facts) {
			f.Observation.Pods[0].Ready, f.Observation.Etcd = false, etcdcluster.EtcdResponses{}
			f.Etcd.Status.Members = []druidv1alpha1.EtcdMemberStatus{{Name: "main-0", Status: "NotReady", Reason: "ContainersNotReady"}}
		}, "ContainersNotReady"),
	)

	Context("while the members change", func() {
		BeforeEach(func() {
			facts.Observation.Pods = append(facts.Observation.Pods, etcdcluster.Pod{Name: "main-1", Ordinal: 1, Phase: "Running", Ready: true})
			facts.Observation.Etcd.Members = append(facts.Observation.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: 1, Reachable: true, Healthy: true, MemberID: 0xcd, LeaderID: 0xab})
			facts.Observation.Etcd.MemberList = []etcdcluster.ListedMember{{ID: 0xab, Name: "main-0"}, {ID: 0xcd, Name: "main-1"}}
			facts.Observation.State.Size = 2
		})

		It("shows the phase of a surge with the quorum calculation, and the temporary member", func() {
			facts.Observation.State.Surge = &state.Surge{Phase: state.SurgeReplace, Since: now.Add(-5 * time.Second), Cause: "its pod template has changed"}
			status := report.StatusFor(facts)
			Expect(status.Operation).To(Equal(&report.Operation{
				Name: "Surge", Phase: "Replace", Since: now.Add(-5 * time.Second), Message: "the only member is replaced through a temporary second member, because its pod template has changed",
				Quorum: "2 of 2 healthy, quorum 2, tolerance 0",
			}))
			Expect(status.Members).To(HaveLen(2))
			Expect(status.Members[1]).To(And(HaveField("Name", "main-1"), HaveField("Role", "Voter")))
			text := &bytes.Buffer{}
			Expect(status.Text(text, false)).To(Succeed())
			Expect(text.String()).To(ContainSubstring("OPERATION   Surge, phase Replace for 5s: the only member is replaced through a\n            temporary second member, because its pod template has changed\n            2 of 2 healthy, quorum 2, tolerance 0\n"))
		})

		It("shows no completed surge, and no unknown quorum", func() {
			facts.Observation.State.Surge = &state.Surge{Phase: state.SurgeComplete}
			Expect(report.StatusFor(facts).Operation).To(BeNil())
			facts.Observation.State.Surge.Phase, facts.Observation.Etcd.MemberList = state.SurgeJoin, nil
			Expect(report.StatusFor(facts).Operation).To(And(HaveField("Phase", "Join"), HaveField("Quorum", "")))
		})

		It("shows the progress of a volume migration and how to pause it", func() {
			facts.Observation.State.Migration = &state.Migration{Phase: state.MigrationReplace, Since: now, Cause: "the volume of main-0 is of another StorageClass"}
			Expect(report.StatusFor(facts).Operation).To(And(HaveField("Name", "VolumeMigration"), HaveField("Phase", "Replace"), HaveField("Message", And(
				ContainSubstring("volumes were replaced, because the volume of main-0 is of another StorageClass"), ContainSubstring("the annotation druid.gardener.cloud/suspend-etcd-spec-reconcile pauses it"),
			))))
		})

		DescribeTable("shows a scale-in", func(removing bool, phase string) {
			facts.Observation.State.ScaleIn = &state.ScaleIn{To: 1, Since: now, Removing: removing}
			facts.Observation.Etcd.Members[1].Healthy = false
			status := report.StatusFor(facts)
			Expect(status.Operation).To(Equal(&report.Operation{
				Name: "ScaleIn", Phase: phase, Since: now, Message: "the cluster is scaled in to 1 member", Quorum: "1 of 2 healthy, no quorum",
			}))
			Expect(status.Members).To(HaveLen(2))
		},
			Entry("before a member is removed", false, "Prepare"),
			Entry("after that", true, "Remove"),
		)
	})

	It("names the actor of each alarm", func() {
		facts.Observation.Etcd.Alarms = []etcdcluster.Alarm{{Type: etcdcluster.AlarmCorrupt}, {MemberID: 0xab, Type: etcdcluster.AlarmNoSpace}, etcdcluster.WriteRejection}
		Expect(report.StatusFor(facts).Alarms).To(Equal([]string{"CORRUPT raised by etcd, which names no member", "NOSPACE raised by member ab", "CORRUPT raised by the operator, which makes etcd reject writes before a deletion of the volumes"}))
	})

	It("ignores the role in the lease of an unreachable member", func() {
		facts.Canonical.Spec.Replicas = 2
		facts.Observation.MemberLeases = []etcdcluster.Lease{{Name: "main-1", Holder: "cd:Leader"}}
		facts.Observation.Etcd.Members = append(facts.Observation.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: 1, Error: "no"})
		status := report.StatusFor(facts)
		Expect(status.Members[0].Role).To(Equal("Leader"))
		Expect(status.Members[1].Role).To(BeEmpty())
	})

	It("does not believe the lease of a member that waits for its pod to start, either", func() {
		facts.Canonical.Spec.Replicas = 2
		facts.Observation.MemberLeases = []etcdcluster.Lease{{Name: "main-1", Holder: "cd:Leader"}}
		status := report.StatusFor(facts)
		Expect(status.Members[0].Role).To(Equal("Leader"))
		Expect(status.Members[1].Role).To(BeEmpty())
	})

	It("names what may not be seen", func() {
		facts.Observation.Failures = []etcdcluster.ReadFailure{
			{Section: etcdcluster.SectionSecrets, Message: `secrets "a" is forbidden: User "v" cannot get it`}, {Section: etcdcluster.SectionLeases, Message: "no"},
			{Section: etcdcluster.SectionSecrets, Message: `secrets "b" is forbidden: User "v" cannot get it`},
		}
		facts.Observation.Etcd.Members = []etcdcluster.EndpointStatus{{Error: "reading Secret ca: forbidden"}}
		Expect(report.StatusFor(facts).Unavailable).To(Equal([]string{
			`Secrets: secrets "a" is forbidden, and 1 more`, "Leases: no", "versions, sizes and revisions: reading Secret ca: forbidden",
		}))
	})
})

var _ = Describe("The text of a plan", func() {
	It("numbers what would be done, with the reasons", func() {
		text := &bytes.Buffer{}
		Expect(report.Plan(text, "main", []simulator.Line{
			{Stage: "ReplacePod", Act: "evict pod main-1", Reason: "3 of 3 healthy; replacing main-1 leaves 2 of 3: allowed"},
			{Stage: "WaitForMembers", Reason: "2 of 3 healthy", WaitsFor: "pod main-1 to be ready"},
		})).To(Succeed())
		Expect(text.String()).To(Equal(`  1. evict pod main-1, because 3 of 3 healthy; replacing main-1 leaves 2 of 3:
     allowed
  2. wait for pod main-1 to be ready (2 of 3 healthy). The operator continues
     after that

Nothing was done with main.
`))
	})

	promotion := simulator.Line{
		Act: "promote learner main-1", Step: plan.PromoteMember{}, Reason: "it has caught up",
		Before: simulator.Votes{Healthy: 1, Voting: 1}, After: simulator.Votes{Healthy: 2, Voting: 2}, Gap: simulator.GapOfMembership,
	}
	DescribeTable("contains the quorum calculation and the expected time without a write", func(expected string, lines ...simulator.Line) {
		text := &bytes.Buffer{}
		Expect(report.Plan(text, "main", lines)).To(Succeed())
		Expect(strings.Join(strings.Fields(text.String()), " ")).To(Equal(expected + " Nothing was done with main."))
	},
		Entry("of each step that changes them",
			"1. promote learner main-1, because it has caught up. Voting members: 1 of 1 healthy, quorum 1, tolerance 0 -> 2 of 2 healthy, quorum 2, tolerance 0. Time without a write: 200ms "+
				"2. move the leader, because main-0 leaves. Voting members: 2 of 2 healthy, quorum 2, tolerance 0. Time without a write: 200ms "+
				"3. remove member main-0, because main-1 votes. Voting members: 2 of 2 healthy, quorum 2, tolerance 0 -> 1 of 1 healthy, quorum 1, tolerance 0. Time without a write: 200ms, and 1.2s for a client that is connected to the removed member "+
				"4. delete claim main-main-0, because main-0 was removed "+
				"Longest time without a write: 200ms, and 1.2s for a client that is connected to the removed member. Lowest tolerance: 0.",
			promotion,
			simulator.Line{Act: "move the leader", Step: plan.MoveLeader{}, Reason: "main-0 leaves", Before: simulator.Votes{Healthy: 2, Voting: 2}, After: simulator.Votes{Healthy: 2, Voting: 2}, Gap: simulator.GapOfMembership},
			simulator.Line{Act: "remove member main-0", Step: plan.RemoveMember{}, Reason: "main-1 votes", Before: simulator.Votes{Healthy: 2, Voting: 2}, After: simulator.Votes{Healthy: 1, Voting: 1}, Gap: simulator.GapOfRemoval},
			simulator.Line{Act: "delete claim main-main-0", Step: plan.DeleteClaim{}, Reason: "main-0 was removed", Before: simulator.Votes{Healthy: 1, Voting: 1}, After: simulator.Votes{Healthy: 1, Voting: 1}},
		),
		Entry("of a restart",
			"1. delete pod main-0, because it is outdated. Voting members: 1 of 1 healthy, quorum 1, tolerance 0 -> 0 of 1 healthy, no quorum. Time without a write: 16s "+
				"Longest time without a write: 16s. Meanwhile there is no quorum.",
			simulator.Line{Act: "delete pod main-0", Step: plan.DeletePod{}, Reason: "it is outdated", Before: simulator.Votes{Healthy: 1, Voting: 1}, After: simulator.Votes{Voting: 1}, Gap: simulator.GapOfRestart},
		),
		Entry("of a rolling update",
			"1. evict pod main-1, because it is outdated. Voting members: 3 of 3 healthy, quorum 2, tolerance 1 -> 2 of 3 healthy, quorum 2, tolerance 0. Time without a write: none "+
				"Longest time without a write: none. Lowest tolerance: 0.",
			simulator.Line{Act: "evict pod main-1", Step: plan.EvictPod{}, Reason: "it is outdated", Before: simulator.Votes{Healthy: 3, Voting: 3}, After: simulator.Votes{Healthy: 2, Voting: 3}},
		),
		Entry("not without a quorum",
			"1. delete claim main-main-0, because it is restored",
			simulator.Line{Act: "delete claim main-main-0", Step: plan.DeleteClaim{}, Reason: "it is restored", Before: simulator.Votes{Voting: 1}, After: simulator.Votes{Voting: 1}},
		),
	)
})

var _ = Describe("The text of decisions", func() {
	It("begins with the time, marks warnings, and ends with the current action", func() {
		text := &bytes.Buffer{}
		Expect(report.Decisions(text, []report.Decision{
			{Time: now.Add(-time.Minute), Reason: "ReplacingPod", Message: "Evicted pod main-1"},
			{Time: now, Reason: "QuorumLost", Message: "1 of 3 members are healthy", Warning: true},
		}, "Waiting", now)).To(Succeed())
		Expect(text.String()).To(Equal("11:59:00   ReplacingPod: Evicted pod main-1\n12:00:00 ! QuorumLost: 1 of 3 members are healthy\n12:00:00   Now: Waiting\n"))
	})
})
