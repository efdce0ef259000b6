// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// Helpers of the tests of faults in multi-member clusters.

// memberIDs returns the etcd member IDs in the status by the names of the members.
func memberIDs(etcd *druidv1alpha1.Etcd) map[string]string {
	ids := map[string]string{}
	for _, member := range etcd.Status.Members {
		if member.ID != nil {
			ids[member.Name] = *member.ID
		}
	}

	return ids
}

// follower returns the name of the last member in the status that is not the leader.
func follower(etcd *druidv1alpha1.Etcd) string {
	GinkgoHelper()
	for _, name := range []string{"main-2", "main-1"} {
		if name != leader(etcd) {
			return name
		}
	}

	return "" // unreachable: there is only one leader
}

// claimUIDs returns the UIDs of the members' PersistentVolumeClaims by their names.
func claimUIDs(ctx context.Context, ns *framework.TestNamespace) map[string]types.UID {
	GinkgoHelper()
	uids := map[string]types.UID{}
	for _, name := range []string{"main-main-0", "main-main-1", "main-main-2"} {
		uids[name] = ns.ClaimNamed(ctx, name).UID
	}

	return uids
}

// eventuallyNamed waits until the condition AllMembersReady reports the member. It returns the duration.
func eventuallyNamed(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, member string) time.Duration {
	GinkgoHelper()
	began := time.Now()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "AllMembersReady").Message).To(ContainSubstring("Member " + member))
	})

	return time.Since(began)
}

// eventuallyReplacing waits until an event reports that the operator replaces the volume of the claim, with a message
// that contains the texts.
func eventuallyReplacing(ctx context.Context, ns *framework.TestNamespace, claim string, texts ...string) {
	GinkgoHelper()
	matchers := []gomegatypes.GomegaMatcher{ContainSubstring(claim)}
	for _, text := range texts {
		matchers = append(matchers, ContainSubstring(text))
	}
	Eventually(eventsWithReason).WithContext(ctx).WithArguments(ctx, ns, "ReplacingVolume").WithTimeout(framework.ReadyTimeout).WithPolling(framework.PollInterval).
		Should(ContainElement(And(matchers...)), ns.State)
}

// expectUntouched expects that all pods except one are the same as before, and that none of their containers restarted.
func expectUntouched(ctx context.Context, ns *framework.TestNamespace, before map[string]corev1.Pod, except string) {
	GinkgoHelper()
	after := podsByName(ctx, ns)
	for name := range before {
		if name != except {
			Expect(after).To(HaveKey(name))
		}
	}
	for name, pod := range after {
		if name == except {
			continue
		}
		Expect(pod.UID).To(Equal(before[name].UID), name)
		Expect(restartsOf(pod)).To(Equal(restartsOf(before[name])), name)
	}
}

// restartsOf returns the restart counts of the pod's containers by their names.
func restartsOf(pod corev1.Pod) map[string]int32 {
	restarts := map[string]int32{}
	for _, status := range pod.Status.ContainerStatuses {
		restarts[status.Name] = status.RestartCount
	}

	return restarts
}

// boundExceeded begins the failure message of a bound on a duration. hack/testrun reads this text: it repeats a quiet scenario once that failed nothing
// else.
const boundExceeded = "exceeded its bound on a duration: "

// expectBelow expects that the duration is below the bound. The failure message contains the text.
func expectBelow(duration, bound time.Duration, text string) {
	GinkgoHelper()
	Expect(duration).To(BeNumerically("<", bound), "%s%s", boundExceeded, text)
}

// expectWithin adds the duration to the report, and expects that it is below the bound.
func expectWithin(what string, duration, bound time.Duration) {
	GinkgoHelper()
	AddReportEntry(fmt.Sprintf("%s %s (bound: %s)", what, duration.Round(100*time.Millisecond), bound), ReportEntryVisibilityAlways)
	expectBelow(duration, bound, what)
}

// onDifferentNodes spreads the members over the nodes without taints, with volumes that are local to their nodes.
func onDifferentNodes(etcd *druidv1alpha1.Etcd) {
	etcd.Spec.StorageClass = new("local")
	etcd.Spec.SchedulingConstraints.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, NodeTaintsPolicy: new(corev1.NodeInclusionPolicyHonor),
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/part-of": etcd.Name}},
	}}
}

// memberOn returns the name of the member whose pod runs on the node, or an empty string if there is none.
func memberOn(ctx context.Context, ns *framework.TestNamespace, node string) string {
	GinkgoHelper()
	for name, pod := range podsByName(ctx, ns) {
		if pod.Spec.NodeName == node {
			return name
		}
	}

	return ""
}

// expectShortMemberGaps expects that the client that connects to all members has no gap longer than an election. The gap of
// the client of the Service may be longer. kube-proxy sends packets to a partitioned node until Kubernetes marks it as not
// ready, which takes most of a minute.
func expectShortMemberGaps(phases ...framework.PhaseStats) {
	GinkgoHelper()
	for _, stats := range phases {
		expectBelow(stats.MembersGap, electionBound, stats.String())
	}
}

// isOutOfService returns whether the node has the out-of-service taint.
func isOutOfService(ctx context.Context, name string) bool {
	GinkgoHelper()

	node := &corev1.Node{}
	Expect(seed.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())

	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}

	return false
}

// removeOutOfServiceTaint removes the out-of-service taint of the node.
func removeOutOfServiceTaint(ctx SpecContext, name string) {
	node := &corev1.Node{}
	Expect(seed.Client.Get(ctx, client.ObjectKey{Name: name}, node)).To(Succeed())

	before := node.DeepCopy()
	node.Spec.Taints = nil

	for _, taint := range before.Spec.Taints {
		if taint.Key != corev1.TaintNodeOutOfService {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}

	Expect(seed.Client.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
}

// endpoints returns the names of the pods in the EndpointSlices of the Service.
func endpoints(ctx context.Context, ns *framework.TestNamespace, service string) []string {
	GinkgoHelper()

	slices := &discoveryv1.EndpointSliceList{}
	Expect(ns.Client.List(ctx, slices, client.InNamespace(ns.Name), client.MatchingLabels{"kubernetes.io/service-name": service})).To(Succeed())

	names := []string{}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			names = append(names, endpoint.TargetRef.Name)
		}
	}

	return names
}

// compactingPod returns a pod with the labels of the pods of compaction Jobs.
func compactingPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "main-compactor-x", Labels: map[string]string{
			"app.kubernetes.io/managed-by": "etcd-druid",
			"app.kubernetes.io/part-of":    "main",
			"app.kubernetes.io/component":  "etcd-snapshot-compaction-job",
		}},
		Spec: corev1.PodSpec{
			Containers:                    []corev1.Container{{Name: "compaction", Image: "seed.local/pause:1"}},
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
}
