// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/test/crash"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// noGardener is the backup configuration of a cluster without Gardener.
type noGardener struct{}

func (noGardener) ObserveStore(context.Context, *druidv1alpha1.Etcd) (etcdcluster.Gardener, error) {
	return etcdcluster.Gardener{}, nil
}

func (noGardener) StoreUsers(context.Context, backupstore.Store) ([]etcdcluster.StoreUser, error) {
	return nil, nil
}

func newTask() *druidv1alpha1.EtcdCopyBackupsTask {
	store := func(name string) druidv1alpha1.StoreSpec {
		return druidv1alpha1.StoreSpec{
			Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new(name), Prefix: "etcd-main", SecretRef: &corev1.SecretReference{Name: name},
		}
	}
	task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "copy", UID: "task-uid", Generation: 1}}
	task.Spec.SourceStore, task.Spec.TargetStore = store("source"), store("target")

	return task
}

// completeJobs simulates the Job controller. No Job of the same task may be created twice for a generation.
func completeJobs(ctx context.Context, c client.Client) error {
	jobs := &batchv1.JobList{}
	if err := c.List(ctx, jobs); err != nil {
		return err
	}
	for i := range jobs.Items {
		if job := &jobs.Items[i]; len(job.Status.Conditions) == 0 {
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
			if err := c.Status().Update(ctx, job); err != nil {
				return err
			}
		}
	}

	return nil
}

var _ = Describe("A controller of copies that is killed at any of its writes", func() {
	DescribeTable("comes to what it would have come to", func(ctx SpecContext, change func(*druidv1alpha1.EtcdCopyBackupsTask), writes int) {
		result, err := crash.Run(ctx, crash.Case{
			Scheme: app.NewScheme(),
			Objects: func() []client.Object {
				task := newTask()
				change(task)

				return []client.Object{
					task, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "source"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "target"}},
				}
			},
			Status: []client.Object{&druidv1alpha1.EtcdCopyBackupsTask{}, &batchv1.Job{}},
			Start: func(_ context.Context, c client.Client) func(context.Context) error {
				r := &copybackups.Reconciler{
					Client: c, Reader: c, Observer: noGardener{}, Images: copybackups.Images{BackupRestore: "etcdbrctl", Init: "init"},
					Clock: testclock.NewFakeClock(now), Recorder: events.NewFakeRecorder(1000),
				}

				return func(ctx context.Context) error {
					_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "copy"}})

					return err
				}
			},
			Others: completeJobs,
			Kinds:  []client.ObjectList{&druidv1alpha1.EtcdCopyBackupsTaskList{}, &batchv1.JobList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		Expect(result.Writes).To(HaveLen(writes), "%v", result.Writes)
	},
		Entry("while it copies", func(*druidv1alpha1.EtcdCopyBackupsTask) {}, 4),
		Entry("while it copies a changed task again", func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Generation, task.Finalizers = 2, []string{"druid.gardener.cloud/etcd-druid"}
			task.Status.ObservedGeneration = new(int64(1))
			task.Status.Conditions = []druidv1alpha1.Condition{{Type: druidv1alpha1.EtcdCopyBackupsTaskSucceeded, Status: druidv1alpha1.ConditionTrue}}
		}, 3),
		Entry("while it deletes a task", func(task *druidv1alpha1.EtcdCopyBackupsTask) {
			task.Finalizers, task.DeletionTimestamp = []string{"druid.gardener.cloud/etcd-druid"}, new(metav1.NewTime(now))
		}, 1),
	)
})
