// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("PlanDiscard", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	slow := &state.VerifiedSnapshot{Name: "Full-1", Revision: 42, At: now.Add(-20 * time.Minute), LastRevision: 43}
	complete := &state.VerifiedSnapshot{Name: "Full-1", Revision: 42, At: now.Add(-time.Minute), LastRevision: 43}
	stored := &state.VerifiedSnapshot{Name: "Full-1", Revision: 42, At: now.Add(-time.Minute), LastRevision: 43, Store: "the store", PodCreationTime: now.Add(-time.Hour)}
	taken := &state.VerifiedSnapshot{Name: "Full-1", Revision: 42, At: now.Add(-time.Minute)}

	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 4
		etcd.Spec.Replicas = 1
		etcd.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicyDeleteAll)
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
		o = etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main"}, State: state.State{Replicas: new(int32(1))},
			StatefulSet:  etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1},
			Pods:         []etcdcluster.Pod{{Name: "main-0", Ready: true}},
			Claims:       []etcdcluster.Claim{{Name: "main-main-0", Exists: true}},
			MemberLeases: []etcdcluster.Lease{{Name: "main-0", Exists: true, Holder: "1:Leader"}},
		}
	})

	p := func() plan.Plan { return planner.ForDeletion(etcd, o, false, now) }

	DescribeTable("takes a snapshot again although one of all writes is verified", func(etcds etcdcluster.EtcdResponses, again bool) {
		o.SnapshotAttempts, o.Etcd = etcdcluster.SnapshotAttempts{Verified: complete, EndedAt: now}, etcds
		Expect(p().Step != nil).To(Equal(again))
		Expect(p().FinalSnapshot == nil).To(Equal(again))
	},
		Entry("if etcd accepts writes again", etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, QuorumRevision: 43}}}, true),
		Entry("if etcd has accepted a write since", etcdcluster.EtcdResponses{
			Queried: true, Alarms: []etcdcluster.Alarm{etcdcluster.WriteRejection}, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, QuorumRevision: 44}},
		}, true),
		Entry("but not while etcd rejects writes", etcdcluster.EtcdResponses{
			Queried: true, Alarms: []etcdcluster.Alarm{etcdcluster.WriteRejection}, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, QuorumRevision: 43}},
		}, false),
		Entry("but not while no member responds", etcdcluster.EtcdResponses{Queried: true}, false),
	)

	It("takes a snapshot first", func() {
		Expect(p().Step).To(Equal(plan.TakeSnapshot{Meta: plan.Meta{Object: "main", UID: "etcd-uid"}, RejectWrites: true}))
		Expect(p().FinalSnapshot).To(BeNil())
	})

	DescribeTable("does not continue",
		func(change func(), waitsFor string) {
			change()
			Expect(p().Outcome()).To(Equal(plan.OutcomeWaiting))
			Expect(p().WaitsFor).To(Equal(waitsFor))
			Expect(p().FinalSnapshot).To(BeNil())
		},
		Entry("while a snapshot is being taken", func() { o.SnapshotAttempts.Running = true }, "a full snapshot to be stored and verified"),
		Entry("right after an attempt failed", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Failures: 1, Error: "the store is down", EndedAt: now.Add(-14 * time.Second)}
		}, "the next attempt to take a full snapshot, at 2026-01-01T12:00:01Z: the store is down"),
		Entry("however often attempts failed", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Failures: 1000, Error: "the store is down", EndedAt: now}
		}, "the next attempt to take a full snapshot, at 2026-01-01T12:05:00Z: the store is down"),
		Entry("after the cluster has lost acknowledged writes, although a snapshot is verified", func() {
			o.State.Evidence = &state.Evidence{HighestRevision: 42, RolledBack: &state.RolledBack{Revision: 41}}
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: taken, EndedAt: now.Add(-time.Minute)}
		}, "revision 41, which the annotation druid.gardener.cloud/accept-revision=41 accepts, or the annotation druid.gardener.cloud/skip-final-snapshot"),
		Entry("while sidecars may use the endpoint from before a change, although a snapshot is verified", func() {
			o.State.Store = &state.Store{Provider: "S3", ChangedAt: now.Add(-2 * time.Minute)}
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: taken, EndedAt: now}
		}, "all sidecars to use the changed endpoint or account of the store, until 2026-01-01T12:03:00Z"),
		Entry("while the sidecar of the leader may use the endpoint from before a change, whatever the others use", func() {
			o.State.Store = &state.Store{Provider: "S3", ChangedAt: now.Add(-2 * time.Minute)}
			o.Pods = append(o.Pods, etcdcluster.Pod{Name: "main-1", Ordinal: 1, CreationTime: now.Add(-time.Minute)})
			o.Etcd.Members = []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1}}
		}, "the sidecar of the leader to use the changed endpoint or account of the store, until 2026-01-01T12:03:00Z"),
		Entry("while sidecars have the endpoint from before a change in their environment", func() {
			o.State.Store = &state.Store{Provider: "ECS", ChangedAt: now.Add(-time.Hour)}
		}, "the pods to be replaced, because their sidecars read the endpoint of the store only when they start: delete these pods one at a time, or set the annotation druid.gardener.cloud/skip-final-snapshot"),
		Entry("while the sidecar of the leader has the endpoint from before a change in its environment", func() {
			o.State.Store = &state.Store{Provider: "ECS", ChangedAt: now.Add(-time.Hour)}
			o.Pods = append(o.Pods, etcdcluster.Pod{Name: "main-1", Ordinal: 1, CreationTime: now.Add(-time.Minute)})
			o.Etcd.Members = []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1}}
		}, "pod main-0 of the leader to be replaced, because its sidecar reads the endpoint of the store only when it starts: delete this pod, which interrupts etcd, or set the annotation druid.gardener.cloud/skip-final-snapshot"),
		Entry("without all facts", func() {
			o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionClaims, Message: "no answer"}}
		}, "a successful read of PersistentVolumeClaims: no answer"),
	)

	It("takes a snapshot if the sidecar of the leader uses the changed endpoint, whatever the others use", func() {
		o.State.Store = &state.Store{Provider: "ECS", ChangedAt: now.Add(-time.Hour)}
		o.Pods = append(o.Pods, etcdcluster.Pod{Name: "main-1", Ordinal: 1, CreationTime: now.Add(-time.Minute)})
		o.Etcd.Members = []etcdcluster.EndpointStatus{{Ordinal: 1, Reachable: true, Healthy: true, MemberID: 2, LeaderID: 2}}
		Expect(p().Step).To(BeAssignableToTypeOf(plan.TakeSnapshot{}))
	})

	DescribeTable("records the store of the pod that took the snapshot, although another member is the leader now", func(location string) {
		o.StoreLocation = `S3 container "c" prefix "p" endpoint "new"`
		o.Pods = append(o.Pods, etcdcluster.Pod{Name: "main-1", Ordinal: 1})
		o.Etcd = etcdcluster.EtcdResponses{Queried: true, Alarms: []etcdcluster.Alarm{etcdcluster.WriteRejection}, Members: []etcdcluster.EndpointStatus{
			{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 2, QuorumRevision: 43}, {Ordinal: 1, Reachable: true, Healthy: true, MemberID: 2, LeaderID: 2, QuorumRevision: 43},
		}}
		o.SnapshotAttempts = etcdcluster.SnapshotAttempts{EndedAt: now, Verified: &state.VerifiedSnapshot{
			Name: "Full-1", Revision: 42, At: complete.At, LastRevision: 43, Store: location, PodCreationTime: now.Add(-time.Hour),
		}}
		Expect(p().FinalSnapshot).To(HaveValue(HaveField("Store", location)))
	},
		Entry("and another store is used", `S3 container "c" prefix "p" endpoint "old"`),
		Entry("if that store was not known", ""),
	)

	It("waits for a watch while a pod must be replaced", func() {
		o.State.Store = &state.Store{Provider: "ECS", ChangedAt: now.Add(-time.Hour)}
		Expect(p().RequeueAfter).To(BeZero())
		o.State.Store = &state.Store{Provider: "S3", ChangedAt: now.Add(-2 * time.Minute)}
		Expect(p().RequeueAfter).To(Equal(3 * time.Minute))
	})

	It("says where the snapshot from before the hibernation lies when that does not count", func() {
		o.State.Replicas, o.Pods = new(int32(0)), nil
		o.StoreLocation = "the new store"
		o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken, Store: "the old store"}
		Expect(p().Reason).To(ContainSubstring("the snapshot from before the hibernation is in the old store, which is not used any more, and a snapshot of all writes comes before"))
	})

	It("does not count the snapshot from before the hibernation if a quorum confirmed a later revision while the members stopped", func() {
		o.State.Replicas, o.Pods = new(int32(0)), nil
		o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
		o.State.Evidence = &state.Evidence{HighestRevision: 43}
		Expect(p().Outcome()).To(Equal(plan.OutcomeStep))
		Expect(p().Reason).To(ContainSubstring("the members wrote up to revision 43 at least after the snapshot from before the hibernation, which holds revision 42: these writes are only on the volumes, and no member starts while the Etcd is being deleted"))
	})

	It("does not count the snapshot from before the hibernation of a cluster that has lost acknowledged writes", func() {
		o.State.Replicas, o.Pods = new(int32(0)), nil
		o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
		o.State.Evidence = &state.Evidence{HighestRevision: 43, RolledBack: &state.RolledBack{Revision: 42}}
		Expect(p().WaitsFor).To(ContainSubstring("accept-revision=42"))
		etcd.DeletionTimestamp = &metav1.Time{Time: now}
		etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": "42", "druid.gardener.cloud/restore": "from-store"}
		Expect(p().WaitsFor).NotTo(ContainSubstring("accept-revision"), "no restore begins any more, for which the annotation could be")
		etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": "42"}
		Expect(p().FinalSnapshot).To(Equal(o.State.FinalSnapshot))
	})

	It("counts the snapshot from before the hibernation if only a Lease records a higher revision, which was lost before", func() {
		o.State.Replicas, o.Pods = new(int32(0)), nil
		o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
		o.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, Holder: "500", RenewTime: now.Add(-time.Hour)}
		o.State.Evidence = &state.Evidence{HighestRevision: 42, At: now.Add(-time.Minute)}
		Expect(p().FinalSnapshot).To(BeNil())
		o.State.Evidence.AcceptedRevision = 40
		Expect(p().FinalSnapshot).To(Equal(o.State.FinalSnapshot))
	})

	It("says what to do where members wrote on after the snapshot from before the hibernation", func() {
		o.State.Replicas, o.Pods = new(int32(0)), nil
		o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
		o.DeltaSnapshotLease.Holder = "500"
		Expect(p().Reason).To(ContainSubstring("the members wrote up to revision 500 at least after the snapshot from before the hibernation, which holds revision 42: these writes are only on the volumes, and no member starts while the Etcd is being deleted"))
	})

	Describe("of a hibernated Etcd whose volumes may have later writes", func() {
		inspection := func(change func(*etcdcluster.ClaimInspection)) etcdcluster.ClaimInspection {
			job := etcdcluster.ClaimInspection{
				Name: "main-0-inspect", UID: "job", OwnerUID: "etcd-uid", CreationTime: now.Add(-time.Minute), Claim: "main-main-0", ClaimUID: "claim",
			}
			change(&job)

			return job
		}
		has := func(revision int64) func(*etcdcluster.ClaimInspection) {
			return func(job *etcdcluster.ClaimInspection) { job.Result = &etcdcluster.Inspection{Revision: revision} }
		}
		ended := func(job *etcdcluster.ClaimInspection) {
			job.Failed, job.Corrupt, job.Message = true, true, "the database is corrupt"
		}
		empty := func(job *etcdcluster.ClaimInspection) { job.Failed, job.Empty, job.Message = true, true, "no files" }

		BeforeEach(func() {
			etcd.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Minute)}
			o.State.Replicas, o.State.Size, o.Pods = new(int32(0)), 1, nil
			o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
			o.StatefulSet.SpecReplicas = 0
			o.Claims = []etcdcluster.Claim{{Name: "main-main-0", Exists: true, UID: "claim", Volume: "pv", CreationTime: now.Add(-time.Hour)}}
		})

		It("inspects each volume first", func() {
			Expect(p().Step).To(Equal(plan.InspectClaim{Meta: plan.Meta{Object: "main-main-0", UID: "claim"}}))
			Expect(p().FinalSnapshot).To(BeNil())
			o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-main-1", Ordinal: 1, Exists: true, UID: "claim-1", Volume: "pv-1"})
			o.Inspections = []etcdcluster.ClaimInspection{inspection(has(42))}
			Expect(p().Step).To(Equal(plan.InspectClaim{Meta: plan.Meta{Object: "main-main-1", UID: "claim-1"}}))
		})

		DescribeTable("replaces a Job", func(change func(*etcdcluster.ClaimInspection)) {
			o.Inspections = []etcdcluster.ClaimInspection{inspection(change)}
			Expect(p().Step).To(Equal(plan.DeleteRestoreJob{Meta: plan.Meta{Object: "main-0-inspect", UID: "job"}}))
		},
			Entry("of another claim", func(job *etcdcluster.ClaimInspection) { job.ClaimUID = "other"; has(42)(job) }),
			Entry("that failed an hour ago", func(job *etcdcluster.ClaimInspection) {
				etcd.DeletionTimestamp = &metav1.Time{Time: now.Add(-2 * time.Hour)}
				job.CreationTime, job.Failed, job.Message = now.Add(-time.Hour), true, "no node is available"
			}),
			Entry("from before the deletion", func(job *etcdcluster.ClaimInspection) { job.CreationTime = now.Add(-61 * time.Second); has(42)(job) }),
		)

		DescribeTable("deletes no volume",
			func(change func(), waitsFor, reason string) {
				change()
				Expect(p()).To(And(HaveField("Step", BeNil()), HaveField("FinalSnapshot", BeNil()), HaveField("WaitsFor", waitsFor), HaveField("Reason", ContainSubstring(reason))))
			},
			Entry("while a Job runs", func() {
				o.Inspections = []etcdcluster.ClaimInspection{inspection(func(job *etcdcluster.ClaimInspection) { job.Message = "it is pending" })}
			}, "Job main-0-inspect to inspect the volume of claim main-main-0: it is pending", "the volumes are deleted only if none of them has a higher revision"),
			Entry("while the StatefulSet may create pods", func() { o.StatefulSet.SpecReplicas = 1 },
				"StatefulSet main to have no replicas", "the volumes are deleted only if none of them has a higher revision"),
			Entry("while its controller may create pods", func() { o.StatefulSet.Generation, o.StatefulSet.ObservedGeneration = 2, 1 },
				"StatefulSet main to have no replicas", "the volumes are deleted only if none of them has a higher revision"),
			Entry("if its revision is higher", func() { o.Inspections = []etcdcluster.ClaimInspection{inspection(has(43))} },
				"the annotation druid.gardener.cloud/skip-final-snapshot",
				"the snapshot from before the hibernation holds revision 42, but the volume of claim main-main-0 has revision 43: writes or expired leases after that are only on the volumes, and no member starts while the Etcd is being deleted"),
			Entry("if it cannot be read", func() { o.Inspections = []etcdcluster.ClaimInspection{inspection(ended)} },
				"the annotation druid.gardener.cloud/skip-final-snapshot", "the revision of claim main-main-0 is unknown: the database is corrupt"),
			Entry("if it is empty, although its member was a voting member", func() {
				o.Inspections = []etcdcluster.ClaimInspection{inspection(empty)}
				o.State.Evidence = &state.Evidence{HighestRevision: 42, At: now.Add(-time.Minute), Voters: []state.Voter{{Name: "main-0"}}}
			}, "the annotation druid.gardener.cloud/skip-final-snapshot", "the volume of claim main-main-0 is empty, although etcd ran on it as member main-0"),
			Entry("if the Jobs could not be read", func() {
				o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionRestoreVerification, Message: "no answer"}}
			}, "a successful read of Jobs: no answer", "the annotation druid.gardener.cloud/skip-final-snapshot continues"),
		)

		DescribeTable("continues",
			func(change func()) {
				change()
				Expect(p().Outcome()).To(Equal(plan.OutcomeDone))
				Expect(p().FinalSnapshot).To(Equal(o.State.FinalSnapshot))
			},
			Entry("if no volume has a higher revision", func() { o.Inspections = []etcdcluster.ClaimInspection{inspection(has(42))} }),
			Entry("if the volume of no voting member is empty", func() { o.Inspections = []etcdcluster.ClaimInspection{inspection(empty)} }),
			Entry("if etcd rejected all writes after the snapshot", func() { o.State.FinalSnapshot.Snapshot = complete }),
			Entry("with the revision that a user accepts", func() {
				o.State.Evidence = &state.Evidence{HighestRevision: 50, RolledBack: &state.RolledBack{Revision: 42}}
				etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": "42"}
				o.Inspections = []etcdcluster.ClaimInspection{inspection(has(42))}
			}),
		)

		It("inspects nothing if an annotation skips the snapshot", func() {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}
			o.Inspections = []etcdcluster.ClaimInspection{inspection(has(43))}
			Expect(p()).To(And(HaveField("Step", BeNil()), HaveField("FinalSnapshot.Missing", state.SnapshotSkipped)))
		})

		It("inspects nothing in a namespace that is being deleted, or if the volumes are retained", func() {
			Expect(planner.ForDeletion(etcd, o, true, now)).To(And(HaveField("Step", BeNil()), HaveField("FinalSnapshot.Missing", state.SnapshotTerminating)))
			etcd.Spec.PVCRetentionPolicy = nil
			Expect(p()).To(And(HaveField("Step", BeNil()), HaveField("FinalSnapshot", BeNil())))
		})
	})

	DescribeTable("tries again",
		func(change func()) {
			change()
			Expect(p().Step).NotTo(BeNil())
		},
		Entry("after a pause", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Failures: 1, Error: "the store is down", EndedAt: now.Add(-15 * time.Second)}
		}),
		Entry("after five minutes at the latest", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Failures: 1000, Error: "the store is down", EndedAt: now.Add(-5 * time.Minute)}
		}),
		Entry("where clients could write after the snapshot was verified", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: taken, EndedAt: now}
		}),
		Entry("where the snapshot is too old to act upon", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: taken, EndedAt: now.Add(-5 * time.Minute)}
		}),
		Entry("however often a snapshot became too old to act upon", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: taken, EndedAt: now.Add(-5 * time.Minute), Expired: 1000}
		}),
		Entry("where the snapshot was taken when sidecars may have used another endpoint", func() {
			o.State.Store = &state.Store{Provider: "S3", ChangedAt: now.Add(-5*time.Minute - 30*time.Second)}
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: taken, EndedAt: now}
		}),
		Entry("where a pod took the snapshot when its sidecar may have used another endpoint, although the leader is a new pod now", func() {
			o.State.Store = &state.Store{Provider: "S3", ChangedAt: now.Add(-2 * time.Minute)}
			o.Pods[0].CreationTime = now.Add(-90 * time.Second)
			o.Etcd = etcdcluster.EtcdResponses{Queried: true, Alarms: []etcdcluster.Alarm{etcdcluster.WriteRejection}, Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1, QuorumRevision: 43}}}
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{EndedAt: now, Verified: &state.VerifiedSnapshot{
				Name: "Full-1", Revision: 42, At: complete.At, LastRevision: 43, PodCreationTime: now.Add(-time.Hour),
			}}
		}),
		Entry("where the members wrote after they hibernated last", func() {
			o.State.FinalSnapshot = &state.FinalSnapshot{Snapshot: taken}
		}),
		Entry("where the snapshot before the hibernation is in a store that is not used any more", func() {
			o.State.Replicas, o.Pods = new(int32(0)), nil
			o.StoreLocation = "the new store"
			o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken, Store: "the old store"}
		}),
		Entry("where members wrote on after the snapshot from before the hibernation, as a delta snapshot shows", func() {
			o.State.Replicas, o.Pods = new(int32(0)), nil
			o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
			o.DeltaSnapshotLease.Holder = "43"
		}),
		Entry("where the snapshot before the hibernation failed", func() {
			o.State.Replicas, o.Pods = new(int32(0)), nil
			o.State.FinalSnapshot = &state.FinalSnapshot{Missing: "Failed"}
		}),
		Entry("where members still run after they were stopped", func() {
			o.State.Replicas = new(int32(0))
			o.State.FinalSnapshot = &state.FinalSnapshot{Snapshot: taken}
		}),
		Entry("where no member has been healthy since the Etcd was recreated over the volumes of a previous one", func() {
			o.MemberLeases[0].Holder, o.Pods[0].Ready = "", false
			etcd.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			o.Claims[0].CreationTime = now.Add(-time.Hour - time.Second)
		}),
		Entry("where no Lease has a holder, although a quorum returned a revision above that of an empty etcd", func() {
			o.MemberLeases[0].Holder, o.Pods[0].Ready = "", false
			o.State.Evidence = &state.Evidence{HighestRevision: 50000}
		}),
		Entry("where the Leases that would show it do not exist", func() { o.MemberLeases, o.Pods = nil, nil }),
	)

	DescribeTable("continues",
		func(change func(), expected *state.FinalSnapshot) {
			change()
			Expect(p().Outcome()).To(Equal(plan.OutcomeDone))
			Expect(p().FinalSnapshot).To(Equal(expected))
		},
		Entry("with a verified snapshot", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: stored, EndedAt: now}
		}, &state.FinalSnapshot{Generation: 4, Snapshot: stored, Store: "the store"}),
		Entry("with a verified snapshot that took longer than it is good for", func() {
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: slow, EndedAt: now.Add(-5*time.Minute + time.Second)}
		}, &state.FinalSnapshot{Generation: 4, Snapshot: slow}),
		Entry("with the snapshot from before the hibernation", func() {
			o.State.Replicas, o.Pods = new(int32(0)), nil
			o.StoreLocation = "the store"
			o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken, Store: "the store"}
		}, &state.FinalSnapshot{Generation: 3, Snapshot: taken, Store: "the store"}),
		Entry("with the snapshot from before the hibernation, which holds the newest delta snapshot", func() {
			o.State.Replicas, o.Pods = new(int32(0)), nil
			o.State.FinalSnapshot = &state.FinalSnapshot{Generation: 3, Snapshot: taken}
			o.DeltaSnapshotLease.Holder = "42"
		}, &state.FinalSnapshot{Generation: 3, Snapshot: taken}),
		Entry("where an annotation says so", func() {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": "true"}
		}, &state.FinalSnapshot{Generation: 4, Missing: "Skipped", Message: "the annotation druid.gardener.cloud/skip-final-snapshot skips it"}),
		Entry("where an annotation says so, although the record of the operator cannot be read", func() {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": "true"}
			o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionManagedResource, Message: "has version 2"}}
		}, &state.FinalSnapshot{Generation: 4, Missing: "Skipped", Message: "the annotation druid.gardener.cloud/skip-final-snapshot skips it"}),
		Entry("where no member has ever been healthy", func() { o.MemberLeases[0].Holder, o.Pods[0].Ready = "", false },
			&state.FinalSnapshot{Generation: 4, Missing: "NoData", Message: "no member has ever been healthy"}),
		Entry("where no member has ever been healthy on volumes that came with the Etcd", func() {
			o.MemberLeases[0].Holder, o.Pods[0].Ready = "", false
			etcd.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			o.Claims[0].CreationTime = now.Add(-time.Hour)
		}, &state.FinalSnapshot{Generation: 4, Missing: "NoData", Message: "no member has ever been healthy"}),
		Entry("where the volumes are retained", func() { etcd.Spec.PVCRetentionPolicy = nil }, nil),
		Entry("where there is no store", func() { etcd.Spec.Backup.Store = nil }, nil),
		Entry("where there is no volume", func() { o.Claims[0].Exists = false }, nil),
		Entry("if the members are managed externally", func() { etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1"} }, nil),
	)

	It("attempts nothing in a namespace that is being deleted", func() {
		o.Failures = []etcdcluster.ReadFailure{{Section: etcdcluster.SectionLeases, Message: "no answer"}}
		p := planner.ForDeletion(etcd, o, true, now)
		Expect(p.Outcome()).To(Equal(plan.OutcomeDone))
		Expect(p.FinalSnapshot).To(Equal(&state.FinalSnapshot{Generation: 4, Missing: "NamespaceTerminating", Message: "the namespace is being deleted"}))
	})
})

