// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

var _ = DescribeTable("IsWorthTelling",
	func(conditionType, before, now string, worth bool) {
		var earlier *druidv1alpha1.Condition
		if before != "" {
			earlier = &druidv1alpha1.Condition{Type: druidv1alpha1.ConditionType(conditionType), Status: druidv1alpha1.ConditionStatus(before)}
		}
		later := &druidv1alpha1.Condition{Type: druidv1alpha1.ConditionType(conditionType), Status: druidv1alpha1.ConditionStatus(now)}
		Expect(conditions.ShouldEmitEvent(earlier, later)).To(Equal(worth))
	},
	Entry("a condition that does not hold from the start", "Ready", "", "False", true),
	Entry("not a condition that holds from the start", "Ready", "", "True", false),
	Entry("not a condition that is unknown at the start", "Ready", "", "Unknown", false),
	Entry("a condition that does not hold any more", "Ready", "True", "False", true),
	Entry("a condition that holds again", "Ready", "Unknown", "True", true),
	Entry("a condition that is not known any more", "Ready", "True", "Unknown", true),
	Entry("not a condition that stays, whatever its message", "Ready", "True", "True", false),
	Entry("a split brain", "ClusterIDMismatch", "False", "True", true),
	Entry("a split brain that is healed", "ClusterIDMismatch", "True", "False", true),
	Entry("not that members start", "ClusterIDMismatch", "Unknown", "False", false),
	Entry("not a join that begins", "BootstrappedWithExistingCluster", "", "False", false),
)
