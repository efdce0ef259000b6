// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("The end of a task", func() {
	DescribeTable("says what the task came to", func(status druidv1alpha1.EtcdOpsTaskStatus, expected string) {
		text := &bytes.Buffer{}
		Expect(report.TaskEnd(text, &druidv1alpha1.EtcdOpsTask{Status: status})).To(Succeed())
		Expect(text.String()).To(Equal(expected))
	},
		Entry("a snapshot", druidv1alpha1.EtcdOpsTaskStatus{
			LastOperation: &druidv1alpha1.LastOperation{Description: "Snapshot Full-1 holds everything up to revision 12"},
			Snapshot:      &druidv1alpha1.TaskSnapshot{Name: "Full-1", Revision: 12},
		}, "Full-1 holds everything up to revision 12\n"),
		Entry("a snapshot that the CRD of gardenlet prunes", druidv1alpha1.EtcdOpsTaskStatus{
			LastOperation: &druidv1alpha1.LastOperation{Description: "Snapshot Full-1 holds everything up to revision 12"},
		}, "Snapshot Full-1 holds everything up to revision 12\n"),
		Entry("no snapshot, since nothing was new", druidv1alpha1.EtcdOpsTaskStatus{
			LastOperation: &druidv1alpha1.LastOperation{Description: "Nothing has changed since the last snapshot, so that none was taken"},
		}, "Nothing has changed since the last snapshot, so that none was taken\n"),
		Entry("defragmented members", druidv1alpha1.EtcdOpsTaskStatus{
			LastOperation: &druidv1alpha1.LastOperation{Description: "Defragmented: main-0 stalled for 5ms and shrank from 2048 to 1024 bytes"},
			Members: []druidv1alpha1.DefragmentedMember{
				{Name: "main-0", SizeBytesBefore: 2048, SizeBytesAfter: 1024, Stall: metav1.Duration{Duration: 5 * time.Millisecond}},
			},
		}, "main-0: 2Ki before, 1Ki after, unavailable for 5ms\n"),
		Entry("defragmented members that the CRD of gardenlet prunes", druidv1alpha1.EtcdOpsTaskStatus{
			LastOperation: &druidv1alpha1.LastOperation{Description: "Defragmented: main-0 stalled for 5ms and shrank from 2048 to 1024 bytes"},
		}, "Defragmented: main-0 stalled for 5ms and shrank from 2048 to 1024 bytes\n"),
		Entry("no result", druidv1alpha1.EtcdOpsTaskStatus{}, "Done\n"),
	)
})

var _ = Describe("TaskFor", func() {
	task := func(name string, state druidv1alpha1.TaskState, kind, etcd string, minute int) druidv1alpha1.EtcdOpsTask {
		task := druidv1alpha1.EtcdOpsTask{}
		task.Name, task.UID = name, types.UID(name)
		task.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/task-kind": kind}
		task.CreationTimestamp = metav1.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC)
		task.Spec.EtcdName = &etcd
		task.Spec.Config.OnDemandSnapshot = &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull}
		if state != "" {
			task.Status.State = &state
		}

		return task
	}
	type tasks = []druidv1alpha1.EtcdOpsTask

	DescribeTable("is",
		func(expected string, before, now tasks) {
			found := report.TaskFor("main", "full-snapshot", now, before)
			if expected == "" {
				Expect(found).To(BeNil())
			} else {
				Expect(found).To(HaveField("Name", expected))
			}
		},
		Entry("none before there is one", "", nil, nil),
		Entry("the one that was made", "new", nil, tasks{task("new", "Succeeded", "full-snapshot", "main", 1)}),
		Entry("a pending task", "waits", tasks{task("waits", "Pending", "full-snapshot", "main", 1)}, tasks{task("waits", "InProgress", "full-snapshot", "main", 1)}),
		Entry("a task without a state", "waits", tasks{task("waits", "", "full-snapshot", "main", 1)}, tasks{task("waits", "InProgress", "full-snapshot", "main", 1)}),
		Entry("no task that was running, because its snapshot is older than the request", "new", tasks{task("runs", "InProgress", "full-snapshot", "main", 1)},
			tasks{task("runs", "Succeeded", "full-snapshot", "main", 1), task("new", "Pending", "full-snapshot", "main", 2)}),
		Entry("no task that has ended", "", tasks{task("over", "Failed", "full-snapshot", "main", 1)}, tasks{task("over", "Failed", "full-snapshot", "main", 1)}),
		Entry("no task of another kind or of another Etcd", "", nil, tasks{task("a", "", "compaction", "main", 1), task("b", "", "full-snapshot", "events", 1)}),
		Entry("the oldest of two", "first", nil, tasks{task("second", "", "full-snapshot", "main", 2), task("first", "", "full-snapshot", "main", 1)}),
	)
})
