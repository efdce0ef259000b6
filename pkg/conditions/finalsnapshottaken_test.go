// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("FinalSnapshotTaken", func() {
	taken := state.FinalSnapshot{Snapshot: &state.VerifiedSnapshot{Name: "Full-1", Revision: 42, At: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}}
	failed := state.FinalSnapshot{Missing: "Failed", Message: "3 attempts failed"}

	It("reports that later writes are not in the snapshot", func() {
		Expect(conditions.FinalSnapshotTaken(&taken)).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "SnapshotVerified"),
			HaveField("Message", "The members were stopped with full snapshot Full-1 with revision 42, requested at 2026-01-01T12:00:00Z; what was written after that is on the volumes alone")))
		Expect(conditions.DeletionApproved(taken)).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Reason", "DeletionApproved"),
			HaveField("Message", "The volumes are deleted with full snapshot Full-1 with revision 42, requested at 2026-01-01T12:00:00Z; no volume has a higher revision")))
	})

	It("says why there is none", func() {
		Expect(conditions.FinalSnapshotTaken(&failed)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", "The members were stopped with no full snapshot: 3 attempts failed")))
		Expect(conditions.DeletionApproved(failed)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Message", "The volumes are deleted with no full snapshot: 3 attempts failed")))
	})

	It("reports that the cluster was rolled back", func() {
		rolledBack := state.FinalSnapshot{Missing: "RolledBack", Message: "the cluster was rolled back"}
		Expect(conditions.FinalSnapshotTaken(&rolledBack)).To(And(HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "SnapshotRolledBack")))
	})

	DescribeTable("reports what a snapshot waits for", func(decision plan.Plan, attempts etcdcluster.SnapshotAttempts, rolledBack bool, expected string) {
		Expect(statusAndReason(conditions.FinalSnapshotPending(decision, attempts, rolledBack)) + ": " + conditions.FinalSnapshotPending(decision, attempts, rolledBack).Message).To(Equal(expected))
	},
		Entry("while it is being taken", plan.Plan{Reason: "because", WaitsFor: "it"}, etcdcluster.SnapshotAttempts{Running: true}, false, "Unknown SnapshotPending: A full snapshot is being taken: because"),
		Entry("when it is about to be taken", plan.Plan{Reason: "because", Step: plan.TakeSnapshot{}}, etcdcluster.SnapshotAttempts{}, false, "Unknown SnapshotPending: A full snapshot is being taken: because"),
		Entry("while something must happen before", plan.Plan{Reason: "because", WaitsFor: "pods"}, etcdcluster.SnapshotAttempts{}, false, "Unknown SnapshotPending: A full snapshot is pending; the operator waits for pods (because)"),
		Entry("while the volumes are read", plan.Plan{Stage: plan.StageObserve, Reason: "because", WaitsFor: "Job main-0-inspect"}, etcdcluster.SnapshotAttempts{Error: "no leader"}, false,
			"Unknown SnapshotPending: Waiting for Job main-0-inspect: because"),
		Entry("if a volume has a higher revision", plan.Plan{Stage: plan.StageHalted, Reason: "because", WaitsFor: "the annotation"}, etcdcluster.SnapshotAttempts{Error: "no leader"}, false,
			"False SnapshotFailed: Waiting for the annotation: because"),
		Entry("after an attempt failed", plan.Plan{Reason: "because", WaitsFor: "the next attempt"}, etcdcluster.SnapshotAttempts{Error: "no store"}, false, "False SnapshotFailed: no store (because)"),
		Entry("while the cluster is rolled back", plan.Plan{Reason: "because", WaitsFor: "revision 41"}, etcdcluster.SnapshotAttempts{Error: "no store"}, true, "False SnapshotRolledBack: Waiting for revision 41: because"),
	)

	DescribeTable("approves a deletion", func(reason string, expected bool) {
		Expect(conditions.IsDeletionApproved(&druidv1alpha1.Condition{Reason: reason})).To(Equal(expected))
	},
		Entry("by the reason of this version", "DeletionApproved", true),
		Entry("not by another reason", "SnapshotVerified", false),
	)

	It("approves no deletion without the condition", func() {
		Expect(conditions.IsDeletionApproved(nil)).To(BeFalse())
	})
})
