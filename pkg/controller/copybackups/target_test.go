// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// storeUsers returns what read returns.
type storeUsers struct {
	noGardener
	read func(backupstore.Store) []etcdcluster.StoreUser
}

func (s storeUsers) StoreUsers(_ context.Context, store backupstore.Store) ([]etcdcluster.StoreUser, error) {
	return s.read(store), nil
}

var _ = Describe("A copy that begins", func() {
	var (
		users        func(backupstore.Store) []etcdcluster.StoreUser
		reservations *calls.StoreReservations
		left         time.Duration
		c            client.Client
		r            *copybackups.Reconciler
	)
	key := client.ObjectKey{Namespace: "demo", Name: "copy"}
	reconcileTask := func(ctx context.Context) *druidv1alpha1.EtcdCopyBackupsTask {
		GinkgoHelper()
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
		Expect(err).To(Or(BeNil(), MatchError(reconcile.TerminalError(nil))))
		task := &druidv1alpha1.EtcdCopyBackupsTask{}
		Expect(c.Get(ctx, key, task)).To(Succeed())

		return task
	}

	BeforeEach(func() {
		users, left = func(backupstore.Store) []etcdcluster.StoreUser { return nil }, 0
		reservations = calls.NewStoreReservations(testclock.NewFakeClock(now))
		secret := func(name string) client.Object {
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Data: map[string][]byte{"endpoint": []byte("https://e.org")}}
		}
		c = fake.NewClientBuilder().WithScheme(app.NewScheme()).WithStatusSubresource(&druidv1alpha1.EtcdCopyBackupsTask{}).
			WithObjects(newTask(), secret("source"), secret("target")).
			WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if deadline, hasDeadline := ctx.Deadline(); hasDeadline {
					left = time.Until(deadline)
				}

				return c.Create(ctx, obj, opts...)
			}}).Build()
		r = &copybackups.Reconciler{
			Client: c, Reader: c, Observer: storeUsers{read: func(store backupstore.Store) []etcdcluster.StoreUser { return users(store) }},
			Images: copybackups.Images{BackupRestore: "etcdbrctl", Init: "init"}, Stores: reservations,
			Clock: testclock.NewFakeClock(now), Recorder: events.NewFakeRecorder(1000),
		}
	})

	It("is rejected if an Etcd of another namespace has recorded the target since the first check", func(ctx SpecContext) {
		reads := 0
		users = func(store backupstore.Store) []etcdcluster.StoreUser {
			reads++
			if reads == 1 {
				return nil
			}

			return []etcdcluster.StoreUser{{Namespace: "tenant", Name: "main", Started: true, Store: backupstore.RecordFor(store)}}
		}
		Expect(reconcileTask(ctx).Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("an Etcd of another namespace"))))
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "copy-worker"}, &batchv1.Job{})).To(Satisfy(apierrors.IsNotFound))
	})

	It("waits while an Etcd has reserved the target", func(ctx SpecContext) {
		users = func(store backupstore.Store) []etcdcluster.StoreUser {
			reservations.Reserve(calls.StoreUser{Key: client.ObjectKey{Namespace: "tenant", Name: "main"}}, backupstore.RecordFor(store))

			return nil
		}
		Expect(reconcileTask(ctx).Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring("another object has just begun to use it"))))
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "copy-worker"}, &batchv1.Job{})).To(Satisfy(apierrors.IsNotFound))
	})

	It("creates its Job long before its reservation expires", func(ctx SpecContext) {
		reconcileTask(ctx)
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "copy-worker"}, &batchv1.Job{})).To(Succeed())
		Expect(left).To(And(BeNumerically(">", 0), BeNumerically("<=", 30*time.Second)))
	})

	It("is rejected if its Job cannot have a name, whatever the CustomResourceDefinition accepts", func(ctx SpecContext) {
		long := newTask()
		long.Name = strings.Repeat("n", 57)
		Expect(c.Create(ctx, long)).To(Succeed())
		key.Name = long.Name
		DeferCleanup(func() { key.Name = "copy" })
		Expect(reconcileTask(ctx).Status.Conditions).To(ContainElement(And(
			HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring("metadata.name: Too long: may not be more than 56 bytes")),
		)))
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: long.Name + "-worker"}, &batchv1.Job{})).To(Satisfy(apierrors.IsNotFound))
	})

	It("is rejected with labels that the configuration does not allow", func(ctx SpecContext) {
		r.Restrictions.AllowedLabels = []string{"networking.gardener.cloud/*"}
		task := &druidv1alpha1.EtcdCopyBackupsTask{}
		Expect(c.Get(ctx, key, task)).To(Succeed())
		task.Spec.PodLabels = map[string]string{"networking.gardener.cloud/to-dns": "allowed", "azure.workload.identity/use": "true"}
		Expect(c.Update(ctx, task)).To(Succeed())
		Expect(reconcileTask(ctx).Status.Conditions).To(ContainElement(And(
			HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring(`spec.podLabels: Forbidden: restrictions.allowedLabels of the operator's configuration does not allow "azure.workload.identity/use"`)),
		)))
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "demo", Name: "copy-worker"}, &batchv1.Job{})).To(Satisfy(apierrors.IsNotFound))
	})
})
