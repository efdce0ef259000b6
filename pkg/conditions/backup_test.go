// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// at sets the time of the observation to the given time after noon, when a full snapshot is due.
func at(after time.Duration) func(*conditions.Input) {
	return func(in *conditions.Input) { in.Now = noon.Add(after) }
}

func full(age time.Duration) func(*conditions.Input) {
	return func(in *conditions.Input) { in.Observation.FullSnapshotLease.RenewTime = noon.Add(-age) }
}

func delta(age time.Duration) func(*conditions.Input) {
	return func(in *conditions.Input) { in.Observation.DeltaSnapshotLease.RenewTime = noon.Add(-age) }
}

func newPods(age time.Duration) func(*conditions.Input) {
	return func(in *conditions.Input) {
		for i := range in.Observation.Pods {
			in.Observation.Pods[i].CreationTime = noon.Add(-age)
		}
	}
}

var _ = DescribeTable("BackupReady and its parts",
	func(change func(*conditions.Input), full, delta, backup string) {
		in := healthy(change)
		Expect(statusAndReason(conditions.FullSnapshot(in))).To(Equal(full))
		Expect(statusAndReason(conditions.DeltaSnapshot(in))).To(Equal(delta))
		Expect(statusAndReason(conditions.BackupReady(in))).To(Equal(backup))
	},
	Entry("are True if both snapshots are in time", func(*conditions.Input) {},
		"True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("stay True while a due full snapshot delays delta snapshots", all(at(9*time.Minute), delta(9*time.Minute)),
		"True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("report a full snapshot that exceeded its time limit", all(at(11*time.Minute), delta(-10*time.Minute)),
		"False FullSnapshotOverdue", "True BackupSucceeded", "False FullSnapshotOverdue"),
	Entry("accept an old full snapshot without a new revision", all(at(11*time.Minute), delta(-10*time.Minute), func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Holder = "100"
	}), "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("do not accept an old full snapshot if no member responds", all(at(11*time.Minute), delta(-10*time.Minute), withoutResponses, func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Holder = "100"
	}), "False FullSnapshotOverdue", "True BackupSucceeded", "False FullSnapshotOverdue"),
	Entry("do not accept an old full snapshot whose revision no member has: the cluster was rolled back", all(at(11*time.Minute), delta(-10*time.Minute), func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Holder = "101"
	}), "False FullSnapshotOverdue", "True BackupSucceeded", "False FullSnapshotOverdue"),
	Entry("accept an old full snapshot with the revision of a quorum while only a member that lags responds", all(at(11*time.Minute), delta(-10*time.Minute), func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Holder = "101"
		for i := range in.Observation.Etcd.Members {
			in.Observation.Etcd.Members[i].Healthy = false
		}
	}), "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("report far more full snapshots than the schedule requests", func(in *conditions.Input) { in.ExcessSince = noon },
		"False TooManySnapshots", "True BackupSucceeded", "False TooManySnapshots"),
	Entry("report an overdue full snapshot although there were far too many", all(at(11*time.Minute), delta(-10*time.Minute), func(in *conditions.Input) {
		in.ExcessSince = noon
	}), "False FullSnapshotOverdue", "True BackupSucceeded", "False FullSnapshotOverdue"),
	Entry("report both if none was taken after a due full snapshot exceeded its time limit", at(40*time.Minute),
		"False FullSnapshotOverdue", "False DeltaSnapshotOverdue", "False FullSnapshotOverdue"),
	Entry("report a late delta snapshot", all(at(50*time.Minute), full(-5*time.Minute), delta(-38*time.Minute)),
		"True BackupSucceeded", "Unknown Unknown", "Unknown Unknown"),
	Entry("report an overdue delta snapshot", all(at(50*time.Minute), full(-5*time.Minute), delta(-30*time.Minute)),
		"True BackupSucceeded", "False DeltaSnapshotOverdue", "False DeltaSnapshotOverdue"),
	Entry("wait for the first snapshots of a new cluster", all(newPods(time.Minute), func(in *conditions.Input) {
		in.Observation.FullSnapshotLease = etcdcluster.Lease{Exists: true, CreationTime: noon.Add(-time.Minute)}
		in.Observation.DeltaSnapshotLease = in.Observation.FullSnapshotLease
	}), "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("are True with the first full snapshot of a new cluster, before a delta snapshot is due", all(newPods(2*time.Minute), full(time.Minute), func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.CreationTime = noon.Add(-2 * time.Minute)
		in.Observation.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, CreationTime: noon.Add(-2 * time.Minute)}
	}), "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("wait for the first delta snapshot if it is late", all(at(13*time.Minute), newPods(2*time.Minute), full(time.Minute), func(in *conditions.Input) {
		in.Etcd.Spec.Backup.FullSnapshotSchedule = new("0 3 * * *")
		in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "BackupReady", Message: "The newest full snapshot is of 2026-01-01T11:59:00Z, observed at 2026-01-01T11:59:30Z"}}
		in.Observation.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, CreationTime: noon.Add(-2 * time.Minute)}
	}), "True BackupSucceeded", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("wait for leases that do not exist yet", func(in *conditions.Input) {
		in.Observation.FullSnapshotLease, in.Observation.DeltaSnapshotLease = etcdcluster.Lease{}, etcdcluster.Lease{}
	}, "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("do not wait forever for the first snapshots", func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.RenewTime, in.Observation.DeltaSnapshotLease.RenewTime = time.Time{}, time.Time{}
	}, "False FullSnapshotOverdue", "False DeltaSnapshotOverdue", "False FullSnapshotOverdue"),
	Entry("wait for a cluster that woke up", all(newPods(time.Minute), full(72*time.Hour), delta(72*time.Hour)),
		"Unknown WaitingForFirstSnapshot", "Unknown Unknown", "Unknown WaitingForFirstSnapshot"),
	Entry("wait for a cluster that wakes up and has no pod", all(full(72*time.Hour), delta(72*time.Hour), func(in *conditions.Input) { in.Observation.Pods = nil }),
		"Unknown WaitingForFirstSnapshot", "Unknown Unknown", "Unknown WaitingForFirstSnapshot"),
	Entry("do not wait for a new pod that already recorded a snapshot", all(at(50*time.Minute), full(-5*time.Minute), delta(-43*time.Minute), newPods(-42*time.Minute), func(in *conditions.Input) {
		in.Etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: time.Minute}
	}), "True BackupSucceeded", "False DeltaSnapshotOverdue", "False DeltaSnapshotOverdue"),
	Entry("do not wait for externally managed members", all(full(72*time.Hour), delta(72*time.Hour), func(in *conditions.Input) {
		in.Observation.Pods = nil
		in.Etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
	}), "False FullSnapshotOverdue", "False DeltaSnapshotOverdue", "False FullSnapshotOverdue"),
	Entry("do not accept a recent full snapshot whose revision no member has", func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Holder = "101"
	}, "False LostRevisionInStore", "True BackupSucceeded", "False LostRevisionInStore"),
	Entry("accept a full snapshot that was recorded after the members were read", all(full(9*time.Second), func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Holder = "101"
	}), "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("stay True while the first delta snapshot after a long full one is taken", all(at(11*time.Minute), full(-time.Second), delta(9*time.Minute)),
		"True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("report missing delta snapshots after a full one", all(at(26*time.Minute), full(-time.Second), delta(9*time.Minute)),
		"True BackupSucceeded", "False DeltaSnapshotOverdue", "False DeltaSnapshotOverdue"),
	Entry("are Unknown if the Leases cannot be read", failing(etcdcluster.SectionLeases),
		"Unknown UnableToFetchLease", "Unknown UnableToFetchLease", "Unknown UnableToFetchLease"),
	Entry("use the default without a delta period", all(delta(2*time.Minute), func(in *conditions.Input) { in.Etcd.Spec.Backup.DeltaSnapshotPeriod = nil }),
		"True BackupSucceeded", "False DeltaSnapshotOverdue", "False DeltaSnapshotOverdue"),
	Entry("can be True without delta snapshots", func(in *conditions.Input) {
		in.Etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{}
	}, "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("do not count snapshots of the previous store", func(in *conditions.Input) {
		in.Observation.StoreLocation = "the new store"
		in.Observation.FullSnapshotLease.Store, in.Observation.DeltaSnapshotLease.Store = "the store of before", "the store of before"
	}, "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("do not count full snapshots of the previous store without delta snapshots", func(in *conditions.Input) {
		in.Etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{}
		in.Observation.StoreLocation, in.Observation.FullSnapshotLease.Store = "the new store", "the store of before"
	}, "Unknown WaitingForFirstSnapshot", "True BackupSucceeded", "Unknown WaitingForFirstSnapshot"),
	Entry("do not count snapshots after a change of the endpoint and back, which may have a gap", func(in *conditions.Input) {
		in.Observation.State.Store = &state.Store{ChangedAt: noon.Add(-15 * time.Minute)}
	}, "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("do not wait forever for a full snapshot after a change of the endpoint", func(in *conditions.Input) {
		in.Observation.State.Store = &state.Store{ChangedAt: noon.Add(-15*time.Minute - time.Second)}
	}, "False FullSnapshotOverdue", "False DeltaSnapshotOverdue", "False FullSnapshotOverdue"),
	Entry("wait for a full snapshot of a new pod after a change of the endpoint", all(newPods(10*time.Minute), func(in *conditions.Input) {
		in.Observation.State.Store = &state.Store{ChangedAt: noon.Add(-time.Hour)}
	}), "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("wait for members that are not running after a change of the endpoint", func(in *conditions.Input) {
		in.Observation.Pods, in.Observation.State.Store = nil, &state.Store{ChangedAt: noon.Add(-24 * time.Hour)}
	}, "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot", "Unknown WaitingForFirstSnapshot"),
	Entry("count them after the next full snapshot", func(in *conditions.Input) {
		in.Observation.State.Store = &state.Store{ChangedAt: in.Observation.FullSnapshotLease.RenewTime.Add(-time.Hour), VerifiedAt: in.Observation.FullSnapshotLease.RenewTime}
	}, "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("count snapshots of the current store", func(in *conditions.Input) {
		in.Observation.StoreLocation = "the store"
		in.Observation.FullSnapshotLease.Store, in.Observation.DeltaSnapshotLease.Store = "the store", "the store"
	}, "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("handle a schedule of the 29th of February", func(in *conditions.Input) {
		in.Etcd.Spec.Backup.FullSnapshotSchedule = new("0 3 29 2 *") // last on the 29th of February 2024
		in.Observation.FullSnapshotLease.RenewTime = time.Date(2024, 2, 29, 3, 1, 0, 0, time.UTC)
	}, "True BackupSucceeded", "True BackupSucceeded", "True BackupSucceeded"),
	Entry("count a full snapshot from the time at which it is due", all(at(70*time.Minute), full(-45*time.Minute), delta(-69*time.Minute), func(in *conditions.Input) {
		in.Now = in.Now.In(time.FixedZone("east", 5*60*60+30*60)) // the sidecar runs in UTC in every time zone of the operator
	}), "False FullSnapshotOverdue", "True BackupSucceeded", "False FullSnapshotOverdue"),
	Entry("report an invalid schedule", func(in *conditions.Input) { in.Etcd.Spec.Backup.FullSnapshotSchedule = new("0 0 * * 7") },
		"Unknown Unknown", "True BackupSucceeded", "Unknown Unknown"),
)

