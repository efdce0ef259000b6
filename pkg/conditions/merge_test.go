// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("Merge", func() {
	before, now := metav1.NewTime(noon.Add(-time.Hour)), metav1.NewTime(noon)
	owned := []druidv1alpha1.ConditionType{"Ready", "BackupReady"}
	current := []druidv1alpha1.Condition{
		{Type: "BackupReady", Status: "True", Reason: "a", Message: "m", LastTransitionTime: before, LastUpdateTime: before},
		{Type: "LastSnapshotCompactionSucceeded", Status: "True", LastTransitionTime: before, LastUpdateTime: before},
		{Type: "Ready", Status: "True", Reason: "a", Message: "m", LastTransitionTime: before, LastUpdateTime: before},
	}

	It("changes nothing when nothing changed", func() {
		computed := []druidv1alpha1.Condition{{Type: "Ready", Status: "True", Reason: "a", Message: "m"}, {Type: "BackupReady", Status: "True", Reason: "a", Message: "m"}}
		Expect(conditions.Merge(current, owned, computed, noon)).To(Equal(current))
	})

	It("moves only the update time with reason or message, and both times with the status", func() {
		merged := conditions.Merge(current, owned, []druidv1alpha1.Condition{
			{Type: "BackupReady", Status: "True", Reason: "b", Message: "m"}, {Type: "Ready", Status: "False", Reason: "a", Message: "m"},
		}, noon)
		Expect(merged[0].LastTransitionTime).To(Equal(before))
		Expect(merged[0].LastUpdateTime).To(Equal(now))
		Expect(merged[2].LastTransitionTime).To(Equal(now))
		Expect(merged[2].LastUpdateTime).To(Equal(now))
	})

	It("removes owned conditions that were not computed, keeps those of others, and sorts by type", func() {
		merged := conditions.Merge(current, owned, []druidv1alpha1.Condition{{Type: "Ready", Status: "True", Reason: "a", Message: "m"}}, noon)
		Expect(merged).To(Equal(current[1:]))
	})
})

var _ = Describe("ForCare", func() {
	types := func(status druidv1alpha1.EtcdStatus) []string {
		var types []string
		for _, condition := range status.Conditions {
			types = append(types, string(condition.Type))
		}

		return types
	}

	It("writes its conditions and leaves those of others", func() {
		in := healthy(func(in *conditions.Input) {
			in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "AllMembersUpdated", Status: "True"}}
			in.Observation.State.RestoreDrill = &state.RestoreDrill{Proven: &state.DrillProof{ProvenAt: in.Now}}
		})
		status := in.Etcd.Status.DeepCopy()
		conditions.ForCare(in, status)
		Expect(types(*status)).To(Equal([]string{"AllMembersReady", "AllMembersUpdated", "BackupReady", "ClusterIDMismatch",
			"DataConsistent", "DataVolumesReady", "DatabaseSpaceAvailable", "Ready", "RestoreProven", "SecretsValid"}))
		Expect(status.Members).To(HaveLen(3))
	})

	DescribeTable("writes only conditions that are True, except ClusterIDMismatch, while the cluster is healthy and nothing is in progress",
		func(change func(*conditions.Input)) {
			in := healthy(change)
			conditions.ForCare(in, &in.Etcd.Status)
			for _, condition := range in.Etcd.Status.Conditions {
				expected := druidv1alpha1.ConditionTrue
				if condition.Type == druidv1alpha1.ConditionTypeClusterIDMismatch {
					expected = druidv1alpha1.ConditionFalse
				}
				Expect(condition.Status).To(Equal(expected), string(condition.Type)+": "+condition.Message)
			}
		},
		Entry("with a store", func(*conditions.Input) {}),
		Entry("without a store", func(in *conditions.Input) { in.Etcd.Spec.Backup.Store = nil }),
		Entry("without delta snapshots", func(in *conditions.Input) { in.Etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{} }),
		Entry("with TLS", encrypted(-day, 365*day)),
		Entry("with a revision and a schedule of restore drills", func(in *conditions.Input) {
			in.Observation.State.Evidence = &state.Evidence{HighestRevision: 100}
			in.Observation.State.RestoreDrill = &state.RestoreDrill{Period: state.Duration(time.Hour), Since: in.Now}
		}),
		Entry("that has joined another one", joining),
		Entry("that was created hibernated", func(in *conditions.Input) { in.Etcd.Spec.Replicas = 0 }),
	)

	It("gives the same result again a minute later", func() {
		in := healthy(func(*conditions.Input) {})
		conditions.ForCare(in, &in.Etcd.Status)
		again := in.Etcd.Status.DeepCopy()
		in.Now = noon.Add(time.Minute)
		conditions.ForCare(in, again)
		Expect(*again).To(Equal(in.Etcd.Status))
	})

	It("keeps each status while the cluster hibernates", func() {
		in := healthy(func(in *conditions.Input) {
			in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: "True", Reason: "Quorate"}}
		})
		in.Etcd.Spec.Replicas = 0
		status := in.Etcd.Status.DeepCopy()
		conditions.ForCare(in, status)
		Expect(statusAndReason(conditions.Find(status.Conditions, "Ready"))).To(Equal("True NotChecked"))
		Expect(statusAndReason(conditions.Find(status.Conditions, "AllMembersReady"))).To(Equal("--"), "of a condition that was never computed")
		Expect(status.Members).To(BeEmpty())
	})

	It("records no joined cluster while it hibernates", func() {
		in := healthy(all(joining, func(in *conditions.Input) {
			in.Etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "BootstrappedWithExistingCluster", Status: "True"}}
		}))
		in.Etcd.Spec.Replicas = 0
		conditions.ForCare(in, &in.Etcd.Status)
		Expect(in.Etcd.Status.BootstrapWithExistingCluster).To(BeNil())
	})

	It("records the cluster that was joined, once", func() {
		in := healthy(joining)
		conditions.ForCare(in, &in.Etcd.Status)
		Expect(in.Etcd.Status.BootstrapWithExistingCluster).To(Equal(&druidv1alpha1.BootstrapWithExistingClusterStatus{
			JoinedAt: metav1.NewTime(noon), Members: []druidv1alpha1.BootstrapJoinedMember{{Name: "source-0", PeerURLs: []string{"http://source-0:2380"}}},
		}))
		in.Now = noon.Add(time.Hour)
		conditions.ForCare(in, &in.Etcd.Status)
		Expect(in.Etcd.Status.BootstrapWithExistingCluster.JoinedAt).To(Equal(metav1.NewTime(noon)))
	})
})
