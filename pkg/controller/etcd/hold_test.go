// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The outdated pod of a single member that is not ready while the store is unreachable", func() {
	It("is deleted by the reconciliation that is due after two minutes, and by none before", func() {
		k := reconciledCluster(1, plaintext, withStore)
		update(relabel)(k)
		drive := startOperator(k, nil)
		for passes := 0; !isOutdated(k); passes++ {
			Expect(passes).To(BeNumerically("<", 30))
			drive.reconcileOnce()
			k.Tick()
		}
		k.Clock.Step(10 * time.Minute) // without a tick no sidecar renews a lease
		setNotReady(k)
		notReadySince := k.Clock.Now()

		for k.Clock.Since(notReadySince) < 2*time.Minute {
			drive.reconcileOnce()
			Expect(drive.err).NotTo(HaveOccurred())
			Expect(memberPod(k).DeletionTimestamp).To(BeNil(), "after %s", k.Clock.Since(notReadySince))
			Expect(drive.due).To(BeTemporally("<=", notReadySince.Add(2*time.Minute)))
			if next := k.Clock.Now().Add(45 * time.Second); drive.due.After(next) { // something else happens meanwhile
				k.Clock.SetTime(next)
			} else {
				k.Clock.SetTime(drive.due)
			}
		}
		drive.reconcileOnce()
		Expect(memberPod(k).DeletionTimestamp).NotTo(BeNil())
	})
})

func memberPod(k *kube.Cluster) *corev1.Pod {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: k.Etcd.Name + "-0"}, pod)).To(Succeed())

	return pod
}

// isOutdated is true when the StatefulSet controller has seen another template than that of the only pod.
func isOutdated(k *kube.Cluster) bool {
	GinkgoHelper()
	set := &appsv1.StatefulSet{}
	Expect(k.Client(nil).Get(context.Background(), k.Etcd, set)).To(Succeed())

	return set.Status.ObservedGeneration == set.Generation && set.Status.UpdateRevision != memberPod(k).Labels[appsv1.StatefulSetRevisionLabel]
}

// setNotReady has the kubelet report that the only pod is not ready.
func setNotReady(k *kube.Cluster) {
	GinkgoHelper()
	pod := memberPod(k)
	for _, conditionType := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
		pod.Status.Conditions[i].Status, pod.Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(k.Clock.Now())
	}
	Expect(k.Client(nil).Status().Update(context.Background(), pod)).To(Succeed())
}
