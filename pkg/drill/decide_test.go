// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package drill_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/drill"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const store = `Local container "bucket" prefix "etcd"`

var drillNow = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

type change = func(*drill.Input)

// drillWith has a schedule of a drill each day, since ten days, and a proof from the last hour.
func drillWith(changes ...change) drill.Input {
	in := drill.Input{UID: "etcd", Period: 24 * time.Hour, Store: store, Limit: 2}
	in.Record = state.RestoreDrill{Period: state.Duration(24 * time.Hour), Since: drillNow.Add(-240 * time.Hour), Store: store}
	lastDrill("RestoreProven", time.Hour)(&in)
	in.Record.Proven = &state.DrillProof{Store: store, ProvenAt: in.Record.Last.EndedAt}
	for _, change := range changes {
		change(&in)
	}

	return in
}

// lastDrill is a drill that ended some time ago and is recorded. Without a fault.
func lastDrill(reason string, ago time.Duration) change {
	return func(in *drill.Input) {
		in.Record.Last = &state.DrillResult{Task: "task-1-uid", Job: "job-1", Reason: reason, EndedAt: drillNow.Add(-ago), Store: store}
	}
}

// fault is a drill that has found a fault, and is recorded.
func fault(in *drill.Input) {
	lastDrill("EventsMissing", time.Minute)(in)
	in.Record.Fault = in.Record.Last
}

// faultOf is a recorded drill that has found a fault with another reason.
func faultOf(reason string) change {
	return func(in *drill.Input) {
		lastDrill(reason, time.Minute)(in)
		in.Record.Fault = in.Record.Last
	}
}

// repair is what the operator did after a fault. All its tasks have expired, unless an entry adds them.
func repair(repair state.DrillRepair) change {
	return func(in *drill.Input) {
		repair.Fault, repair.Store = "task-1-uid", store
		in.Record.Repair = &repair
	}
}

// snapshotFailed is a task that could not take the full snapshot.
func snapshotFailed(ago time.Duration) change {
	return func(in *drill.Input) {
		in.Snapshot = &drill.Task{UID: "snapshot", EndedAt: drillNow.Add(-ago), Failure: "the store does not respond"}
	}
}

func repeated(in *drill.Input) { in.Record.Fault.Repeats = true }
func unplanned(in *drill.Input) {
	in.Period, in.Record.Period, in.Record.Since, in.Record.Store = 0, 0, time.Time{}, ""
}
func blocked(in *drill.Input) {
	in.Blocked = "the cluster hibernates"
	in.Record.Blocked = in.Blocked
}
func woken(in *drill.Input) { in.Record.Blocked = "the cluster hibernates" }
func moved(in *drill.Input) {
	in.Store = `S3 container "other" prefix "etcd"`
	in.Record.Store = in.Store
}
func incompleteTimes(times int) change { return func(in *drill.Input) { in.Record.Incomplete = times } }
func notReady(in *drill.Input)         { in.WaitsFor = "the condition Ready to be True" }
func busy(in *drill.Input)             { in.Running = 2 }
func never(in *drill.Input)            { in.Record.Last, in.Record.Proven = nil, nil }

func job(change func(*drill.Job)) change {
	return func(in *drill.Input) {
		in.Job = &drill.Job{UID: "job-2", Task: "task-2-uid"}
		change(in.Job)
	}
}

func jobRuns(*drill.Job) {}

func jobEnded(reason string) func(*drill.Job) {
	return func(j *drill.Job) {
		j.Result = &state.DrillResult{Task: j.Task, Job: j.UID, Reason: reason, EndedAt: drillNow, Store: store}
		if reason == "RestoreProven" {
			j.Proof = &state.DrillProof{Store: store, ProvenAt: drillNow}
		}
	}
}

func jobRecorded(j *drill.Job) { jobEnded("RestoreProven")(j); j.Recorded = "RestoreProven" }

func jobOfRecord(j *drill.Job) { jobEnded("RestoreProven")(j); j.UID = "job-1" }

func task(task drill.Task) change {
	return func(in *drill.Input) { in.Tasks = append(in.Tasks, task) }
}

func snapshot(ended time.Time) change {
	return func(in *drill.Input) { in.Snapshot = &drill.Task{UID: "snapshot", EndedAt: ended} }
}

