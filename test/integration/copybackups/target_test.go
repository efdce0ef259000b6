// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The target of an EtcdCopyBackupsTask", func() {
	store := func(container, prefix string) druidv1alpha1.StoreSpec {
		return druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: &container, Prefix: prefix}
	}
	createEtcd := func(ctx context.Context, namespace, container, record string) {
		GinkgoHelper()
		etcd := fixture.Etcd(fixture.WithNamespace(namespace), fixture.WithName("main"), func(etcd *druidv1alpha1.Etcd) {
			etcd.UID, etcd.ResourceVersion, etcd.Generation, etcd.CreationTimestamp = "", "", 0, metav1.Time{}
			etcd.Spec.Backup.Store = new(store(container, "demo/main"))
		})
		Expect(env.Client.Create(ctx, etcd)).To(Succeed())
		if record == "" {
			return
		}
		resource := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "druid-main", Labels: map[string]string{"origin": druidv1alpha1.ManagedResourceOrigin},
			Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/store": record},
		}, Spec: resourcesv1alpha1.ManagedResourceSpec{SecretRefs: []corev1.LocalObjectReference{{Name: "rendered"}}}}
		Expect(env.Client.Create(ctx, resource)).To(Succeed())
		for _, object := range []client.Object{etcd, resource} { // a change of them does not trigger a reconciliation of a task
			Eventually(func() error { return cached.Get(ctx, client.ObjectKeyFromObject(object), object) }).Should(Succeed())
		}
	}
	createTask := func(ctx context.Context, namespace, container string) *druidv1alpha1.EtcdCopyBackupsTask {
		GinkgoHelper()
		task := &druidv1alpha1.EtcdCopyBackupsTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}, Spec: druidv1alpha1.EtcdCopyBackupsTaskSpec{
			SourceStore: store("source", "demo/main"), TargetStore: store(container, "demo/main"),
		}}
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		return task
	}
	expectNoJob := func(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) {
		GinkgoHelper()
		Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: "main-worker"}, &batchv1.Job{})).To(Satisfy(apierrors.IsNotFound))
	}

	It("is refused while the members of an Etcd write to it", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "copy")
		createEtcd(ctx, namespace, "used", `{"provider":"Local","container":"used","prefix":"demo/main","hostPath":"/etc/gardener/local-backupbuckets"}`)

		By("naming an Etcd of the namespace")
		task := createTask(ctx, namespace, "used")
		eventuallyProgressing(ctx, task, "False", "InvalidSpec",
			`spec.targetStore: Etcd main uses Local container "used" prefix "demo/main"; copy to another container or prefix, or delete that Etcd and create the task again`)
		expectNoJob(ctx, task)

		By("not naming one of another namespace")
		other := createTask(ctx, env.Namespace(ctx, "copy"), "used")
		eventuallyProgressing(ctx, other, "False", "InvalidSpec",
			`spec.targetStore: an Etcd of another namespace, which the operator's log names, uses Local container "used" prefix "demo/main"; copy to another container or prefix, or delete that Etcd and create the task again`)
		expectNoJob(ctx, other)
	}, SpecTimeout(time.Minute))

	It("is written while an Etcd waits whose members have not started", func(ctx SpecContext) {
		namespace := env.Namespace(ctx, "copy")
		createEtcd(ctx, namespace, "awaited", "")
		eventuallyJob(ctx, createTask(ctx, namespace, "awaited"))
	}, SpecTimeout(time.Minute))
})
