// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
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
