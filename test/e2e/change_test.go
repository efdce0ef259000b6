// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	operationAnnotation      = "druid.gardener.cloud/operation"
	olderOperationAnnotation = "gardener.cloud/operation"
	suspendAnnotation        = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
)

var _ = Describe("A running cluster", func() {
	It("is changed by its spec alone, and not while that is suspended", SpecPriority(8), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "change")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		pod := ns.Pod(ctx, etcd)

		By("holding back a change while it is suspended")
		applied, generation := managedResource(ctx, ns, etcd), etcd.Generation
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, suspendAnnotation, "")
			etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive"))
		})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Reason).To(Equal("Suspended"))
		})
		Consistently(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			g.Expect(ptr.Deref(etcd.Status.ObservedGeneration, 0)).To(Equal(generation))
			g.Expect(managedResource(ctx, ns, etcd).Spec).To(Equal(applied.Spec))
			g.Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		}).WithContext(ctx).WithTimeout(15*time.Second).WithPolling(time.Second).Should(Succeed(), ns.State)

		By("carrying it out when it is suspended no more")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { delete(etcd.Annotations, suspendAnnotation) })
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		writeLog.ExpectComplete(ctx)

		By("carrying a change out that the operation annotation asks for, and removing the annotation")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
			etcd.Spec.Labels["test"] = "changed"
		})
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		Expect(pod.Labels).To(HaveKeyWithValue("test", "changed"))
		Expect(etcd.Annotations).NotTo(HaveKey(operationAnnotation))
		writeLog.ExpectComplete(ctx)

		By("removing the annotation as well when there is nothing to do")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, olderOperationAnnotation, "reconcile")
		})
		ns.Eventually(ctx, etcd, func(g Gomega) { g.Expect(etcd.Annotations).NotTo(HaveKey(olderOperationAnnotation)) })
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))

		By("making the StatefulSet anew around its pod for what cannot be changed in place")
		former := statefulSet(ctx, ns, etcd)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageCapacity = new(resource.MustParse("20Gi")) })
		ns.EventuallyReady(ctx, etcd)
		Expect(statefulSet(ctx, ns, etcd).UID).NotTo(Equal(former.UID))
		Expect(statefulSet(ctx, ns, etcd).Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("20Gi"))
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))

	It("is corrected when somebody changes what was made for it", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "drift")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		pod := ns.Pod(ctx, etcd)
		lease := func(name string) *coordinationv1.Lease {
			return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}}
		}
		recordsSnapshot := func(g Gomega) {
			full := lease("main-full-snap")
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(full), full)).To(Succeed())
			g.Expect(full.Spec.HolderIdentity).NotTo(BeNil())
		}
		ns.Eventually(ctx, etcd, recordsSnapshot)
		service := &corev1.Service{}
		key := client.ObjectKey{Namespace: ns.Name, Name: "main-client"}
		Expect(ns.Client.Get(ctx, key, service)).To(Succeed())
		want := service.DeepCopy()

		By("changing a port and removing the selector of the Service for clients")
		before, changed := service.DeepCopy(), time.Now()
		service.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
		service.Spec.Selector = map[string]string{"nobody": "here"}
		Expect(ns.Client.Patch(ctx, service, client.MergeFrom(before))).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, key, service)).To(Succeed())
			g.Expect(service.Spec).To(Equal(want.Spec))
		})
		Expect(time.Since(changed)).To(BeNumerically("<", 10*time.Second), "gardener-resource-manager itself applies once an hour")

		By("deleting all Leases")
		deleted := time.Now()
		leases := []*coordinationv1.Lease{lease("main-0"), lease("main-full-snap"), lease("main-delta-snap")}
		for _, object := range leases {
			Expect(ns.Client.Delete(ctx, object)).To(Succeed())
		}
		ns.Eventually(ctx, etcd, func(g Gomega) {
			for _, object := range leases {
				g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			}
		})
		Expect(time.Since(deleted)).To(BeNumerically("<", 10*time.Second))
		ns.Eventually(ctx, etcd, recordsSnapshot)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(leases[0]), leases[0])).To(Succeed())
			g.Expect(leases[0].Spec.HolderIdentity).NotTo(BeNil(), "the sidecar writes it with its next heartbeat")
		})

		By("deleting the payload of the ManagedResource, the ConfigMap, and the StatefulSet without its pod")
		made := []client.Object{
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: managedResource(ctx, ns, etcd).Spec.SecretRefs[0].Name}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main-config"}},
			statefulSet(ctx, ns, etcd),
		}
		for _, object := range made {
			Expect(ns.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		}
		ns.Eventually(ctx, etcd, func(g Gomega) {
			for _, object := range made {
				g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				g.Expect(object.GetDeletionTimestamp()).To(BeNil())
			}
		})
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "no pod is replaced for it")

		By("deleting the ManagedResource, and with it all but the volume and the leases")
		Expect(ns.Client.Delete(ctx, managedResource(ctx, ns, etcd))).To(Succeed())
		ns.EventuallyReplaced(ctx, etcd, pod)
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))
})

// statefulSet is that of the Etcd, which must exist.
func statefulSet(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) *appsv1.StatefulSet {
	GinkgoHelper()

	found := &appsv1.StatefulSet{}
	Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), found)).To(Succeed())

	return found
}
