// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The operator pods listen at this port for the kubelet alone. Their NetworkPolicy allows no connection of a pod to it.
const portName = "health"

const (
	// Period is the time between two checks.
	Period = time.Minute
	// settlingTime is how long a pod is ready before it is checked. Some network plugins apply NetworkPolicies after the start of a pod.
	settlingTime = time.Minute
	// reasonNotEnforced is the reason of the event.
	reasonNotEnforced = "NetworkPoliciesNotEnforced"
)

// enforced has no labels. Reset removes the metric while the result is not known.
var enforced = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "etcd_druid_network_policies_enforced",
	Help: "1 if the network plugin rejects a connection that the NetworkPolicy of the operator does not allow, and 0 if the connection succeeds.",
}, nil)

func init() { metrics.Registry.MustRegister(enforced) }

// Monitor checks whether a pod of the operator can connect to another one at a port that their NetworkPolicy rejects. The metric
// etcd_druid_network_policies_enforced has the result. An event of this pod reports that the connection succeeds. With one pod, the result is not known.
type Monitor struct {
	// Reader reads the pods of the operator.
	Reader client.Reader
	// Recorder records the event.
	Recorder events.EventRecorder
	// Clock is the clock.
	Clock clock.PassiveClock
	// Namespace and Selector select the pods of the operator.
	Namespace string
	Selector  labels.Selector
	// PodName is the name of this pod.
	PodName string

	// reported is true if the event was recorded since a connection was last rejected.
	reported bool
}

// NeedLeaderElection returns true: one pod is sufficient.
func (m *Monitor) NeedLeaderElection() bool { return true }

// Start checks in each Period until the context ends.
func (m *Monitor) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, m.check, Period)

	return nil
}

// check checks once. An error changes no result.
func (m *Monitor) check(ctx context.Context) {
	log := logf.FromContext(ctx).WithName("network-policies")
	pods := &corev1.PodList{}
	if err := m.Reader.List(ctx, pods, client.InNamespace(m.Namespace), client.MatchingLabelsSelector{Selector: m.Selector}); err != nil {
		log.Error(err, "Could not read the pods of the operator")

		return
	}
	self, address := targetOf(pods.Items, m.PodName, m.Clock.Now())
	switch {
	case address == "":
		enforced.Reset()
	case !isReachable(ctx, address):
		enforced.WithLabelValues().Set(1)
		m.reported = false
	default:
		enforced.WithLabelValues().Set(0)
		if m.reported {
			return
		}
		m.reported = true
		log.Info("NetworkPolicies have no effect: the network plugin of this cluster does not enforce them", "address", address)
		m.Recorder.Eventf(self, nil, corev1.EventTypeWarning, reasonNotEnforced, "Check",
			"The NetworkPolicy of the operator rejects connections to %s, and one from this pod succeeds. Each pod of the cluster can connect to all members and sidecars. "+
				"Install a network plugin that enforces NetworkPolicies", address)
	}
}

// targetOf returns this pod, and the address at which another pod listens for the kubelet alone. An empty address: no other pod is ready long enough.
func targetOf(pods []corev1.Pod, name string, now time.Time) (*corev1.Pod, string) {
	self, address := &corev1.Pod{}, ""
	for i := range pods {
		pod := &pods[i]
		switch {
		case pod.Name == name:
			self = pod
		case address == "" && isSettled(pod, now):
			address = addressOf(pod)
		}
	}

	return self, address
}

// isSettled is true for a pod that is ready for the settlingTime. Its ports listen, so that only a NetworkPolicy can reject a connection.
func isSettled(pod *corev1.Pod, now time.Time) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil && now.Sub(condition.LastTransitionTime.Time) >= settlingTime
		}
	}

	return false
}

// addressOf returns the address of the port for the kubelet. Empty: the pod has none.
func addressOf(pod *corev1.Pod) string {
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == portName && pod.Status.PodIP != "" {
				return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))
			}
		}
	}

	return ""
}
