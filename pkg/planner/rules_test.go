// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
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

var _ = Describe("PlanFor", func() {
	var (
		now  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		etcd *druidv1alpha1.Etcd
	)

	BeforeEach(func() {
		etcd = &druidv1alpha1.Etcd{}
		etcd.Name, etcd.Namespace, etcd.UID = "main", "demo", "etcd-uid"
		etcd.Spec.Replicas = 1
	})

	DescribeTable("refuses sizes, naming the field and the remedy",
		func(replicas, recorded int, message string) {
			etcd.Spec.Replicas = int32(replicas)
			p := planner.For(etcd, etcdcluster.Observation{ManagedResource: etcdcluster.ManagedResource{}, State: state.State{Size: int32(recorded)}}, now)
			Expect(string(p.Outcome())).To(Equal("Refused"))
			Expect(p.Render).To(BeFalse())
			Expect(p.Refusal).To(MatchError(message))
		},
		Entry("below zero", -1, 0, "spec.replicas: Invalid value: -1: must be 0, 1, 3, 5 or 7: an even number tolerates no more failures than the odd one below it"),
	)

	DescribeTable("decides nothing without all facts",
		func(section etcdcluster.Section) {
			p := planner.For(etcd, etcdcluster.Observation{Failures: []etcdcluster.ReadFailure{{Section: section, Message: "timeout"}}}, now)
			Expect(string(p.Stage)).To(Equal("Observe"))
			Expect(p.Render).To(BeFalse())
			Expect(p.WaitsFor).To(ContainSubstring("timeout"))
		},
		Entry("of the ManagedResource", etcdcluster.SectionManagedResource),
		Entry("of the StatefulSet", etcdcluster.SectionStatefulSet),
		Entry("of pods", etcdcluster.SectionPods),
		Entry("of Secrets", etcdcluster.SectionSecrets),
		Entry("of EtcdOpsTasks", etcdcluster.SectionTasks),
	)

	It("hibernates a cluster of any recorded size, and keeps that size", func() {
		etcd.Spec.Replicas = 0
		p := planner.For(etcd, etcdcluster.Observation{ManagedResource: etcdcluster.ManagedResource{}, State: state.State{Size: 3}}, now)
		Expect(p.Render).To(BeTrue())
		Expect(p.Replicas).To(BeZero())
		Expect(p.ClusterSize).To(BeEquivalentTo(3))
	})

	It("does not wait for Secrets in order to hibernate", func() {
		etcd.Spec.Replicas = 0
		p := planner.For(etcd, etcdcluster.Observation{Secrets: []etcdcluster.Secret{{Name: "ca"}}}, now)
		Expect(p.Render).To(BeTrue())
	})

	It("waits for the StatefulSet of an earlier Etcd to be gone", func() {
		p := planner.For(etcd, etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true, Name: "main", OwnerUID: "earlier", SpecReplicas: 3}}, now)
		Expect(string(p.Stage)).To(Equal("WaitForPreviousOwner"))
		Expect(p.Render).To(BeFalse())
	})

	It("renders any size without pods if the members are managed externally", func() {
		etcd.Spec.Replicas = 3
		etcd.Spec.ExternallyManagedMemberAddresses = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		p := planner.For(etcd, etcdcluster.Observation{}, now)
		Expect(string(p.Stage)).To(Equal("ExternallyManaged"))
		Expect(p.Replicas).To(BeZero())
		Expect(p.ClusterSize).To(BeEquivalentTo(3))
	})

	DescribeTable("starts a member",
		func(change func(*etcdcluster.Observation), stage, waitsFor string) {
			o := etcdcluster.Observation{Claims: []etcdcluster.Claim{{Name: "main-main-0"}}}
			change(&o)
			p := planner.For(etcd, o, now)
			Expect(p.Render).To(BeTrue())
			Expect(p.Replicas).To(BeEquivalentTo(1))
			Expect(string(p.Stage)).To(Equal(stage))
			Expect(p.WaitsFor).To(Equal(waitsFor))
		},
		Entry("that never was", func(*etcdcluster.Observation) {}, "Create", "pod main-0 to be created and to be ready"),
		Entry("on the data that it has", func(o *etcdcluster.Observation) { o.Claims[0].Exists = true }, "WakeUp", "pod main-0 to be created and to be ready"),
		Entry("that runs without its StatefulSet", func(o *etcdcluster.Observation) {
			o.Pods = []etcdcluster.Pod{{Name: "main-0", Ready: true}}
		}, "RecreateStatefulSet", "pod main-0 to be ready"),
		Entry("that no node takes", func(o *etcdcluster.Observation) {
			o.StatefulSet = etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1}
			o.Pods = []etcdcluster.Pod{{Name: "main-0", Unschedulable: "its volume is bound to another zone"}}
		}, "WaitForMembers", "pod main-0 to be ready: pod main-0 is not scheduled: its volume is bound to another zone; let a node have room for it, or correct its resources and scheduling constraints"),
		Entry("whose init container is done", func(o *etcdcluster.Observation) {
			o.StatefulSet = etcdcluster.StatefulSet{Exists: true, SpecReplicas: 1}
			o.Pods = []etcdcluster.Pod{{Name: "main-0", Containers: []etcdcluster.Container{
				{Name: "change-permissions", Init: true, State: "Terminated", Reason: "Completed"}, {Name: "etcd", State: "Running"},
			}}}
		}, "WaitForMembers", "pod main-0 to be ready"),
	)

	Describe("an outdated pod of a healthy member", func() {
		observed := func(change func(*etcdcluster.Observation)) etcdcluster.Observation {
			o := etcdcluster.Observation{
				StatefulSet: etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: 1, UpdateRevision: "new", Store: "s1"},
				Pods:        []etcdcluster.Pod{{Name: "main-0", UID: "pod-1", RevisionHash: "old", Ready: true, Store: "s1"}},
			}
			change(&o)

			return o
		}

		// notReadyFor is a pod that became not ready so long ago, with snapshots so old that the store counts as unreachable.
		notReadyFor := func(age time.Duration) func(*etcdcluster.Observation) {
			return func(o *etcdcluster.Observation) {
				o.DeltaSnapshotLease.RenewTime = now.Add(-3 * time.Minute)
				o.Pods[0].Ready, o.Pods[0].ReadyChangedAt, o.Pods[0].CreationTime = false, now.Add(-age), now.Add(-24*time.Hour)
			}
		}
		// etcdEnded is the same for a pod whose etcd ended then.
		etcdEnded := func(age time.Duration) func(*etcdcluster.Observation) {
			return func(o *etcdcluster.Observation) {
				notReadyFor(age)(o)
				o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Terminated", Reason: "Error"}}
			}
		}

		DescribeTable("of an Etcd with a store",
			func(change func(*etcdcluster.Observation), replaced bool) {
				etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
				p := planner.For(etcd, observed(change), now)
				Expect(string(p.Stage)).To(Equal("ReplacePod"))
				Expect(p.Step != nil).To(Equal(replaced), p.WaitsFor)
			},
			Entry("is replaced while snapshots are fresh", func(o *etcdcluster.Observation) { o.DeltaSnapshotLease.RenewTime = now.Add(-time.Minute) }, true),
			Entry("is kept while snapshots are old", func(o *etcdcluster.Observation) { o.DeltaSnapshotLease.RenewTime = now.Add(-3 * time.Minute) }, false),
			Entry("is replaced when only the delta snapshots are old", func(o *etcdcluster.Observation) {
				o.DeltaSnapshotLease.RenewTime = now.Add(-3 * time.Minute)
				o.FullSnapshotLease.RenewTime = now.Add(-time.Minute)
			}, true),
			Entry("is kept before the first snapshot", func(*etcdcluster.Observation) {}, false),
			Entry("is replaced when the settings of the store change, since that may be the cure", func(o *etcdcluster.Observation) { o.StatefulSet.Store = "s2" }, true),
			Entry("is replaced when it is not ready", func(o *etcdcluster.Observation) { o.Pods[0].Ready = false }, true),
			Entry("is kept when it is not ready for a second while snapshots are old", notReadyFor(time.Second), false),
			Entry("is kept while it has been not ready for less than two minutes", notReadyFor(2*time.Minute-time.Second), false),
			Entry("is replaced when it has not been ready for two minutes", notReadyFor(2*time.Minute), true),
			Entry("is kept for two minutes after its creation, when it was never ready", func(o *etcdcluster.Observation) {
				notReadyFor(0)(o)
				o.Pods[0].ReadyChangedAt, o.Pods[0].CreationTime = time.Time{}, now.Add(-time.Minute)
			}, false),
			Entry("is replaced two minutes after its creation, when it was never ready", func(o *etcdcluster.Observation) {
				notReadyFor(0)(o)
				o.Pods[0].ReadyChangedAt, o.Pods[0].CreationTime = time.Time{}, now.Add(-2*time.Minute)
			}, true),
			Entry("is replaced while its container waits to be restarted after a crash for two minutes", func(o *etcdcluster.Observation) {
				notReadyFor(2 * time.Minute)(o)
				o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Waiting", Reason: "CrashLoopBackOff", LastTerminationReason: "Error", Restarts: 5}}
			}, true),
			Entry("is replaced at once when its image cannot be pulled", func(o *etcdcluster.Observation) {
				notReadyFor(time.Second)(o)
				o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Waiting", Reason: "ErrImagePull"}}
			}, true),
			Entry("is replaced at once when the name of its image is invalid", func(o *etcdcluster.Observation) {
				notReadyFor(time.Second)(o)
				o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Running"}, {Name: "backup-restore", State: "Waiting", Reason: "InvalidImageName"}}
			}, true),
			Entry("is kept when a container that has run before cannot pull its image again", func(o *etcdcluster.Observation) {
				notReadyFor(time.Second)(o)
				o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Running"}, {Name: "backup-restore", State: "Waiting", Reason: "ErrImagePull", LastTerminationReason: "OOMKilled"}}
			}, false),
			Entry("is kept while its node is unreachable, however long that is", func(o *etcdcluster.Observation) {
				notReadyFor(time.Hour)(o)
				o.Pods[0].ContainersReady = true
			}, false),
			Entry("is kept while its node is unreachable, though snapshots are fresh", func(o *etcdcluster.Observation) {
				notReadyFor(time.Hour)(o)
				o.Pods[0].ContainersReady, o.DeltaSnapshotLease.RenewTime = true, now.Add(-time.Second)
			}, false),
			Entry("is replaced at once when it is not ready while snapshots are fresh", func(o *etcdcluster.Observation) {
				notReadyFor(time.Second)(o)
				o.DeltaSnapshotLease.RenewTime = now.Add(-time.Second)
			}, true),
		)

		It("is kept without a store as well while its node is unreachable, and says which", func() {
			p := planner.For(etcd, observed(func(o *etcdcluster.Observation) {
				notReadyFor(time.Hour)(o)
				o.Pods[0].ContainersReady, o.Pods[0].Node = true, "n1"
			}), now)
			Expect(p.Step).To(BeNil())
			Expect(p.WaitsFor).To(ContainSubstring("node n1"))
		})

		DescribeTable("of the only member of a cluster that is to be scaled up",
			func(change func(*etcdcluster.Observation), replaced bool) {
				etcd.Spec.Replicas = 3
				etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
				o := observed(change)
				o.ManagedResource = etcdcluster.ManagedResource{Exists: true}
				o.State = state.State{Size: 1, Replicas: new(int32(1))}
				o.Etcd = etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{{Error: "timeout"}}, MemberListError: "timeout"}
				p := planner.For(etcd, o, now)
				Expect(string(p.Stage)).To(Equal("ReplacePod"), p.Reason)
				Expect(p.Step != nil).To(Equal(replaced), p.WaitsFor)
			},
			Entry("is kept when etcd has just ended while snapshots are old", etcdEnded(time.Second), false),
			Entry("is replaced when etcd ended two minutes ago", etcdEnded(2*time.Minute), true),
			Entry("is replaced when etcd has just ended while snapshots are fresh", func(o *etcdcluster.Observation) {
				etcdEnded(time.Second)(o)
				o.DeltaSnapshotLease.RenewTime = now.Add(-time.Second)
			}, true),
			Entry("is replaced at once when its image cannot be pulled", func(o *etcdcluster.Observation) {
				notReadyFor(time.Second)(o)
				o.Pods[0].Containers = []etcdcluster.Container{{Name: "etcd", State: "Waiting", Reason: "ImagePullBackOff"}}
			}, true),
		)

		It("is replaced if no delta snapshots are requested, however old the full one is", func() {
			etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
			etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{}
			p := planner.For(etcd, observed(func(o *etcdcluster.Observation) { o.FullSnapshotLease.RenewTime = now.Add(-23 * time.Hour) }), now)
			Expect(p.Step).NotTo(BeNil())
		})

		It("is replaced without more ado where there is no store", func() {
			p := planner.For(etcd, observed(func(*etcdcluster.Observation) {}), now)
			Expect(p.Step).To(Equal(plan.DeletePod{Meta: plan.Meta{Object: "main-0", UID: "pod-1"}}))
			Expect(p.Reason).To(Equal("1 of 1 healthy; replacing main-0 leaves 0 of 1, which a single member cannot avoid"))
		})

		It("is not deleted twice", func() {
			p := planner.For(etcd, observed(func(o *etcdcluster.Observation) { o.Pods[0].Deleting = true }), now)
			Expect(p.Step).To(BeNil())
			Expect(p.WaitsFor).To(Equal("pod main-0, which is being deleted, to be recreated"))
		})

		It("is deleted only as it was observed, since it may become ready meanwhile", func() {
			p := planner.For(etcd, observed(func(o *etcdcluster.Observation) { o.Pods[0].Ready, o.Pods[0].ResourceVersion = false, "42" }), now)
			Expect(plan.MetaOf(p.Step).ResourceVersion).To(Equal("42"))
		})

		It("is not evaluated before the StatefulSet controller has seen the newest template", func() {
			p := planner.For(etcd, observed(func(o *etcdcluster.Observation) { o.StatefulSet.Generation = 2 }), now)
			Expect(p.Step).To(BeNil())
		})
	})
})
