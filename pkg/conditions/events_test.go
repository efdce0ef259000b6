// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

var _ = DescribeTable("ShouldEmitEvent",
	func(conditionType, before, now string, expected bool) {
		var earlier *druidv1alpha1.Condition
		if before != "" {
			earlier = &druidv1alpha1.Condition{Type: druidv1alpha1.ConditionType(conditionType), Status: druidv1alpha1.ConditionStatus(before)}
		}
		conditionType, reason, _ := strings.Cut(conditionType, " ")
		later := &druidv1alpha1.Condition{Type: druidv1alpha1.ConditionType(conditionType), Status: druidv1alpha1.ConditionStatus(now), Reason: reason}
		Expect(conditions.ShouldEmitEvent(earlier, later)).To(Equal(expected))
	},
	Entry("a new condition that is False", "Ready", "", "False", true),
	Entry("not a new condition that is True", "Ready", "", "True", false),
	Entry("not a new condition that is Unknown", "Ready", "", "Unknown", false),
	Entry("a condition that becomes False", "Ready", "True", "False", true),
	Entry("a condition that becomes True", "Ready", "Unknown", "True", true),
	Entry("members that become healthy", "AllMembersReady", "Unknown", "True", true),
	Entry("not another condition that becomes True for the first time", "BackupReady", "Unknown", "True", false),
	Entry("another condition that becomes True again", "BackupReady", "False", "True", true),
	Entry("another condition that becomes False for the first time", "BackupReady", "Unknown", "False", true),
	Entry("the end of a problem, even if the status becomes Unknown", "BackupReady", "False", "Unknown", true),
	Entry("not a late snapshot", "BackupReady", "True", "Unknown", false),
	Entry("the result of a restore drill", "RestoreProven", "Unknown", "True", true),
	Entry("a member that was added", "ScaleOperationComplete", "False", "True", true),
	Entry("a condition that becomes Unknown", "Ready", "True", "Unknown", true),
	Entry("not a condition that stays Unknown", "BackupReady", "Unknown", "Unknown", false),
	Entry("not a condition with the same status", "Ready", "True", "True", false),
	Entry("a cluster ID mismatch", "ClusterIDMismatch", "False", "True", true),
	Entry("a cluster ID mismatch that ended", "ClusterIDMismatch", "True", "False", true),
	Entry("not starting members", "ClusterIDMismatch", "Unknown", "False", false),
	Entry("not a member that joins a new cluster", "Ready Creating", "", "False", false),
	Entry("not the start of a join", "BootstrappedWithExistingCluster", "", "False", false),
)
