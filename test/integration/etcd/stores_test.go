// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// inStore sets a Local store with the container and the prefix.
func inStore(container, prefix string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: &container, Prefix: prefix}
	}
}

// hasStatefulSet is true if the members of the Etcd may run.
func (s *testEtcd) hasStatefulSet(ctx context.Context) bool {
	GinkgoHelper()
	err := env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), &appsv1.StatefulSet{})
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	return !apierrors.IsNotFound(err)
}

// expectStore waits until the condition StoreResolved is as expected, and returns its message.
func (s *testEtcd) expectStore(ctx context.Context, status, reason string) string {
	GinkgoHelper()
	message := ""
	Eventually(func(g Gomega) {
		g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("StoreResolved", status, reason))
		for _, condition := range s.read(ctx, g).Status.Conditions {
			if condition.Type == "StoreResolved" {
				message = condition.Message
			}
		}
	}).Should(Succeed())
	return message
}

// request requests a reconciliation.
func (s *testEtcd) request(ctx context.Context) {
	GinkgoHelper()
	s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/operation", "reconcile")
	})
}

// verify writes the Lease of full snapshots like the sidecar, and waits until the Etcd owns its store.
func (s *testEtcd) verify(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		lease := &coordinationv1.Lease{}
		s.get(ctx, g, lease, s.etcd.Name+"-full-snap")
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("7"), new(metav1.NowMicro())
		g.Expect(env.Client.Update(ctx, lease)).To(Succeed())
	}).Should(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(s.managedResource(ctx, g).Annotations["etcd-druid.extensions.gardener.cloud/store"]).To(ContainSubstring(`"verifiedAt"`))
	}).Should(Succeed())
}

