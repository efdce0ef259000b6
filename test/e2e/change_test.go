// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/landscape"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

const (
	operationAnnotation = "druid.gardener.cloud/operation"
	suspendAnnotation   = "druid.gardener.cloud/suspend-etcd-spec-reconcile"
)

var _ = Describe("A running cluster", func() {
	It("is changed by its spec alone, and not while that is suspended", SpecPriority(8), func(ctx SpecContext) {
		story := seed.Begin(ctx, "change")
		etcd := fixture.Etcd(fixture.WithName("main"))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)

		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 10)
		pod := story.Pod(ctx, etcd)

		By("holding back a change while it is suspended")
		resource, generation := managedResource(ctx, story, etcd), etcd.Generation
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, suspendAnnotation, "")
			etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive"))
		})
		story.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(landscape.Condition(etcd, "Progressing").Reason).To(Equal("Suspended"))
		})
		Consistently(func(g Gomega) {
			g.Expect(story.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
			g.Expect(ptr.Deref(etcd.Status.ObservedGeneration, 0)).To(Equal(generation))
			g.Expect(managedResource(ctx, story, etcd).Spec).To(Equal(resource.Spec))
			g.Expect(story.Pod(ctx, etcd).UID).To(Equal(pod.UID))
		}).WithContext(ctx).WithTimeout(15*time.Second).WithPolling(time.Second).Should(Succeed(), story.State)

		By("carrying it out when it is suspended no more")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { delete(etcd.Annotations, suspendAnnotation) })
		pod = story.EventuallyReplaced(ctx, etcd, pod)
		ledger.ExpectComplete(ctx)

		By("carrying a change out that the operation annotation asks for, and removing the annotation")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
			etcd.Spec.Labels["story"] = "changed"
		})
		pod = story.EventuallyReplaced(ctx, etcd, pod)
		Expect(pod.Labels).To(HaveKeyWithValue("story", "changed"))
		Expect(etcd.Annotations).NotTo(HaveKey(operationAnnotation))
		ledger.ExpectComplete(ctx)

		By("removing the annotation as well when there is nothing to do")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, operationAnnotation, "reconcile")
		})
		story.Eventually(ctx, etcd, func(g Gomega) { g.Expect(etcd.Annotations).NotTo(HaveKey(operationAnnotation)) })
		story.EventuallyReady(ctx, etcd)
		Expect(story.Pod(ctx, etcd).UID).To(Equal(pod.UID))
	}, SpecTimeout(storyTimeout))

	It("is corrected when somebody changes what was made for it", func(ctx SpecContext) {
		story := seed.Begin(ctx, "drift")
		etcd := fixture.Etcd(fixture.WithName("main"))
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)

		pod := story.Pod(ctx, etcd)
		service := &corev1.Service{}
		key := client.ObjectKey{Namespace: story.Namespace, Name: "main-client"}
		Expect(story.Client.Get(ctx, key, service)).To(Succeed())
		want := service.DeepCopy()

		By("changing a port and removing the selector of the Service for clients")
		before := service.DeepCopy()
		service.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
		service.Spec.Selector = map[string]string{"nobody": "here"}
		Expect(story.Client.Patch(ctx, service, client.MergeFrom(before))).To(Succeed())
		story.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(story.Client.Get(ctx, key, service)).To(Succeed())
			g.Expect(service.Spec).To(Equal(want.Spec))
		})

		By("deleting the ConfigMap")
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: story.Namespace, Name: "main-config"}}
		Expect(story.Client.Delete(ctx, configMap)).To(Succeed())
		story.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(story.Client.Get(ctx, client.ObjectKeyFromObject(configMap), configMap)).To(Succeed())
		})
		story.EventuallyReady(ctx, etcd)
		Expect(story.Pod(ctx, etcd).UID).To(Equal(pod.UID), "no pod is replaced for it")
	}, SpecTimeout(storyTimeout))
})
