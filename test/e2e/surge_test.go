// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// withSurge lets the operator replace the only member through a temporary second one.
func withSurge(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge)
}

// surgeBound bounds the time without writes through the Service in a surge. A client that is connected to a removed member waits until etcd stops
// it, after one second.
const surgeBound = 3 * time.Second

// surge changes something, and expects that the only member is replaced. Nothing may be left of a temporary second member. The longest time without
// a write has to be below the bound, and is returned.
func surge(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, phase string, bound time.Duration, change func()) (longest time.Duration) {
	GinkgoHelper()
	before := podsByName(ctx, ns)["main-0"]
	workload := ns.StartWorkload(ctx, etcd, phase)
	timeline := ns.StartTimeline(ctx, etcd)
	change()
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		pods := podsByName(ctx, ns)
		g.Expect(pods).To(HaveLen(1))
		g.Expect(pods["main-0"].UID).NotTo(Equal(before.UID))
		g.Expect(framework.CheckReady(etcd)).To(Succeed())
	}).WithContext(ctx).WithTimeout(max(framework.ReadyTimeout, 3*bound)).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	timeline.End(phase)
	for _, stats := range workload.Stop(ctx) {
		expectBelow(stats.MembersGap, bound, stats.String())
		expectBelow(stats.WriteGap, max(bound, surgeBound), stats.String())
		longest = max(longest, stats.WriteGap, stats.MembersGap)
	}
	Expect(ns.ClaimUIDs(ctx)).To(HaveLen(1))
	leases := &coordinationv1.LeaseList{}
	Expect(ns.Client.List(ctx, leases, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/component": "etcd-member-lease"})).To(Succeed())
	Expect(leases.Items).To(HaveLen(1))
	members, err := ns.NewWriteLog(etcd).Members(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(members.Members).To(HaveLen(1))

	return longest
}

// drain cordons the node of the first member and evicts its pod as kubectl drain does, until the pod is gone. The cleanup uncordons the node.
func drain(ctx context.Context, ns *framework.TestNamespace) {
	GinkgoHelper()
	pod := podsByName(ctx, ns)["main-0"]
	cordon := func(ctx context.Context, cordoned bool) {
		GinkgoHelper()
		node := &corev1.Node{}
		Expect(ns.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)).To(Succeed())
		patch := client.MergeFrom(node.DeepCopy())
		node.Spec.Unschedulable = cordoned
		Expect(ns.Admin.Patch(ctx, node, patch)).To(Succeed())
	}
	cordon(ctx, true)
	DeferCleanup(func(ctx SpecContext) { cordon(ctx, false) })
	eviction := func() error {
		return ns.Admin.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{})
	}
	Expect(apierrors.IsTooManyRequests(eviction())).To(BeTrue(), "the eviction waits for the surge")
	Eventually(func() bool { return apierrors.IsNotFound(eviction()) }).WithContext(ctx).WithTimeout(framework.ReadyTimeout).WithPolling(5*time.Second).
		Should(BeTrue(), "the drain ends when the surge has replaced the pod")
	Expect(podsByName(ctx, ns)["main-0"].Spec.NodeName).NotTo(Equal(pod.Spec.NodeName))
	cordon(ctx, false) // other tests may need the node
}

