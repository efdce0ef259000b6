// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction_test

import (
	"context"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/compaction"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/crash"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rolledOut observes an Etcd that is rolled out.
type rolledOut struct{}

func (rolledOut) Observe(context.Context, *druidv1alpha1.Etcd, observer.Request) etcdcluster.Observation {
	return etcdcluster.Observation{State: state.State{Accepted: &state.Accepted{Generation: 1}}}
}

func (rolledOut) HostPath(context.Context, string, backupstore.Store) (string, error) { return "", nil }

// storedEtcd returns an Etcd with one member and a backup store.
func storedEtcd() *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main", UID: "etcd-uid", Generation: 1}}
	etcd.Spec.Replicas, etcd.Spec.Labels = 1, map[string]string{"role": "main"}
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{
		Provider: new(druidv1alpha1.StorageProvider("S3")), Container: new("bucket"), Prefix: "etcd-main", SecretRef: &corev1.SecretReference{Name: "store"},
	}

	return etcd
}

func leaseOf(name string, revision int64) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(strconv.FormatInt(revision, 10))},
	}
}

// others simulates the Job controller and the task controller. A new full snapshot has the revision of the newest delta snapshot.
func others(ctx context.Context, c client.Client) error {
	snapshot := func() error {
		lease := leaseOf("main-full-snap", 0)
		if err := c.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		lease.Spec.HolderIdentity = new("5000")

		return c.Update(ctx, lease)
	}
	jobs, tasks := &batchv1.JobList{}, &druidv1alpha1.EtcdOpsTaskList{}
	if err := c.List(ctx, jobs); err != nil {
		return err
	}
	for i := range jobs.Items {
		if job := &jobs.Items[i]; len(job.Status.Conditions) == 0 {
			if err := snapshot(); err != nil {
				return err
			}
			job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now)}}
			if err := c.Status().Update(ctx, job); err != nil {
				return err
			}
		}
	}
	if err := c.List(ctx, tasks); err != nil {
		return err
	}
	for i := range tasks.Items {
		if task := &tasks.Items[i]; task.Status.State == nil {
			if err := snapshot(); err != nil {
				return err
			}
			task.Status.State = new(druidv1alpha1.TaskStateSucceeded)
			if err := c.Status().Update(ctx, task); err != nil {
				return err
			}
		}
	}

	return nil
}

var _ = Describe("A compaction that is killed at any of its writes", func() {
	DescribeTable("comes to what it would have come to", func(ctx SpecContext, fullSnapshotThreshold int64, reason string, writes int) {
		result, err := crash.Run(ctx, crash.Case{
			Scheme: app.NewScheme(),
			Objects: func() []client.Object {
				return []client.Object{storedEtcd(), leaseOf("main-full-snap", 1000), leaseOf("main-delta-snap", 5000)}
			},
			Status: []client.Object{&druidv1alpha1.Etcd{}, &batchv1.Job{}, &druidv1alpha1.EtcdOpsTask{}},
			Start: func(_ context.Context, c client.Client) func(context.Context) error {
				r := &compaction.Reconciler{
					Client: c, Reader: c, Observer: rolledOut{}, Clock: testclock.NewFakePassiveClock(now), Recorder: events.NewFakeRecorder(1000),
					Config: compaction.Config{EventsThreshold: 1000, FullSnapshotThreshold: fullSnapshotThreshold, Deadline: time.Hour},
				}

				return func(ctx context.Context) error {
					_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "demo", Name: "main"}})

					return err
				}
			},
			Others: others,
			Kinds:  []client.ObjectList{&druidv1alpha1.EtcdList{}, &batchv1.JobList{}, &druidv1alpha1.EtcdOpsTaskList{}, &coordinationv1.LeaseList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		Expect(result.Writes).To(HaveLen(writes), "%v", result.Writes)
		Expect(result.Objects).To(ContainElement(And(ContainSubstring("LastSnapshotCompactionSucceeded"), ContainSubstring(reason))))
		Expect(result.Objects).NotTo(ContainElement(ContainSubstring("v1.Job")), "a Job that has ended is deleted")
	},
		Entry("while a Job compacts", int64(100_000), "None", 4),
		Entry("while a full snapshot replaces the compaction", int64(3000), "FullSnapshot", 3),
	)
})
