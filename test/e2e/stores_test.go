// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// credentialsTimeout bounds the time until there is a full snapshot at another endpoint. The operator waits five minutes for the kubelet.
const credentialsTimeout = 10 * time.Minute

// withObjectStore sets a store in the bucket test of the object store, and a delta snapshot every ten seconds.
func withObjectStore(objectStore *framework.ObjectStore, provider druidv1alpha1.StorageProvider, prefix string) func(*druidv1alpha1.Etcd) {
	return func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Backup.Store = objectStore.Spec(provider, "test", prefix)
		etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 10 * time.Second}
	}
}

var _ = Describe("A backup store", func() {
	It("is used by one of two Etcds, and by the other one after its deletion", SpecPriority(8), framework.NeedsSeed("uses the object store of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "onestore")
		objectStore := ns.StartObjectStore(ctx)
		first := fixture.Etcd(fixture.WithName("first"), withObjectStore(objectStore, "ECS", "demo/main"))
		ns.Create(ctx, first)
		ns.EventuallyReady(ctx, first)
		writeLog := ns.NewWriteLog(first)
		writeLog.Write(ctx, 20)
		eventuallyContains(ctx, ns, objectStore, first, writeLog.Revision)

		By("refusing another Etcd with the same prefix, and one whose prefix begins with it")
		second, third := fixture.Etcd(fixture.WithName("second"), withObjectStore(objectStore, "ECS", "demo/main")), fixture.Etcd(fixture.WithName("third"), withObjectStore(objectStore, "ECS", "demo/main-2"))
		for _, other := range []*druidv1alpha1.Etcd{second, third} {
			ns.Create(ctx, other)
			ns.Eventually(ctx, other, func(g Gomega) {
				g.Expect(framework.Condition(other, "StoreResolved")).To(And(
					HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "StoreInUse"), HaveField("Message", ContainSubstring("Etcd first")),
				))
			})
		}
		pods := &corev1.PodList{}
		Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name), client.HasLabels{"statefulset.kubernetes.io/pod-name"})).To(Succeed())
		Expect(pods.Items).To(HaveLen(1), "no other member has started")
		writeLog.ExpectComplete(ctx)

		By("using the store of the deleted Etcd, with its data")
		Expect(ns.Client.Delete(ctx, first)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, first) }).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue())
		ns.EventuallyReady(ctx, second)
		Expect(ns.NewWriteLog(second).Read(ctx)).To(Equal(writeLog.Written()))
	}, SpecTimeout(specTimeout))

	It("is followed to another endpoint in the Secret: a full snapshot is taken there, and no member restarts", SpecPriority(10), framework.NeedsSeed("uses the object store of the seed"), func(ctx SpecContext) {
		ns, elsewhere := seed.NewNamespace(ctx, "endpoint"), seed.NewNamespace(ctx, "endpoint-moved")
		objectStore, moved := ns.StartObjectStore(ctx), elsewhere.StartObjectStore(ctx)
		etcd := fixture.Etcd(fixture.WithName("main"), withObjectStore(objectStore, "S3", "demo/main"))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		eventuallyContains(ctx, ns, objectStore, etcd, writeLog.Revision)
		before := podStates(ctx, ns)

		By("changing the endpoint")
		secret := &corev1.Secret{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: objectStore.SecretName}, secret)).To(Succeed())
		patched := secret.DeepCopy()
		patched.Data["endpoint"] = fmt.Appendf(nil, "http://object-store.%s:7070", elsewhere.Name)
		Expect(ns.Client.Patch(ctx, patched, client.MergeFrom(secret))).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "StoreResolved")).To(And(
				HaveField("Status", BeEquivalentTo("True")), HaveField("Message", ContainSubstring("object-store."+elsewhere.Name)),
			))
			g.Expect(framework.Condition(etcd, "FullSnapshotReady")).NotTo(HaveField("Status", BeEquivalentTo("True")))
		})
		writeLog.Write(ctx, 20)

		By("taking a full snapshot at the other endpoint")
		Eventually(func(g Gomega) {
			g.Expect(leaseStore(ctx, g, ns, "main-full-snap")).To(ContainSubstring("object-store." + elsewhere.Name))
			g.Expect(storedRevision(filepath.Join(moved.Dir(ctx, "test"), "demo", "main"))).To(BeNumerically(">=", writeLog.Revision))
		}).WithContext(ctx).WithTimeout(credentialsTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "BackupReady")).To(HaveField("Status", BeEquivalentTo("True")))
		})
		Expect(podStates(ctx, ns)).To(Equal(before))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout+credentialsTimeout))
})

// leaseStore returns the store that a Lease of snapshots records.
func leaseStore(ctx context.Context, g Gomega, ns *framework.TestNamespace, name string) string {
	lease := &coordinationv1.Lease{}
	g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, lease)).To(Succeed())

	return lease.Annotations["etcd-druid.extensions.gardener.cloud/store"]
}