var _ = Describe("Two Etcds in one store", func() {
	It("should not both start: the first one owns the store until it is gone", func(ctx SpecContext) {
		first := create(ctx, inStore("shared", "a/main"))
		first.awaitReady(ctx)
		first.verify(ctx)

		By("refusing another one, without its namespace")
		second := create(ctx, inStore("shared", "a/main"))
		message := second.expectStore(ctx, "False", "StoreInUse")
		Expect(message).To(And(ContainSubstring(`container "shared" prefix "a/main"`), ContainSubstring("an Etcd of another namespace"), ContainSubstring("set another container or prefix")))
		Eventually(func(g Gomega) {
			etcd := second.read(ctx, g)
			g.Expect(etcd.Status.LastErrors).To(ContainElement(HaveField("Code", BeEquivalentTo("ERR_RESOLVE_STORE"))))
			for _, condition := range etcd.Status.Conditions {
				g.Expect(condition.Message).NotTo(ContainSubstring(first.namespace))
			}
			for _, event := range second.events(ctx, g) {
				g.Expect(event).NotTo(ContainSubstring(first.namespace))
			}
		}).Should(Succeed())

		By("refusing one of the same namespace in a nested prefix, with its name")
		nested := &testEtcd{namespace: first.namespace}
		nested.create(ctx, withName("nested"), inStore("shared", "a/main/nested"))
		Expect(nested.expectStore(ctx, "False", "StoreInUse")).To(ContainSubstring(`Etcd main uses prefix "a/main"`))

		By("counting it while it hibernates")
		first.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas = 0
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/skip-final-snapshot", "")
		})
		first.request(ctx)
		first.awaitReady(ctx)
		second.request(ctx)
		Consistently(second.hasStatefulSet, time.Second).WithContext(ctx).Should(BeFalse())
		Expect(nested.hasStatefulSet(ctx)).To(BeFalse())

		By("starting the other one when it is deleted")
		expectDeleted(ctx, nested)
		expectDeleted(ctx, first)
		second.request(ctx)
		second.awaitReady(ctx)
		second.expectStore(ctx, "True", "StoreResolved")
	}, SpecTimeout(2*time.Minute))

	It("should not both start if they are created at once", func(ctx SpecContext) {
		var etcds []*testEtcd
		for range 2 {
			etcds = append(etcds, &testEtcd{namespace: env.Namespace(ctx, "etcd")})
		}
		for _, s := range etcds {
			s.create(ctx, inStore("raced", "a/main"))
		}
		started := func() int {
			count := 0
			for _, s := range etcds {
				if s.hasStatefulSet(ctx) {
					count++
				}
			}
			return count
		}
		Eventually(started).Should(Equal(1))
		Consistently(started, 2*time.Second).Should(Equal(1))
	}, SpecTimeout(time.Minute))

	It("should not both start if the record of the running one is missing: its Leases name the store", func(ctx SpecContext) {
		suspend := func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/suspend-etcd-spec-reconcile", "")
		}
		older := create(ctx, inStore("kept", "b/main"), suspend)
		created := older.read(ctx, Default).CreationTimestamp.Time
		Eventually(time.Now).Should(BeTemporally(">", created.Add(2*time.Second)), "an older Etcd would precede the other one")

		running := create(ctx, inStore("kept", "a/main"))
		running.awaitReady(ctx)
		running.verify(ctx)
		running.update(ctx, suspend)
		Eventually(func(g Gomega) {
			mr := running.managedResource(ctx, g)
			delete(mr.Annotations, "etcd-druid.extensions.gardener.cloud/store")
			g.Expect(env.Client.Update(ctx, mr)).To(Succeed())
		}).Should(Succeed())

		older.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			inStore("kept", "a/main")(etcd)
			delete(etcd.Annotations, "druid.gardener.cloud/suspend-etcd-spec-reconcile")
		})
		Expect(older.expectStore(ctx, "False", "StoreInUse")).To(ContainSubstring("an Etcd of another namespace"))
		Consistently(older.hasStatefulSet, time.Second).WithContext(ctx).Should(BeFalse())
	}, SpecTimeout(time.Minute))

	It("should start next to each other with different prefixes", func(ctx SpecContext) {
		first := create(ctx, inStore("divided", "a/main"))
		second := create(ctx, inStore("divided", "a/main-2"))
		first.awaitReady(ctx)
		second.awaitReady(ctx)
	}, SpecTimeout(time.Minute))

	It("should be used again by an Etcd that is recreated", func(ctx SpecContext) {
		s := create(ctx, inStore("recreated", "a/main"))
		s.awaitReady(ctx)
		s.verify(ctx)
		expectDeleted(ctx, s)
		s.create(ctx, inStore("recreated", "a/main"))
		s.awaitReady(ctx)
	}, SpecTimeout(time.Minute))
})

var _ = Describe("An Etcd whose store is the target of a copy", func() {
	It("should wait until the copy has ended", func(ctx SpecContext) {
		s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
		store := func(container string) druidv1alpha1.StoreSpec {
			return druidv1alpha1.StoreSpec{Provider: new(druidv1alpha1.StorageProvider("Local")), Container: &container, Prefix: "a/main"}
		}
		task := &druidv1alpha1.EtcdCopyBackupsTask{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "main"},
			Spec:       druidv1alpha1.EtcdCopyBackupsTaskSpec{SourceStore: store("source"), TargetStore: store("copied")},
		}
		Expect(env.Client.Create(ctx, task)).To(Succeed())
		Eventually(func() error { return cached.Get(ctx, client.ObjectKeyFromObject(task), task) }).Should(Succeed())
		s.create(ctx, inStore("copied", "a/main"))
		Expect(s.expectStore(ctx, "False", "StoreCopyInProgress")).To(ContainSubstring("EtcdCopyBackupsTask main copies snapshots to it; the members start when the copy has ended"))
		Consistently(s.hasStatefulSet, time.Second).WithContext(ctx).Should(BeFalse())

		By("ending the copy")
		task.Status.ObservedGeneration = new(task.Generation)
		task.Status.Conditions = []druidv1alpha1.Condition{{Type: "Succeeded", Status: "True", Reason: "Test", LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now()}}
		Expect(env.Client.Status().Update(ctx, task)).To(Succeed())
		s.awaitReady(ctx)
	}, SpecTimeout(2*time.Minute))
})