var _ = Describe("BackupReady after a change of the store", func() {
	var in conditions.Input
	observe := func(after time.Duration) string {
		in.Now = noon.Add(after)
		full := conditions.FullSnapshot(in)
		in.Etcd.Status.Conditions = conditions.Merge(in.Etcd.Status.Conditions, []druidv1alpha1.ConditionType{full.Type}, []druidv1alpha1.Condition{*full}, in.Now)

		return statusAndReason(full) + ": " + full.Message
	}

	It("names the pods that use the changed endpoint only after they are replaced", func() {
		in = healthy(func(in *conditions.Input) {
			in.Observation.State.Store = &state.Store{Provider: "ECS", Container: "c", Prefix: "p", ChangedAt: noon}
			in.Observation.Pods[1].CreationTime = noon.Add(time.Second)
		})
		const hint = `; earlier snapshots may lack writes; delete these pods one at a time while all members are healthy, because their sidecars read the endpoint of the store only when they start: main-0, main-2`
		Expect(observe(time.Minute)).To(Equal(`Unknown WaitingForFirstSnapshot: Waiting for a full snapshot in ECS container "c" prefix "p" since its endpoint or account changed at 2026-01-01T12:00:00Z` + hint))
		Expect(observe(15*time.Minute + time.Second)).To(Equal(`False FullSnapshotOverdue: No full snapshot was recorded in ECS container "c" prefix "p" since its endpoint or account changed at 2026-01-01T12:00:00Z` + hint))
	})

	It("does not wait forever for members to use another store, and names their pods", func() {
		in = healthy(func(in *conditions.Input) {
			in.Observation.StoreLocation, in.Observation.FullSnapshotLease.Store = "the new store", "the former store"
			in.Observation.Pods[1].Store = "former"
		})
		const waiting = "Unknown WaitingForFirstSnapshot: Waiting for all members to use the new store; the recorded snapshots are in the former store; observed since 2026-01-01T12:00:00Z"
		const overdue = "False FullSnapshotOverdue: No snapshot was recorded in the new store within 15m0s; the recorded snapshots are in the former store; these pods have another store than the StatefulSet: main-1"
		Expect(observe(0)).To(Equal(waiting))
		Expect(observe(15 * time.Minute)).To(Equal(waiting))
		Expect(observe(15*time.Minute + time.Second)).To(Equal(overdue))
		in.Observation.Pods[1].Store = ""
		Expect(observe(20 * time.Minute)).To(HavePrefix("False FullSnapshotOverdue: No snapshot was recorded in the new store"))
		in.Observation.StoreLocation = "the next store"
		Expect(observe(21 * time.Minute)).To(HavePrefix("Unknown WaitingForFirstSnapshot: Waiting for all members to use the next store"))
	})
})

