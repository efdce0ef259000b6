// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"context"
	"errors"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
	"github.com/gardener/gardener-extension-etcd-druid/test/crash"
)

var _ = Describe("A takeover that is killed at any of its writes", func() {
	garden := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "garden", Name: name} }
	labels := map[string]string{"app": "etcd-druid"}

	// seed simulates gardener-resource-manager, which applies etcd-druid unless its ManagedResource is ignored, and the controller of the
	// Deployment.
	seed := func(ctx context.Context, c client.Client) error {
		resource, deployment := &resourcesv1alpha1.ManagedResource{}, &appsv1.Deployment{}
		if err := errors.Join(c.Get(ctx, ownership.EtcdDruidKey, resource), c.Get(ctx, ownership.EtcdDruidKey, deployment)); err != nil {
			return err
		}
		if resource.Annotations["resources.gardener.cloud/ignore"] != "true" {
			webhooks := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}}
			if err := c.Get(ctx, client.ObjectKeyFromObject(webhooks), webhooks); err != nil {
				if err := c.Create(ctx, webhooks); err != nil {
					return err
				}
			}
			if *deployment.Spec.Replicas == 0 {
				deployment.Spec.Replicas = new(int32(1))
				if err := c.Update(ctx, deployment); err != nil {
					return err
				}
			}
		}
		if *deployment.Spec.Replicas == 0 {
			return client.IgnoreNotFound(c.Delete(ctx, &corev1.Pod{ObjectMeta: garden("etcd-druid-0")}))
		}

		return nil
	}

	It("comes to what it would have come to", func(ctx SpecContext) {
		result, err := crash.Run(ctx, crash.Case{
			Scheme: app.NewScheme(),
			Objects: func() []client.Object {
				pod := &corev1.Pod{ObjectMeta: garden("etcd-druid-0")}
				pod.Labels = labels

				return []client.Object{
					&resourcesv1alpha1.ManagedResource{ObjectMeta: garden("etcd-druid")}, pod,
					&appsv1.Deployment{ObjectMeta: garden("etcd-druid"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}}},
					&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}},
				}
			},
			Start: func(_ context.Context, c client.Client) func(context.Context) error {
				guard := &ownership.Guard{Client: c, TakeOver: true, Hostname: "operator-0", Recorder: events.NewFakeRecorder(1000)}

				return func(ctx context.Context) error {
					if err := guard.Check(ctx); err != nil {
						return err
					}
					pods := &corev1.PodList{}
					if err := c.List(ctx, pods, client.MatchingLabels(labels)); err != nil {
						return err
					}
					if guard.StandbyReason() == "" && len(pods.Items) > 0 {
						return errors.New("the operator acts while a pod of etcd-druid runs")
					}

					return nil
				}
			},
			Others: seed,
			Kinds:  []client.ObjectList{&resourcesv1alpha1.ManagedResourceList{}, &appsv1.DeploymentList{}, &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &corev1.PodList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		Expect(result.Writes).To(Equal([]string{
			"patch *v1alpha1.ManagedResource etcd-druid", "delete *v1.ValidatingWebhookConfiguration etcd-druid", "patch *v1.Deployment etcd-druid",
		}))
		Expect(result.Objects).To(HaveLen(2), "neither the webhook nor a pod of etcd-druid is left")
	})
})
