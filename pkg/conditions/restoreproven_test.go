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
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// drilled has a record of restore drills of the current store.
func drilled(change func(*state.RestoreDrill)) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.StoreLocation = "the store"
		in.Observation.State.RestoreDrill = &state.RestoreDrill{}
		change(in.Observation.State.RestoreDrill)
	}
}

// provenBefore is a proof of some time ago.
func provenBefore(ago time.Duration) func(*state.RestoreDrill) {
	return func(d *state.RestoreDrill) {
		d.Proven = &state.DrillProof{
			ProvenAt: noon.Add(-ago), Store: "the store", Snapshot: "Incr-1-90", Revision: 90, Hash: 7,
			RestoreTime: state.Duration(8 * time.Second), DataAge: state.Duration(3 * time.Minute), MissingRevisions: 5,
		}
		d.Last = &state.DrillResult{EndedAt: d.Proven.ProvenAt, Store: "the store", Reason: "RestoreProven"}
	}
}

// eachHour schedules a drill every hour, since some time.
func eachHour(since time.Duration) func(*state.RestoreDrill) {
	return func(d *state.RestoreDrill) { d.Period, d.Since = state.Duration(time.Hour), noon.Add(-since) }
}

// ended is a later drill.
func ended(reason string) func(*state.RestoreDrill) {
	return func(d *state.RestoreDrill) {
		*d = d.With(state.DrillResult{EndedAt: noon, Store: "the store", Reason: reason, Message: "what was found"}, nil)
	}
}

func blockedNow(d *state.RestoreDrill) { d.Blocked = "the cluster hibernates" }

// repairing is what the operator did after a fault.
func repairing(repair state.DrillRepair) func(*state.RestoreDrill) {
	return func(d *state.RestoreDrill) {
		repair.Store = "the store"
		d.Repair = &repair
	}
}

func andThen(changes ...func(*state.RestoreDrill)) func(*state.RestoreDrill) {
	return func(d *state.RestoreDrill) {
		for _, change := range changes {
			change(d)
		}
	}
}