var _ = Describe("BackupReady of a cluster that was idle", func() {
	var in conditions.Input
	// observe sets the time to the given time after noon, when a full snapshot is due, and stores the condition.
	observe := func(after time.Duration, revision int64) string {
		in.Now = noon.Add(after)
		for i := range in.Observation.Etcd.Members {
			in.Observation.Etcd.Members[i].Revision = revision
		}
		full := conditions.FullSnapshot(in)
		in.Etcd.Status.Conditions = []druidv1alpha1.Condition{*full}

		return statusAndReason(full) + ": " + full.Message
	}
	const (
		idle    = "True BackupSucceeded: Nothing has changed since the newest full snapshot, of 2026-01-01T11:01:00Z; the next is taken as scheduled when something has"
		changed = "True BackupSucceeded: Nothing had changed when a full snapshot was due at 2026-01-01T13:00:00Z; delta snapshots hold what has changed since"
	)

	BeforeEach(func() {
		in = healthy(func(in *conditions.Input) { in.Observation.FullSnapshotLease.Holder = "100" })
		Expect(observe(11*time.Minute, 100)).To(Equal(idle))
		Expect(observe(71*time.Minute, 100)).To(Equal(idle))
	})

	It("stays True when something changes after one was due and skipped, until the next one is due", func() {
		Expect(observe(80*time.Minute, 101)).To(Equal(changed))
		Expect(observe(2*time.Hour, 102)).To(Equal(changed))
		Expect(observe(2*time.Hour+11*time.Minute, 102)).To(HavePrefix("False FullSnapshotOverdue"))
		Expect(observe(2*time.Hour+12*time.Minute, 102)).To(HavePrefix("False FullSnapshotOverdue"))
	})

	It("is False, and names the revision, as soon as a quorum returns a lower revision than that of the snapshot", func() {
		Expect(observe(80*time.Minute, 99)).To(Equal("False FullSnapshotOverdue: A full snapshot was due at 2026-01-01T13:00:00Z; the newest is of 2026-01-01T11:01:00Z, " +
			"and has revision 100, which no member has; the next is due at 2026-01-01T14:00:00Z"))
	})

	It("is True in the usual words when the next one was taken", func() {
		Expect(observe(80*time.Minute, 101)).To(Equal(changed))
		in.Observation.FullSnapshotLease.RenewTime = noon.Add(2 * time.Hour)
		Expect(observe(2*time.Hour+11*time.Minute, 102)).To(HavePrefix("True BackupSucceeded"))
	})
})

