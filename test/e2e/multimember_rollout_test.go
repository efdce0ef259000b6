// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// brokenImage does not exist. matchImagePullError matches messages with the reason that the kubelet reports for it.
const brokenImage = "seed.local/etcd-wrapper:none"

var matchImagePullError = Or(ContainSubstring("ImagePullBackOff"), ContainSubstring("ErrImagePull"))

// rollOutChanges changes the resources, labels, configuration and version of etcd of three members. Afterwards it sets an image that does not
// exist, and corrects it. It ends with the other version of etcd.
func rollOutChanges(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	workload := ns.StartWorkload(ctx, etcd, "resources, labels, configuration and version of etcd change")

	By("changing resources, labels and configuration, and the version of etcd in the same rollout")
	before, moved := podsByName(ctx, ns), len(eventsWithReason(ctx, ns, "MovedLeader")) // during the creation
	timeline := ns.StartTimeline(ctx, etcd)
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Labels["test"] = "changed"
		etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive"))
		etcd.Spec.Etcd.Version = new(otherVersion())
		etcd.Spec.Etcd.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("60m")}}
	})
	ns.EventuallyReady(ctx, etcd)
	timeline.End("three members changed")
	expectVersion(ctx, ns, etcd, otherVersion())
	replaced := replacedInOrder(ctx, ns, before)
	Expect(replaced).To(HaveLen(3))
	Eventually(eventsWithReason).WithContext(ctx).WithArguments(ns, "MovedLeader").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(HaveLen(moved+1), "the leadership is transferred once")
	moves := eventsWithReason(ctx, ns, "MovedLeader")
	Expect(moves[moved]).To(ContainSubstring("pod "+replaced[2]+" transferred its leadership"), "the leader is replaced last")

	By("setting an image that does not exist, which stops the rolling update at the first pod")
	workload.StartPhase("the image does not exist, and is corrected")
	before = podsByName(ctx, ns)
	image := etcd.Spec.Etcd.Image
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = new(brokenImage) })
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "Reconciled").Message).To(And(matchImagePullError, ContainSubstring("2 of 3 healthy")))
		g.Expect(framework.Condition(etcd, "AllMembersReady").Status).To(BeEquivalentTo("False"))
		g.Expect(framework.Condition(etcd, "Ready").Status).To(BeEquivalentTo("True"))
	})
	Expect(replacedInOrder(ctx, ns, before)).To(HaveLen(1))
	Expect(eventsWithReason(ctx, ns, "MovedLeader")).To(Equal(moves), "the replaced member was not the leader")

	By("correcting the image, which completes the rolling update")
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Image = image })
	ns.EventuallyReady(ctx, etcd)
	Expect(replacedInOrder(ctx, ns, before)).To(HaveLen(1), "the other pods already run the corrected spec")

	phases := workload.Stop(ctx)
	expectNoFailures(phases)
	for _, stats := range phases {
		expectBelow(max(stats.WriteGap, stats.MembersGap), time.Second, stats.String())
	}
}

// returnToVersion changes the version of etcd back after rollOutChanges. The tests of the gate continue without it, with the other version.
func returnToVersion(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	workload := ns.StartWorkload(ctx, etcd, "the version of etcd changes back")
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.Version = new(framework.EtcdVersion()) })
	ns.EventuallyReady(ctx, etcd)
	expectVersion(ctx, ns, etcd, framework.EtcdVersion())
	phases := workload.Stop(ctx)
	expectNoFailures(phases)
	expectBelow(max(phases[0].WriteGap, phases[0].MembersGap), time.Second, phases[0].String())
}
