// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// alarms raises alarms.
func alarms(raised ...etcdcluster.Alarm) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.Etcd.Alarms = append(in.Observation.Etcd.Alarms, raised...)
	}
}

// unreachable removes the responses of all members.
func unreachable(in *conditions.Input) { in.Observation.Etcd.Members = nil }

var _ = Describe("DataConsistent", func() {
	DescribeTable("reports the alarm CORRUPT",
		func(change func(*conditions.Input), expected, message string) {
			condition := conditions.DataConsistent(healthy(change))
			Expect(statusAndReason(condition)).To(Equal(expected))
			Expect(condition.Message).To(ContainSubstring(message))
		},
		Entry("but none is raised", alarms(), "True NoCorruptAlarm", "no alarm CORRUPT"),
		Entry("of an unknown member", alarms(etcdcluster.Alarm{Type: "CORRUPT"}), "False CorruptAlarmRaised", "raised the alarm CORRUPT for an unknown member."),
		Entry("of members", alarms(etcdcluster.Alarm{MemberID: 2, Type: "CORRUPT"}, etcdcluster.Alarm{MemberID: 0xab, Type: "CORRUPT"}),
			"False CorruptAlarmRaised", "raised the alarm CORRUPT for member main-1 and member ab."),
		Entry("but not the alarm of a full database", alarms(etcdcluster.Alarm{MemberID: 2, Type: "NOSPACE"}), "True NoCorruptAlarm", ""),
		Entry("but not that of the operator before a deletion", alarms(etcdcluster.WriteRejections...), "True NoCorruptAlarm", ""),
		Entry("of the last response", all(unreachable, func(in *conditions.Input) {
			in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "DataConsistent", Status: "False", Reason: "CorruptAlarmRaised", Message: "before"}}
		}), "False CorruptAlarmRaised", "before"),
	)

	It("is absent until a member responds", func() {
		Expect(conditions.DataConsistent(healthy(unreachable))).To(BeNil())
	})
})
