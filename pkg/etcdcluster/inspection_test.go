// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const inspected = `{"revision":45,"compactRevision":32,"keys":19,"hash":745935974}`

var result = &etcdcluster.Inspection{Revision: 45, CompactRevision: 32, Keys: 19, Hash: 745935974}

// jobWith returns a Job with the condition. Empty: none.
func jobWith(condition batchv1.JobConditionType, change ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "main-0-inspect", UID: "job", Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/claim-uid": "claim"},
		OwnerReferences: []metav1.OwnerReference{{UID: "etcd", Controller: new(true)}},
	}}
	job.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "main", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "main-main-0"}}}}
	if condition != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Message: "backoff limit"}}
	}
	for _, one := range change {
		one(job)
	}

	return job
}

// podWith returns a pod of that Job whose container has ended.
func podWith(code int32, message string, change ...func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "main-0-inspect-x", CreationTimestamp: metav1.NewTime(time.Unix(100, 0)), OwnerReferences: []metav1.OwnerReference{{UID: "job", Controller: new(true)}},
	}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "inspect", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
	}}
	for _, one := range change {
		one(&pod)
	}

	return pod
}

func ofJob(uid types.UID) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.OwnerReferences[0].UID = uid }
}

var _ = Describe("ParseInspection", func() {
	It("should read what etcd-helper writes", func() {
		// The tests of etcd-helper compare its results with these files.
		files, err := filepath.Glob("../../cmd/etcd-helper/internal/inspect/testdata/*.json")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			content, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(etcdcluster.ParseInspection(string(content))).To(HaveField("Revision", int64(45)), file)
		}
		Expect(etcdcluster.ParseInspection(inspected)).To(Equal(*result))
	})

	DescribeTable("should refuse a message without a revision",
		func(message string) {
			_, err := etcdcluster.ParseInspection(message)
			Expect(err).To(MatchError(ContainSubstring("reading the result of etcd-helper")))
		},
		Entry("nothing", ""),
		Entry("an error", "no database: /var/etcd/data/new.etcd/member/snap/db does not exist"),
		Entry("an empty object", "{}"),
		Entry("null", "null"),
		Entry("a negative revision", `{"revision":-1}`),
	)
})

var _ = DescribeTable("The result of a Job that verifies a restore",
	func(job *batchv1.Job, pods []corev1.Pod, expected etcdcluster.RestoreVerification) {
		expected.Exists, expected.Name, expected.UID, expected.OwnerUID = true, job.Name, job.UID, "etcd"
		Expect(etcdcluster.RestoreVerificationFor(job, pods)).To(Equal(expected))
	},
	Entry("is that of etcd-helper", jobWith(batchv1.JobComplete), []corev1.Pod{podWith(0, inspected)},
		etcdcluster.RestoreVerification{Succeeded: true, Result: result}),
	Entry("is that of the pod that succeeded after others failed", jobWith(batchv1.JobComplete),
		[]corev1.Pod{podWith(0, inspected), podWith(1, "timeout", func(pod *corev1.Pod) { pod.CreationTimestamp.Time = time.Unix(200, 0) })},
		etcdcluster.RestoreVerification{Succeeded: true, Result: result}),
	Entry("is a failure if the pod was deleted, because the restored revision is not known", jobWith(batchv1.JobComplete), nil,
		etcdcluster.RestoreVerification{Failed: true, Message: "it succeeded, but its result is not known, because its pod was deleted"}),
	Entry("is a failure if the pod is of another Job", jobWith(batchv1.JobComplete), []corev1.Pod{podWith(0, inspected, ofJob("other"))},
		etcdcluster.RestoreVerification{Failed: true, Message: "it succeeded, but its result is not known, because its pod was deleted"}),
	Entry("is a failure if the container wrote something else", jobWith(batchv1.JobComplete), []corev1.Pod{podWith(0, "")},
		etcdcluster.RestoreVerification{Failed: true, Message: "container inspect of pod main-0-inspect-x succeeded, but its result is not known: reading the result of etcd-helper: unexpected end of JSON input"}),
	Entry("is a failure without a snapshot in the store", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(3, "no database: db does not exist", func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "restore"}}
	})},
		etcdcluster.RestoreVerification{Failed: true, Message: "nothing was restored: the store holds no full snapshot, or the log of container restore of pod main-0-inspect-x says why it could not be read"}),
	Entry("is a failure if nothing was restored", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(5, "no files", func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "restore"}}
	})},
		etcdcluster.RestoreVerification{Failed: true, Message: "nothing was restored: the store holds no full snapshot, or the log of container restore of pod main-0-inspect-x says why it could not be read"}),
	Entry("is a failure if the restored database is corrupt", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(4, "the database is corrupt: reading db: page 3")},
		etcdcluster.RestoreVerification{Failed: true, Message: "container inspect of pod main-0-inspect-x ended with code 4: the database is corrupt: reading db: page 3"}),
	Entry("is not known while it runs", jobWith(""), []corev1.Pod{podWith(0, inspected)}, etcdcluster.RestoreVerification{}),
)

var _ = DescribeTable("The result of a Job that inspects a volume",
	func(job *batchv1.Job, pods []corev1.Pod, expected etcdcluster.ClaimInspection) {
		expected.Name, expected.UID, expected.OwnerUID, expected.Claim, expected.ClaimUID = job.Name, job.UID, "etcd", "main-main-0", "claim"
		Expect(etcdcluster.ClaimInspectionFor(job, pods)).To(Equal(expected))
	},
	Entry("is that of etcd-helper", jobWith(batchv1.JobComplete), []corev1.Pod{podWith(0, inspected)}, etcdcluster.ClaimInspection{Result: result}),
	Entry("is a failure if the volume contains no database", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(3, "no database: db does not exist")},
		etcdcluster.ClaimInspection{Failed: true, Corrupt: true, Message: "container inspect of pod main-0-inspect-x ended with code 3: no database: db does not exist"}),
	Entry("is a failure if the database is corrupt", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(4, "the database is corrupt")},
		etcdcluster.ClaimInspection{Failed: true, Corrupt: true, Message: "container inspect of pod main-0-inspect-x ended with code 4: the database is corrupt"}),
	Entry("is a failure if the database cannot be opened", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(1, "another process has opened it")},
		etcdcluster.ClaimInspection{Failed: true, Message: "container inspect of pod main-0-inspect-x ended with code 1: another process has opened it"}),
	Entry("is that the volume is empty", jobWith(batchv1.JobFailed), []corev1.Pod{podWith(5, "no files"), podWith(3, "no database", ofJob("other"))},
		etcdcluster.ClaimInspection{Failed: true, Empty: true, Message: "container inspect of pod main-0-inspect-x ended with code 5: no files"}),
	Entry("is a failure if the pod was deleted", jobWith(batchv1.JobComplete), nil,
		etcdcluster.ClaimInspection{Failed: true, Message: "it succeeded, but its result is not known, because its pod was deleted"}),
	Entry("is a failure after its deadline", jobWith("", func(job *batchv1.Job) {
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded}}
	}), nil, etcdcluster.ClaimInspection{Failed: true, Message: "it took longer than 30m0s"}),
	Entry("is not known while its pod has no node", jobWith("", func(job *batchv1.Job) { job.DeletionTimestamp = &metav1.Time{} }), []corev1.Pod{podWith(0, "", func(pod *corev1.Pod) {
		pod.Status = corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}}
	})}, etcdcluster.ClaimInspection{Deleting: true, Message: "pod main-0-inspect-x is not scheduled: 0/3 nodes; let a node have room for it, or correct its resources and scheduling constraints"}),
)
