// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = Describe("A planned defragmentation", func() {
	const gibibyte = 1 << 30
	// input describes a healthy cluster of three members whose window began ten minutes ago. A change sees it before the decision.
	type input struct {
		etcd     *druidv1alpha1.Etcd
		o        etcdcluster.Observation
		tasks    []druidv1alpha1.EtcdOpsTask
		settings planner.DefragmentationSettings
		now      time.Time
	}
	var w input

	sizes := func(file, inUse int64) func(*input) {
		return func(w *input) { w.o.Etcd.Members[1].DBSize, w.o.Etcd.Members[1].DBSizeInUse = file, inUse }
	}
	fragmented := sizes(3*gibibyte, gibibyte)
	all := func(changes ...func(*input)) func(*input) {
		return func(w *input) {
			for _, change := range changes {
				change(w)
			}
		}
	}
	annotated := func(budget string) func(*input) {
		return func(w *input) {
			metav1.SetMetaDataAnnotation(&w.etcd.ObjectMeta, "druid.gardener.cloud/defragmentation-stall-budget", budget)
		}
	}
	measured := func(created time.Time, stall time.Duration, after int64) func(*input) {
		return func(w *input) {
			task := druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Name: "measured", CreationTimestamp: metav1.NewTime(created)}}
			task.Spec.EtcdName, task.Status.State = new("main"), new(druidv1alpha1.TaskStateSucceeded)
			task.Status.Members = []druidv1alpha1.DefragmentedMember{{Name: "main-0", Stall: metav1.Duration{Duration: stall}, SizeBytesAfter: after}}
			w.tasks = append(w.tasks, task)
		}
	}
	ended := func(name string, created time.Time) func(*input) {
		return func(w *input) {
			task := druidv1alpha1.EtcdOpsTask{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
			task.Spec.EtcdName, task.Status.State = new("main"), new(druidv1alpha1.TaskStateSucceeded)
			w.tasks = append(w.tasks, task)
		}
	}
	withBudget := func(budget time.Duration) func(*input) {
		return func(w *input) { w.settings.StallBudget = budget }
	}

	BeforeEach(func() {
		s := newScenario(3)
		s.run()
		s.expectDone()
		w = input{
			etcd: s.Etcd.DeepCopy(), o: s.Observe(), now: time.Date(2026, 1, 2, 1, 10, 0, 0, time.UTC),
			settings: planner.DefragmentationSettings{Window: time.Hour, MinReclaimable: 200 * mebibyte},
		}
		w.etcd.Name, w.etcd.Spec.Etcd.DefragmentationSchedule = "main", new("0 1 * * *")
		for i := range w.o.Etcd.Members {
			w.o.Etcd.Members[i].DBSize, w.o.Etcd.Members[i].DBSizeInUse = gibibyte, gibibyte
		}
	})
	decide := func(change func(*input)) planner.Defragmentation {
		if change != nil {
			change(&w)
		}

		return planner.PlanDefragmentation(w.etcd, w.o, w.tasks, w.settings, w.now)
	}

	DescribeTable("starts", func(change func(*input), reason string) {
		decision := decide(change)
		Expect(decision.Refusal).To(BeEmpty())
		Expect(decision.TaskID).To(Equal(fmt.Sprintf("planned-%d", time.Date(2026, 1, 2, 1, 0, 0, 0, time.UTC).Unix())))
		Expect(decision.NotAfter).To(Equal(time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC)))
		Expect(decision.Reason).To(Equal(reason))
	},
		Entry("a window after the last one", all(fragmented, ended("main-defragmentation-planned-1", time.Date(2026, 1, 2, 0, 10, 0, 0, time.UTC))), "The file of member main-1 has 3Gi, and 1Gi are in use"),
		Entry("if half of a large file is free", fragmented, "The file of member main-1 has 3Gi, and 1Gi are in use"),
		Entry("if a tenth of a file close to the quota is free", sizes(7*gibibyte, 6*gibibyte), "The file of member main-1 has 7Gi, and 6Gi are in use"),
		Entry("if the members respond within the budget", all(fragmented, withBudget(10*time.Second)), "The file of member main-1 has 3Gi, and 1Gi are in use"),
		Entry("if they did so in the last defragmentation", all(fragmented, measured(time.Unix(1, 0), time.Minute, gibibyte), measured(time.Unix(2, 0), time.Second, gibibyte), withBudget(2*time.Second)),
			"The file of member main-1 has 3Gi, and 1Gi are in use"),
		Entry("if the annotation removes the limit", all(fragmented, withBudget(time.Second), annotated("0s")), "The file of member main-1 has 3Gi, and 1Gi are in use"),
	)

	DescribeTable("is refused with a remedy", func(change func(*input), refusal string) {
		decision := decide(change)
		Expect(decision.TaskID).To(BeEmpty())
		Expect(decision.Refusal).To(ContainSubstring(refusal))
	},
		Entry("if a member would not respond for longer than the budget of the operator", all(fragmented, withBudget(9*time.Second)),
			"would interrupt each member for up to 10s, which is longer than the budget of 9s. Increase the annotation druid.gardener.cloud/defragmentation-stall-budget, or start it at a time that suits with `kubectl etcd defrag main`"),
		Entry("if it would not respond for longer than that of the annotation", all(fragmented, annotated("5s")), "longer than the budget of 5s"),
		Entry("if the last defragmentation was slower", all(fragmented, measured(time.Unix(2, 0), 30*time.Second, gibibyte), measured(time.Unix(1, 0), time.Second, gibibyte), annotated("20s")), "for up to 30s"),
		Entry("if the annotation is not a duration", all(fragmented, annotated("soon")), `="soon" is not a duration such as 10s`),
		Entry("if the annotation is negative", all(fragmented, annotated("-1s")), `="-1s" is not a duration`),
		Entry("if a volume has no room for the copy", all(fragmented, func(w *input) {
			for i := range w.o.Claims {
				w.o.Claims[i].Capacity = 4 * gibibyte
			}
		}), "Increase spec.storageCapacity"),
	)

	DescribeTable("does not start", func(change func(*input)) {
		Expect(decide(change)).To(BeZero())
	},
		Entry("if no file could shrink", nil),
		Entry("if too little is free", sizes(300*mebibyte, 150*mebibyte)),
		Entry("if less than half is free", sizes(3*gibibyte, 2*gibibyte)),
		Entry("if a file close to the quota is full", sizes(7*gibibyte, 7*gibibyte)),
		Entry("if it is not known how much is in use", sizes(3*gibibyte, 0)),
		Entry("before the window", all(fragmented, func(w *input) { w.now = time.Date(2026, 1, 2, 0, 59, 59, 0, time.UTC) })),
		Entry("after the window", all(fragmented, func(w *input) { w.now = time.Date(2026, 1, 2, 2, 0, 0, 0, time.UTC) })),
		Entry("twice in a window", all(fragmented, ended("main-defragmentation-planned-1", time.Date(2026, 1, 2, 1, 1, 0, 0, time.UTC)))),
		Entry("in a window that overlaps with the last one", all(fragmented, ended("main-defragmentation-planned-1", time.Date(2026, 1, 2, 0, 10, 1, 0, time.UTC)))),
		Entry("while another task has not ended", all(fragmented, func(w *input) {
			task := druidv1alpha1.EtcdOpsTask{}
			task.Name, task.Spec.EtcdName = "compaction", new("main")
			w.tasks = append(w.tasks, task)
		})),
		Entry("if no generation was accepted", all(fragmented, func(w *input) { w.o.State.Accepted = nil })),
		Entry("if a member is not healthy", all(fragmented, func(w *input) { w.o.Etcd.Members[2].Healthy = false })),
		Entry("if a member did not respond", all(fragmented, func(w *input) { w.o.Etcd.Members[2].Reachable, w.o.Etcd.Members[2].Healthy = false, false })),
		Entry("if a member that leaves is not healthy", func(w *input) {
			w.etcd.Spec.Replicas, w.o.Etcd.Members[0].DBSize, w.o.Etcd.Members[2].Healthy = 1, 3*gibibyte, false
		}),
		Entry("if a member is a learner", all(fragmented, func(w *input) { w.o.Etcd.Members[2].Learner = true })),
		Entry("if a pod is to be replaced", all(fragmented, func(w *input) { w.o.StatefulSet.UpdateRevision = "newer" })),
		Entry("while a surge is in progress", all(fragmented, func(w *input) { w.o.State.Surge = &state.Surge{Phase: state.SurgeJoin} })),
		Entry("while volumes are replaced", all(fragmented, func(w *input) { w.o.State.Migration = &state.Migration{Phase: state.MigrationReplace} })),
		Entry("while members are removed", all(fragmented, func(w *input) { w.o.State.ScaleIn = &state.ScaleIn{} })),
		Entry("while members with different data are replaced", all(fragmented, func(w *input) { w.o.State.Inconsistency = &state.Inconsistency{} })),
		Entry("while a full database gets space", all(fragmented, func(w *input) { w.o.State.Space = &state.Space{Since: w.now} })),
		Entry("while the cluster is restored", all(fragmented, func(w *input) { w.o.State.Restore = state.RestoreJoin })),
		Entry("while a task defragments the members", all(fragmented, func(w *input) { w.o.Defragmentation = "task" })),
		Entry("while the data of members is corrupt", all(fragmented, func(w *input) { w.o.Etcd.Alarms = []etcdcluster.Alarm{{Type: etcdcluster.AlarmCorrupt}} })),
		Entry("while the reconciliation is suspended", all(fragmented, func(w *input) {
			metav1.SetMetaDataAnnotation(&w.etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "")
		})),
		Entry("for a hibernated cluster", all(fragmented, func(w *input) { w.etcd.Spec.Replicas = 0 })),
	)

	It("is due every third day without a schedule, at a time that depends on the Etcd", func() {
		w.etcd.Spec.Etcd.DefragmentationSchedule = nil
		first := planner.DefragmentationSchedule(w.etcd)
		Expect(first).To(MatchRegexp(`^\d+ \d+ \*/3 \* \*$`))
		w.etcd.Name = "other"
		Expect(planner.DefragmentationSchedule(w.etcd)).NotTo(Equal(first))
	})
})
