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

var _ = Describe("QuorumRecoverable", func() {
	DescribeTable("is False while no option is chosen", func(policy druidv1alpha1.RecoveryPolicy, isUsable bool, waits, options, reason, message string) {
		condition := conditions.QuorumRecoverable(policy, isUsable, waits, options)
		Expect(statusAndReason(condition)).To(Equal("False " + reason))
		Expect(condition.Message).To(Equal(message))
		Expect(conditions.IsAbnormal(condition)).To(BeTrue())
	},
		Entry("and a user has to choose", druidv1alpha1.RecoveryPolicyAsk, true, "", "members: x", "ChoiceRequired",
			"Choose an option with the annotation druid.gardener.cloud/recover=TOKEN. members: x"),
		Entry("and the operator chooses later", druidv1alpha1.RecoveryPolicyAuto, true, "it recovers at 12:00", "members: x", "RecoveryPending",
			"The recovery policy is Auto: it recovers at 12:00. members: x"),
		Entry("because the policy forbids it", druidv1alpha1.RecoveryPolicyNever, true, "", "members: x", "RecoveryForbidden", "The recovery policy is Never. members: x"),
		Entry("because no option is possible", druidv1alpha1.RecoveryPolicyAuto, false, "", "members: x", "NothingToRecoverFrom", "The operator cannot recover the cluster. members: x"),
		Entry("because there is no data", druidv1alpha1.RecoveryPolicyAuto, false, "", "", "NothingToRecoverFrom", "No data is left, and there is no backup store"),
	)

	It("is True while the operator recovers the cluster", func() {
		condition := conditions.QuorumRecovering("from a member")
		Expect(statusAndReason(condition)).To(Equal("True Recovering"))
		Expect(condition.Message).To(Equal("All members are stopped: from a member"))
	})
})
