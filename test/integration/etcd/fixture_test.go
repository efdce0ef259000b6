// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// newEtcd returns an Etcd with one member, without TLS and without a store. The functions change it.
func newEtcd(namespace string, mutate ...func(*druidv1alpha1.Etcd)) *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"},
		Spec:       druidv1alpha1.EtcdSpec{Labels: map[string]string{"role": "main"}, Replicas: 1},
	}
	for _, m := range mutate {
		m(etcd)
	}
	return etcd
}

// testEtcd is an Etcd in its own namespace.
type testEtcd struct {
	namespace string
	etcd      *druidv1alpha1.Etcd
}

func create(ctx context.Context, mutate ...func(*druidv1alpha1.Etcd)) *testEtcd {
	GinkgoHelper()
	s := &testEtcd{namespace: env.Namespace(ctx, "etcd")}
	s.create(ctx, mutate...)
	return s
}

func (s *testEtcd) create(ctx context.Context, mutate ...func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	s.etcd = newEtcd(s.namespace, mutate...)
	Expect(env.Client.Create(ctx, s.etcd)).To(Succeed())
}

// update updates the Etcd like a user, with retries on conflicts.
func (s *testEtcd) update(ctx context.Context, mutate func(*druidv1alpha1.Etcd)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), s.etcd); err != nil {
			return err
		}
		mutate(s.etcd)
		return env.Client.Update(ctx, s.etcd)
	}).Should(Succeed())
}

// read reads the Etcd again.
func (s *testEtcd) read(ctx context.Context, g Gomega) *druidv1alpha1.Etcd {
	etcd := &druidv1alpha1.Etcd{}
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(s.etcd), etcd)).To(Succeed())
	return etcd
}

func (s *testEtcd) get(ctx context.Context, g Gomega, obj client.Object, name string) {
	g.Expect(env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, obj)).To(Succeed())
}

func (s *testEtcd) managedResource(ctx context.Context, g Gomega) *resourcesv1alpha1.ManagedResource {
	mr := &resourcesv1alpha1.ManagedResource{}
	s.get(ctx, g, mr, "druid-main")
	return mr
}

func (s *testEtcd) statefulSet(ctx context.Context, g Gomega) *appsv1.StatefulSet {
	statefulSet := &appsv1.StatefulSet{}
	s.get(ctx, g, statefulSet, "main")
	return statefulSet
}

func (s *testEtcd) pod(ctx context.Context, g Gomega) *corev1.Pod {
	pod := &corev1.Pod{}
	s.get(ctx, g, pod, "main-0")
	return pod
}

// awaitReady waits like gardenlet until the newest generation is reconciled and all members are ready.
func (s *testEtcd) awaitReady(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		etcd := s.read(ctx, g)
		g.Expect(etcd.Status.LastErrors).To(BeEmpty())
		g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)))
		g.Expect(etcd.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
		g.Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"))
		if etcd.Spec.Replicas > 0 { // during hibernation the condition does not change
			g.Expect(etcd.Status.Conditions).To(haveCondition("AllMembersUpdated", "True", "AllMembersUpdated"))
		}
		g.Expect(etcd.Status.Ready).To(HaveValue(BeTrue()))
		g.Expect(etcd.Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")))
	}).Should(Succeed())
}

// haveCondition matches a list that contains a condition with the type, status, reason, and parts of its message.
func haveCondition(conditionType, status, reason string, message ...string) gomegatypes.GomegaMatcher {
	matchers := []gomegatypes.GomegaMatcher{
		HaveField("Type", BeEquivalentTo(conditionType)),
		HaveField("Status", BeEquivalentTo(status)),
		HaveField("Reason", reason),
	}
	for _, part := range message {
		matchers = append(matchers, HaveField("Message", ContainSubstring(part)))
	}
	return ContainElement(And(matchers...))
}

// events returns all events about the Etcd, each as "type reason: message".
func (s *testEtcd) events(ctx context.Context, g Gomega) []string {
	events := &corev1.EventList{}
	g.Expect(env.Client.List(ctx, events, client.InNamespace(s.namespace))).To(Succeed())
	var notes []string
	for _, event := range events.Items {
		if event.InvolvedObject.Name == "main" && event.InvolvedObject.Kind == "Etcd" {
			notes = append(notes, event.Type+" "+event.Reason+": "+event.Message)
		}
	}
	return notes
}

// expectEvent waits for an event about the Etcd that begins with the text. The operator writes events after the action.
func (s *testEtcd) expectEvent(ctx context.Context, beginning string) {
	GinkgoHelper()
	Eventually(func(g Gomega) { g.Expect(s.events(ctx, g)).To(ContainElement(HavePrefix(beginning))) }).Should(Succeed())
}

// expectUnchanged expects that the operator does not write the objects for two seconds.
func expectUnchanged(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	written := map[client.Object]any{}
	for _, obj := range objects {
		Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		written[obj] = writtenByOperator(obj)
	}
	Consistently(func(g Gomega) {
		for obj, before := range written {
			g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
			g.Expect(writtenByOperator(obj)).To(Equal(before), "%T %s was written", obj, obj.GetName())
		}
	}, 2*time.Second, 100*time.Millisecond).Should(Succeed())
}

// writtenByOperator returns a value that changes when the operator writes the object. This is not the resource version of a
// ManagedResource, because gardener-resource-manager writes its status.
func writtenByOperator(obj client.Object) any {
	if mr, ok := obj.(*resourcesv1alpha1.ManagedResource); ok {
		return []any{mr.UID, mr.Generation, mr.Annotations, mr.Labels}
	}
	return obj.GetResourceVersion()
}

func newForeignManagedResource(namespace string) *resourcesv1alpha1.ManagedResource {
	return &resourcesv1alpha1.ManagedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "druid-main", Labels: map[string]string{"origin": "other"}},
		Spec:       resourcesv1alpha1.ManagedResourceSpec{Class: new("other"), SecretRefs: []corev1.LocalObjectReference{{Name: "x"}}},
	}
}
