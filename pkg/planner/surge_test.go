// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// withSurge lets the operator replace the only member through a temporary second one.
func withSurge(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge)
}

// shrink requests a smaller volume.
func shrink(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.StorageCapacity = new(resource.MustParse("10Gi"))
}

var _ = Describe("Surge", func() {
	running := func(change ...func(*druidv1alpha1.Etcd)) *scenario {
		GinkgoHelper()
		s := newScenario(1, append(change, withSurge)...)
		s.RestoreDelay = time.Minute // the embedded etcd of the sidecar gives up after this time
		s.run()
		s.expectDone()
		s.resetTrace()

		return s
	}
	changeImage := func(s *scenario) {
		s.inject("spec.etcd.image changes", func() { s.image = "v2" })
	}

	It("accepts another image while it is taken back, although a change of the version waits for its end", func() {
		s := running()
		s.SetImageBroken("broken", true)
		s.inject("the image becomes broken", func() { s.image = "broken" })
		s.runUntil(func() bool { return s.Objects.PodFor(1) != nil })
		s.inject("the spec requests etcd 3.5", func() { s.Etcd.Spec.Etcd.Version = new("3.5") })
		s.runUntil(func() bool {
			return s.Objects.State.Surge.IsActive() && s.Objects.State.Surge.Phase == state.SurgeCleanUp
		})
		s.inject("pod main-0 is deleted", func() { s.DeletePod(0) })
		s.runFor(10)
		s.inject("the image becomes v2", func() { s.image = "v2" })
		s.run()
		s.expectDone()
	})

	It("replaces the only member through a temporary second one", func() {
		s := running(withStore)
		first := s.Objects.PodFor(0).UID
		changeImage(s)
		s.run()
		s.expectDone()
		Expect(s.Members).To(HaveLen(1))
		Expect(s.Objects.PodFor(0).UID).NotTo(Equal(first))
		Expect(s.Objects.State.Surge).To(HaveField("Phase", state.SurgeComplete))
		s.expectGolden("surge")
	})

	It("replaces the only member of a completed generation when its eviction is requested, and only once", func() {
		s := running(withStore)
		first, generation := s.Objects.PodFor(0).UID, s.Etcd.Generation
		s.inject("a drain requests the eviction of main-0", func() { s.Objects.PodFor(0).EvictionRequestedAt = s.Now() })
		s.runUntil(func() bool { return s.Objects.State.Surge.IsActive() })
		Expect(s.Objects.State.Surge.Cause).To(ContainSubstring("its eviction is requested"))
		s.run()
		s.expectDone()
		replaced := s.Objects.PodFor(0)
		Expect(replaced.UID).NotTo(Equal(first))
		Expect(replaced.EvictionRequestedAt).To(BeZero())
		Expect(s.Etcd.Generation).To(Equal(generation))
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
		s.expectGolden("surge-drain")
		s.resetTrace()
		s.runFor(200)
		Expect(s.Objects.PodFor(0).UID).To(Equal(replaced.UID))
		Expect(s.steps).NotTo(HaveKey("PromoteMember"))
	})

	It("also begins if the pod of a completed generation is outdated and its eviction is requested", func() {
		s := running(withStore)
		first := s.Objects.PodFor(0).UID
		s.inject("another writer changes the StatefulSet", func() { s.Objects.PodFor(0).RevisionHash = "earlier" })
		s.run()
		Expect(s.Objects.PodFor(0).UID).To(Equal(first), "the pod stays until the next operation")
		s.inject("a drain requests the eviction of main-0", func() { s.Objects.PodFor(0).EvictionRequestedAt = s.Now() })
		s.run()
		s.expectDone()
		Expect(s.Objects.PodFor(0).UID).NotTo(Equal(first))
	})

	It("does not begin after the eviction has waited for the time limit", func() {
		s := running(withStore)
		s.Store.Down = true
		s.runFor(200)
		first := s.Objects.PodFor(0).UID
		s.inject("a drain requests the eviction of main-0", func() { s.Objects.PodFor(0).EvictionRequestedAt = s.Now() })
		s.runFor(10)
		s.Advance(etcdcluster.EvictionTimeout)
		s.Store.Down = false
		s.run()
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
		Expect(s.Objects.PodFor(0).UID).To(Equal(first))
	})

	It("waits while a ready member does not complete a read, and registers its peer URLs before it begins", func() {
		s := running(withStore)
		first := s.Objects.PodFor(0)
		o := s.Observe()
		etcd := s.Etcd.DeepCopy()
		o.Pods[0].RevisionHash = "earlier"
		status := etcdcluster.EndpointStatus{Reachable: true, MemberID: 0xa1, ClusterID: 1, LeaderID: 0xa1}
		o.Etcd = etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{status}, MemberListError: "timeout"}
		p := planner.For(etcd, o, s.Now())
		Expect(p.Step).To(BeNil())
		Expect(p.WaitsFor).To(HavePrefix("member main-0 to be healthy. To restart the member instead"))

		status.Healthy = true
		o.Etcd = etcdcluster.EtcdResponses{
			Queried: true, Members: []etcdcluster.EndpointStatus{status}, MemberList: []etcdcluster.ListedMember{{ID: 0xa1, Name: "main-0", PeerURLs: []string{"http://localhost:2380"}}},
		}
		p = planner.For(etcd, o, s.Now())
		Expect(p.Step).To(And(HaveField("Object", first.Name), HaveField("URLs", ConsistOf("http://main-0.main-peer.demo.svc:2380"))))
	})

	It("waits until a claim of another owner with the name of the temporary member's claim is deleted", func() {
		s := running(withStore)
		o := s.Observe()
		o.Pods[0].RevisionHash = "earlier"
		o.ForeignClaims = []etcdcluster.Claim{{Name: "main-main-1", Ordinal: 1, Exists: true}}
		o.Etcd = etcdcluster.EtcdResponses{
			Queried: true, MemberList: []etcdcluster.ListedMember{{ID: 0xa1, Name: "main-0", PeerURLs: []string{"http://main-0.main-peer.demo.svc:2380"}}},
			Members: []etcdcluster.EndpointStatus{{Reachable: true, Healthy: true, MemberID: 0xa1, ClusterID: 1, LeaderID: 0xa1}},
		}
		p := planner.For(s.Etcd.DeepCopy(), o, s.Now())
		Expect(p.WaitsFor).To(HavePrefix("claim main-main-1, which does not belong to this Etcd, to be deleted. To restart the member instead, set spec.etcd.updateStrategy to Restart"))
		o.ForeignClaims = nil
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).NextSurge).NotTo(BeNil())
	})

	It("restarts a member that does not start again, because the sidecar of its pod was started in a cluster of two", func() {
		s := running(withStore)
		changeImage(s)
		s.run()
		s.expectDone()
		o := s.Observe()
		pod := &o.Pods[0]
		pod.Ready, pod.ContainersReady, pod.ReadyChangedAt, pod.Containers[0].Restarts = false, false, s.Now().Add(-time.Hour), 1
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Step).To(BeNil(), "only the sidecar is not ready")
		pod.Containers[0].Ready = false
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Step).To(BeAssignableToTypeOf(plan.DeletePod{}))
		outdated := o
		outdated.StatefulSet.UpdateRevision, outdated.StatefulSet.Template = "next", "next"
		Expect(planner.For(s.Etcd.DeepCopy(), outdated, s.Now()).Restarts).To(BeTrue(), "also if another version of the operator has changed the template")
		o.State.Surge.Pod = "another"
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Step).To(BeNil())
	})

	It("restarts the member without the update strategy", func() {
		s := newScenario(1, withStore)
		s.run()
		changeImage(s)
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("PromoteMember"))
	})

	surges, restarts := HaveKey("PromoteMember"), Not(HaveKey("PromoteMember"))
	DescribeTable("selects the update strategy", func(operatorDefault, annotation, spec string, expected gomegatypes.GomegaMatcher) {
		s := newScenario(1, withStore, func(etcd *druidv1alpha1.Etcd) {
			if annotation != "" {
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/update-strategy", annotation)
			}
			if spec != "" {
				etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategy(spec))
			}
		})
		s.operator.Config.UpdateStrategy = druidv1alpha1.UpdateStrategy(operatorDefault)
		s.run()
		changeImage(s)
		s.run()
		s.expectDone()
		Expect(s.steps).To(expected)
	},
		Entry("Restart without any", "Restart", "", "", restarts),
		Entry("of the operator", "Surge", "", "", surges),
		Entry("of the annotation before that of the operator", "Surge", "Restart", "", restarts),
		Entry("of the annotation", "Restart", "Surge", "", surges),
		Entry("of the spec before that of the annotation", "Surge", "Surge", "Restart", restarts),
	)

	It("refuses an annotation with another value", func() {
		s := newScenario(1, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/update-strategy", "surge")
		})
		s.runFor(1)
		Expect(s.result.Err).To(MatchError(ContainSubstring(`metadata.annotations[druid.gardener.cloud/update-strategy]: Unsupported value: "surge": supported values: "Surge", "Restart"`)))
	})

	It("restarts no member because of another default of the operator, and records the default", func() {
		s := newScenario(1, withStore)
		s.run()
		first := s.Objects.PodFor(0).UID
		s.resetTrace()
		s.operator.Config.UpdateStrategy = "Surge"
		s.run()
		s.expectDone()
		Expect(s.Objects.PodFor(0).UID).To(Equal(first))
		Expect(s.steps).To(BeEmpty())
		Expect(s.Objects.State.DefaultUpdateStrategy).To(BeEquivalentTo("Surge"))
		Expect(s.Objects.State.Accepted.Spec.Etcd.UpdateStrategy).To(BeNil(), "the record keeps what the user requests")
	})

	It("aborts the surge if the image cannot be pulled, and the member keeps running", func() {
		s := running(withStore)
		s.SetImageBroken("v2", true)
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == "Aborted" })
		s.runFor(10)
		Expect(s.Objects.PodFor(0).Ready).To(BeTrue())
		Expect(s.Objects.Pods).To(HaveLen(1))
		Expect(s.result.Newest.Plan.WaitsFor).To(ContainSubstring("ImagePullBackOff"))
		s.expectGolden("surge-aborted-image")
		s.resetTrace()
		s.inject("the image can be pulled", func() { s.SetImageBroken("v2", false) })
		s.idleTicks = 200
		s.run()
		s.expectDone()
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
	})

	It("tries another image at once after an aborted surge", func() {
		s := running(withStore)
		s.SetImageBroken("v2", true)
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == "Aborted" })
		s.inject("spec.etcd.image changes again", func() { s.image = "v3" })
		s.run()
		s.expectDone()
	})

	It("aborts the surge if the learner never catches up", func() {
		s := running(withStore)
		s.CatchUpTicks = 1000
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == "Aborted" })
		Expect(s.Members).To(HaveLen(1))
		Expect(s.steps).NotTo(HaveKey("PromoteMember"))
		Expect(s.Objects.State.Surge.Error).To(ContainSubstring("learner main-1 to catch up"))
		Expect(s.violations()).To(BeEmpty())
	})

	It("does not begin while the store is unreachable", func() {
		s := running(withStore)
		s.Store.Down = true
		s.runFor(200)
		changeImage(s)
		s.runFor(30)
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
		Expect(s.result.Newest.Plan.WaitsFor).To(ContainSubstring("the store may be unreachable"))
		s.Store.Down = false
		s.run()
		s.expectDone()
	})

	It("keeps the member if the change is taken back before the temporary member votes", func() {
		s := running(withStore)
		first := s.Objects.PodFor(0).UID
		changeImage(s)
		s.runUntil(func() bool { return s.Member(1) != nil })
		s.inject("spec.etcd.image is as before", func() { s.image = "v1" })
		s.run()
		s.expectDone()
		Expect(s.Objects.PodFor(0).UID).To(Equal(first))
		Expect(s.steps).NotTo(HaveKey("PromoteMember"))
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
	})

	It("deletes the pod of the first member if its etcd stops while two members vote", func() {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool { _, voters := s.Voters(); return voters == 2 })
		s.inject("the etcd of main-0 is killed, and its database is older than the newest delta snapshot", func() { s.StopEtcdBehindStore(0) })
		s.run()
		s.expectDone()
		s.expectGolden("surge-first-member-stopped")
	})

	It("replaces the volume by one of another StorageClass", func() {
		s := running(withStore, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("slow") })
		s.inject("spec.storageClass changes", func() { s.Etcd.Spec.StorageClass = new("fast") })
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).StorageClass).To(Equal("fast"))
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
		s.expectGolden("surge-storage-class")
	})

	DescribeTable("deletes the Job that has inspected the volume while no quorum was healthy", func(phase state.SurgePhase, ordinal int, isRenderedAgain bool) {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == phase })
		s.resetTrace()
		claim := s.Objects.ClaimFor(ordinal)
		s.Objects.Inspections = append(s.Objects.Inspections, etcdcluster.ClaimInspection{
			Name: claim.Name + "-inspect", UID: "job", OwnerUID: s.Etcd.UID, Claim: claim.Name, ClaimUID: claim.UID, Result: &etcdcluster.Inspection{Revision: 7},
		})
		s.run()
		s.expectDone()
		Expect(s.Objects.Inspections).To(BeEmpty())
		Expect(strings.Contains(strings.Join(s.trace, "\n"), "replicas 2, size 2")).To(Equal(isRenderedAgain))
	},
		Entry("of the first member, which the surge starts again", state.SurgeDiscard, 0, true),
		Entry("of the temporary member, which it does not start again", state.SurgeCleanUp, 1, false),
	)

	It("replaces the volume by a smaller one, and keeps one that a user has expanded", func() {
		s := running(withStore)
		s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).Requested).To(BeEquivalentTo(10 << 30))
		s.inject("a user expands the volume", func() { s.Objects.ClaimFor(0).Requested = 20 << 30 })
		s.resetTrace()
		s.run()
		s.expectDone()
		Expect(s.steps).NotTo(HaveKey("PromoteMember"))
	})

	DescribeTable("also replaces the volume by a smaller one", func(change func(*scenario)) {
		s := running(withStore)
		change(s)
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).Requested).To(BeEquivalentTo(10 << 30))
		Expect(s.Objects.State.Surge).To(HaveField("ReplacesVolume", false))
		Expect(s.steps).To(HaveKeyWithValue("PromoteMember", 2))
	},
		Entry("after a change that restarts the member", func(s *scenario) {
			s.inject("spec.storageCapacity decreases, and peer TLS is enabled", func() {
				shrink(s.Etcd)
				withPeerTLS(s.Etcd)
			})
			s.runUntil(func() bool { return s.steps["DeletePod"] > 0 })
			Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
		}),
		Entry("after it has waited for the store", func(s *scenario) {
			s.Store.Down = true
			s.runFor(200)
			s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
			s.runFor(30)
			Expect(s.Objects.StatefulSet.Rendering.VolumeSize()).To(BeEquivalentTo(10 << 30))
			s.Store.Down = false
		}),
		Entry("after a hibernation with the same generation", func(s *scenario) {
			s.inject("spec.storageCapacity and spec.replicas decrease", func() {
				shrink(s.Etcd)
				s.Etcd.Spec.Replicas = 0
			})
			s.run()
			Expect(s.Objects.Pods).To(BeEmpty())
			s.inject("spec.replicas is 1 again", func() { s.Etcd.Spec.Replicas = 1 })
		}),
		Entry("after a hibernation before the surge has begun", func(s *scenario) {
			s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
			s.runUntil(func() bool { return s.Objects.StatefulSet.Rendering.VolumeSize() == 10<<30 })
			Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
			s.inject("spec.replicas decreases", func() { s.Etcd.Spec.Replicas = 0 })
			s.run()
			s.inject("spec.replicas is 1 again", func() { s.Etcd.Spec.Replicas = 1 })
		}),
		Entry("after the update strategy was Restart in the meantime", func(s *scenario) {
			s.Store.Down = true
			s.runFor(200)
			s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
			s.runFor(30)
			s.Store.Down = false
			s.inject("the update strategy is removed", func() { s.Etcd.Spec.Etcd.UpdateStrategy = nil })
			s.run()
			s.expectDone()
			Expect(s.Objects.ClaimFor(0).Requested).To(BeEquivalentTo(16 << 30))
			s.inject("the update strategy is Surge again", func() { withSurge(s.Etcd) })
		}),
	)

	DescribeTable("leaves the volume to a migration if the size changes before it was replaced", func(change func(*scenario), isReplaced func(etcdcluster.Claim) bool) {
		s := running(withStore, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("slow") })
		s.inject("the spec requests another volume", func() { change(s) })
		s.runUntil(func() bool { return s.Objects.PodFor(1) != nil && s.Objects.PodFor(1).Node != "" })
		Expect(s.Objects.State.Surge.Phase).To(Equal(state.SurgeJoin))
		s.inject("spec.replicas becomes 3", func() { s.Etcd.Spec.Replicas = 3 })
		s.run()
		s.expectDone()
		Expect(isReplaced(*s.Objects.ClaimFor(0))).To(BeTrue())
		Expect(s.Objects.State.Migration).To(BeNil())
	},
		Entry("of another StorageClass", func(s *scenario) { s.Etcd.Spec.StorageClass = new("fast") }, func(c etcdcluster.Claim) bool { return c.StorageClass == "fast" }),
		Entry("of a smaller size", func(s *scenario) { shrink(s.Etcd) }, func(c etcdcluster.Claim) bool { return c.Requested == 10<<30 }),
		Entry("of a larger size", func(s *scenario) {
			s.FixedVolumes = true
			s.Etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi"))
		}, func(c etcdcluster.Claim) bool { return c.Requested == 32<<30 }),
	)

	It("leaves the volume to a migration if the size and the volume change while the temporary member joins", func() {
		s := running(withStore, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("slow") })
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.PodFor(1) != nil && s.Objects.PodFor(1).Node != "" })
		s.inject("spec.replicas and spec.storageClass change", func() { s.Etcd.Spec.Replicas, s.Etcd.Spec.StorageClass = 3, new("fast") })
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).StorageClass).To(Equal("fast"))
	})

	It("replaces the volume again by a smaller one that is requested while the surge ends", func() {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == state.SurgeEnd })
		s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).Requested).To(BeEquivalentTo(10 << 30))
		Expect(s.Objects.State.Surge).To(HaveField("ReplacesVolume", false))
	})

	DescribeTable("keeps a volume that a user expands while the surge ends", func(phase state.SurgePhase) {
		s := running(withStore)
		s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == phase })
		s.inject("a user expands the volume", func() { s.Objects.ClaimFor(0).Requested = 20 << 30 })
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).Requested).To(BeEquivalentTo(20 << 30))
		Expect(s.Objects.State.Surge).To(HaveField("ReplacesVolume", false))
	},
		Entry("before the temporary member is removed", state.SurgeEnd),
		Entry("before the volume of the temporary member is deleted", state.SurgeCleanUp),
	)

	It("drops a smaller volume that is not requested any more", func() {
		s := running(withStore)
		changeImage(s)
		s.run()
		s.resetTrace()
		s.Store.Down = true
		s.runFor(200)
		s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
		s.runFor(30)
		s.inject("spec.storageCapacity is as before", func() { s.Etcd.Spec.StorageCapacity = nil })
		s.Store.Down = false
		s.run()
		s.expectDone()
		Expect(s.Objects.State.Surge).To(And(HaveField("Phase", state.SurgeComplete), HaveField("ReplacesVolume", false)))
		Expect(s.steps).NotTo(HaveKey("PromoteMember"))
	})

	It("refuses a volume that is smaller than the data needs", func() {
		s := running(withStore)
		s.inject("spec.storageCapacity decreases", func() { s.Etcd.Spec.StorageCapacity = new(resource.MustParse("8Gi")) })
		s.runFor(10)
		Expect(s.result.Newest.Plan.Refusal).To(HaveField("Message", ContainSubstring("the quota of 8Gi, the write-ahead log, and two databases")))
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
	})

	It("continues although the database is larger, and the new volume would be refused by now", func() {
		s := running(withStore)
		s.inject("spec.storageCapacity decreases", func() { shrink(s.Etcd) })
		s.runUntil(func() bool { _, voters := s.Voters(); return voters == 2 })
		o := s.Observe()
		o.Etcd.Members[0].DBSize = 5 << 30
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Stage).NotTo(Equal(plan.StageRefused))
		o.State.Surge = &state.Surge{Phase: state.SurgeRequested, ReplacesVolume: true}
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Stage).To(Equal(plan.StageRefused), "no surge begins")
	})

	It("replaces a volume that cannot be expanded by a larger one", func() {
		s := running(withStore)
		s.FixedVolumes = true
		s.inject("spec.storageCapacity increases", func() { s.Etcd.Spec.StorageCapacity = new(resource.MustParse("32Gi")) })
		s.runUntil(func() bool { return s.Member(1) != nil })
		Expect(planner.ForAccepted(s.Etcd.DeepCopy(), s.Observe(), s.Now()).Surge.Phase).To(Equal(state.SurgeJoin), "a blocked generation does not abort it")
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).Requested).To(BeEquivalentTo(32 << 30))
	})

	DescribeTable("ends although a Secret is missing", func(phase state.SurgePhase, image string) {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool {
			return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == phase && s.Member(1) != nil
		})
		s.inject("Secret server is deleted", func() {
			s.Objects.Secrets = []etcdcluster.Secret{{Name: "server", Uses: []helper.SecretUse{{Name: "server", Field: "spec.etcd.clientUrlTls.serverTLSSecretRef", Keys: []string{"tls.key"}}}}}
		})
		s.run()
		Expect(s.violations()).To(BeEmpty())
		Expect(s.Members).To(HaveLen(1))
		Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
		Expect(s.Objects.PodFor(0).Containers[0].Image).To(Equal(image))
		Expect(s.result.Newest.Plan.WaitsFor).To(ContainSubstring("Secret server, named by spec.etcd.clientUrlTls.serverTLSSecretRef"))
		s.inject("Secret server exists again", func() { s.Objects.Secrets = nil })
		s.idleTicks = 200 // an aborted surge is tried again after ten minutes
		s.run()
		s.expectDone()
	},
		Entry("by an abort before the second member votes", state.SurgeJoin, "v1"),
		Entry("before the first member is removed", state.SurgeReplace, "v2"),
		Entry("before the volume of the first member is replaced", state.SurgeDiscard, "v2"),
		Entry("before the first member joins again", state.SurgeReturn, "v2"),
		Entry("before the second member is removed", state.SurgeEnd, "v2"),
	)

	Context("when no member responds", func() {
		// unreachable returns the observation of a surge in which etcd of main-0 runs, and main-1 has failed. Only the record of the operator shows which
		// members vote.
		unreachable := func(s *scenario) etcdcluster.Observation {
			o := s.Observe()
			surge := *o.State.Surge
			o.State.Surge, o.State.Evidence, o.Etcd = &surge, nil, etcdcluster.EtcdResponses{Queried: true, MemberListError: "timeout"}
			o.Pods = o.Pods[:1]
			pod := &o.Pods[0]
			pod.Ready, pod.ContainersReady, pod.ReadyChangedAt = false, false, s.Now()

			return o
		}
		stopped := func(o etcdcluster.Observation) etcdcluster.Observation {
			o.Pods[0].Containers = append([]etcdcluster.Container(nil), o.Pods[0].Containers...)
			o.Pods[0].Containers[0].Restarts++

			return o
		}
		joining := func(change func(*scenario)) *scenario {
			s := running(withStore)
			change(s)
			changeImage(s)
			s.runUntil(func() bool { return s.Objects.State.Surge.IsActive() && s.Member(1) != nil })

			return s
		}
		step := func(s *scenario, o etcdcluster.Observation, later time.Duration) plan.Step {
			return planner.For(s.Etcd.DeepCopy(), o, s.Now().Add(later)).Step
		}

		It("treats both as voting members after it has promoted the second one", func() {
			s := joining(func(*scenario) {})
			Expect(s.Objects.State.Surge.MayVote).To(BeFalse())
			Expect(step(s, stopped(unreachable(s)), 0)).To(BeNil(), "one member votes, and its sidecar may restart etcd")
			s.runUntil(func() bool { return s.steps["PromoteMember"] > 0 })
			Expect(s.Objects.State.Surge).To(And(HaveField("Phase", state.SurgeJoin), HaveField("MayVote", true)))
			Expect(step(s, stopped(unreachable(s)), 0)).To(And(BeAssignableToTypeOf(plan.DeletePod{}), HaveField("Object", "main-0")))
			Expect(step(s, unreachable(s), time.Hour)).To(BeNil(), "etcd of main-0 runs, and waits for main-1")
			s.runUntil(func() bool { return s.Objects.State.Surge.Phase == state.SurgeDiscard })
			Expect(s.Objects.State.Surge.MayVote).To(BeFalse())
			s.runUntil(func() bool { return s.Objects.State.Surge.Phase == state.SurgeEnd })
			Expect(s.Objects.State.Surge.MayVote).To(BeTrue())
		})

		It("treats both as voting members when the sidecar may have promoted the second one", func() {
			s := joining(func(s *scenario) { s.CatchUpTicks = 1000 })
			s.runUntil(func() bool { return s.Now().Sub(s.Objects.PodFor(1).RunsSince("etcd")) >= 15*time.Second })
			s.runFor(1)
			Expect(s.steps).NotTo(HaveKey("PromoteMember"))
			Expect(s.Objects.State.Surge.MayVote).To(BeTrue())
			Expect(step(s, stopped(unreachable(s)), 0)).To(And(BeAssignableToTypeOf(plan.DeletePod{}), HaveField("Object", "main-0")))
			s.inject("a newer generation replaces the learner", func() { s.image = "v3" })
			s.runUntil(func() bool { return s.steps["DeletePod"] > 0 })
			s.runFor(2)
			Expect(s.Objects.State.Surge.MayVote).To(BeFalse(), "the learner does not run any more")
		})

		It("applies a generation that may correct why no member starts", func() {
			s := joining(func(*scenario) {})
			s.runUntil(func() bool { return s.steps["PromoteMember"] > 0 })
			o := unreachable(s)
			s.inject("spec.etcd.image changes", func() { s.image = "v3" })
			Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Stage).NotTo(Equal(plan.StageWaitForSurge))
			s.inject("spec.replicas changes", func() { s.Etcd.Spec.Replicas = 3 })
			Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).Stage).To(Equal(plan.StageWaitForSurge))
		})

		It("waits for the store before it replaces the only voting member", func() {
			s := joining(func(*scenario) {})
			o := unreachable(s)
			o.FullSnapshotLease.RenewTime, o.DeltaSnapshotLease.RenewTime = s.Now().Add(-time.Hour), s.Now().Add(-time.Hour)
			p := planner.For(s.Etcd.DeepCopy(), o, s.Now().Add(90*time.Second))
			Expect(p.Step).To(BeNil())
			Expect(p.WaitsFor).To(ContainSubstring("the store may be unreachable"))
			Expect(step(s, o, 2*time.Minute)).To(BeAssignableToTypeOf(plan.DeletePod{}))
		})

		It("deletes no pod whose sidecar was started in a cluster of two members", func() {
			s := running(withStore)
			s.Objects.PodFor(0).Containers[0].Restarts = 3
			changeImage(s)
			s.runUntil(func() bool { return s.Objects.State.Surge.IsActive() && s.Objects.State.Surge.Phase == state.SurgeEnd })
			Expect(s.Objects.State.Surge.Restarts).To(BeEquivalentTo(3))
			o := unreachable(s)
			o.State.Evidence = &state.Evidence{Voters: []state.Voter{{Name: "main-0"}, {Name: "main-1"}}}
			Expect(step(s, o, 0)).To(BeNil())
			Expect(step(s, stopped(o), 0)).To(BeNil())
		})
	})

	It("removes a member five seconds after the client Service is applied", func() {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool {
			return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == state.SurgeReplace && s.Leader == s.Member(1).ID && s.Objects.PodFor(0).Refreshed != ""
		})
		o := s.Observe()
		surge := *o.State.Surge
		o.State.Surge = &surge
		surge.ReadyAt, o.ManagedResource.GenerationObserved = time.Time{}, false
		later := s.Now().Add(time.Minute)
		p := planner.For(s.Etcd.DeepCopy(), o, later)
		Expect(p.Step).To(BeNil())
		Expect(p.WaitsFor).To(Equal("ManagedResource druid-main to be applied"))
		Expect(p.Surge.ReadyAt).To(BeZero())
		o.ManagedResource.GenerationObserved = true
		p = planner.For(s.Etcd.DeepCopy(), o, later)
		Expect(p.Step).To(BeNil())
		Expect(p.WaitsFor).To(Equal("all nodes to send new connections only to main-1"))
		Expect(p.RequeueAfter).To(Equal(5 * time.Second))
		surge.ReadyAt = p.Surge.ReadyAt
		Expect(planner.For(s.Etcd.DeepCopy(), o, later.Add(4*time.Second)).RequeueAfter).To(Equal(time.Second))
		Expect(planner.For(s.Etcd.DeepCopy(), o, later.Add(5*time.Second)).Step).To(BeAssignableToTypeOf(plan.RemoveMember{}))
	})

	It("waits for the manifests and the nodes again after a pause", func() {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool {
			return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == state.SurgeReplace && !s.Objects.State.Surge.ReadyAt.IsZero()
		})
		o := s.Observe()
		surge := *o.State.Surge
		o.State.Surge, surge.Paused = &surge, true
		continued := planner.For(s.Etcd.DeepCopy(), o, s.Now().Add(time.Minute)).Surge
		Expect([]any{continued.Paused, continued.ReadyAt}).To(Equal([]any{false, time.Time{}}))
	})

	It("replaces the claim of the first member if the StorageClass has no volume, and the spec requests another one", func() {
		s := running(withStore, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("slow") })
		s.inject("spec.storageClass becomes fast", func() { s.Etcd.Spec.StorageClass = new("fast") })
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == state.SurgeDiscard })
		s.inject("StorageClass fast has no more volumes", func() { s.SetClassBroken("fast", true) })
		s.runFor(100)
		Expect(s.Objects.State.Surge.Phase).To(Equal(state.SurgeReturn))
		s.inject("spec.storageClass becomes slow", func() { s.Etcd.Spec.StorageClass = new("slow") })
		s.idleTicks = 140
		s.run()
		s.expectDone()
		Expect(s.Objects.ClaimFor(0).StorageClass).To(Equal("slow"))
	})

	It("names the missing Secret without which the first member does not start again", func() {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == state.SurgeReturn })
		o := s.Observe()
		o.Secrets = []etcdcluster.Secret{{Name: "server", Uses: []helper.SecretUse{{Name: "server", Field: "spec.etcd.clientUrlTls.serverTLSSecretRef"}}}}
		Expect(planner.For(s.Etcd.DeepCopy(), o, s.Now()).WaitsFor).To(And(HavePrefix("pod main-0"), ContainSubstring("; Secret server, named by spec.etcd.clientUrlTls.serverTLSSecretRef, does not exist")))
		requested := s.Etcd.DeepCopy()
		metav1.SetMetaDataAnnotation(&requested.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
		Expect(planner.For(requested, o, s.Now()).Stage).To(Equal(plan.StageWaitForSecrets), "its acceptance would read the Secrets again")
		s.inject("spec.etcd.image changes again, and a Secret is missing", func() { s.image = "v3" })
		p := planner.For(s.Etcd.DeepCopy(), o, s.Now())
		Expect(p.Stage).To(Equal(plan.StageWaitForSecrets), "a newer generation waits for its Secrets")
	})

	DescribeTable("is ended by a restore if the volume of a voting member is lost while two vote", func(phase state.SurgePhase, lost, left int) {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool {
			_, voters := s.Voters()

			return voters == 2 && s.Objects.State.Surge.Phase == phase
		})
		s.inject(fmt.Sprintf("the node of main-%d is gone for good", lost), func() { s.RemoveNode(s.Objects.PodFor(lost).Node) })
		s.run()
		p := s.result.Newest.Plan
		Expect(p.Stage).To(Equal(plan.StageQuorumLost))
		Expect(p.Reason).To(And(HavePrefix("0 of 2 healthy, and the quorum of 2 cannot recover: "), ContainSubstring(fmt.Sprintf("main-main-%d", lost)), HaveSuffix("the operator changes nothing")))
		Expect(p.WaitsFor).To(HavePrefix(fmt.Sprintf("a manual recovery (data of main-%d is left), or a restore, requested by the annotation druid.gardener.cloud/restore=from-store (newest full snapshot: ", left)))
		Expect(p.WaitsFor).NotTo(ContainSubstring(druidv1alpha1.RecoverAnnotation), "no recovery begins in a surge")
		Expect(s.Objects.ClaimFor(left).Exists).To(BeTrue(), "the only data stays")
		s.inject("a user requests a restore", func() { metav1.SetMetaDataAnnotation(&s.Etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store") })
		s.run()
		s.expectDone()
		Expect(s.Objects.State.Surge).To(BeNil())
		Expect(s.Objects.ClaimFor(1).Exists).To(BeFalse())
	},
		Entry("that of the second one, before the first is removed", state.SurgeReplace, 1, 0),
		Entry("that of the original first one", state.SurgeReplace, 0, 1),
		Entry("that of the new first one", state.SurgeEnd, 0, 1),
		Entry("that of the second one, before it is removed", state.SurgeEnd, 1, 0),
	)

	DescribeTable("waits while the second voting member is away, and continues", func(phase state.SurgePhase) {
		s := running(withStore)
		changeImage(s)
		s.runUntil(func() bool {
			return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == phase && len(s.Members) == 2
		})
		node := s.Objects.PodFor(1).Node
		s.inject("the node of main-1 is unreachable", func() { s.PartitionNode(node, true) })
		s.runFor(60)
		Expect(s.violations()).To(BeEmpty())
		s.inject("the node is reachable again", func() { s.PartitionNode(node, false) })
		s.run()
		s.expectDone()
	},
		Entry("before the first member is removed", state.SurgeReplace),
		Entry("before it is removed itself", state.SurgeEnd),
	)

	DescribeTable("hibernates, and changes the size, after the surge", func(size int32) {
		for _, phase := range []state.SurgePhase{state.SurgeJoin, state.SurgeReplace, state.SurgeReturn, state.SurgeEnd} {
			s := running(withStore)
			changeImage(s)
			s.runUntil(func() bool { return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == phase })
			s.inject("spec.replicas changes", func() { s.Etcd.Spec.Replicas = size })
			s.run()
			Expect(s.violations()).To(BeEmpty())
			Expect(s.Objects.State.Surge.IsActive()).To(BeFalse())
			if size > 0 {
				s.expectDone()
			} else {
				Expect(s.Objects.Pods).To(BeEmpty())
			}
			s.inject("spec.replicas is 1 again", func() { s.Etcd.Spec.Replicas = 1 })
			s.run()
			s.expectDone()
		}
	},
		Entry("to 0", int32(0)),
		Entry("to 3", int32(3)),
	)
})
