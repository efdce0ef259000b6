// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package gardenlet_test

import (
	"context"
	"net/http"
	"time"

	"github.com/Masterminds/semver/v3"
	upstreamv1alpha1 "github.com/gardener/etcd-druid/api/core/v1alpha1"
	"github.com/gardener/etcd-druid/api/validation"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	gardeneretcd "github.com/gardener/gardener/pkg/component/etcd/etcd"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	vpaautoscalingv1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("gardenlet as the client", func() {
	var version = semver.MustParse("1.34.0")

	component := func(p *controlPlane, manager secretsmanager.Interface, mutate func(*gardeneretcd.Values)) gardeneretcd.Interface {
		values := gardeneretcd.Values{
			Replicas: new(int32(1)), StorageCapacity: "10Gi", DefragmentationSchedule: new("1 2 * * *"), PriorityClassName: "gardener-system-500",
			RuntimeKubernetesVersion: version,
			MaintenanceTimeWindow:    gardencorev1beta1.MaintenanceTimeWindow{Begin: "010000+0000", End: "020000+0000"},
		}
		mutate(&values)
		return gardeneretcd.New(logf.Log, seed, p.namespace, manager, values)
	}
	events := func(values *gardeneretcd.Values) { values.Role, values.Class = "events", gardeneretcd.ClassNormal }
	main := func(p *controlPlane, highlyAvailable bool) func(*gardeneretcd.Values) {
		return func(values *gardeneretcd.Values) {
			values.Role, values.Class, values.HighAvailabilityEnabled = "main", gardeneretcd.ClassImportant, highlyAvailable
			values.BackupConfig = &gardeneretcd.BackupConfig{
				Provider: "local", Container: "bucket", SecretRefName: "etcd-backup", Prefix: p.entry, FullSnapshotSchedule: "12 1 * * *",
				DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: 360 * time.Hour},
			}
		}
	}
	// selects expects that the selectors of the objects of gardenlet match the objects of the Etcd.
	selects := func(ctx context.Context, p *controlPlane, name string) {
		GinkgoHelper()
		var monitor *monitoringv1.ServiceMonitor
		monitors := &monitoringv1.ServiceMonitorList{}
		Expect(seed.List(ctx, monitors, client.InNamespace(p.namespace))).To(Succeed())
		for _, found := range monitors.Items {
			if found.Spec.Selector.MatchLabels["app.kubernetes.io/part-of"] == name {
				monitor = &found
			}
		}
		Expect(monitor).NotTo(BeNil())
		selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
		Expect(err).NotTo(HaveOccurred())
		services := &corev1.ServiceList{}
		Expect(seed.List(ctx, services, client.InNamespace(p.namespace), client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
		Expect(services.Items).To(HaveLen(1))
		for _, endpoint := range monitor.Spec.Endpoints {
			Expect(services.Items[0].Spec.Ports).To(ContainElement(HaveField("Name", endpoint.Port)))
		}
		Expect(services.Items[0].Spec.Ports).To(ContainElement(HaveField("Port", BeEquivalentTo(2380))), "network policies open the peer port by this Service")
		Expect(services.Items[0].Annotations).To(HaveKey("networking.resources.gardener.cloud/from-all-scrape-targets-allowed-ports"))
		Expect(services.Items[0].Annotations["networking.resources.gardener.cloud/namespace-selectors"]).To(ContainSubstring("garden"))

		vpa := &vpaautoscalingv1.VerticalPodAutoscaler{}
		Expect(seed.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, vpa)).To(Succeed())
		etcd := &druidv1alpha1.Etcd{}
		p.get(ctx, Default, etcd, vpa.Spec.TargetRef.Name)
		statefulSet := &appsv1.StatefulSet{}
		p.get(ctx, Default, statefulSet, name)
		Expect(metav1.IsControlledBy(statefulSet, etcd)).To(BeTrue(), "VPA follows the owner references from the pod to the Etcd")
		podSelector, err := labels.Parse(*etcd.Status.Selector)
		Expect(err).NotTo(HaveOccurred())
		pod := &corev1.Pod{}
		p.get(ctx, Default, pod, name+"-0")
		Expect(podSelector.Matches(labels.Set(pod.Labels))).To(BeTrue())
		for _, policy := range vpa.Spec.ResourcePolicy.ContainerPolicies {
			if policy.ContainerName != "*" {
				Expect(pod.Spec.Containers).To(ContainElement(HaveField("Name", policy.ContainerName)))
			}
		}
		Expect(pod.Labels).To(HaveKeyWithValue("networking.gardener.cloud/to-runtime-apiserver", "allowed"))
	}

	// accepted expects that the webhook of the seed accepts the Etcd and has accepted every write of the operator to it.
	accepted := func(ctx context.Context, p *controlPlane, name string) {
		GinkgoHelper()
		etcd := &upstreamv1alpha1.Etcd{}
		Expect(seed.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, etcd)).To(Succeed())
		Expect(etcd.Finalizers).NotTo(BeEmpty(), "the operator has written to it")
		Expect(etcd.Annotations).NotTo(HaveKey("gardener.cloud/operation"), "the operator has written to it")
		Expect(validation.ValidateEtcd(etcd)).To(BeEmpty())
		Expect(operator.in(p.namespace)).To(haveBeenAccepted())
	}

	DescribeTable("deploys, scales and destroys an Etcd",
		func(ctx SpecContext, name string, mutate func(*controlPlane) func(*gardeneretcd.Values)) {
			p := newControlPlane(ctx)
			etcd := component(p, p.secrets(ctx, time.Time{}), mutate(p))

			Expect(etcd.Deploy(ctx)).To(Succeed())
			Expect(etcd.Wait(ctx)).To(Succeed())
			selects(ctx, p, name)
			accepted(ctx, p, name)
			Expect(p.mounted(ctx, Default, name+"-0")).To(HaveKeyWithValue("etcd-ca", HavePrefix("ca-etcd-bundle-")), "the operator uses the Secrets in the spec")

			By("hibernating")
			Eventually(func() error { return etcd.Scale(ctx, 0) }).Should(Succeed())
			Expect(etcd.Wait(ctx)).To(Succeed())
			Eventually(func() error {
				return env.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name + "-0"}, &corev1.Pod{})
			}).Should(MatchError(apierrors.IsNotFound, "is not found"))

			By("waking up")
			Expect(etcd.Scale(ctx, 1)).To(Succeed())
			Expect(etcd.Wait(ctx)).To(Succeed())

			By("deploying again without a change")
			pod := &corev1.Pod{}
			p.get(ctx, Default, pod, name+"-0")
			Expect(etcd.Deploy(ctx)).To(Succeed())
			Expect(etcd.Wait(ctx)).To(Succeed())
			uid := pod.UID
			p.get(ctx, Default, pod, name+"-0")
			Expect(pod.UID).To(Equal(uid))

			By("destroying")
			Expect(etcd.Destroy(ctx)).To(Succeed())
			Eventually(func() error {
				return env.Client.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: name}, &druidv1alpha1.Etcd{})
			}).Should(MatchError(apierrors.IsNotFound, "is not found"))
			Expect(operator.in(p.namespace)).To(haveBeenAccepted(), "the webhook also accepts the Etcd without the finalizer")
		},
		Entry("with the class normal", "etcd-events", func(*controlPlane) func(*gardeneretcd.Values) { return events }),
		Entry("with the class important", "etcd-main", func(p *controlPlane) func(*gardeneretcd.Values) { return main(p, false) }),
		Entry("with the class important and peer TLS", "etcd-main", func(p *controlPlane) func(*gardeneretcd.Values) { return main(p, true) }),
	)

	It("rolls out a new peer CA", func(ctx SpecContext) {
		p := newControlPlane(ctx)
		etcd := component(p, p.secrets(ctx, time.Time{}), main(p, true))
		Expect(etcd.Deploy(ctx)).To(Succeed())
		Expect(etcd.Wait(ctx)).To(Succeed())
		before := p.mounted(ctx, Default, "etcd-main-0")

		p.takeSnapshot(ctx, "etcd-main")
		rotated := component(p, p.secrets(ctx, time.Now()), main(p, true))
		Expect(rotated.RolloutPeerCA(ctx)).To(Succeed())
		Expect(rotated.Wait(ctx)).To(Succeed())
		after := p.mounted(ctx, Default, "etcd-main-0")
		Expect(after["etcd-peer-ca"]).NotTo(Equal(before["etcd-peer-ca"]))
		Expect(after["etcd-peer-server-tls"]).To(Equal(before["etcd-peer-server-tls"]), "the certificates change after the bundle")

		Expect(rotated.Deploy(ctx)).To(Succeed())
		Expect(rotated.Wait(ctx)).To(Succeed())
		Expect(p.mounted(ctx, Default, "etcd-main-0")["etcd-peer-server-tls"]).NotTo(Equal(before["etcd-peer-server-tls"]))
		accepted(ctx, p, "etcd-main")
	})

	It("is validated by the webhook of the seed, which does not know the additional fields", func(ctx SpecContext) {
		p := newControlPlane(ctx)
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "validated"}}
		etcd.Spec.Labels, etcd.Spec.Replicas = map[string]string{"role": "validated"}, 1
		etcd.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "validated"}}
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{Prefix: "somewhere"}
		Expect(env.Client.Create(ctx, etcd)).To(MatchError(And(ContainSubstring("denied the request"), ContainSubstring("spec.backup.store.prefix"))))

		etcd.Spec.Etcd.EnableTLS = new(true)
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: p.entry}, Prefix: p.entry + "/validated"}
		Expect(env.Client.Create(ctx, etcd)).To(Succeed())
	})

	It("replaces the CustomResourceDefinitions without an effect on the cluster", func(ctx SpecContext) {
		p := newControlPlane(ctx)
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "own"}}
		etcd.Spec.Labels, etcd.Spec.Replicas = map[string]string{"role": "own"}, 1
		etcd.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "own"}}
		etcd.Spec.Etcd.EnableTLS = new(true)
		etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: p.entry}, Prefix: p.entry + "/own"}
		Expect(env.Client.Create(ctx, etcd)).To(Succeed())
		ready := func() {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				p.get(ctx, g, etcd, "own")
				g.Expect(etcd.Annotations).NotTo(HaveKey("gardener.cloud/operation"))
				g.Expect(etcd.Status.LastErrors).To(BeEmpty())
				g.Expect(etcd.Status.ObservedGeneration).To(HaveValue(Equal(etcd.Generation)))
				g.Expect(etcd.Status.Ready).To(HaveValue(BeTrue()))
				g.Expect(etcd.Status.Conditions).To(haveCondition("AllMembersUpdated", "True"))
				g.Expect(etcd.Status.Conditions).To(haveCondition("StoreResolved", "True"))
			}).Should(Succeed())
		}
		ready()
		before := p.mounted(ctx, Default, "own-0")
		Expect(before).To(HaveKeyWithValue("etcd-ca", HavePrefix("own-client-ca-bundle-")))

		p.takeSnapshot(ctx, "own")
		crds, err := gardeneretcd.NewCRD(seed, version)
		Expect(err).NotTo(HaveOccurred())
		Expect(crds.Deploy(ctx)).To(Succeed())
		Expect(crds.Wait(ctx)).To(Succeed())

		By("rolling out a change from which the API server prunes the additional fields")
		Eventually(func() error {
			p.get(ctx, Default, etcd, "own")
			metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "gardener.cloud/operation", "reconcile")
			etcd.Spec.Etcd.Metrics = new(druidv1alpha1.MetricsLevel("extensive"))
			return env.Client.Update(ctx, etcd)
		}).Should(Succeed())
		ready()
		Expect(etcd.Spec.Etcd.EnableTLS).To(BeNil(), "it was pruned")
		Expect(etcd.Spec.Backup.Store.BackupEntryRef).To(BeNil(), "it was pruned")

		after := p.mounted(ctx, Default, "own-0")
		Expect(after).To(Equal(before), "TLS is still enabled with the same certificates")
		statefulSet := &appsv1.StatefulSet{}
		p.get(ctx, Default, statefulSet, "own")
		Expect(statefulSet.Spec.Template.Spec.Containers[1].Args).To(ContainElements("--storage-provider=Local", "--store-prefix="+p.entry+"/own"))

		Expect(operator.in(p.namespace)).To(haveBeenAccepted(), "the webhook of the seed")

		By("reconciling an Etcd of gardenlet")
		main := component(p, p.secrets(ctx, time.Time{}), main(p, false))
		Expect(main.Deploy(ctx)).To(Succeed())
		Expect(main.Wait(ctx)).To(Succeed())
	})
})

// haveBeenAccepted matches HTTP status codes of writes if some succeeded and none was rejected. Conflicts and missing objects are ignored.
func haveBeenAccepted() gomegatypes.GomegaMatcher {
	return And(ContainElement(http.StatusOK), HaveEach(BeElementOf(http.StatusOK, http.StatusConflict, http.StatusNotFound)))
}

func haveCondition(conditionType, status string) gomegatypes.GomegaMatcher {
	return ContainElement(And(HaveField("Type", BeEquivalentTo(conditionType)), HaveField("Status", BeEquivalentTo(status))))
}
