// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Volumes", func() {
	const gibi = int64(1) << 30
	var (
		etcd      *druidv1alpha1.Etcd
		o         etcdcluster.Observation
		template  *etcdcluster.ClaimTemplate
		rendering etcdcluster.Rendering
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID, etcd.Spec.Replicas = "main", "demo", "etcd-uid", 1
		etcd.Spec.StorageCapacity = new(resource.MustParse("10Gi"))
		o = etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main", GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}},
			StatefulSet:     etcdcluster.StatefulSet{Exists: true, Name: "main", UID: "sts-uid", SpecReplicas: 1, UpdateRevision: "a"},
			Pods:            []etcdcluster.Pod{{Name: "main-0", RevisionHash: "a", Ready: true}},
			Claims:          []etcdcluster.Claim{{Name: "main-main-0", Exists: true, Bound: true, UID: "claim-uid", StorageClass: "standard", Requested: 10 * gibi}},
		}
		o.StatefulSet.Rendering.Fixed.ClaimTemplates = []etcdcluster.ClaimTemplate{{Name: "main", Request: 10 * gibi}}
		template = &o.StatefulSet.Rendering.Fixed.ClaimTemplates[0]
		rendering = etcdcluster.Rendering{}
	})

	p := func() plan.Plan {
		rendering.Fixed.ClaimTemplates = []etcdcluster.ClaimTemplate{{Name: "main", Request: etcd.Spec.StorageCapacity.Value()}}

		return planner.Gate(planner.For(etcd, o, time.Time{}), rendering, o)
	}
	size := func(text string) { etcd.Spec.StorageCapacity = new(resource.MustParse(text)) }

	DescribeTable("are refused what they cannot become",
		func(change func(), field, message string) {
			change()
			Expect(p().Outcome()).To(Equal(plan.OutcomeRefused), p().Reason)
			Expect(p().Refusal.Field).To(Equal(field))
			Expect(p().Refusal.Message).To(ContainSubstring(message))
		},
		Entry("smaller", func() { size("9Gi") }, "spec.storageCapacity", "the volumes have 10Gi, and no volume shrinks; set it to that or more"),
		Entry("larger where their class does not allow it", func() { size("11Gi"); o.Claims[0].Expandable = new(false) },
			"spec.storageCapacity", `the volume of claim main-main-0 cannot be expanded from 10Gi to 11Gi: its StorageClass "standard" does not exist or does not allow it (allowVolumeExpansion); set it to 10Gi, or allow it`),
		Entry("of another class", func() { etcd.Spec.StorageClass = new("fast") }, "spec.storageClass", `of StorageClass "standard", and no volume changes its class`),
		Entry("of another class, for a member that has joined an existing cluster, which no surge replaces", func() {
			withSurge(etcd)
			etcd.Spec.StorageClass = new("fast")
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://old:2379"}}
		}, "spec.storageClass", `of StorageClass "standard", and no volume changes its class`),
		Entry("of no class", func() { etcd.Spec.StorageClass = new("") }, "spec.storageClass", `of StorageClass "standard"`),
		Entry("of other claims", func() { etcd.Spec.VolumeClaimTemplate = new("other") }, "spec.volumeClaimTemplate", "the data is in volumes of claims named main, which other would leave behind; set it to main"),
	)

	DescribeTable("are left as they are",
		func(change func()) {
			change()
			Expect(p().Outcome()).NotTo(Equal(plan.OutcomeRefused))
			Expect(p().Step).NotTo(BeAssignableToTypeOf(plan.ResizeClaim{}), p().Reason)
		},
		Entry("when the spec requests their size", func() {}),
		Entry("when a user made a claim larger", func() { o.Claims[0].Requested = 12 * gibi }),
		Entry("when the spec names the class that they have by default", func() { etcd.Spec.StorageClass = new("standard") }),
		Entry("when the spec does not name their class any more", func() { template.StorageClass = new("standard") }),
		Entry("when a claim is smaller than rendered and not expandable, but the spec requests no more than before", func() {
			o.Claims[0].Requested, o.Claims[0].Expandable = 9*gibi, new(false)
		}),
		Entry("when it is unknown whether they are expandable", func() { o.Claims[0].Requested = 9 * gibi }),
		Entry("when a claim has no volume yet, for example because the requested size is too large", func() { o.Claims[0].Bound = false; size("9Gi") }),
		Entry("when a claim is being deleted", func() {
			o.Claims[0].Requested, o.Claims[0].Expandable, o.Claims[0].Deleting = 9*gibi, new(true), true
		}),
	)

	It("are expanded before the StatefulSet is recreated, each by its UID", func() {
		size("20Gi")
		o.Claims[0].Expandable = new(true)
		Expect(p().Step).To(Equal(plan.ResizeClaim{Meta: plan.Meta{Object: "main-main-0", UID: "claim-uid"}, Size: 20 * gibi}))
		Expect(p().Reason).To(Equal("the volume of claim main-main-0 is expanded from 10Gi to 20Gi in use, its pod keeps running"))
		o.Claims[0].Requested = 20 * gibi
		Expect(p().Step).To(Equal(plan.RecreateStatefulSet{Meta: plan.Meta{Object: "main", UID: "sts-uid"}}))
	})

	Describe("that the API server refuses to expand", func() {
		BeforeEach(func() {
			size("20Gi")
			o.Claims[0].Expandable, o.Claims[0].RefusedSize, o.Claims[0].RefusedWhy = new(true), 20*gibi, "exceeded quota"
		})

		It("are reported, and left as they are with their StatefulSet", func() {
			Expect(p()).To(And(HaveField("Step", BeNil()), HaveField("Stage", plan.StageDone)))
			Expect(p().Outcome()).To(Equal(plan.OutcomeBlocked))
			Expect(p().Blocked).To(MatchError("spec.storageCapacity: the API server refuses to expand the volume of claim main-main-0 from 10Gi to 20Gi, and the operator tries again each minute: exceeded quota"))
		})

		It("hold back no pod", func() {
			o.Pods[0].RevisionHash = "older"
			Expect(p().Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
			Expect(p().Blocked).To(MatchError(ContainSubstring("exceeded quota")))
		})

		It("hold back no other field of the StatefulSet", func() {
			rendering.Fixed.ServiceName = "other"
			Expect(p().Step).To(BeAssignableToTypeOf(plan.RecreateStatefulSet{}))
		})

		It("block no volume that is expandable", func() {
			o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-main-1", Ordinal: 1, Exists: true, Bound: true, UID: "other-uid", Requested: 10 * gibi, Expandable: new(true)})
			Expect(p().Step).To(HaveField("Object", "main-main-1"))
		})

		It("request another size at once", func() {
			size("12Gi")
			Expect(p().Step).To(HaveField("Size", 12*gibi))
		})
	})

	It("do not block the accepted generation when they are not expandable any more", func() {
		size("20Gi")
		o.Claims[0].Expandable, o.Pods[0].RevisionHash = new(false), "older"
		rendering.Fixed.ClaimTemplates = []etcdcluster.ClaimTemplate{{Name: "main", Request: 20 * gibi}}
		Expect(planner.For(etcd, o, time.Time{}).Outcome()).To(Equal(plan.OutcomeRefused))
		Expect(planner.Gate(planner.ForAccepted(etcd, o, time.Time{}), rendering, o).Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
		Expect(o.Claims[0].Expandable).To(HaveValue(BeFalse()), "what was observed stays as it is")
	})

	Describe("with a larger requested size", func() {
		now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

		BeforeEach(func() {
			size("20Gi")
			template.Request, o.Claims[0].Requested, o.Claims[0].Capacity = 20*gibi, 20*gibi, 10*gibi
			o.Pods[0].CreationTime = now.Add(-time.Hour)
		})
		planNow := func() plan.Plan {
			rendering.Fixed.ClaimTemplates = o.StatefulSet.Rendering.Fixed.ClaimTemplates

			return planner.Gate(planner.For(etcd, o, now), rendering, o)
		}

		It("are waited for", func() {
			Expect(planNow()).To(And(HaveField("Stage", plan.StageResizeVolume), HaveField("Step", BeNil()),
				HaveField("WaitsFor", "the volume of claim main-main-0 to be expanded from 10Gi to 20Gi")))
			o.Claims[0].ResizeProblem = "out of disks"
			Expect(planNow().WaitsFor).To(Equal("the volume of claim main-main-0 to be expanded from 10Gi to 20Gi: out of disks"))
			o.Claims[0].Capacity = 20 * gibi
			Expect(planNow().Outcome()).To(Equal(plan.OutcomeDone))
		})

		It("are not waited for while no pod uses them", func() {
			etcd.Spec.Replicas, o.Pods, o.StatefulSet.SpecReplicas, o.State.Replicas = 0, nil, 0, new(int32(0))
			Expect(planNow().Outcome()).To(Equal(plan.OutcomeDone))
		})

		It("hold back nothing else", func() {
			o.Pods[0].RevisionHash = "older"
			Expect(planNow().Stage).To(Equal(plan.StageReplacePod))
		})

		It("are mounted again, once, when their file system is not expanded in use", func() {
			o.Claims[0].RemountSince = now.Add(-5 * time.Minute)
			Expect(planNow().Step).To(BeNil(), "it may still be expanded in use")
			o.Claims[0].RemountSince = now.Add(-5*time.Minute - time.Second)
			Expect(planNow().Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
			Expect(planNow().Reason).To(HaveSuffix("its file system is expanded at the next mount"))
			o.Pods[0].CreationTime = now.Add(-time.Minute)
			Expect(planNow()).To(And(HaveField("Step", BeNil()), HaveField("WaitsFor", ContainSubstring("to be expanded"))))
		})
	})

	DescribeTable("are decided about only when all is known",
		func(section etcdcluster.Section) {
			size("20Gi")
			o.Failures = []etcdcluster.ReadFailure{{Section: section, Message: "timeout"}}
			Expect(p().Render).To(BeFalse())
			Expect(p().WaitsFor).To(ContainSubstring("timeout"))
		},
		Entry("their claims", etcdcluster.SectionClaims),
		Entry("their classes", etcdcluster.SectionStorageClasses),
	)
})

var _ = Describe("A member on a lost node", func() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var (
		etcd *druidv1alpha1.Etcd
		o    etcdcluster.Observation
	)

	// The node of main-2 was lost an hour ago. The last attempt to take a full snapshot failed a minute ago.
	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID, etcd.Generation = "main", "demo", "etcd-uid", 4
		etcd.Spec.Replicas = 3
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "demo--main"}
		o = etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main"},
			State:           state.State{Size: 3, Replicas: new(int32(3)), Evidence: &state.Evidence{HighestRevision: 42}},
			StatefulSet:     etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: 3, UpdateRevision: "a"},
			Nodes:           []etcdcluster.Node{{Name: "n2"}},
			Etcd:            etcdcluster.EtcdResponses{Queried: true},
			SnapshotAttempts: etcdcluster.SnapshotAttempts{
				Failures: 12, Error: "the store does not answer", EndedAt: now.Add(-time.Minute),
			},
			DeltaSnapshotLease: etcdcluster.Lease{Exists: true, Holder: "40"},
			StoreTimeout:       30 * time.Minute,
		}
		for ordinal, name := range []string{"main-0", "main-1", "main-2"} {
			id := uint64(ordinal + 1)
			o.Pods = append(o.Pods, etcdcluster.Pod{Name: name, UID: types.UID("pod-" + name), Ordinal: ordinal, RevisionHash: "a", Ready: ordinal < 2, CreationTime: now.Add(-2 * time.Hour)})
			o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-" + name, UID: types.UID("claim-" + name), Ordinal: ordinal, Exists: true, Bound: true, Volume: "pv-" + name})
			o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Exists: true, Name: name, Holder: strconv.Itoa(ordinal+1) + ":Member", RenewTime: now.Add(-10 * time.Second)})
			o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name})
			o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: ordinal, Reachable: ordinal < 2, Healthy: ordinal < 2, MemberID: id, ClusterID: 7, LeaderID: 1, QuorumRevision: 50})
		}
		o.Claims[2].Nodes, o.MemberLeases[2].RenewTime = []string{"n2"}, now.Add(-time.Hour)
	})

	p := func() plan.Plan { return planner.For(etcd, o, now) }

	It("is replaced without the store after a while, if a quorum has the recorded revision", func() {
		Expect(p().Step).To(Equal(plan.ReplaceClaim{Meta: plan.Meta{Object: "main-main-2", UID: "claim-main-2"}}), p().WaitsFor)
		Expect(p().Reason).To(Equal("2 of 3 healthy by a quorum read; the volume of claim main-main-2 can be used on node n2 alone, which is gone or out of service; " +
			"no full snapshot could be taken within 30m0s after the last heartbeat of main-2 at 2026-01-01T11:00:00Z (12 attempts failed: the store does not answer), " +
			"so the store may not have the newest writes: its newest recorded snapshot has revision 40, main-0, main-1 have revision 50, and revision 42 was recorded; " +
			"with a new one main-2 joins again as a learner, which leaves 2 of 3 healthy: allowed"))
	})

	DescribeTable("is not replaced without the store",
		func(change func(), waitsFor string) {
			change()
			Expect(p().Step).NotTo(BeAssignableToTypeOf(plan.ReplaceClaim{}))
			Expect(p().WaitsFor).To(ContainSubstring(waitsFor))
		},
		Entry("before that time", func() { o.MemberLeases[2].RenewTime = now.Add(-29 * time.Minute) },
			"the next attempt to take a full snapshot, at 2026-01-01T12:04:00Z: the store does not answer; or until 2026-01-01T12:01:00Z, when the member is replaced without the store if a quorum has revision 42"),
		Entry("if there is no limit", func() { o.StoreTimeout = 0 }, "the next attempt to take a full snapshot, at 2026-01-01T12:04:00Z: the store does not answer"),
		Entry("without a recorded revision", func() { o.State.Evidence = nil },
			"the store does not answer; the member is not replaced without the store, because the operator has recorded no revision of this cluster"),
		Entry("if fewer than a quorum have the recorded revision", func() { o.Etcd.Members[1].QuorumRevision = 41 },
			"the store does not answer; the member is not replaced without the store, because only main-0 of 3 voting members has the recorded revision 42"),
		Entry("if no member has the recorded revision", func() { o.State.Evidence.HighestRevision = 51 },
			"the member is not replaced without the store, because no voting member has the recorded revision 51"),
		Entry("while another member is being replaced", func() {
			etcd.Spec.Replicas, o.State.Size, o.State.Replicas, o.StatefulSet.SpecReplicas = 5, 5, new(int32(5)), 5
			for ordinal := 3; ordinal < 5; ordinal++ {
				name, id := "main-"+strconv.Itoa(ordinal), uint64(ordinal+1)
				o.Pods = append(o.Pods, etcdcluster.Pod{Name: name, Ordinal: ordinal, RevisionHash: "a", Ready: ordinal == 4, CreationTime: now.Add(-time.Minute)})
				o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-" + name, Ordinal: ordinal, Exists: true, Bound: true})
				o.MemberLeases = append(o.MemberLeases, etcdcluster.Lease{Exists: true, Name: name})
				o.Etcd.MemberList = append(o.Etcd.MemberList, etcdcluster.ListedMember{ID: id, Name: name, Learner: ordinal == 3})
				o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{Ordinal: ordinal, Reachable: true, Healthy: ordinal == 4, Learner: ordinal == 3, MemberID: id, ClusterID: 7, LeaderID: 1, QuorumRevision: 50})
			}
		}, "the member is not replaced without the store, because member main-3 is not healthy yet"),
		Entry("if no heartbeat of it is known", func() { o.MemberLeases = o.MemberLeases[:2] },
			"the member is not replaced without the store, because it has no Lease with its last heartbeat"),
		Entry("while an attempt runs", func() { o.SnapshotAttempts.Running = true }, "a full snapshot to be stored and verified"),
	)

	Describe("while the sidecar of the leader has the endpoint from before a change in its environment", func() {
		BeforeEach(func() {
			o.State.Store, o.SnapshotAttempts = &state.Store{Provider: "ECS", ChangedAt: now.Add(-time.Hour)}, etcdcluster.SnapshotAttempts{}
		})

		It("is replaced without the store after a while", func() {
			Expect(p().Step).To(Equal(plan.ReplaceClaim{Meta: plan.Meta{Object: "main-main-2", UID: "claim-main-2"}}), p().WaitsFor)
			Expect(p().Reason).To(ContainSubstring("no full snapshot could be taken within 30m0s after the last heartbeat of main-2 at 2026-01-01T11:00:00Z " +
				"(the sidecar of the leader does not use the changed endpoint of the store), so the store may not have the newest writes"))
		})

		It("waits before that", func() {
			o.MemberLeases[2].RenewTime = now.Add(-29 * time.Minute)
			Expect(p().Step).To(BeNil())
			Expect(p().WaitsFor).To(Equal("pod main-0 of the leader to be replaced, because its sidecar reads the endpoint of the store only when it starts: " +
				"delete this pod when another member is healthy again, because the cluster has no quorum without it now, or set the annotation druid.gardener.cloud/skip-final-snapshot; " +
				"or until 2026-01-01T12:01:00Z, when the member is replaced without the store if a quorum has revision 42"))
		})

		It("says that the pod of the leader can be deleted if the others are a quorum", func() {
			o.MemberLeases[2].RenewTime = now.Add(-29 * time.Minute)
			o.Etcd.Members[2].Reachable, o.Etcd.Members[2].Healthy = true, true
			etcd.Spec.Replicas, o.State.Replicas = 0, new(int32(3))
			Expect(p().WaitsFor).To(Equal("pod main-0 of the leader to be replaced, because its sidecar reads the endpoint of the store only when it starts: " +
				"delete this pod, or set the annotation druid.gardener.cloud/skip-final-snapshot"))
		})

		It("is replaced after a full snapshot if the pod of the leader is new", func() {
			o.Pods[0].CreationTime = now.Add(-10 * time.Minute)
			Expect(p().Step).To(BeAssignableToTypeOf(plan.TakeSnapshot{}))
		})
	})

	It("is not replaced without another attempt after a pause", func() {
		o.SnapshotAttempts.EndedAt = now.Add(-time.Hour)
		Expect(p().Step).To(BeAssignableToTypeOf(plan.TakeSnapshot{}))
	})

	It("is not replaced without a failed attempt", func() {
		o.SnapshotAttempts = etcdcluster.SnapshotAttempts{}
		Expect(p().Step).To(BeAssignableToTypeOf(plan.TakeSnapshot{}))
	})

	It("counts from the creation of its Lease if it has had no heartbeat", func() {
		o.MemberLeases[2].RenewTime, o.MemberLeases[2].CreationTime = time.Time{}, now.Add(-31*time.Minute)
		Expect(p().Step).To(BeAssignableToTypeOf(plan.ReplaceClaim{}))
	})

	Describe("of a cluster that has lost acknowledged writes", func() {
		BeforeEach(func() {
			o.State.Evidence.RolledBack = &state.RolledBack{Revision: 41}
			o.SnapshotAttempts = etcdcluster.SnapshotAttempts{Verified: &state.VerifiedSnapshot{Name: "Full-1", Revision: 50}, EndedAt: now}
		})

		It("is not replaced, also with a full snapshot, since its volume may have these writes", func() {
			Expect(p()).To(And(HaveField("Step", BeNil()), HaveField("Stage", plan.StageReplaceVolume)))
			Expect(p().WaitsFor).To(Equal("revision 41, which the annotation druid.gardener.cloud/accept-revision=41 accepts, or the annotation druid.gardener.cloud/skip-final-snapshot"))
			Expect(p().Reason).To(ContainSubstring("the cluster has lost acknowledged writes, which the volume may have"))
		})

		It("is replaced if its volume does not exist", func() {
			o.Claims[2].Lost = true
			Expect(p().Step).To(BeAssignableToTypeOf(plan.ReplaceClaim{}))
		})

		It("is replaced if a user accepts the revision", func() {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/accept-revision": "41"}
			Expect(p().Step).To(BeAssignableToTypeOf(plan.ReplaceClaim{}))
		})

		It("is replaced without a snapshot if an annotation says so", func() {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/skip-final-snapshot": ""}
			Expect(p().Step).To(BeAssignableToTypeOf(plan.ReplaceClaim{}))
		})
	})
})
