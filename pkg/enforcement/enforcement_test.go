// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// listen returns a port at which something listens until the end of the test, and one at which nothing does.
func listen() (int, int) {
	GinkgoHelper()
	ports := [2]int{}
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		ports[i] = listener.Addr().(*net.TCPAddr).Port
		if i == 1 {
			Expect(listener.Close()).To(Succeed())
		} else {
			DeferCleanup(listener.Close)
		}
	}

	return ports[0], ports[1]
}

var _ = Describe("Verify", func() {
	DescribeTable("compares the connections with the NetworkPolicies", func(allowed, rejected func(open, closed string) string, expected string) {
		open, closed := listen()
		address := func(of func(string, string) string) string {
			return of("127.0.0.1:"+strconv.Itoa(open), "127.0.0.1:"+strconv.Itoa(closed))
		}
		err := Verify(context.Background(), address(allowed), address(rejected), time.Millisecond)
		if expected == "" {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(MatchError(ContainSubstring(expected)))
		}
	},
		Entry("which are enforced", first, second, ""),
		Entry("which are not enforced", first, first, "does not enforce NetworkPolicies"),
		Entry("if the allowed connection fails", second, second, "no connection"),
	)
})

func first(open, _ string) string { return open }

func second(_, closed string) string { return closed }

// measured returns the values of the metric that Prometheus would read.
func measured() []float64 {
	GinkgoHelper()
	registry := prometheus.NewRegistry()
	Expect(registry.Register(enforced)).To(Succeed())
	families, err := registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var values []float64
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			values = append(values, metric.GetGauge().GetValue())
		}
	}

	return values
}

var _ = Describe("Monitor", func() {
	now := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)
	pod := func(name string, port int, readySince time.Time) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "operator", Name: name, Labels: map[string]string{"app": "operator"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 1}, {Name: "health", ContainerPort: int32(port)}}}}}, // #nosec G115 -- a port
			Status: corev1.PodStatus{PodIP: "127.0.0.1", Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(readySince)},
			}},
		}
	}
	var recorder *events.FakeRecorder
	monitorOf := func(pods ...client.Object) *Monitor {
		recorder = events.NewFakeRecorder(10)
		enforced.Reset()

		return &Monitor{
			Reader: fake.NewClientBuilder().WithObjects(pods...).Build(), Recorder: recorder, Clock: testclock.NewFakePassiveClock(now),
			Namespace: "operator", Selector: labels.SelectorFromSet(labels.Set{"app": "operator"}), PodName: "self",
		}
	}

	It("reports once that another pod can be reached, until it cannot", func(ctx SpecContext) {
		open, closed := listen()
		other := pod("other", open, now.Add(-time.Hour))
		monitor := monitorOf(pod("self", closed, now.Add(-time.Hour)), other)
		monitor.check(ctx)
		monitor.check(ctx)
		Expect(measured()).To(Equal([]float64{0}))
		Expect(recorder.Events).To(Receive(HavePrefix("Warning NetworkPoliciesNotEnforced")))
		Expect(recorder.Events).NotTo(Receive())

		writer := monitor.Reader.(client.Client)
		other.Spec.Containers[0].Ports[1].ContainerPort = int32(closed) // #nosec G115 -- a port
		Expect(writer.Update(ctx, other)).To(Succeed())
		monitor.check(ctx)
		Expect(measured()).To(Equal([]float64{1}))
		Expect(recorder.Events).NotTo(Receive())

		other.Spec.Containers[0].Ports[1].ContainerPort = int32(open) // #nosec G115 -- a port
		Expect(writer.Update(ctx, other)).To(Succeed())
		monitor.check(ctx)
		Expect(measured()).To(Equal([]float64{0}))
		Expect(recorder.Events).To(Receive())
	})

	It("knows nothing without another pod that is ready for a minute", func(ctx SpecContext) {
		open, _ := listen()
		monitor := monitorOf(pod("self", open, now.Add(-time.Hour)), pod("new", open, now.Add(-time.Second)))
		enforced.WithLabelValues().Set(1)
		monitor.check(ctx)
		Expect(measured()).To(BeEmpty())
		Expect(recorder.Events).NotTo(Receive())
	})

	It("keeps the last result after an error", func(ctx SpecContext) {
		monitor := monitorOf()
		enforced.WithLabelValues().Set(1)
		monitor.Reader = interceptor.NewClient(monitor.Reader.(client.WithWatch), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no connection")
		}})
		monitor.check(ctx)
		Expect(measured()).To(Equal([]float64{1}))
	})
})
