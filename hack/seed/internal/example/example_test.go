// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package example_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/example"
)

var _ = Describe("FindEtcd", func() {
	It("finds the Etcd among other documents", func() {
		etcd, err := example.FindEtcd([]byte("kind: Secret\nmetadata: {name: s}\n---\nkind: Etcd\nmetadata: {name: e, namespace: ns}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(etcd).To(Equal(example.Etcd{Namespace: "ns", Name: "e"}))
	})

	It("uses the namespace default when the manifest names none", func() {
		etcd, err := example.FindEtcd([]byte("# a comment\n---\nkind: Etcd\nmetadata: {name: e}\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(etcd).To(Equal(example.Etcd{Namespace: "default", Name: "e"}))
	})

	It("returns an error when there is none", func() {
		_, err := example.FindEtcd([]byte("kind: Secret\n"))
		Expect(err).To(MatchError("no document of kind Etcd"))
	})
})

var _ = Describe("DescribePods", func() {
	pod := func(name string, statuses ...corev1.ContainerStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "x"}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: statuses},
		}
	}

	It("names the container that is not ready, and the reason", func(ctx SpecContext) {
		client := fake.NewClientset(pod("x-0",
			corev1.ContainerStatus{Name: "etcd", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImageNeverPull"}}},
			corev1.ContainerStatus{Name: "backup-restore", Ready: true},
		))

		Expect(example.DescribePods(ctx, client, "ns", "app=x")).To(Equal("pod x-0 is ErrImageNeverPull (etcd), 1 of 2 containers ready"))
	})

	It("omits pods that are ready", func(ctx SpecContext) {
		ready := pod("x-0", corev1.ContainerStatus{Name: "etcd", Ready: true})
		ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}

		Expect(example.DescribePods(ctx, fake.NewClientset(ready), "ns", "app=x")).To(Equal("its pods are ready"))
	})

	It("reports that there is no pod", func(ctx SpecContext) {
		Expect(example.DescribePods(ctx, fake.NewClientset(), "ns", "app=x")).To(Equal("no pod yet"))
	})
})
