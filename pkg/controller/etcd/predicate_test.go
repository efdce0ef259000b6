// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
)

var _ = DescribeTable("A changed condition DataConsistent", func(before, after string, changes bool) {
	etcdWith := func(reason string) *druidv1alpha1.Etcd {
		result := &druidv1alpha1.Etcd{}
		if reason != "" {
			result.Status.Conditions = []druidv1alpha1.Condition{{Type: "DataConsistent", Reason: reason}}
		}

		return result
	}
	Expect(etcd.EtcdChanged().Update(event.UpdateEvent{ObjectOld: etcdWith(before), ObjectNew: etcdWith(after)})).To(Equal(changes))
},
	Entry("leads to a reconciliation when a difference is confirmed", "DifferenceNotConfirmed", "DifferentData", true),
	Entry("leads to a reconciliation when it has ended", "DifferentData", "NoCorruptAlarm", true),
	Entry("does not with the next comparison", "DifferentData", "DifferentData", false),
	Entry("does not without a difference", "", "", false),
)

var _ = DescribeTable("A Job", func(component string, changes bool) {
	job := &batchv1.Job{}
	job.Labels = map[string]string{"app.kubernetes.io/component": component}
	ended := job.DeepCopy()
	ended.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete}}
	passes := etcd.RestoreJobEnded()
	Expect(passes.Create(event.CreateEvent{Object: job})).To(BeFalse())
	Expect(passes.Update(event.UpdateEvent{ObjectOld: job, ObjectNew: job})).To(BeFalse())
	Expect(passes.Update(event.UpdateEvent{ObjectOld: job, ObjectNew: ended})).To(Equal(changes))
	Expect(passes.Delete(event.DeleteEvent{Object: ended})).To(Equal(changes))
},
	Entry("that verifies a restore leads to a reconciliation when it ends", "etcd-restore-verification-job", true),
	Entry("that inspects a volume leads to a reconciliation when it ends", "etcd-inspection-job", true),
	Entry("that compacts snapshots does not", "etcd-compaction-job", false),
)
