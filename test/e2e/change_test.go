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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	operationAnnotation = "druid.gardener.cloud/operation"
	suspendAnnotation   = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
)

// otherVersion is the version of etcd to which a cluster of this run can change.
func otherVersion() string {
	if framework.EtcdVersion() == "3.4" {
		return "3.5"
	}

	return "3.4"
}

// expectVersion expects that all members report the minor version of etcd. If the Etcd has a store, it expects that a verified full snapshot came
// before the change.
func expectVersion(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, minor string) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(etcd.Status.Members).To(HaveLen(int(etcd.Spec.Replicas)))
		g.Expect(etcd.Status.Members).To(HaveEach(HaveField("EtcdVersion", HaveValue(HavePrefix(minor+".")))))
	})
	recorded, err := state.Decode(managedResource(ctx, ns, etcd).Annotations)
	Expect(err).NotTo(HaveOccurred())
	Expect(recorded.EtcdVersion).To(Equal(minor))
	if etcd.Spec.Backup.Store != nil {
		Expect(recorded.Snapshot.Generation).To(Equal(etcd.Generation))
		Expect(recorded.Snapshot.Verified).NotTo(BeNil())
	}
}

// onlyMemberOn requires a node, and that no other member runs there.
func onlyMemberOn(etcd *druidv1alpha1.Etcd, node string) *corev1.Affinity {
	return &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: etcd.Spec.Labels},
		}}},
	}
}

var _ = Describe("A running cluster", func() {
	It("keeps its pod if a new one is not admitted, and takes a scale-up back if no node takes the next member", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "refused")
		etcd := fixture.Etcd(fixture.WithName("main"))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		pod := ns.Pod(ctx, etcd)

		By("requesting a PriorityClass that does not exist")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.PriorityClassName = new("absent") })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Reconciled").Message).To(ContainSubstring("no PriorityClass with name absent was found"))
		})
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.PriorityClassName = nil })
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))

		By("adding members next to the first one on its node, which takes one member")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Replicas, etcd.Spec.SchedulingConstraints.Affinity = 3, onlyMemberOn(etcd, pod.Spec.NodeName)
		})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Reconciled").Message).To(HaveSuffix("set spec.replicas to 1 to take the scale-up back)"))
			g.Expect(framework.Condition(etcd, "ScaleOperationComplete").Reason).To(Equal("JoinPending"))
		})
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 1 })
		ns.EventuallyReady(ctx, etcd)
		Expect(podsByName(ctx, ns)).To(HaveLen(1))
	})

	It("is updated when its spec changes, except while reconciliation is suspended", SpecPriority(8), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "change")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 10)
		pod := ns.Pod(ctx, etcd)

		By("changing the spec while reconciliation is suspended")
		managed, generation := managedResource(ctx, ns, etcd), etcd.Generation
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, suspendAnnotation, "")
			etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive"))
		})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Reconciled").Reason).To(Equal("Suspended"))
		})
		Consistently(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			g.Expect(ptr.Deref(etcd.Status.ObservedGeneration, 0)).To(Equal(generation))
			g.Expect(managedResource(ctx, ns, etcd).Spec).To(Equal(managed.Spec))
			g.Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		}).WithContext(ctx).WithTimeout(3*time.Second).WithPolling(time.Second).Should(Succeed(), ns.State)

		By("resuming reconciliation, which rolls out the change")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { delete(etcd.Annotations, suspendAnnotation) })
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		writeLog.ExpectComplete(ctx)

		By("changing the spec with the operation annotation, which the operator removes")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
			etcd.Spec.Labels["test"] = "changed"
			etcd.Spec.Etcd.Version = new(otherVersion())
		})
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		expectVersion(ctx, ns, etcd, otherVersion())
		Expect(pod.Labels).To(HaveKeyWithValue("test", "changed"))
		Expect(etcd.Annotations).NotTo(HaveKey(operationAnnotation))
		writeLog.ExpectComplete(ctx)

		By("returning to the version of etcd, after which the cluster keeps it without a request")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = new(framework.EtcdVersion()) })
		pod = ns.EventuallyReplaced(ctx, etcd, pod)
		expectVersion(ctx, ns, etcd, framework.EtcdVersion())
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = nil })
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))

	It("is repaired when a user changes or deletes its objects, and rotates its CAs by command", func(ctx SpecContext) {
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

		By("changing a port and the selector of the client Service")
		before, changed := service.DeepCopy(), time.Now()
		service.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
		service.Spec.Selector = map[string]string{"no": "pod"}
		Expect(ns.Client.Patch(ctx, service, client.MergeFrom(before))).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, key, service)).To(Succeed())
			g.Expect(service.Spec).To(Equal(want.Spec))
		})
		Expect(time.Since(changed)).To(BeNumerically("<", 10*time.Second), "without the operator, gardener-resource-manager repairs only once an hour")

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
			g.Expect(leases[0].Spec.HolderIdentity).NotTo(BeNil(), "the sidecar sets the holder with its next heartbeat")
		})

		By("deleting the Secret of the ManagedResource, the ConfigMap, and the StatefulSet without its pod")
		applied := []client.Object{
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: managedResource(ctx, ns, etcd).Spec.SecretRefs[0].Name}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "main-config"}},
			statefulSet(ctx, ns, etcd),
		}
		for _, object := range applied {
			Expect(ns.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		}
		ns.Eventually(ctx, etcd, func(g Gomega) {
			for _, object := range applied {
				g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
				g.Expect(object.GetDeletionTimestamp()).To(BeNil())
			}
		})
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID), "no pod is replaced")

		By("deleting the ManagedResource, which deletes all objects except the volume and the Leases")
		Expect(ns.Client.Delete(ctx, managedResource(ctx, ns, etcd))).To(Succeed())
		ns.EventuallyReplaced(ctx, etcd, pod)
		writeLog.ExpectComplete(ctx)

		By("rotating the CAs with the commands of the page")
		old, err := ns.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())
		ns.Follow(ctx, "usage/tls.md", "CA rotation", map[string]string{"NAMESPACE": ns.Name, "NAME": etcd.Name})
		ns.EventuallyReady(ctx, etcd)
		rotated, err := ns.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())
		Expect(rotated.RootCAs.Equal(old.RootCAs)).To(BeFalse())
		Expect(rotated.Certificates[0].Leaf.Subject.CommonName).To(Equal("etcd-application"))
		writeLog.ExpectComplete(ctx)
		Expect(writeLog.TryWrite(ctx, old)).NotTo(Succeed(), "etcd no longer trusts the old CA")
	}, SpecTimeout(specTimeout))
})

// statefulSet returns the StatefulSet of the Etcd, which must exist.
func statefulSet(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) *appsv1.StatefulSet {
	GinkgoHelper()

	found := &appsv1.StatefulSet{}
	Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), found)).To(Succeed())

	return found
}
