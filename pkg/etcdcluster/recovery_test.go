// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const extracted = `{"revision":1000000045,"keys":19,"hash":7,"snapshot":"Full-00000000-1000000045-1","extractedRevision":45}`

// recoveryPod returns a pod of the Job in which the container extract has ended.
func recoveryPod(phase corev1.PodPhase, created int64, code int32, message string, change ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "main-recover-x", CreationTimestamp: metav1.NewTime(time.Unix(created, 0)), OwnerReferences: []metav1.OwnerReference{{UID: "job", Controller: new(true)}},
	}}
	pod.Status.Phase = phase
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: "extract", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
	}}
	for _, one := range change {
		one(&pod)
	}

	return pod
}

var _ = DescribeTable("The Job of a recovery",
	func(condition batchv1.JobConditionType, pods []corev1.Pod, expected etcdcluster.RecoveryJob, message string) {
		job := jobWith(condition, func(job *batchv1.Job) {
			job.Name = "main-recover"
			job.Annotations = map[string]string{"etcd-druid.extensions.gardener.cloud/store": "the store", "etcd-druid.extensions.gardener.cloud/recovery-token": "members-1"}
		})
		observed := etcdcluster.RecoveryJobFor(job, pods)
		Expect(observed.Message).To(ContainSubstring(message))
		expected.Exists, expected.Name, expected.UID, expected.OwnerUID, expected.Store, expected.Token = true, "main-recover", "job", "etcd", "the store", "members-1"
		expected.Message = observed.Message
		Expect(observed).To(Equal(expected))
	},
	Entry("runs", batchv1.JobConditionType(""), nil, etcdcluster.RecoveryJob{}, ""),
	Entry("has copied a snapshot", batchv1.JobComplete, []corev1.Pod{recoveryPod(corev1.PodFailed, 1, 0, "x"), recoveryPod(corev1.PodSucceeded, 2, 0, extracted)}, etcdcluster.RecoveryJob{Result: &etcdcluster.Extraction{
		Inspection: etcdcluster.Inspection{Revision: 1000000045, Keys: 19, Hash: 7}, Snapshot: "Full-00000000-1000000045-1", ExtractedRevision: 45,
	}}, ""),
	Entry("has a result that is not known, because its pod is gone", batchv1.JobComplete, nil, etcdcluster.RecoveryJob{Failed: true}, "its result is not known"),
	Entry("has a result that cannot be read", batchv1.JobComplete, []corev1.Pod{recoveryPod(corev1.PodSucceeded, 1, 0, "{}")}, etcdcluster.RecoveryJob{Failed: true}, "is not known: {}"),
	Entry("has copied nothing, because the data cannot be used", batchv1.JobFailed, []corev1.Pod{recoveryPod(corev1.PodFailed, 1, 10, "the revision is too low")}, etcdcluster.RecoveryJob{Failed: true, CopiedNothing: true, Rejected: true}, "the revision is too low"),
	Entry("has copied nothing, because etcd-helper was killed", batchv1.JobFailed, []corev1.Pod{recoveryPod(corev1.PodFailed, 1, 137, "OOMKilled")}, etcdcluster.RecoveryJob{Failed: true, CopiedNothing: true}, "OOMKilled"),
	Entry("has copied nothing, because the store cannot be restored from", batchv1.JobFailed, []corev1.Pod{recoveryPod(corev1.PodFailed, 1, 10, "no base", func(pod *corev1.Pod) {
		pod.Status.InitContainerStatuses[0].Name = "restore"
	})}, etcdcluster.RecoveryJob{Failed: true, CopiedNothing: true}, ""),
	Entry("may have copied something, because one of its pods is gone", batchv1.JobFailed, []corev1.Pod{
		recoveryPod(corev1.PodFailed, 1, 10, "no log"), recoveryPod(corev1.PodFailed, 2, 10, "no log"),
	}, etcdcluster.RecoveryJob{Failed: true}, "no log"),
	Entry("may have copied something", batchv1.JobFailed, []corev1.Pod{recoveryPod(corev1.PodFailed, 1, 0, extracted), recoveryPod(corev1.PodFailed, 2, 13, "no log")}, etcdcluster.RecoveryJob{Failed: true}, "no log"),
	Entry("may have copied something, and its pods are gone", batchv1.JobFailed, nil, etcdcluster.RecoveryJob{Failed: true}, "its pod reports no reason"),
)
