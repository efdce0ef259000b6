// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"context"
	"errors"
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/gardener-extension-etcd-druid/app"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/ownership"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
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

var _ = Describe("A hand-back that is killed at any of its writes", func() {
	meta := metav1.ObjectMeta{Namespace: "shoot--foo", Name: "main"}

	// applied is the StatefulSet that gardener-resource-manager creates.
	applied := func() *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{ObjectMeta: meta}
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "main", Labels: map[string]string{"resources.gardener.cloud/managed-by": "gardener"}}}}

		return set
	}
	// resourceManager simulates gardener-resource-manager. It applies an unhealthy ManagedResource again only if it is requested to.
	resourceManager := func(ctx context.Context, c client.Client) error {
		resource := &resourcesv1alpha1.ManagedResource{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: meta.Namespace, Name: "druid-main"}, resource); err != nil {
			return client.IgnoreNotFound(err)
		}
		if resource.DeletionTimestamp != nil {
			resource.Finalizers = nil

			return c.Update(ctx, resource)
		}
		if resource.Annotations["gardener.cloud/operation"] != "reconcile" {
			return nil
		}
		delete(resource.Annotations, "gardener.cloud/operation")
		if err := c.Update(ctx, resource); err != nil {
			return err
		}

		return client.IgnoreAlreadyExists(c.Create(ctx, applied()))
	}

	DescribeTable("comes to what it would have come to", func(ctx SpecContext, mode state.TLSMode) {
		result, err := crash.Run(ctx, crash.Case{
			Scheme: app.NewScheme(),
			Status: []client.Object{&druidv1alpha1.Etcd{}},
			Objects: func() []client.Object {
				etcd := &druidv1alpha1.Etcd{ObjectMeta: meta}
				etcd.Generation, etcd.Status.ObservedGeneration, etcd.Spec.Replicas = 2, new(int64(2)), 1
				etcd.Status.Conditions = []druidv1alpha1.Condition{{Type: "AllMembersUpdated", Status: "True"}, {Type: "Reconciled", Status: "False"}}
				druid := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "etcd-druid", Annotations: map[string]string{"resources.gardener.cloud/ignore": "true"}}}
				managed := &resourcesv1alpha1.ManagedResource{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "druid-main", Finalizers: []string{"resources.gardener.cloud/gardener-resource-manager-seed"}}}

				return []client.Object{etcd, druid, managed, applied()}
			},
			Start: func(_ context.Context, c client.Client) func(context.Context) error {
				o := statefulSetObserver{Client: c}
				o.ManagedResource = etcdcluster.ManagedResource{Exists: true, GenerationObserved: true, Applied: etcdcluster.ConditionFact{Status: "True"}}
				o.State = state.State{TLS: state.TLSModes{Client: mode, Peer: mode}}
				handBack := &ownership.HandBack{Client: c, Observer: o, Recorder: events.NewFakeRecorder(1000), Clock: clock.RealClock{}}

				return func(ctx context.Context) error {
					_, err := handBack.RunOnce(ctx)

					return err
				}
			},
			Others: resourceManager,
			Kinds:  []client.ObjectList{&resourcesv1alpha1.ManagedResourceList{}, &appsv1.StatefulSetList{}, &druidv1alpha1.EtcdList{}},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(result.Failures).To(BeEmpty())
		order := slices.DeleteFunc(slices.Clone(result.Writes), func(write string) bool { return strings.HasPrefix(write, "patch") })
		Expect(order).To(HaveExactElements(
			"create *v1.StatefulSet main", // a dry run
			"delete *v1.StatefulSet main", "create *v1.StatefulSet main",
			"delete *v1.Secret managedresource-druid-main", "delete *v1alpha1.ManagedResource druid-main",
		))
		Expect(result.Objects).To(ConsistOf(
			ContainSubstring(`"name":"etcd-druid","namespace":"garden"`), And(HavePrefix("*v1.StatefulSet"), Not(ContainSubstring("managed-by"))), And(HavePrefix("*v1alpha1.Etcd"), Not(ContainSubstring("Reconciled"))),
		))
	},
		Entry("without TLS", state.ModeDisabled),
		Entry("with certificates of the operator, whose names only the StatefulSet has", state.ModeManaged),
	)
})

// statefulSetObserver observes which certificates the StatefulSet mounts, if it exists.
type statefulSetObserver struct {
	etcdcluster.Observation
	Client client.Client
}

func (s statefulSetObserver) Observe(ctx context.Context, etcd *druidv1alpha1.Etcd, _ observer.Request) etcdcluster.Observation {
	o := s.Observation
	if s.Client.Get(ctx, client.ObjectKeyFromObject(etcd), &appsv1.StatefulSet{}) == nil {
		o.StatefulSet.Exists = true
		o.StatefulSet.TLS = etcdcluster.MountedTLS{ClientCA: "ca-1", Server: "server-1", Client: "client-1", PeerCA: "peer-ca-1", Peer: "peer-1"}
	}

	return o
}
