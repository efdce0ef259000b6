// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

var _ = Describe("Against", func() {
	rendered := etcdcluster.Rendering{Checksum: "new", Fixed: etcdcluster.FixedFields{ServiceName: "main-peer"}}
	step := plan.DeletePod{Meta: plan.Meta{Object: "main-0", UID: "pod-1"}}
	observed := func(change func(*etcdcluster.Observation)) etcdcluster.Observation {
		o := etcdcluster.Observation{
			ManagedResource: etcdcluster.ManagedResource{Exists: true, Name: "druid-main", UID: "mr-1", GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}},
			StatefulSet:     etcdcluster.StatefulSet{Exists: true, Name: "main", UID: "sts-1", Rendering: rendered, Generation: 2, ObservedGeneration: 2},
		}
		change(&o)

		return o
	}
	p := plan.Plan{Stage: "ReplacePod", Render: true, Replicas: 1, Step: step}

	It("lets a step pass when the StatefulSet shows the rendering", func() {
		Expect(planner.Gate(p, rendered, observed(func(*etcdcluster.Observation) {}))).To(Equal(p))
	})

	DescribeTable("holds a step back",
		func(change func(*etcdcluster.Observation), stage, waitsFor string) {
			held := planner.Gate(p, rendered, observed(change))
			Expect(held.Step).To(BeNil())
			Expect(string(held.Stage)).To(Equal(stage))
			Expect(held.WaitsFor).To(Equal(waitsFor))
			Expect(string(held.Outcome())).To(Equal("Waiting"))
		},
		Entry("while the ManagedResource does not exist", func(o *etcdcluster.Observation) { o.ManagedResource = etcdcluster.ManagedResource{Name: "druid-main"} },
			"ReplacePod", "ManagedResource druid-main to be applied"),
		Entry("while the ManagedResource is being deleted", func(o *etcdcluster.Observation) { o.ManagedResource.Deleting = true },
			"ReplacePod", "ManagedResource druid-main to be deleted, which is then recreated"),
		Entry("while the StatefulSet shows another rendering", func(o *etcdcluster.Observation) {
			o.StatefulSet.Rendering.Checksum = "old"
			o.ManagedResource.GenerationObserved = false
		}, "Apply", "ManagedResource druid-main to be applied"),
		Entry("while the resource manager was asked to repair the StatefulSet", func(o *etcdcluster.Observation) {
			o.StatefulSet.Rendering.Checksum = "old"
			o.ManagedResource.ReconcileRequested = true
		}, "Apply", "ManagedResource druid-main to be applied"),
		Entry("while other objects than the StatefulSet are not applied", func(o *etcdcluster.Observation) {
			o.ManagedResource.GenerationObserved = false
			o.ManagedResource.Applied = etcdcluster.ConditionFact{Status: "False", Message: "no quota for Services"}
		}, "Apply", "ManagedResource druid-main to be applied: no quota for Services"),
		Entry("while the resource manager tries again what it could not apply", func(o *etcdcluster.Observation) {
			o.ManagedResource.GenerationObserved = false
			o.ManagedResource.Applied = etcdcluster.ConditionFact{Status: "Progressing", Reason: "ApplyFailed", Message: "no quota for Services"}
		}, "Apply", "ManagedResource druid-main to be applied: no quota for Services"),
		Entry("while the resource manager tries again a change that needs a new StatefulSet", func(o *etcdcluster.Observation) {
			o.StatefulSet.Rendering.Fixed.ServiceName = "other"
			o.ManagedResource.GenerationObserved = false
			o.ManagedResource.Applied = etcdcluster.ConditionFact{Status: "Progressing", Reason: "ApplyFailed", Message: "immutable"}
		}, "RecreateStatefulSet", "ManagedResource druid-main to be applied: immutable"),
		Entry("when the resource manager cannot apply, and says why", func(o *etcdcluster.Observation) {
			o.StatefulSet.Rendering.Checksum = "old"
			o.ManagedResource.GenerationObserved = false
			o.ManagedResource.Applied = etcdcluster.ConditionFact{Status: "False", Message: "no permission"}
		}, "Apply", "ManagedResource druid-main to be applied: no permission"),
		Entry("while the StatefulSet controller has not seen the rendering", func(o *etcdcluster.Observation) { o.StatefulSet.ObservedGeneration = 1 },
			"Apply", "the StatefulSet controller to observe StatefulSet main"),
		Entry("while the StatefulSet is being deleted", func(o *etcdcluster.Observation) { o.StatefulSet.Deleting = true },
			"RecreateStatefulSet", "StatefulSet main to be deleted, which is then recreated"),
		Entry("while the resource manager still works on a change that needs a new StatefulSet", func(o *etcdcluster.Observation) {
			o.StatefulSet.Rendering.Fixed.ServiceName = "other"
			o.ManagedResource.GenerationObserved = false
		}, "RecreateStatefulSet", "ManagedResource druid-main to be applied"),
		Entry("while a request to reconcile is pending", func(o *etcdcluster.Observation) {
			o.StatefulSet = etcdcluster.StatefulSet{}
			o.ManagedResource.ReconcileRequested = true
		}, "ReplacePod", "ManagedResource druid-main to be applied"),
	)

	DescribeTable("replaces a StatefulSet that cannot be changed in place",
		func(change func(*etcdcluster.FixedFields), applied string, path string) {
			recreate := planner.Gate(p, rendered, observed(func(o *etcdcluster.Observation) {
				change(&o.StatefulSet.Rendering.Fixed)
				o.ManagedResource.Applied.Status = applied
				o.ManagedResource.GenerationObserved = applied == "True"
			}))
			Expect(recreate.Step).To(Equal(plan.RecreateStatefulSet{Meta: plan.Meta{Object: "main", UID: "sts-1"}}))
			Expect(recreate.Reason).To(HavePrefix(path + " of StatefulSet main cannot be changed in place"))
		},
		Entry("another Service, which the API server refuses", func(f *etcdcluster.FixedFields) { f.ServiceName = "x" }, "False", "spec.serviceName"),
		Entry("another policy, which the API server refuses", func(f *etcdcluster.FixedFields) { f.PodManagementPolicy = "OrderedReady" }, "False", "spec.podManagementPolicy"),
		Entry("another selector, which the API server refuses", func(f *etcdcluster.FixedFields) { f.Selector = map[string]string{"a": "b"} }, "False", "spec.selector"),
		Entry("other claim templates, which the resource manager drops", func(f *etcdcluster.FixedFields) { f.ClaimTemplates = []etcdcluster.ClaimTemplate{{Name: "main"}} }, "True", "spec.volumeClaimTemplates"),
	)

	It("requests a StatefulSet that does not exist although it was applied", func() {
		Expect(planner.Gate(p, rendered, observed(func(o *etcdcluster.Observation) { o.StatefulSet = etcdcluster.StatefulSet{} })).Step).To(
			Equal(plan.RequestReconcile{Meta: plan.Meta{Object: "druid-main", UID: "mr-1"}}))
	})

	It("does not count a cluster as hibernated before that is applied", func() {
		hibernated := plan.Plan{Stage: "Hibernated", Render: true}
		held := planner.Gate(hibernated, rendered, observed(func(o *etcdcluster.Observation) { o.ManagedResource.GenerationObserved = false }))
		Expect(string(held.Stage)).To(Equal("Hibernate"))
	})

	It("requests the rendering that a user changed in the StatefulSet after it was applied", func() {
		repair := planner.Gate(p, rendered, observed(func(o *etcdcluster.Observation) { o.StatefulSet.Rendering.Checksum = "" }))
		Expect(repair.Step).To(Equal(plan.RequestReconcile{Meta: plan.Meta{Object: "druid-main", UID: "mr-1"}}))
		Expect(string(repair.Stage)).To(Equal("Apply"))
	})

	DescribeTable("does not let a repair wait for what cannot be applied, but for what is being applied", func(stage plan.Stage, step plan.Step) {
		repair := plan.Plan{Stage: stage, Render: true, Step: step}
		gated := func(applied etcdcluster.ConditionFact) plan.Plan {
			return planner.Gate(repair, rendered, observed(func(o *etcdcluster.Observation) {
				o.StatefulSet.Rendering.Checksum, o.ManagedResource.GenerationObserved, o.ManagedResource.Applied = "old", false, applied
			}))
		}
		Expect(gated(etcdcluster.ConditionFact{Status: "False", Message: "no permission"}).Step).To(Equal(repair.Step))
		Expect(gated(etcdcluster.ConditionFact{Status: "Progressing"}).Step).To(BeNil())
	},
		Entry("of a lost volume", plan.StageReplaceVolume, plan.ReplaceClaim{Meta: plan.Meta{Object: "main-main-1", UID: "claim-1"}}),
		Entry("of a member that cannot join", plan.StageReplaceLearner, plan.DeletePod{Meta: plan.Meta{Object: "main-1", UID: "pod-1"}}),
	)

	It("leaves a plan alone that renders nothing", func() {
		waiting := plan.Plan{Stage: "WaitForSecrets", WaitsFor: "Secret ca"}
		Expect(planner.Gate(waiting, rendered, etcdcluster.Observation{})).To(Equal(waiting))
	})
})
