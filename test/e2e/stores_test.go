// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

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

// The steps of the first Etcds run while the kubelet does not show the new endpoint to the sidecar of the last one.
var _ = Describe("A backup store", func() {
	It("is used by one of two Etcds until its deletion, and is followed to another endpoint in the Secret without a restart", SpecPriority(10), framework.NeedsSeed("uses the object store of the seed"), func(ctx SpecContext) {
		ns, moving := seed.NewNamespace(ctx, "stores"), seed.NewNamespace(ctx, "stores-moving")
		objectStore, left := ns.StartObjectStore(ctx), moving.StartObjectStore(ctx)
		first := fixture.Etcd(fixture.WithName("first"), withObjectStore(objectStore, "ECS", "demo/first"))
		deprecated := deprecatedFields(ctx, ns)
		main := fixture.Etcd(fixture.WithName("main"), withObjectStore(left, "S3", "demo/main"))
		ns.Create(ctx, first)
		moving.Create(ctx, main)

		moving.EventuallyReady(ctx, main)
		mainLog := moving.NewWriteLog(main)
		mainLog.Write(ctx, 20)
		eventuallyContains(ctx, moving, left, main, mainLog.Revision)
		before := podStates(ctx, moving)

		By("changing the endpoint in a Secret")
		endpoint := "object-store." + ns.Name
		secret := &corev1.Secret{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: moving.Name, Name: left.SecretName}, secret)).To(Succeed())
		patched := secret.DeepCopy()
		patched.Data["endpoint"] = fmt.Appendf(nil, "http://%s:7070", endpoint)
		Expect(ns.Client.Patch(ctx, patched, client.MergeFrom(secret))).To(Succeed())
		moving.Eventually(ctx, main, func(g Gomega) {
			g.Expect(framework.Condition(main, "StoreResolved")).To(And(HaveField("Status", BeEquivalentTo("True")), HaveField("Message", ContainSubstring(endpoint))))
			g.Expect(framework.Condition(main, "BackupReady")).NotTo(HaveField("Status", BeEquivalentTo("True")))
		})
		mainLog.Write(ctx, 20)

		By("refusing another Etcd with the same prefix, and one whose prefix begins with it")
		ns.EventuallyReady(ctx, first)
		writeLog := ns.NewWriteLog(first)
		writeLog.Write(ctx, 20)
		eventuallyContains(ctx, ns, objectStore, first, writeLog.Revision)
		second, third := fixture.Etcd(fixture.WithName("second"), withObjectStore(objectStore, "ECS", "demo/first")), fixture.Etcd(fixture.WithName("third"), withObjectStore(objectStore, "ECS", "demo/first-2"))
		for _, other := range []*druidv1alpha1.Etcd{second, third} {
			ns.Create(ctx, other)
			ns.Eventually(ctx, other, func(g Gomega) {
				g.Expect(framework.Condition(other, "StoreResolved")).To(And(
					HaveField("Status", BeEquivalentTo("False")), HaveField("Reason", "StoreInUse"), HaveField("Message", ContainSubstring("Etcd first")),
				))
			})
		}
		Expect(podStates(ctx, ns)).To(And(HaveLen(2), HaveKey("first-0"), HaveKey("test-0")), "no other member has started")
		writeLog.ExpectComplete(ctx)

		By("using the store of the deleted Etcd, with its data")
		Expect(ns.Client.Delete(ctx, first)).To(Succeed())
		Eventually(func() bool { return ns.IsGone(ctx, first) }).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(BeTrue())
		ns.EventuallyReady(ctx, second)
		Expect(ns.NewWriteLog(second).Read(ctx)).To(Equal(writeLog.Written()))

		By("storing the snapshots of an Etcd with deprecated fields")
		ns.EventuallyReady(ctx, deprecated)
		deprecatedLog := ns.NewWriteLog(deprecated)
		deprecatedLog.Write(ctx, 10)
		deprecatedLog.ExpectComplete(ctx)
		eventuallySnapshot(ctx, ns, deprecated, "test-full-snap", 0)
		Expect(filepath.Glob(filepath.Join(objectStore.Dir(ctx, "test"), "etcd-test", "v2", "Full-*"))).NotTo(BeEmpty())
		ns.Eventually(ctx, deprecated, func(g Gomega) {
			g.Expect(framework.Condition(deprecated, "StoreResolved").Message).To(ContainSubstring("S3 container \"test\""))
			g.Expect(framework.Condition(deprecated, "BackupReady").Status).To(BeEquivalentTo("True"))
		})

		By("taking a full snapshot at the other endpoint")
		Eventually(func(g Gomega) {
			g.Expect(leaseStore(ctx, g, moving, "main-full-snap")).To(ContainSubstring(endpoint))
			g.Expect(storedRevision(filepath.Join(objectStore.Dir(ctx, "test"), "demo", "main"))).To(BeNumerically(">=", mainLog.Revision))
		}).WithContext(ctx).WithTimeout(credentialsTimeout).WithPolling(framework.PollInterval).Should(Succeed(), moving.State)
		moving.Eventually(ctx, main, func(g Gomega) {
			g.Expect(framework.Condition(main, "BackupReady")).To(HaveField("Status", BeEquivalentTo("True")))
		})
		Expect(podStates(ctx, moving)).To(Equal(before))
		mainLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout+credentialsTimeout))
})

// deprecatedFields creates the Etcd with deprecated fields. Its name is test.
func deprecatedFields(ctx context.Context, ns *framework.TestNamespace) *druidv1alpha1.Etcd {
	GinkgoHelper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "example", "40-etcd-deprecated-fields.yaml"))
	Expect(err).NotTo(HaveOccurred())
	etcd := &druidv1alpha1.Etcd{}
	Expect(yaml.UnmarshalStrict(manifest, etcd)).To(Succeed())
	ns.Create(ctx, etcd)

	return etcd
}

// leaseStore returns the store that a Lease of snapshots records.
func leaseStore(ctx context.Context, g Gomega, ns *framework.TestNamespace, name string) string {
	lease := &coordinationv1.Lease{}
	g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: name}, lease)).To(Succeed())

	return lease.Annotations["etcd-druid.extensions.gardener.cloud/store"]
}
