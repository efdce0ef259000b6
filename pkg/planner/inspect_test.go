// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

var _ = Describe("A cluster without a quorum, whose etcd processes do not start", func() {
	var s *scenario

	BeforeEach(func() {
		s = newScenario(3, withStore)
		s.run()
		s.expectDone()
		s.CorruptAllVolumes()
		s.runFor(40)
		s.Objects.Inspections, s.Objects.CanInspect = nil, true
	})

	planned := func() plan.Plan { return planner.For(s.Etcd, s.Objects, s.Now()) }
	// inspected adds the Job that has inspected the volume of a member. It was created after the pods were last ready.
	inspected := func(ordinal int, change func(*etcdcluster.ClaimInspection)) {
		claim := s.Objects.ClaimFor(ordinal)
		job := etcdcluster.ClaimInspection{Name: "main-inspect", UID: "job", OwnerUID: s.Etcd.UID, CreationTime: s.Now().Add(-time.Minute), Claim: claim.Name, ClaimUID: claim.UID, Failed: true, Message: "page 3"}
		change(&job)
		s.Objects.Inspections = append(s.Objects.Inspections, job)
	}
	corrupt := func(job *etcdcluster.ClaimInspection) { job.Corrupt = true }

	It("is inspected, one volume after the other", func() {
		Expect(planned().Step).To(HaveField("Object", "main-main-0"))
		inspected(0, corrupt)
		p := planned()
		Expect(p.Stage).To(Equal(plan.StageQuorumLost))
		Expect(p.Step).To(HaveField("Object", "main-main-1"))
		Expect(p.Reason).NotTo(ContainSubstring("cannot recover"), "two members may have data")
	})

	It("is inspected although its spec is not rolled out", func() {
		Expect(planner.ForRepair(s.Etcd, s.Objects, s.Now()).Step).To(HaveField("Object", "main-main-0"))
	})

	DescribeTable("cannot recover if a quorum has no data",
		func(change func(*etcdcluster.ClaimInspection), because string) {
			inspected(0, corrupt)
			inspected(2, change)
			Expect(planned().Step).To(HaveField("Object", "main-main-1"), "the options state its revision")
			inspected(1, func(job *etcdcluster.ClaimInspection) {
				job.Failed, job.Result = false, &etcdcluster.Inspection{Revision: 5}
			})
			p := planned()
			Expect(p.Step).To(BeNil())
			Expect(p.Reason).To(And(ContainSubstring("the quorum of 2 cannot recover: etcd cannot use the data in the volume of claim main-main-0 (page 3); "), ContainSubstring(because)))
			Expect(p.WaitsFor).To(And(ContainSubstring("data of main-1 is left"), ContainSubstring("druid.gardener.cloud/restore=from-store")))
		},
		Entry("because it is corrupt", corrupt, "the data in the volume of claim main-main-2 (page 3)"),
		Entry("because a volume is empty", func(job *etcdcluster.ClaimInspection) { job.Empty = true }, "the volume of claim main-main-2 contains no data"),
	)

	DescribeTable("may recover",
		func(change func(*etcdcluster.ClaimInspection)) {
			inspected(0, corrupt)
			inspected(1, change)
			inspected(2, change)
			Expect(planned().Reason).NotTo(ContainSubstring("cannot recover"))
		},
		Entry("if the others have data", func(job *etcdcluster.ClaimInspection) {
			job.Failed, job.Result = false, &etcdcluster.Inspection{Revision: 5}
		}),
		Entry("if it is not known what the others have", func(*etcdcluster.ClaimInspection) {}),
		Entry("if the Jobs have inspected other volumes", func(job *etcdcluster.ClaimInspection) { job.Corrupt, job.ClaimUID = true, "another" }),
		Entry("if the Jobs are of another Etcd", func(job *etcdcluster.ClaimInspection) { job.Corrupt, job.OwnerUID = true, "another" }),
		Entry("if the members were ready since", func(job *etcdcluster.ClaimInspection) { job.Corrupt, job.CreationTime = true, s.Now().Add(-time.Hour) }),
		Entry("while the Jobs run", func(job *etcdcluster.ClaimInspection) { job.Failed = false }),
	)

	It("is inspected again if the result is not about the present volume, or if nothing was found for a while", func() {
		inspected(0, func(job *etcdcluster.ClaimInspection) { job.Corrupt, job.CreationTime = true, s.Now().Add(-time.Hour) })
		Expect(planned().Step).To(BeAssignableToTypeOf(plan.DeleteRestoreJob{}))
		s.Objects.Inspections = nil
		inspected(0, func(*etcdcluster.ClaimInspection) {})
		Expect(planned().Step).To(HaveField("Object", "main-main-1"))
		for i := range s.Objects.Pods {
			s.Objects.Pods[i].ReadyChangedAt, s.Objects.Pods[i].CreationTime = s.Now().Add(-3*time.Hour), s.Now().Add(-3*time.Hour)
		}
		s.Objects.Inspections[0].Corrupt, s.Objects.Inspections[0].CreationTime = true, s.Now().Add(-time.Hour)
		Expect(planned().Step).To(BeAssignableToTypeOf(plan.DeleteRestoreJob{}))
	})

	It("is no longer inspected when it has a quorum: the pod of the Job would keep the volume on its node", func() {
		healthy := newScenario(3, withStore)
		healthy.run()
		healthy.Objects.Inspections = []etcdcluster.ClaimInspection{{Name: "main-2-inspect", UID: "job", OwnerUID: healthy.Etcd.UID, Claim: "main-main-2"}}
		p := planner.For(healthy.Etcd, healthy.Objects, healthy.Now())
		Expect(p.Step).To(Equal(plan.DeleteRestoreJob{Meta: plan.Meta{Object: "main-2-inspect", UID: "job"}}))
		healthy.Objects.Inspections[0].Failed = true
		Expect(planner.For(healthy.Etcd, healthy.Objects, healthy.Now()).Stage).To(Equal(plan.StageDone))
	})

	It("waits for the Jobs", func() {
		for ordinal := range 3 {
			inspected(ordinal, func(job *etcdcluster.ClaimInspection) { job.Failed = false })
		}
		Expect(planned().WaitsFor).To(HavePrefix("Job main-inspect to inspect the volume of claim main-main-0: page 3; "))
	})

	DescribeTable("is not inspected",
		func(change func()) {
			change()
			Expect(planned().Step).To(BeNil())
			Expect(planned().WaitsFor).To(ContainSubstring("pod main-0 to be ready"))
		},
		Entry("if the image of etcd-helper is not known", func() { s.Objects.CanInspect = false }),
		Entry("if it never formed", func() {
			for i := range s.Objects.MemberLeases {
				s.Objects.MemberLeases[i].Holder = ""
			}
		}),
		Entry("while its members restart", func() {
			for i := range s.Objects.Pods {
				s.Objects.Pods[i].ReadyChangedAt = s.Now().Add(-time.Minute)
			}
		}),
		Entry("while its nodes are unreachable", func() {
			for i := range s.Objects.Pods {
				s.Objects.Pods[i].ContainersReady = true
			}
		}),
		Entry("while etcd responds", func() {
			for i := range s.Objects.Etcd.Members {
				s.Objects.Etcd.Members[i].Reachable = true
			}
		}),
	)
})
