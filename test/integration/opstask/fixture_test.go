// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// lastMember is the last used member ID. IDs and addresses of members are unique in a spec.
var lastMember uint64

// newEtcd creates an Etcd with the number of healthy members.
func newEtcd(replicas int32, options ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	GinkgoHelper()
	namespace := env.Namespace(ctx, "opstask")
	etcd := fixture.Etcd(append([]func(*druidv1alpha1.Etcd){fixture.WithNamespace(namespace), fixture.WithStore("S3"), fixture.WithReplicas(replicas)}, options...)...)
	etcd.UID, etcd.Generation = "", 0
	Expect(env.Client.Create(ctx, etcd)).To(Succeed())
	for ordinal := range replicas {
		lastMember++
		address := fmt.Sprintf("10.1.0.%d", lastMember)
		name := fmt.Sprintf("test-%d", ordinal)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{
				"app.kubernetes.io/managed-by": "etcd-druid", "app.kubernetes.io/part-of": "test", "app.kubernetes.io/component": "etcd-statefulset",
			}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "etcd", Image: "etcd"}}},
		}
		Expect(env.Client.Create(ctx, pod)).To(Succeed())
		pod.Status.PodIP, pod.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		Expect(env.Client.Status().Update(ctx, pod)).To(Succeed())
		members.AddMember(lastMember, name, address+":2379")
	}
	setReady(etcd, druidv1alpha1.ConditionTrue)

	return etcd
}

// setReady simulates the care controller, which sets the condition Ready.
func setReady(etcd *druidv1alpha1.Etcd, status druidv1alpha1.ConditionStatus) {
	GinkgoHelper()
	before := etcd.DeepCopy()
	etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "Ready", Status: status, Reason: "Simulated", LastTransitionTime: metav1.Now(), LastUpdateTime: metav1.Now()}}
	Expect(env.Client.Status().Patch(ctx, etcd, client.MergeFrom(before))).To(Succeed())
}

// newTask creates a task for the Etcd.
func newTask(etcd *druidv1alpha1.Etcd, name string, config druidv1alpha1.EtcdOpsTaskConfig, options ...func(*druidv1alpha1.EtcdOpsTask)) *druidv1alpha1.EtcdOpsTask {
	GinkgoHelper()
	task := &druidv1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: etcd.Namespace},
		Spec:       druidv1alpha1.EtcdOpsTaskSpec{EtcdName: &etcd.Name, Config: config},
	}
	for _, option := range options {
		option(task)
	}
	Expect(env.Client.Create(ctx, task)).To(Succeed())

	return task
}

func full() druidv1alpha1.EtcdOpsTaskConfig { return snapshot(druidv1alpha1.OnDemandSnapshotTypeFull) }
func delta() druidv1alpha1.EtcdOpsTaskConfig {
	return snapshot(druidv1alpha1.OnDemandSnapshotTypeDelta)
}

func snapshot(kind druidv1alpha1.OnDemandSnapshotType) druidv1alpha1.EtcdOpsTaskConfig {
	return druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: kind}}
}

// stateOf reads the task and returns its state.
func stateOf(task *druidv1alpha1.EtcdOpsTask) func() string {
	return func() string {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(task), task); err != nil {
			return err.Error()
		}
		if task.Status.State == nil {
			return ""
		}

		return string(*task.Status.State)
	}
}

// operationOf reads the task and returns the description of its last operation.
func operationOf(task *druidv1alpha1.EtcdOpsTask) func() string {
	return func() string {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(task), task); err != nil {
			return err.Error()
		}
		if task.Status.LastOperation == nil {
			return ""
		}

		return task.Status.LastOperation.Description
	}
}