var _ = Describe("the message of an overdue snapshot", func() {
	It("names times and no ages, so that it does not change by itself", func() {
		change := all(full(26*time.Hour), delta(26*time.Hour), newPods(48*time.Hour), func(in *conditions.Input) {
			in.Observation.FullSnapshotLease.CreationTime = noon.Add(-48 * time.Hour)
		})
		earlier, later := healthy(all(change, at(20*time.Minute))), healthy(all(change, at(40*time.Minute)))
		Expect(conditions.FullSnapshot(earlier).Message).To(Equal("A full snapshot was due at 2026-01-01T12:00:00Z; the newest is of 2025-12-31T10:00:00Z; the next is due at 2026-01-01T13:00:00Z"))
		Expect(conditions.FullSnapshot(later)).To(Equal(conditions.FullSnapshot(earlier)))
		Expect(conditions.DeltaSnapshot(later).Message).To(Equal("A delta snapshot is due every 5m0s; the newest is of 2025-12-31T10:00:00Z; the next is due at 2025-12-31T10:05:00Z"))
	})
})

var _ = Describe("a Lease of full snapshots that was recreated while a member ran", func() {
	recreated := func(in *conditions.Input) {
		in.Observation.FullSnapshotLease.Name = "main-full-snap"
		in.Observation.FullSnapshotLease.CreationTime = noon.Add(-20 * time.Minute)
	}

	It("has no snapshot yet if the sidecar has refilled it with a former one", func() {
		ready := conditions.FullSnapshot(healthy(all(newPods(24*time.Hour), full(30*time.Minute), recreated)))
		Expect(statusAndReason(ready) + ": " + ready.Message).To(Equal("Unknown WaitingForFirstSnapshot: Waiting for the first full snapshot since Lease main-full-snap was recreated"))
		ready = conditions.FullSnapshot(healthy(all(newPods(24*time.Hour), full(30*time.Minute), recreated, at(11*time.Minute))))
		Expect(statusAndReason(ready) + ": " + ready.Message).To(Equal("False FullSnapshotOverdue: A full snapshot was due at 2026-01-01T12:00:00Z; none was taken since Lease main-full-snap was recreated; the next is due at 2026-01-01T13:00:00Z"))
	})

	It("has a snapshot that was taken since", func() {
		Expect(statusAndReason(conditions.FullSnapshot(healthy(all(newPods(24*time.Hour), full(19*time.Minute), recreated))))).To(Equal("True BackupSucceeded"))
	})

	It("has the snapshot from which the cluster was restored since", func() {
		Expect(statusAndReason(conditions.FullSnapshot(healthy(all(newPods(19*time.Minute), full(30*time.Minute), recreated))))).To(Equal("True BackupSucceeded"))
	})
})