var _ = Describe("A hibernation", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	verified := func(name string) *state.VerifiedSnapshot {
		return &state.VerifiedSnapshot{Name: name, Revision: 42, At: now, Store: "the store", PodCreationTime: now.Add(-time.Hour)}
	}
	var attempts etcdcluster.SnapshotAttempts

	var store *state.Store

	BeforeEach(func() { attempts, store = etcdcluster.SnapshotAttempts{}, nil })

	p := func(now time.Time) plan.Plan {
		etcd := &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 4
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}

		return planner.For(etcd, etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main"}, State: state.State{Replicas: new(int32(1)), Size: 1, Store: store}, StoreLocation: "the store",
			StatefulSet:      etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1},
			Pods:             []etcdcluster.Pod{{Name: "main-0", Ready: true}},
			MemberLeases:     []etcdcluster.Lease{{Name: "main-0", Exists: true, Holder: "1:Leader"}},
			SnapshotAttempts: attempts,
		}, now)
	}

	It("continues with the newest snapshot when three became too old before they could be used", func() {
		for attempt, name := range []string{"Full-1", "Full-2", "Full-3"} {
			Expect(p(now)).To(And(HaveField("Step", BeAssignableToTypeOf(plan.TakeSnapshot{})), HaveField("Reason", HaveSuffix("(attempt %d of 3)", attempt+1))))
			now = now.Add(6 * time.Minute)
			attempts = attempts.Ended(verified(name), nil, now)
			Expect(p(now).Render).To(BeTrue(), "it is good at first")
			now = now.Add(5 * time.Minute)
		}
		Expect(p(now)).To(And(HaveField("Render", BeTrue()), HaveField("Replicas", BeZero()),
			HaveField("FinalSnapshot", Equal(&state.FinalSnapshot{Generation: 4, Snapshot: attempts.Verified, Store: "the store"}))))
		Expect(attempts.Verified.Name).To(Equal("Full-3"))
	})

	It("does not record the store of the newest snapshot if its endpoint changed after that", func() {
		attempts = etcdcluster.SnapshotAttempts{Verified: verified("Full-3"), EndedAt: now, Expired: 2}
		store = &state.Store{Provider: "S3", ChangedAt: now.Add(-time.Second)}
		Expect(p(now.Add(10 * time.Minute)).FinalSnapshot).To(Equal(&state.FinalSnapshot{Generation: 4, Snapshot: attempts.Verified}))
		store = nil
		Expect(p(now.Add(10 * time.Minute)).FinalSnapshot).To(Equal(&state.FinalSnapshot{Generation: 4, Snapshot: attempts.Verified, Store: "the store"}))
	})

	It("waits for the snapshot that is being taken, however many were too old", func() {
		attempts = etcdcluster.SnapshotAttempts{Running: true, Verified: verified("Full-2"), EndedAt: now.Add(-time.Hour), Expired: 7}
		Expect(p(now)).To(And(HaveField("WaitsFor", "a full snapshot to be stored and verified"), HaveField("Reason", HaveSuffix("(attempt 3 of 3)"))))
	})

	It("continues without one if snapshots were too old and then none could be taken", func() {
		attempts = attempts.Ended(verified("Full-1"), nil, now.Add(-time.Hour)).Ended(verified("Full-2"), nil, now.Add(-30*time.Minute))
		Expect(p(now).Step).NotTo(BeNil())
		attempts = attempts.Ended(nil, errors.New("the store is down"), now)
		Expect(p(now).FinalSnapshot).To(Equal(&state.FinalSnapshot{
			Generation: 4, Missing: "Failed",
			Message: "1 attempts failed after 2 snapshots became too old before they could be used, and the volumes are kept: the store is down",
		}))
	})
})

