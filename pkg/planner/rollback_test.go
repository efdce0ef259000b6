// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("A rollback that is found in the middle of a procedure", func() {
	DescribeTable("keeps the volumes until a user accepts it", func(replicas int32, strategy druidv1alpha1.UpdateStrategy, change func(*scenario), reaches func(*scenario) bool, removals int) {
		s := newScenario(replicas, withStore, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageClass, etcd.Spec.Etcd.UpdateStrategy = new("slow"), &strategy
		})
		s.run()
		s.expectDone()
		s.resetTrace()
		s.inject("the spec changes", func() { change(s) })
		s.runUntil(func() bool { return reaches(s) })
		s.inject("a quorum returns a lower revision than before", func() {
			recorded := *s.Objects.State.Evidence
			recorded.RolledBack = &state.RolledBack{Revision: recorded.HighestRevision, At: s.Now()}
			recorded.HighestRevision += 50
			s.Objects.State.Evidence = &recorded
		})
		s.run()
		Expect(s.steps).NotTo(HaveKey("DeleteClaim"))
		Expect(s.steps["RemoveMember"]).To(Equal(removals))
		Expect(s.result.Description).To(ContainSubstring("which the annotation druid.gardener.cloud/accept-revision="))
		s.inject("a user accepts the revision", func() {
			s.Etcd.Annotations = map[string]string{druidv1alpha1.AcceptRevisionAnnotation: fmt.Sprint(s.Objects.State.Evidence.RolledBack.Revision)}
		})
		s.run()
		s.expectDone()
		Expect(s.steps).To(HaveKey("DeleteClaim"))
	},
		Entry("of the member that a surge has removed", int32(1), druidv1alpha1.UpdateStrategySurge, func(s *scenario) { s.image = "v2" },
			func(s *scenario) bool {
				return s.Objects.State.Surge != nil && s.Objects.State.Surge.Phase == state.SurgeDiscard
			}, 1),
		Entry("of the member that a volume migration replaces next", int32(3), druidv1alpha1.UpdateStrategyRestart, func(s *scenario) { s.Etcd.Spec.StorageClass = new("fast") },
			func(s *scenario) bool {
				return s.Objects.State.Migration != nil && s.Objects.State.Migration.Claim != ""
			}, 0),
		Entry("of the member that a volume migration has removed", int32(3), druidv1alpha1.UpdateStrategyRestart, func(s *scenario) { s.Etcd.Spec.StorageClass = new("fast") },
			func(s *scenario) bool { return s.steps["RemoveMember"] == 1 }, 1),
		Entry("of the members that a scale-in has removed", int32(3), druidv1alpha1.UpdateStrategyRestart, func(s *scenario) { s.Etcd.Spec.Replicas = 1 },
			func(s *scenario) bool { return s.steps["RemoveMember"] == 2 }, 2),
	)
})