var _ = Describe("A surge of a single member", func() {
	It("changes the template, the volume and the node of a member without an interruption", quiet, SpecPriority(5), framework.NeedsSeed("cordons a node and uses a StorageClass of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "surge")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity, etcd.Spec.Etcd.Quota = new(resource.MustParse("2Gi")), new(resource.MustParse("128Mi"))
		})
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		patch := func(mutate func(*druidv1alpha1.Etcd)) func() { return func() { ns.Patch(ctx, etcd, mutate) } }

		By("restarting the member, for comparison")
		surge(ctx, ns, etcd, "restart", framework.ReadyTimeout, patch(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["tier"] = "one" }))
		Expect(eventsWithReason(ctx, ns, "StartingSurge")).To(BeEmpty())

		surge(ctx, ns, etcd, "surge for labels and resources", time.Second, patch(func(etcd *druidv1alpha1.Etcd) {
			withSurge(etcd)
			etcd.Spec.Labels["tier"] = "two"
			etcd.Spec.Etcd.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("96Mi")}}
		}))
		surge(ctx, ns, etcd, "surge for another class and size", time.Second, patch(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity, etcd.Spec.StorageClass = new(resource.MustParse("1Gi")), new("gardener.cloud-fast")
		}))
		claim := ns.Claim(ctx, etcd)
		Expect(claim.Spec.StorageClassName).To(HaveValue(Equal("gardener.cloud-fast")))
		Expect(claim.Spec.Resources.Requests.Storage().String()).To(Equal("1Gi"))
		surge(ctx, ns, etcd, "surge for a drain", time.Second, func() { drain(ctx, ns) })
		Expect(eventsWithReason(ctx, ns, "StartingSurge")).To(HaveLen(3))
	}, SpecTimeout(specTimeout))

	It("keeps one cluster if etcd of the first member crashes while two members vote, and aborts with an image that cannot be pulled", Label("long"), framework.NeedsSeed("crashes a process"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "surge-crash")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withSurge)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)
		members, err := writeLog.Members(ctx)
		Expect(err).NotTo(HaveOccurred())

		By("aborting the surge")
		first, image := ns.Pod(ctx, etcd), etcd.Spec.Etcd.Image
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = new("missing.local/etcd-wrapper:none") })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "AllMembersUpdated")).To(HaveField("Message", ContainSubstring("The last surge was aborted, and the member keeps running: ")))
			g.Expect(podsByName(ctx, ns)).To(HaveLen(1))
		})
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(first.UID))
		writeLog.Write(ctx, 5)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = image })
		ns.EventuallyReady(ctx, etcd)
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(first.UID), "the template is as before")

		By("crashing etcd of the first member while two members vote")
		timeline := ns.StartTimeline(ctx, etcd)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["tier"] = "one" })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "AllMembersUpdated")).To(HaveField("Message", ContainSubstring("the phase is Replace")))
		})
		ns.Crash(first, "etcd")
		ns.EventuallyReady(ctx, etcd)
		timeline.End("surge in which etcd of the first member crashes")
		after, err := writeLog.Members(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Members).To(HaveLen(1))
		Expect(after.Header.ClusterId).To(Equal(members.Header.ClusterId), "the sidecar did not restore a second cluster")
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(specTimeout))

	It("ends although the class of the first volume has no provisioner any more, and a defragmentation waits for its end", SpecPriority(10), framework.NeedsSeed("copies a StorageClass of the seed"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "surge-class")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns), withSurge)
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 20)

		By("deleting the requested class when the second volume is provisioned")
		class := storageClassLike(ctx, ns, "gardener.cloud-fast")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new(class.Name) })
		ns.Eventually(ctx, etcd, func(g Gomega) {
			claim := &corev1.PersistentVolumeClaim{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "main-main-1"}, claim)).To(Succeed())
			g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
		})
		Expect(ns.Admin.Delete(ctx, class)).To(Succeed())

		By("requesting a defragmentation while the first member has no volume")
		task := newTask("defragment", druidv1alpha1.EtcdOpsTaskConfig{Defragmentation: &druidv1alpha1.DefragmentationConfig{}})
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "AllMembersUpdated")).To(HaveField("Message", ContainSubstring("the phase is Return")))
		})
		ns.Create(ctx, task)
		eventuallyTask(ctx, ns, task, func(g Gomega) {
			g.Expect(task.Status.LastOperation).To(HaveField("Description", ContainSubstring("Waiting for the surge")))
			claim := &corev1.PersistentVolumeClaim{}
			g.Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "main-main-0"}, claim)).To(Succeed())
			g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimPending))
		})
		writeLog.WriteManyTo(ctx, memberPod(ctx, ns, 1), 20)

		By("requesting a class with a provisioner")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("gardener.cloud-fast") })
		Eventually(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
		}).WithContext(ctx).WithTimeout(etcdcluster.MemberStartTimeout+framework.ReadyTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
		eventuallySucceeded(ctx, ns, task)
		Expect(ns.ClaimUIDs(ctx)).To(HaveLen(1))
		Expect(ns.Claim(ctx, etcd).Spec.StorageClassName).To(HaveValue(Equal("gardener.cloud-fast")))
		writeLog.ExpectComplete(ctx)
	}, SpecTimeout(2*specTimeout))
})

// storageClassLike creates a StorageClass with the name of the namespace, which the cleanup deletes.
func storageClassLike(ctx context.Context, ns *framework.TestNamespace, name string) *storagev1.StorageClass {
	GinkgoHelper()
	class := &storagev1.StorageClass{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Name: name}, class)).To(Succeed())
	class.ObjectMeta = metav1.ObjectMeta{Name: ns.Name}
	Expect(ns.Admin.Create(ctx, class)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(ns.Admin.Delete(ctx, class))).To(Succeed()) })

	return class
}
