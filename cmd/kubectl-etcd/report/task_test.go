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
		Entry("a snapshot, where gardenlet's definition prunes it", druidv1alpha1.EtcdOpsTaskStatus{
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
		}, "main-0: 2Ki before, 1Ki after, did not serve for 5ms\n"),
		Entry("defragmented members, where gardenlet's definition prunes them", druidv1alpha1.EtcdOpsTaskStatus{
			LastOperation: &druidv1alpha1.LastOperation{Description: "Defragmented: main-0 stalled for 5ms and shrank from 2048 to 1024 bytes"},
		}, "Defragmented: main-0 stalled for 5ms and shrank from 2048 to 1024 bytes\n"),
		Entry("nothing that anybody wrote down", druidv1alpha1.EtcdOpsTaskStatus{}, "Done\n"),
	)
})