var _ = Describe("the Lease of delta snapshots after a user has accepted a rollback", func() {
	const lost = "The store has snapshots up to revision 1000, which no member has. A restore would use them, and would lose all writes since the rollback. " +
		"Move the snapshots with the lost revisions out of the store, and delete Lease main-delta-snap"
	accepted := func(in *conditions.Input) {
		in.Observation.State.Evidence = &state.Evidence{HighestRevision: 50, AcceptedRevision: 50, AcceptedRollbackAt: noon.Add(-time.Hour)}
		lease := &in.Observation.DeltaSnapshotLease
		lease.Name, lease.Holder, lease.RenewTime, lease.CreationTime = "main-delta-snap", "1000", noon.Add(-time.Minute), noon.Add(-30*time.Minute)
	}
	ready := func(in conditions.Input) string {
		delta := conditions.DeltaSnapshot(in)

		return statusAndReason(delta) + ": " + delta.Message
	}

	It("reports that the store still has the lost revisions", func() {
		in := healthy(accepted)
		Expect(ready(in)).To(Equal("False LostRevisionInStore: " + lost))
		in.Etcd.Status.Conditions = []druidv1alpha1.Condition{*conditions.DeltaSnapshot(in)}
		in.Observation.DeltaSnapshotLease.RenewTime = noon
		Expect(ready(in)).To(Equal("False LostRevisionInStore: "+lost), "the sidecar renews the Lease")
		in.Observation.DeltaSnapshotLease.Holder = "100"
		Expect(ready(in)).To(HavePrefix("True BackupSucceeded"))
	})

	DescribeTable("reports nothing", func(change func(*conditions.Input)) {
		Expect(ready(healthy(all(accepted, change)))).To(HavePrefix("True BackupSucceeded"))
	},
		Entry("if no user has accepted a rollback", func(in *conditions.Input) { in.Observation.State.Evidence.AcceptedRevision = 0 }),
		Entry("if a member has the revision", func(in *conditions.Input) { in.Observation.DeltaSnapshotLease.Holder = "100" }),
		Entry("if the sidecar may have renewed the Lease after the members were read", func(in *conditions.Input) { in.Observation.DeltaSnapshotLease.RenewTime = noon }),
		Entry("if the operator resets the Lease", func(in *conditions.Input) { in.Observation.DeltaSnapshotLease.CreationTime = noon.Add(-2 * time.Hour) }),
	)
})