var _ = Describe("Decide", func() {
	type changes = []change
	const day = 24 * time.Hour

	DescribeTable("returns the next action",
		func(given changes, action string, follows string) {
			decision := drillWith(given...).Decide(drillNow)
			Expect(string(decision.Action)).To(Equal(action), decision.Reason)
			Expect(decision.Follows).To(BeEquivalentTo(follows))
			Expect(decision.Reason).NotTo(BeEmpty())
			if action == "RunDrill" || action == "TakeSnapshot" {
				Expect(decision.ID).NotTo(BeEmpty())
			}
		},
		Entry("runs none before the period has ended", changes{}, "None", ""),
		Entry("runs a drill after a period", changes{lastDrill("RestoreProven", day)}, "RunDrill", ""),
		Entry("runs the first drill in the first period", changes{never}, "RunDrill", ""),
		Entry("runs none if none is scheduled", changes{unplanned, lastDrill("RestoreProven", 100*day)}, "None", ""),
		Entry("runs none while a task has not ended", changes{lastDrill("RestoreProven", day), task(drill.Task{UID: "task-2-uid"})}, "None", ""),
		Entry("runs none while many drills of other Etcds run", changes{lastDrill("RestoreProven", day), busy}, "None", ""),
		Entry("runs none while none can run", changes{lastDrill("RestoreProven", day), blocked}, "None", ""),
		Entry("runs none while the cluster is not ready", changes{lastDrill("RestoreProven", day), notReady}, "None", ""),
		Entry("takes no full snapshot while the cluster is not ready", changes{fault, repair(state.DrillRepair{}), notReady}, "None", ""),
		Entry("repeats an incomplete drill after an hour", changes{lastDrill("DrillIncomplete", time.Hour)}, "RunDrill", ""),
		Entry("does not repeat an incomplete drill before", changes{lastDrill("DrillIncomplete", 59*time.Minute)}, "None", ""),
		Entry("repeats it after longer pauses", changes{lastDrill("DrillIncomplete", 4*time.Hour), incompleteTimes(3)}, "RunDrill", ""),
		Entry("does not repeat it before", changes{lastDrill("DrillIncomplete", 4*time.Hour-time.Minute), incompleteTimes(3)}, "None", ""),
		Entry("repeats it once in a period at least", changes{lastDrill("DrillIncomplete", day), incompleteTimes(30)}, "RunDrill", ""),
		Entry("does not repeat an incomplete drill that a user requested", changes{unplanned, lastDrill("DrillIncomplete", time.Hour)}, "None", ""),
		Entry("waits with an incomplete drill while many drills run", changes{lastDrill("DrillIncomplete", time.Hour), busy}, "None", ""),

		Entry("continues a running Job", changes{job(jobRuns), task(drill.Task{UID: "task-2-uid"})}, "None", ""),
		Entry("records a Job that has proven the store", changes{job(jobEnded("RestoreProven"))}, "Record", ""),
		Entry("records a Job that has found a fault", changes{job(jobEnded("HashDiffers"))}, "Record", ""),
		Entry("records a Job also while no drill can run", changes{job(jobEnded("HashDiffers")), blocked}, "Record", ""),
		Entry("records a Job once", changes{job(jobRecorded)}, "None", ""),
		Entry("marks a Job whose result the record contains", changes{job(jobOfRecord)}, "MarkJob", ""),
		Entry("records a task that has failed without a Job", changes{task(drill.Task{UID: "task-2-uid", EndedAt: drillNow, Failure: "no follower"})}, "Record", ""),
		Entry("records no task whose Job is recorded", changes{task(drill.Task{UID: "task-1-uid", EndedAt: drillNow, Failure: "EventsMissing"})}, "None", ""),
		Entry("records that members differ after a Job of the same task that was incomplete", changes{
			lastDrill("DrillIncomplete", time.Minute), task(drill.Task{UID: "task-1-uid", EndedAt: drillNow, Failure: "main-0 and main-1", MembersDiffer: true}),
		}, "Record", ""),
		Entry("records once that members differ", changes{
			faultOf("MembersDiffer"), task(drill.Task{UID: "task-1-uid", EndedAt: drillNow, Failure: "main-0 and main-1", MembersDiffer: true}),
		}, "None", ""),
		Entry("records no task that failed before the last drill", changes{task(drill.Task{UID: "task-0-uid", EndedAt: drillNow.Add(-2 * time.Hour), Failure: "no follower"})}, "None", ""),
		Entry("records no task that has succeeded", changes{task(drill.Task{UID: "task-2-uid", EndedAt: drillNow})}, "None", ""),
		Entry("records a changed period", changes{func(in *drill.Input) { in.Period = time.Hour }}, "Record", ""),

		Entry("records that a block begins", changes{func(in *drill.Input) { in.Blocked = "the cluster hibernates" }}, "Record", ""),
		Entry("records that a block has ended", changes{woken}, "Record", ""),
		Entry("records no block if none is scheduled", changes{unplanned, func(in *drill.Input) { in.Blocked = "the cluster hibernates" }}, "None", ""),
		Entry("runs a drill at once after the store has changed", changes{moved}, "RunDrill", ""),
		Entry("waits with it while many drills run", changes{moved, busy}, "None", ""),

		Entry("records a fault before its full snapshot", changes{fault}, "Record", ""),
		Entry("takes a full snapshot after a fault", changes{fault, repair(state.DrillRepair{})}, "TakeSnapshot", "task-1-uid"),
		Entry("takes it also if none is scheduled", changes{fault, repair(state.DrillRepair{}), unplanned}, "TakeSnapshot", "task-1-uid"),
		Entry("takes it also while many drills run", changes{fault, repair(state.DrillRepair{}), busy}, "TakeSnapshot", "task-1-uid"),
		Entry("takes none while no drill can run", changes{fault, blocked}, "None", ""),
		Entry("takes none after a fault in another store", changes{fault, unplanned, func(in *drill.Input) { in.Store = `S3 container "other" prefix "etcd"` }}, "None", ""),
		Entry("takes it after another damage", changes{faultOf("SnapshotDamaged"), repair(state.DrillRepair{})}, "TakeSnapshot", "task-1-uid"),
		Entry("takes it if there is none", changes{faultOf("NoSnapshot"), repair(state.DrillRepair{})}, "TakeSnapshot", "task-1-uid"),
		Entry("takes it after an overlap", changes{faultOf("DeltaSnapshotsOverlap"), repair(state.DrillRepair{})}, "TakeSnapshot", "task-1-uid"),
		Entry("takes it after a failed restore", changes{faultOf("RestoreFailed"), repair(state.DrillRepair{})}, "TakeSnapshot", "task-1-uid"),
		Entry("takes it after a different restore", changes{faultOf("RestoreDiffers"), repair(state.DrillRepair{})}, "TakeSnapshot", "task-1-uid"),
		Entry("takes none if the cluster can have the wrong data", changes{unplanned, faultOf("HashDiffers")}, "None", ""),
		Entry("takes none if the members have different data", changes{unplanned, faultOf("MembersDiffer")}, "None", ""),
		Entry("takes none if the cluster can have lost writes", changes{unplanned, faultOf("HistoriesDiffer")}, "None", ""),
		Entry("runs the next drill by schedule after such a fault", changes{faultOf("HashDiffers"), lastDrill("HashDiffers", day)}, "RunDrill", ""),

		Entry("waits for that full snapshot", changes{fault, repair(state.DrillRepair{}), snapshot(time.Time{})}, "None", ""),
		Entry("records that full snapshot", changes{fault, repair(state.DrillRepair{}), snapshot(drillNow)}, "Record", ""),
		Entry("records a full snapshot that has failed", changes{fault, repair(state.DrillRepair{}), snapshotFailed(0)}, "Record", ""),
		Entry("waits after a full snapshot that has failed", changes{fault, repair(state.DrillRepair{Failures: 1, FailedAt: drillNow.Add(-9 * time.Minute)}), snapshotFailed(9 * time.Minute)}, "None", ""),
		Entry("repeats a full snapshot that has failed", changes{fault, repair(state.DrillRepair{Failures: 1, FailedAt: drillNow.Add(-10 * time.Minute)}), snapshotFailed(10 * time.Minute)}, "TakeSnapshot", "task-1-uid"),
		Entry("repeats it also after its task has expired", changes{fault, repair(state.DrillRepair{Failures: 1, FailedAt: drillNow.Add(-2 * time.Hour)})}, "TakeSnapshot", "task-1-uid"),
		Entry("waits longer after each failure", changes{fault, repair(state.DrillRepair{Failures: 3, FailedAt: drillNow.Add(-39 * time.Minute)})}, "None", ""),

		Entry("runs a second drill after that full snapshot", changes{fault, repair(state.DrillRepair{SnapshotAt: drillNow}), snapshot(drillNow)}, "RunDrill", "task-1-uid"),
		Entry("waits for the second drill", changes{fault, repair(state.DrillRepair{SnapshotAt: drillNow}), task(drill.Task{UID: "task-2-uid", Follows: "task-1-uid"})}, "None", ""),
		Entry("runs the second drill once while its task exists", changes{fault, lastDrill("DrillIncomplete", 0), repair(state.DrillRepair{SnapshotAt: drillNow}), task(drill.Task{UID: "task-2-uid", Follows: "task-1-uid", EndedAt: drillNow})}, "None", ""),
		Entry("waits after an incomplete second drill", changes{fault, repair(state.DrillRepair{SnapshotAt: drillNow, Incomplete: 1, DrilledAt: drillNow.Add(-59 * time.Minute)})}, "None", ""),
		Entry("repeats only the drill after its tasks have expired", changes{fault, unplanned, repair(state.DrillRepair{SnapshotAt: drillNow, Incomplete: 1, DrilledAt: drillNow.Add(-time.Hour)})}, "RunDrill", "task-1-uid"),
		Entry("waits longer after each incomplete drill", changes{fault, repair(state.DrillRepair{SnapshotAt: drillNow, Incomplete: 2, DrilledAt: drillNow.Add(-119 * time.Minute)})}, "None", ""),
		Entry("takes no full snapshot after a later fault without a proof", changes{fault, unplanned, repair(state.DrillRepair{SnapshotAt: drillNow.Add(-time.Hour)})}, "None", ""),
		Entry("takes no second full snapshot", changes{fault, repeated}, "None", ""),
		Entry("runs the next drill by schedule after the second one has found a fault", changes{fault, repeated, lastDrill("EventsMissing", day)}, "RunDrill", ""),
	)

	It("keeps the fault of a drill after an incomplete one, and not after a proof", func() {
		in := drillWith(fault, job(jobEnded("DrillIncomplete")))
		recorded := in.Decide(drillNow).Record
		Expect(recorded.Last.Reason).To(Equal("DrillIncomplete"))
		Expect(recorded.Fault).NotTo(BeNil())
		Expect(recorded.Fault.Reason).To(Equal("EventsMissing"))

		in = drillWith(fault, job(jobEnded("RestoreProven")))
		recorded = in.Decide(drillNow).Record
		Expect(recorded.Fault).To(BeNil())
		Expect(recorded.Proven.ProvenAt).To(Equal(drillNow))
	})

	It("counts the drills in a row that were incomplete", func() {
		recorded := drillWith(incompleteTimes(2), job(jobEnded("DrillIncomplete"))).Decide(drillNow).Record
		Expect(recorded.Incomplete).To(Equal(3))
		for _, reason := range []string{"RestoreProven", "HashDiffers"} {
			Expect(drillWith(incompleteTimes(2), job(jobEnded(reason))).Decide(drillNow).Record.Incomplete).To(BeZero())
		}
	})

	It("counts the attempts of a task as one drill", func() {
		record := state.RestoreDrill{Repair: &state.DrillRepair{Fault: "task-1-uid", Store: store, SnapshotAt: drillNow}}
		for attempt := range 3 {
			at := drillNow.Add(time.Duration(attempt) * time.Minute)
			record = record.With(state.DrillResult{Task: "task-2-uid", Job: types.UID(fmt.Sprint("job-", attempt)), Reason: "DrillIncomplete", EndedAt: at, Store: store, Repeats: true}, nil)
			Expect(record.Incomplete).To(Equal(1))
			Expect(record.Repair).To(HaveValue(And(HaveField("Incomplete", 1), HaveField("DrilledAt", at))))
		}
		record = record.With(state.DrillResult{Task: "task-3-uid", Reason: "DrillIncomplete", EndedAt: drillNow, Store: store, Repeats: true}, nil)
		Expect(record.Incomplete).To(Equal(2))
		Expect(record.Repair.Incomplete).To(Equal(2))
	})

	It("keeps a fault that a full snapshot cannot repair until a proof", func() {
		recorded := drillWith(faultOf("HistoriesDiffer"), job(jobEnded("SnapshotDamaged"))).Decide(drillNow).Record
		Expect(recorded.Last.Reason).To(Equal("SnapshotDamaged"))
		Expect(recorded.Fault.Reason).To(Equal("HistoriesDiffer"))
	})

	It("counts two periods again after a block, and after a change of the store", func() {
		recorded := drillWith(woken).Decide(drillNow).Record
		Expect(recorded.Since).To(Equal(drillNow))
		Expect(recorded.Blocked).To(BeEmpty())
		recorded = drillWith(func(in *drill.Input) { in.Store = `S3 container "other" prefix "etcd"` }).Decide(drillNow).Record
		Expect(recorded.Since).To(Equal(drillNow))
		Expect(recorded.Store).To(ContainSubstring("other"))
		recorded = drillWith(func(in *drill.Input) { in.Blocked = "the cluster hibernates" }).Decide(drillNow).Record
		Expect(recorded.Since).To(Equal(drillNow.Add(-240 * time.Hour)))
		Expect(recorded.Blocked).To(Equal("the cluster hibernates"))
	})

	It("records that the members have different data", func() {
		recorded := drillWith(task(drill.Task{UID: "task-2-uid", EndedAt: drillNow, Failure: "main-0 and main-1", MembersDiffer: true})).Decide(drillNow).Record
		Expect(recorded.Fault).To(HaveValue(And(HaveField("Reason", "MembersDiffer"), HaveField("Message", "main-0 and main-1"))))
	})

	It("records how the full snapshot and the drill after a fault have ended", func() {
		recorded := drillWith(fault, repair(state.DrillRepair{}), snapshotFailed(0)).Decide(drillNow).Record
		Expect(recorded.Repair).To(HaveValue(And(HaveField("Failures", 1), HaveField("Failure", "the store does not respond"), HaveField("FailedAt", drillNow))))
		recorded = drillWith(fault, repair(state.DrillRepair{Failures: 1}), snapshot(drillNow)).Decide(drillNow).Record
		Expect(recorded.Repair).To(HaveValue(And(HaveField("Failures", 0), HaveField("SnapshotAt", drillNow))))
		recorded = drillWith(fault, repair(state.DrillRepair{SnapshotAt: drillNow}), task(drill.Task{UID: "task-2-uid", Follows: "task-1-uid", EndedAt: drillNow, Failure: "no follower"})).Decide(drillNow).Record
		Expect(recorded.Repair).To(HaveValue(And(HaveField("Incomplete", 1), HaveField("DrilledAt", drillNow))))
		recorded = drillWith(fault, repair(state.DrillRepair{}), job(jobEnded("RestoreProven"))).Decide(drillNow).Record
		Expect(recorded.Repair).To(BeNil())
	})

	It("keeps the last proof when a drill finds a fault", func() {
		recorded := drillWith(job(jobEnded("HashDiffers"))).Decide(drillNow).Record
		Expect(recorded.Proven).NotTo(BeNil())
		Expect(recorded.Fault.Reason).To(Equal("HashDiffers"))
	})

	It("begins the schedule now, and ends it", func() {
		recorded := drillWith(unplanned, func(in *drill.Input) { in.Period = time.Hour }).Decide(drillNow).Record
		Expect(recorded.Since).To(Equal(drillNow))
		Expect(recorded.Period).To(Equal(state.Duration(time.Hour)))
		recorded = drillWith(func(in *drill.Input) { in.Period = 0 }).Decide(drillNow).Record
		Expect(recorded.Since).To(BeZero())
		Expect(recorded.Period).To(BeZero())
	})

	It("runs each Etcd once in each period, spread over the period", func() {
		times := map[time.Time]bool{}
		for i := range 20 {
			in := drillWith(unplanned, never)
			in.UID, in.Period = types.UID(fmt.Sprint("etcd-", i)), day
			now, started := drillNow, []time.Time{}
			for range 3 * 24 * 4 { // each quarter of an hour in three days
				decision := in.Decide(now)
				for decision.Action == drill.ActionRecord {
					in.Record = decision.Record
					decision = in.Decide(now)
				}
				if decision.Action == drill.ActionRunDrill {
					started = append(started, now)
					in.Record.Last = &state.DrillResult{Reason: "RestoreProven", EndedAt: now.Add(time.Minute)}
				}
				now = now.Add(15 * time.Minute)
			}
			Expect(started).To(HaveLen(3))
			Expect(started[1].Sub(started[0])).To(Equal(day))
			times[started[0]] = true
		}
		Expect(len(times)).To(BeNumerically(">", 10))
	})

	It("returns when the next drill is due", func() {
		in := drillWith()
		decision := in.Decide(drillNow)
		Expect(decision.RequeueAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", day)))
		Expect(in.Decide(drillNow.Add(decision.RequeueAfter)).Action).To(Equal(drill.ActionRunDrill))
		Expect(in.Decide(drillNow.Add(decision.RequeueAfter - time.Second)).Action).To(Equal(drill.ActionNone))
	})
})
