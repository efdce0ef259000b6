// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
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

	DescribeTable("reports different data", func(comparisons int, hashes []uint32, change func(*conditions.Input), expected, message string) {
		since := time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC)
		found := &state.Inconsistency{Since: since, At: since.Add(time.Hour), Revision: 9, Compacted: 5, Comparisons: comparisons}
		for i, hash := range hashes {
			found.Members = append(found.Members, state.MemberHash{Name: fmt.Sprintf("main-%d", i), ID: fmt.Sprintf("a%d", i), Hash: hash})
		}
		condition := conditions.DataConsistent(healthy(all(change, func(in *conditions.Input) { in.Observation.State.Inconsistency = found })))
		Expect(statusAndReason(condition)).To(Equal(expected))
		Expect(condition.Message).To(Equal(message))
	},
		Entry("that is not confirmed yet", 2, []uint32{1, 1, 2}, alarms(), "Unknown DifferenceNotConfirmed",
			"2 of 3 comparisons have found different data: at revision 9, compacted at 5, main-0 has hash 00000001, main-1 has hash 00000001, main-2 has hash 00000002. The operator compares again within a minute"),
		Entry("of a minority", 3, []uint32{1, 2, 1}, alarms(), "False DifferentData",
			"The members have different data since 2026-01-01T11:00:00Z: at revision 9, compacted at 5, main-0 has hash 00000001, main-1 has hash 00000002, main-2 has hash 00000001. "+
				"The operator replaces main-1 with the data of the quorum, and keeps the volume"),
		Entry("of two of five members, also if none responds", 4, []uint32{1, 2, 1, 3, 1}, unreachable, "False DifferentData",
			"The members have different data since 2026-01-01T11:00:00Z: at revision 9, compacted at 5, main-0 has hash 00000001, main-1 has hash 00000002, main-2 has hash 00000001, main-3 has hash 00000003, main-4 has hash 00000001. "+
				"The operator replaces main-1 and main-3 with the data of the quorum, and keeps the volumes"),
		Entry("without a majority, while etcd rejects writes", 3, []uint32{1, 2, 3}, alarms(etcdcluster.Alarm{Type: "CORRUPT"}), "False DifferentData",
			"The members have different data since 2026-01-01T11:00:00Z: at revision 9, compacted at 5, main-0 has hash 00000001, main-1 has hash 00000002, main-2 has hash 00000003. "+
				"No quorum of all voting members has the same data, and the operator changes nothing. Follow the runbook of alert EtcdDataCorrupt. "+
				"etcd has raised the alarm CORRUPT for an unknown member, and rejects all writes until all members have the same data"),
	)

	It("is absent until a member responds", func() {
		Expect(conditions.DataConsistent(healthy(unreachable))).To(BeNil())
	})
})