var _ = Describe("the message of snapshots that are in time", func() {
	It("names the newest full snapshot and when the next is due, also while that one is being taken", func() {
		const message = "The newest full snapshot is of 2026-01-01T11:00:05Z, observed at 2026-01-01T11:30:00Z; the next is due at 2026-01-01T12:00:00Z"
		in := healthy(func(in *conditions.Input) {
			in.Observation.FullSnapshotLease.RenewTime = noon.Add(-time.Hour + 5*time.Second)
		})
		for _, after := range []time.Duration{-30 * time.Minute, 0, 9 * time.Minute} {
			in.Now = noon.Add(after)
			full := conditions.FullSnapshot(in)
			Expect(full.Message).To(Equal(message))
			in.Etcd.Status.Conditions = []druidv1alpha1.Condition{*full}
		}
	})

	Describe("that are delta snapshots", func() {
		var in conditions.Input
		const first = "The newest delta snapshot, up to revision 90, was recorded at 2026-01-01T11:59:00Z; the next is due at 2026-01-01T12:04:00Z if something is written until then"
		// records takes a delta snapshot at the given time after noon, and returns the message.
		records := func(after time.Duration, revision string) string {
			in.Now = noon.Add(after)
			in.Observation.DeltaSnapshotLease.RenewTime, in.Observation.DeltaSnapshotLease.Holder = in.Now, revision
			said := conditions.DeltaSnapshot(in)
			Expect(statusAndReason(said)).To(Equal("True BackupSucceeded"))
			in.Etcd.Status.Conditions = conditions.Merge(in.Etcd.Status.Conditions, []druidv1alpha1.ConditionType{"BackupReady"}, []druidv1alpha1.Condition{*said}, in.Now)

			return said.Message
		}

		BeforeEach(func() {
			in = healthy(func(in *conditions.Input) {
				in.Etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 5 * time.Minute}
			})
			Expect(records(-time.Minute, "90")).To(Equal(first))
		})

		It("stays as it is while nothing is written, though the sidecar renews its lease", func() {
			Expect(records(4*time.Minute, "90")).To(Equal(first))
			Expect(records(9*time.Minute, "90")).To(Equal(first))
		})

		It("follows what is written, but not more often than every five minutes", func() {
			Expect(records(time.Minute, "95")).To(Equal(first))
			Expect(records(4*time.Minute, "99")).To(HavePrefix("The newest delta snapshot, up to revision 99, was recorded at 2026-01-01T12:04:00Z"))
		})

		It("says when the first one is due", func() {
			in.Observation.DeltaSnapshotLease = etcdcluster.Lease{Exists: true}
			in.Observation.FullSnapshotLease.RenewTime = noon.Add(-time.Minute)
			Expect(conditions.DeltaSnapshot(in).Message).To(Equal("The first delta snapshot is due at 2026-01-01T12:04:00Z if something is written until then"))
		})

		It("says when none was needed yet", func() {
			Expect(records(4*time.Minute, "0")).To(Equal("Nothing was written that the full snapshot does not hold, so that no delta snapshot was needed yet"))
		})
	})
})
