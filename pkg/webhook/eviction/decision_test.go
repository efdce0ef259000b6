// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package eviction_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/webhook/eviction"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// singleMember returns an Etcd with one member and the update strategy Surge.
func singleMember(options ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	etcd := fixture.Etcd(func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Replicas = 1
		etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategySurge)
	})
	for _, option := range options {
		option(etcd)
	}

	return etcd
}

// podOf returns the ready pod of a member. It was created two hours ago.
func podOf(name string, options ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "test-ns", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(now.Add(-2 * time.Hour)),
			Labels: map[string]string{"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-statefulset"},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, option := range options {
		option(pod)
	}

	return pod
}

func created(age time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(now.Add(-age)) }
}

func notReady(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }

func annotated(value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "etcd-druid.extensions.gardener.cloud/eviction-requested", value)
	}
}

func requested(ago time.Duration) func(*corev1.Pod) {
	return annotated(now.Add(-ago).Format(time.RFC3339))
}

// completed returns the record of a surge that has created a pod, and whose last phase began some time ago.
func completed(pod types.UID, ago time.Duration) *state.Surge {
	return &state.Surge{Phase: state.SurgeComplete, Pod: pod, Since: now.Add(-ago)}
}

var _ = Describe("Decide", func() {
	request := func(pod *corev1.Pod, etcd *druidv1alpha1.Etcd) eviction.Request {
		return eviction.Request{Pod: pod, Etcd: etcd, Time: now}
	}

	DescribeTable("allows an eviction that no surge can help",
		func(r eviction.Request, message string) {
			Expect(eviction.Decide(r)).To(Equal(eviction.Decision{Allowed: true, Message: message}))
		},
		Entry("of a pod that does not exist", request(nil, nil), "not the pod of a member of an Etcd"),
		Entry("of a pod of another owner", request(podOf("test-0", func(pod *corev1.Pod) { delete(pod.Labels, "app.kubernetes.io/managed-by") }), singleMember()), "not the pod of a member of an Etcd"),
		Entry("of the pod of a Job", request(podOf("test-0", func(pod *corev1.Pod) { pod.Labels["app.kubernetes.io/component"] = "etcd-compaction-job" }), singleMember()), "not the pod of a member of an Etcd"),
		Entry("of another pod with the same name", eviction.Request{UID: "another", Pod: podOf("test-0"), Etcd: singleMember(), Time: now}, "the request has the UID of another pod"),
		Entry("of a pod that is being deleted", request(podOf("test-0", func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(now)) }), singleMember()), "the pod is being deleted"),
		Entry("of a pod that is not ready", request(podOf("test-0", notReady), singleMember()), "the pod is not ready"),
		Entry("of a pod without conditions", request(podOf("test-0", func(pod *corev1.Pod) { pod.Status.Conditions = nil }), singleMember()), "the pod is not ready"),
		Entry("without an Etcd", request(podOf("test-0"), nil), "the Etcd does not exist or is being deleted"),
		Entry("with an Etcd that is being deleted", request(podOf("test-0"), singleMember(func(etcd *druidv1alpha1.Etcd) { etcd.DeletionTimestamp = new(metav1.NewTime(now)) })), "the Etcd does not exist or is being deleted"),
		Entry("of one of three members", request(podOf("test-0"), singleMember(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })), "the Etcd does not have exactly one member"),
		Entry("during the hibernation", request(podOf("test-0"), singleMember(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })), "the Etcd does not have exactly one member"),
		Entry("without an update strategy", request(podOf("test-0"), singleMember(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.UpdateStrategy = nil })), "the Etcd does not have the update strategy Surge"),
		Entry("with the update strategy Restart", request(podOf("test-0"), singleMember(func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.UpdateStrategy = new(druidv1alpha1.UpdateStrategyRestart)
		})), "the Etcd does not have the update strategy Surge"),
		Entry("while the spec is suspended", request(podOf("test-0"), singleMember(fixture.WithAnnotation("druid.gardener.cloud/suspend-etcd-spec-reconcile", ""))), "the reconciliation of the Etcd is suspended"),
		Entry("that has waited for ten minutes", request(podOf("test-0", requested(10*time.Minute)), singleMember()), "the operator did not replace the member within 10m0s"),
		Entry("that has waited for twenty minutes", request(podOf("test-0", requested(20*time.Minute)), singleMember()), "the operator did not replace the member within 10m0s"),
	)

	DescribeTable("rejects the eviction of the only member, and begins to wait",
		func(pod *corev1.Pod) {
			decision := eviction.Decide(request(pod, singleMember()))
			Expect(decision.Allowed).To(BeFalse())
			Expect(decision.Annotates).To(BeTrue())
			Expect(decision.Code).To(BeEquivalentTo(429))
			Expect(decision.StatusReason).To(Equal(metav1.StatusReasonTooManyRequests))
			Expect(decision.Message).To(Equal("the operator replaces the only member of Etcd test-ns/test through a temporary second member: the eviction waits for this until 2026-03-01T12:10:00Z." +
				" To evict the pod without this delay, delete the pod, or set spec.etcd.updateStrategy to Restart, or the annotation druid.gardener.cloud/update-strategy if the spec has no update strategy"))
		},
		Entry("at the first request", podOf("test-0")),
		Entry("of the temporary member", podOf("test-1")),
		Entry("after an earlier drain", podOf("test-0", requested(20*time.Minute+time.Second))),
		Entry("with an annotation that is no time", podOf("test-0", annotated("soon"))),
		Entry("with an annotation in the future", podOf("test-0", requested(-time.Hour))),
	)

	DescribeTable("rejects the next requests of the same drain for ten minutes",
		func(ago time.Duration, until string) {
			decision := eviction.Decide(request(podOf("test-0", requested(ago)), singleMember()))
			Expect(decision.Allowed).To(BeFalse())
			Expect(decision.Annotates).To(BeFalse())
			Expect(decision.Code).To(BeEquivalentTo(429))
			Expect(decision.Message).To(ContainSubstring("until " + until + "."))
		},
		Entry("at once", time.Duration(0), "2026-03-01T12:10:00Z"),
		Entry("a moment before the end", 10*time.Minute-time.Second, "2026-03-01T12:00:01Z"),
	)

	DescribeTable("ends the drain of the node of the replaced pod",
		func(change func(*eviction.Request), code int32) {
			r := request(podOf("test-0", created(time.Minute)), singleMember())
			r.Temporary, r.Node = podOf("test-1", created(2*time.Minute)), &corev1.Node{}
			change(&r)
			Expect(eviction.Decide(r).Code).To(Equal(code))
		},
		Entry("if the new pod is on a node that accepts pods", func(*eviction.Request) {}, int32(404)),
		Entry("while the new pod is not ready", func(r *eviction.Request) { notReady(r.Pod) }, int32(404)),
		Entry("if the node has a taint that only prefers other nodes", func(r *eviction.Request) {
			r.Node.Spec.Taints = []corev1.Taint{{Effect: corev1.TaintEffectPreferNoSchedule}}
		}, int32(404)),
		Entry("if the pod tolerates the taint of the node", func(r *eviction.Request) {
			r.Node.Spec.Taints = []corev1.Taint{{Key: "etcd", Effect: corev1.TaintEffectNoSchedule}}
			r.Pod.Spec.Tolerations = []corev1.Toleration{{Key: "etcd", Operator: corev1.TolerationOpExists}}
		}, int32(404)),
		Entry("but not if the new node is cordoned", func(r *eviction.Request) { r.Node.Spec.Unschedulable = true }, int32(429)),
		Entry("but not if the new node has a taint", func(r *eviction.Request) { r.Node.Spec.Taints = []corev1.Taint{{Effect: corev1.TaintEffectNoSchedule}} }, int32(429)),
		Entry("but not if the new node is unknown", func(r *eviction.Request) { r.Node = nil }, int32(429)),
		Entry("but not if the request has the UID of the new pod", func(r *eviction.Request) { r.UID = r.Pod.UID }, int32(429)),
		Entry("but not before the first member is replaced", func(r *eviction.Request) { created(time.Hour)(r.Pod) }, int32(429)),
		Entry("but not for the temporary member itself", func(r *eviction.Request) { r.Pod = r.Temporary }, int32(429)),
		Entry("but not without a surge", func(r *eviction.Request) { r.Temporary = nil }, int32(429)),
		Entry("after the temporary member is deleted", func(r *eviction.Request) { r.Temporary, r.Surge = nil, completed(r.Pod.UID, 5*time.Minute) }, int32(404)),
		Entry("while the temporary member is being deleted", func(r *eviction.Request) {
			r.Temporary, r.Surge = nil, completed(r.Pod.UID, time.Minute)
			r.Surge.Phase = state.SurgeCleanUp
		}, int32(404)),
		Entry("but not long after the surge", func(r *eviction.Request) {
			r.Temporary, r.Surge = nil, completed(r.Pod.UID, 5*time.Minute+time.Second)
		}, int32(429)),
		Entry("but not if the surge has created another pod", func(r *eviction.Request) { r.Temporary, r.Surge = nil, completed("another", time.Minute) }, int32(429)),
		Entry("but not if the surge was aborted", func(r *eviction.Request) {
			r.Temporary, r.Surge = nil, completed(r.Pod.UID, time.Minute)
			r.Surge.Phase = state.SurgeAborted
		}, int32(429)),
		Entry("but not if the surge ends without a replacement", func(r *eviction.Request) {
			r.Temporary, r.Surge = nil, completed(r.Pod.UID, time.Minute)
			r.Surge.Phase, r.Surge.Revision = state.SurgeCleanUp, "revision"
		}, int32(429)),
		Entry("but not after the surge if the new node is cordoned", func(r *eviction.Request) {
			r.Temporary, r.Surge, r.Node.Spec.Unschedulable = nil, completed(r.Pod.UID, time.Minute), true
		}, int32(429)),
	)
})
