// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("DatabaseSpaceAvailable", func() {
	full := alarms(etcdcluster.Alarm{MemberID: 2, Type: "NOSPACE"}, etcdcluster.Alarm{MemberID: 0xdead, Type: "NOSPACE"})
	recorded := func(space state.Space) func(*conditions.Input) {
		return func(in *conditions.Input) { in.Observation.State.Space = &space }
	}

	DescribeTable("reports the alarm NOSPACE, and how far the operator is",
		func(change func(*conditions.Input), expected, message string) {
			condition := conditions.DatabaseSpaceAvailable(healthy(change))
			Expect(statusAndReason(condition)).To(Equal(expected))
			Expect(condition.Message).To(ContainSubstring(message))
		},
		Entry("but none is raised", alarms(), "True SpaceAvailable", "no alarm NOSPACE"),
		Entry("but none is raised any more", recorded(state.Space{Since: noon, EndedAt: noon.Add(time.Minute)}), "True SpaceAvailable", ""),
		Entry("but not that of the operator before a deletion", alarms(etcdcluster.WriteRejections...), "True SpaceAvailable", ""),
		Entry("of members, before the operator begins", full, "False NoSpace", "for member main-1 and member dead. The operator frees space as soon as all members are healthy"),
		Entry("of a member that leaves", all(full, func(in *conditions.Input) { in.Etcd.Spec.Replicas = 1 }), "False NoSpace", "for member main-1 and"),
		Entry("while the history is removed", all(full, recorded(state.Space{Since: noon})), "False NoSpace", "The operator removes the history"),
		Entry("while members are defragmented", all(full, recorded(state.Space{Since: noon, Compacted: 42})), "False NoSpace", "up to revision 42, and defragments the members"),
		Entry("after a failure", all(full, recorded(state.Space{Since: noon, Error: "the store failed"})), "False NoSpace", "The last attempt failed: the store failed"),
		Entry("which the operator cannot resolve", all(full, recorded(state.Space{Since: noon, Blocked: "The keys need 60Mi"})), "False FreeingSpaceBlocked", ". The keys need 60Mi"),
		Entry("which a user has suspended", all(full, func(in *conditions.Input) {
			in.Etcd.Annotations = map[string]string{"druid.gardener.cloud/suspend-etcd-spec-reconcile": ""}
		}), "False NoSpace", "while the reconciliation is suspended"),
		Entry("of externally managed members", all(full, func(in *conditions.Input) { in.Etcd.Spec.ExternallyManagedMemberAddresses = []string{"a", "b", "c"} }),
			"False NoSpace", "The operator does not manage the members"),
		Entry("with the alarm CORRUPT", all(full, alarms(etcdcluster.Alarm{Type: "CORRUPT"})), "False NoSpace", "does not free space while the alarm CORRUPT is raised"),
		Entry("of the last response", all(unreachable, func(in *conditions.Input) {
			in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "DatabaseSpaceAvailable", Status: "False", Reason: "NoSpace", Message: "before"}}
		}), "False NoSpace", "before"),
	)

	increasing := func(in time.Duration, inUse int64, before string) func(*conditions.Input) {
		return func(input *conditions.Input) {
			input.QuotaReachedIn = in
			input.Observation.Etcd.Members[0].DBSizeInUse = inUse
			input.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "DatabaseSpaceAvailable", Reason: before}}
		}
	}

	DescribeTable("reports the prediction",
		func(change func(*conditions.Input), expected string) {
			Expect(statusAndReason(conditions.DatabaseSpaceAvailable(healthy(change)))).To(Equal(expected))
		},
		Entry("of less than a day", increasing(24*time.Hour, 2<<30, ""), "False QuotaReachedSoon"),
		Entry("of more than a day", increasing(25*time.Hour, 2<<30, ""), "True SpaceAvailable"),
		Entry("of more than a day, until it is much more", increasing(25*time.Hour, 2<<30, "QuotaReachedSoon"), "False QuotaReachedSoon"),
		Entry("of much more than a day", increasing(37*time.Hour, 2<<30, "QuotaReachedSoon"), "True SpaceAvailable"),
		Entry("but not of the first data", increasing(time.Hour, 1<<30, ""), "True SpaceAvailable"),
		Entry("but there is none", increasing(0, 7<<30, "QuotaReachedSoon"), "True SpaceAvailable"),
		Entry("but the alarm is more important", all(increasing(time.Hour, 7<<30, ""), full), "False NoSpace"),
	)

	It("is absent until a member responds", func() {
		Expect(conditions.DatabaseSpaceAvailable(healthy(unreachable))).To(BeNil())
	})
})