var _ = Describe("RestoreProven", func() {
	DescribeTable("reports the record of restore drills",
		func(change func(*state.RestoreDrill), expected, message string) {
			condition := conditions.RestoreProven(healthy(drilled(change)))
			Expect(statusAndReason(condition)).To(Equal(expected))
			if message != "" {
				Expect(condition.Message).To(ContainSubstring(message))
			}
		},
		Entry("without any", andThen(), "--", ""),
		Entry("of a new schedule", eachHour(time.Minute), "--", ""),
		Entry("of a schedule without a proof for two periods", eachHour(3*time.Hour), "False ProofOutdated", "No restore was proven since"),
		Entry("with a proof", provenBefore(24*time.Hour), "True RestoreProven",
			"snapshot Incr-1-90 and earlier ones contained the data of revision 90, with hash 7. The sidecar restored them in 8s. Without the drill, the store would have lacked 5 revisions of the last 3m0s"),
		Entry("with a proof of a store that contained all data", andThen(provenBefore(time.Hour), func(d *state.RestoreDrill) { d.Proven.DataAge, d.Proven.MissingRevisions = 0, 0 }),
			"True RestoreProven", "in 8s. The store contained all data before the drill too"),
		Entry("with a proof of less than two periods ago", andThen(eachHour(24*time.Hour), provenBefore(119*time.Minute)), "True RestoreProven", ""),
		Entry("with a proof of more than two periods ago", andThen(eachHour(24*time.Hour), provenBefore(121*time.Minute)), "False ProofOutdated", "A restore was last proven at"),
		Entry("with an old proof, less than two periods after a block", andThen(eachHour(119*time.Minute), provenBefore(24*time.Hour)), "True RestoreProven", ""),
		Entry("with an old proof during a block", andThen(eachHour(24*time.Hour), provenBefore(23*time.Hour), blockedNow), "True RestoreProven", "No drill is scheduled now: the cluster hibernates"),
		Entry("without a proof during a block", andThen(eachHour(24*time.Hour), blockedNow), "Unknown DrillPending", "No restore was proven. No drill is scheduled now: the cluster hibernates"),
		Entry("with a proof in another store", andThen(provenBefore(time.Minute), func(d *state.RestoreDrill) { d.Proven.Store = "another" }), "--", ""),
		Entry("of an incomplete drill", ended("DrillIncomplete"), "Unknown DrillIncomplete", "was incomplete: what was found"),
		Entry("of an incomplete drill after a proof", andThen(provenBefore(time.Minute), ended("DrillIncomplete")), "True RestoreProven", "was incomplete: what was found"),
		Entry("of an incomplete drill after a fault", andThen(ended("EventsMissing"), ended("DrillIncomplete")), "False EventsMissing", "what was found"),
		Entry("of a fault in another store", andThen(ended("EventsMissing"), func(d *state.RestoreDrill) { d.Fault.Store = "another" }), "--", ""),
		Entry("of a fault after a fault", andThen(ended("EventsMissing"), func(d *state.RestoreDrill) { d.Fault.Repeats = true }), "False EventsMissing", "follow the runbook of alert EtcdRestoreNotProven"),

		Entry("of a damaged snapshot", andThen(provenBefore(time.Minute), ended("SnapshotDamaged")), "False SnapshotDamaged", "A snapshot is damaged"),
		Entry("of missing events", ended("EventsMissing"), "False EventsMissing", "Events are missing between two snapshots"),
		Entry("of overlapping delta snapshots", ended("DeltaSnapshotsOverlap"), "False DeltaSnapshotsOverlap", "Two delta snapshots contain the same events"),
		Entry("of different histories", ended("HistoriesDiffer"), "False HistoriesDiffer", "writes that the cluster has lost"),
		Entry("of other data", ended("HashDiffers"), "False HashDiffers", "other data than the cluster"),
		Entry("of different members", ended("MembersDiffer"), "False MembersDiffer", "The operator takes no full snapshot"),
		Entry("of an empty store", ended("NoSnapshot"), "False NoSnapshot", "Nothing can be restored"),
		Entry("of a failed restore", ended("RestoreFailed"), "False RestoreFailed", "cannot restore"),
		Entry("of a lost event", ended("RestoreDiffers"), "False RestoreDiffers", "whose lease expired"),
		Entry("without a full snapshot after other data", ended("HashDiffers"), "False HashDiffers", "The operator takes no full snapshot"),
		Entry("without a full snapshot after different histories", ended("HistoriesDiffer"), "False HistoriesDiffer", "The operator takes no full snapshot"),
		Entry("with a full snapshot that has failed", andThen(ended("EventsMissing"), repairing(state.DrillRepair{Failures: 1, FailedAt: noon, Failure: "no response"})), "False EventsMissing", "has failed, at last at 2026-01-01T12:00:00Z: no response. It is repeated"),
		Entry("with a full snapshot", andThen(ended("EventsMissing"), repairing(state.DrillRepair{SnapshotAt: noon})), "False EventsMissing", "took a full snapshot at 2026-01-01T12:00:00Z, and repeats the drill"),
		Entry("of a later fault after a full snapshot", andThen(ended("EventsMissing"), repairing(state.DrillRepair{SnapshotAt: noon.Add(-time.Hour)})), "False EventsMissing", "A full snapshot did not help"),
		Entry("with the next action of the operator", ended("RestoreDiffers"), "False RestoreDiffers", "The operator takes a full snapshot, and repeats the drill. Keep all volumes"),
	)

	It("is computed also while the cluster hibernates", func() {
		in := healthy(drilled(provenBefore(time.Hour)))
		in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "RestoreProven", Status: "False", Reason: "ProofOutdated"}}
		in.Etcd.Spec.Replicas = 0
		status := in.Etcd.Status.DeepCopy()
		conditions.ForCare(in, status)
		Expect(statusAndReason(conditions.Find(status.Conditions, "RestoreProven"))).To(Equal("True RestoreProven"))
	})

	It("is absent without a store", func() {
		Expect(conditions.RestoreProven(healthy(func(in *conditions.Input) {
			drilled(provenBefore(time.Minute))(in)
			in.Etcd.Spec.Backup.Store = nil
		}))).To(BeNil())
	})
})
