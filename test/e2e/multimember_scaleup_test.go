// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// createThreeMembers creates a cluster of three members without a store, and records its timeline.
func createThreeMembers(ctx context.Context, ns *framework.TestNamespace) *druidv1alpha1.Etcd {
	GinkgoHelper()
	etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithReplicas(3))
	timeline := ns.StartTimeline(ctx, etcd)
	ns.Create(ctx, etcd)
	ns.EventuallyReady(ctx, etcd)
	timeline.End("three members created")
	Expect(eventsWithReason(ctx, ns, "AddingMember")).To(ContainElement(ContainSubstring("main-0 restarts once, after the last has joined")))
	Expect(voters(etcd)).To(Equal(3))

	return etcd
}

// scaleUpToFive scales the cluster up from three to five members, and expects that no member restarts.
func scaleUpToFive(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	workload := ns.StartWorkload(ctx, etcd, "from three members to five")
	before := podsByName(ctx, ns)
	timeline := ns.StartTimeline(ctx, etcd)
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 5 })
	ns.EventuallyReady(ctx, etcd)
	timeline.End("from three members to five")
	Expect(voters(etcd)).To(Equal(5))
	after := podsByName(ctx, ns)
	for name, pod := range before {
		Expect(after[name].UID).To(Equal(pod.UID), "no member restarts")
	}
	expectShortGaps(workload.Stop(ctx))
}

// removalBound bounds the time without writes through the Service while members are removed. A client that is connected to a removed member
// waits until etcd stops it, after one second.
const removalBound = 3 * time.Second

// scaleIn reduces the size under load. It expects that the other members are not restarted, that nothing is left of the removed ones, and that
// they do not join again.
func scaleIn(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, size int32) {
	GinkgoHelper()
	phase := fmt.Sprintf("from %d members to %d", etcd.Spec.Replicas, size)
	before := podsByName(ctx, ns)
	workload := ns.StartWorkload(ctx, etcd, phase)
	timeline := ns.StartTimeline(ctx, etcd)
	ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = size })
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "ScaleOperationComplete")).To(HaveField("Reason", "NoScaleOperation"))
		g.Expect(framework.CheckReady(etcd)).To(Succeed())
	})
	timeline.End(phase)
	for _, stats := range workload.Stop(ctx) {
		expectBelow(stats.MembersGap, time.Second, stats.String())
		expectBelow(stats.WriteGap, removalBound, stats.String())
	}
	Expect(voters(etcd)).To(BeEquivalentTo(size))
	after := podsByName(ctx, ns)
	Expect(after).To(HaveLen(int(size)))
	for name, pod := range after {
		Expect(pod.UID).To(Equal(before[name].UID), "no member restarts")
		Expect(restartsOf(pod)).To(Equal(restartsOf(before[name])))
	}
	Expect(ns.ClaimUIDs(ctx)).To(HaveLen(int(size)))
	leases := &coordinationv1.LeaseList{}
	Expect(ns.Client.List(ctx, leases, client.InNamespace(ns.Name), client.MatchingLabels{"app.kubernetes.io/component": "etcd-member-lease"})).To(Succeed())
	Expect(leases.Items).To(HaveLen(int(size)))
	members, err := ns.NewWriteLog(etcd).Members(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(members.Members).To(And(HaveLen(int(size)), HaveEach(HaveField("IsLearner", false))))
}

// voters counts the members that the status reports as Ready. A learner is not Ready.
func voters(etcd *druidv1alpha1.Etcd) int {
	count := 0
	for _, member := range etcd.Status.Members {
		if member.Status == "Ready" {
			count++
		}
	}

	return count
}

// leader returns the name of the leader in the status, which must exist.
func leader(etcd *druidv1alpha1.Etcd) string {
	GinkgoHelper()
	Expect(findLeader(etcd)).NotTo(BeEmpty(), "the status contains no leader")

	return findLeader(etcd)
}

// findLeader returns the name of the leader in the status, or an empty string if there is none.
func findLeader(etcd *druidv1alpha1.Etcd) string {
	for _, member := range etcd.Status.Members {
		if member.Role != nil && *member.Role == "Leader" {
			return member.Name
		}
	}

	return ""
}

// eventsWithReason returns the messages of all events in the namespace with the reason, in the order of their creation.
func eventsWithReason(ctx context.Context, ns *framework.TestNamespace, reason string) []string {
	GinkgoHelper()
	list := &corev1.EventList{}
	Expect(ns.Client.List(ctx, list, client.InNamespace(ns.Name))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	var messages []string
	for _, event := range list.Items {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}

	return messages
}

func podsByName(ctx context.Context, ns *framework.TestNamespace) map[string]corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name))).To(Succeed())
	byName := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		byName[pod.Name] = pod
	}

	return byName
}

// replacedInOrder returns the names of the pods that replaced pods in before, in the order of their creation.
func replacedInOrder(ctx context.Context, ns *framework.TestNamespace, before map[string]corev1.Pod) []string {
	GinkgoHelper()
	after := podsByName(ctx, ns)
	names := slices.DeleteFunc(slices.Collect(maps.Keys(after)), func(name string) bool { return after[name].UID == before[name].UID })
	slices.SortFunc(names, func(a, b string) int {
		first, second := after[a], after[b]

		return first.CreationTimestamp.Compare(second.CreationTimestamp.Time)
	})

	return names
}

// expectNoFailures expects that every operation succeeded within a second, in every phase. It is for quiet tests.
func expectNoFailures(phases []framework.PhaseStats) {
	GinkgoHelper()
	for _, stats := range phases {
		Expect(stats.Failed).To(BeZero(), stats.String())
		Expect(stats.Writes).To(BeNumerically(">", 20), stats.String())
	}
}

// expectShortGaps expects that no gap between writes is longer than ten seconds. It is for tests that run in parallel
// with others, which start members on the same two cores.
func expectShortGaps(phases []framework.PhaseStats) {
	GinkgoHelper()
	for _, stats := range phases {
		expectBelow(max(stats.WriteGap, stats.MembersGap), 10*time.Second, stats.String())
		Expect(stats.Writes).To(BeNumerically(">", 20), stats.String())
	}
}