var _ = Describe("For a cluster that has lost acknowledged writes", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.UID, etcd.Generation = "main", "etcd-uid", 4
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
		o = etcdcluster.Observation{
			State:        state.State{Size: 1, Replicas: new(int32(1)), Evidence: &state.Evidence{HighestRevision: 42, RolledBack: &state.RolledBack{Revision: 41}}},
			StatefulSet:  etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1},
			MemberLeases: []etcdcluster.Lease{{Name: "main-0", Exists: true, Holder: "1:Leader"}},
		}
	})

	It("hibernates without a final snapshot, since the volumes are kept", func() {
		p := planner.For(etcd, o, now)
		Expect(p.Render).To(BeTrue())
		Expect(p.FinalSnapshot).To(HaveValue(And(HaveField("Snapshot", BeNil()), HaveField("Missing", BeEquivalentTo("RolledBack")))))
		Expect(p.Reason).To(ContainSubstring("rolled back to revision 41, which the annotation druid.gardener.cloud/accept-revision=41 accepts; the volumes are kept"))
	})

	It("takes the final snapshot when a user accepts the revision", func() {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/accept-revision", "41")
		Expect(planner.For(etcd, o, now).Step).To(Equal(plan.TakeSnapshot{Meta: plan.Meta{Object: "main", UID: "etcd-uid"}}))
	})
})
