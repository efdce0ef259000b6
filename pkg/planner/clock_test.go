// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("An operator whose clock is ahead", func() {
	const ahead = 20 * time.Minute

	DescribeTable("records times that the next operator does not wait for",
		func(replicas int32, request func(*druidv1alpha1.Etcd), isBegun func(state.State) bool) {
			s := newScenario(replicas, withSurge)
			s.run()
			s.expectDone()
			s.startOperator(ahead)
			s.inject("the spec changes", func() { request(s.Etcd) })
			s.runUntil(func() bool { return isBegun(s.Objects.State) })
			begun := s.Now()
			s.startOperator(0)
			for s.Now().Sub(begun) < ahead-time.Minute {
				s.runFor(1)
			}
			s.expectDone()
		},
		Entry("in a surge", int32(1), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("fast") }, func(s state.State) bool {
			return s.Surge.IsActive() && s.Surge.Phase == state.SurgeReplace && !s.Surge.ReadyAt.IsZero()
		}),
		Entry("in a volume migration", int32(3), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("fast") }, func(s state.State) bool {
			return s.Migration != nil && !s.Migration.ReadyAt.IsZero()
		}),
		Entry("in a scale-in", int32(3), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 }, func(s state.State) bool {
			return s.ScaleIn != nil && !s.ScaleIn.ReadyAt.IsZero()
		}),
	)
})
