// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Request is a request to evict a pod, with the objects on which the decision depends.
type Request struct {
	// UID is the UID in the preconditions of the request. Empty: the request names the pod only.
	UID types.UID
	// Pod is the pod with the name in the request. Nil: it does not exist, or it is not the pod of a member.
	Pod *corev1.Pod
	// Etcd is the Etcd of the pod. Nil: it does not exist.
	Etcd *druidv1alpha1.Etcd
	// Temporary is the pod of the temporary second member. Nil: it does not exist.
	Temporary *corev1.Pod
	// Surge is the record of the surge that is in progress, or of the last one. Nil: there is none.
	Surge *state.Surge
	// Node is the node of the pod. Nil: it does not exist. The decision needs it only if a surge may have replaced the pod.
	Node *corev1.Node
	// Time is the current time.
	Time time.Time
}

// Decision is the decision about a request.
type Decision struct {
	// Allowed is true if the webhook does not reject the eviction. A PodDisruptionBudget can still prevent it.
	Allowed bool
	// Annotates is true if the pod has to be annotated with the time of the request. The operator then replaces the member.
	Annotates bool
	// Code is the HTTP status code of a rejection, and StatusReason is its reason in a metav1.Status.
	Code int32
	// StatusReason is the reason that belongs to Code.
	StatusReason metav1.StatusReason
	// Message is why the eviction is allowed, or why it is rejected and what the remedy is.
	Message string
}

// Decide decides about a request. The first matching rule decides:
//
//  1. The operator would not replace the pod by a surge: allowed.
//  2. A surge has replaced the pod whose eviction was requested first: rejected as not found.
//  3. The pod is not ready: allowed.
//  4. The eviction has waited for the whole etcdcluster.EvictionTimeout: allowed.
//  5. Otherwise: rejected. The first request annotates the pod.
//
// The rules are the same for both members during a surge. Two members vote then, and the PodDisruptionBudget allows no eviction. An eviction of
// the temporary member waits in the same way until the surge removes that member.
func Decide(r Request) Decision {
	if exempt := exemption(r); exempt != "" {
		return Decision{Allowed: true, Message: exempt}
	}
	if isReplacement(r) {
		return Decision{
			Code: http.StatusNotFound, StatusReason: metav1.StatusReasonNotFound,
			Message: fmt.Sprintf("the operator has replaced pod %s/%s since its eviction was requested: the new pod runs on node %s, which accepts pods", r.Pod.Namespace, r.Pod.Name, r.Pod.Spec.NodeName),
		}
	}
	if !isReady(r.Pod) {
		return Decision{Allowed: true, Message: "the pod is not ready"}
	}
	requested, annotates := requestedAt(r)
	ends := requested.Add(etcdcluster.EvictionTimeout)
	if !r.Time.Before(ends) {
		return Decision{Allowed: true, Message: fmt.Sprintf("the operator did not replace the member within %s", etcdcluster.EvictionTimeout)}
	}

	return Decision{
		Annotates: annotates, Code: http.StatusTooManyRequests, StatusReason: metav1.StatusReasonTooManyRequests,
		Message: fmt.Sprintf("the operator replaces the only member of Etcd %s/%s through a temporary second member: the eviction waits for this until %s."+
			" To evict the pod without this delay, delete the pod, or set spec.etcd.updateStrategy to %s, or the annotation %s if the spec has no update strategy",
			r.Etcd.Namespace, r.Etcd.Name, ends.UTC().Format(time.RFC3339), druidv1alpha1.UpdateStrategyRestart, druidv1alpha1.UpdateStrategyAnnotation),
	}
}

// exemption returns why the operator would not replace the pod by a surge. Empty: it would.
func exemption(r Request) string {
	switch {
	case !isMember(r.Pod):
		return "not the pod of a member of an Etcd"
	case r.UID != "" && r.UID != r.Pod.UID:
		return "the request has the UID of another pod"
	case r.Pod.DeletionTimestamp != nil:
		return "the pod is being deleted"
	case r.Etcd == nil || r.Etcd.DeletionTimestamp != nil:
		return "the Etcd does not exist or is being deleted"
	case r.Etcd.Spec.Replicas != 1:
		return "the Etcd does not have exactly one member"
	case !helper.UsesSurge(r.Etcd):
		return "the Etcd does not have the update strategy " + string(druidv1alpha1.UpdateStrategySurge)
	case helper.IsSuspended(r.Etcd):
		return "the reconciliation of the Etcd is suspended"
	}

	return ""
}

// isMember is true for the pod of a member.
func isMember(pod *corev1.Pod) bool {
	return pod != nil && pod.Labels[druidv1alpha1.LabelManagedByKey] == druidv1alpha1.LabelManagedByValue &&
		pod.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameStatefulSet
}

// replacedTime is how long after the last phase of a surge has begun a request concerns the pod that the surge has replaced. A client repeats a
// rejected eviction within seconds.
const replacedTime = 5 * time.Minute

// isReplacement is true for a pod that a surge has created in place of another one with the same name. It is true while the temporary member exists, and
// for replacedTime.
//
// A client that drains a node repeats a rejected eviction with the name of the pod only. It would evict the new pod on another node, and cause one
// surge after the other. It considers a pod that is not found as evicted. If the new node is drained too, the eviction concerns the new pod.
func isReplacement(r Request) bool {
	return r.UID == "" && (isYoungerThanTemporary(r) || isOfRecentSurge(r)) && acceptsPod(r.Node, r.Pod)
}

func isYoungerThanTemporary(r Request) bool {
	return r.Temporary != nil && r.Temporary.UID != r.Pod.UID && r.Temporary.CreationTimestamp.Before(&r.Pod.CreationTimestamp)
}

// isOfRecentSurge is true if the operator has recorded the pod as the new one of a surge that has ended or is about to.
func isOfRecentSurge(r Request) bool {
	surge := r.Surge
	if surge == nil || surge.Pod != r.Pod.UID || surge.Revision != "" || r.Time.Sub(surge.Since) > replacedTime {
		return false
	}

	return surge.Phase == state.SurgeEnd || surge.Phase == state.SurgeCleanUp || surge.Phase == state.SurgeComplete
}

// acceptsPod is false for a node that is cordoned or has a taint that the pod does not tolerate, as a node that is drained.
func acceptsPod(node *corev1.Node, pod *corev1.Pod) bool {
	return node != nil && !node.Spec.Unschedulable && !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, func(toleration corev1.Toleration) bool {
			return toleration.ToleratesTaint(klog.Background(), &taint, false)
		})
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// requestedAt returns when the eviction was requested first. If the pod has no annotation of the same drain, it is the time of this
// request, and true. Such an annotation is missing, is no time, is in the future, or is older than two timeouts.
func requestedAt(r Request) (time.Time, bool) {
	requested, err := time.Parse(time.RFC3339, r.Pod.Annotations[druidv1alpha1.PodAnnotationEvictionRequested])
	age := r.Time.Sub(requested)
	if err != nil || age < 0 || age > 2*etcdcluster.EvictionTimeout {
		return r.Time, true
	}

	return requested, false
}
