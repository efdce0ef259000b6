// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"slices"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/resourcemanager/controller/networkpolicy"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// member returns the pod of a member with the labels of gardenlet, and with those with which the Services select it.
func member(name string, selecting map[string]string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "test-ns", Name: name, Labels: map[string]string{
		"networking.resources.gardener.cloud/to-test-client-tcp-2379": "allowed",
		"networking.resources.gardener.cloud/to-test-client-tcp-2380": "allowed",
		"networking.resources.gardener.cloud/to-test-client-tcp-8080": "allowed",
		"statefulset.kubernetes.io/pod-name":                          name,
	}}}
	for key, value := range selecting {
		if _, is := pod.Labels[key]; !is {
			pod.Labels[key] = value
		}
	}

	return pod
}

var _ = DescribeTable("In a seed, a pod that the client Service does not select is reached by other members and by the operator", func(ctx SpecContext, change func(*etcd.Input), exclude func(*corev1.Pod)) {
	in := etcd.Input{Etcd: fixture.Etcd(fixture.WithReplicas(3), func(e *druidv1alpha1.Etcd) {
		e.Spec.Etcd.ClientService = &druidv1alpha1.ClientService{Annotations: map[string]string{
			resourcesv1alpha1.NetworkingNamespaceSelectors:             `[{"matchLabels":{"kubernetes.io/metadata.name":"garden"}}]`,
			resourcesv1alpha1.NetworkingPodLabelSelectorNamespaceAlias: "all-shoots",
		}}
	}), Replicas: 3, ClusterSize: 3}
	change(&in)
	values, err := etcd.ValuesFor(in)
	Expect(err).NotTo(HaveOccurred())
	objects, err := etcd.Objects(values)
	Expect(err).NotTo(HaveOccurred())
	service := func(name string) *corev1.Service {
		return objects[slices.IndexFunc(objects, func(o client.Object) bool { return o.GetName() == name })].(*corev1.Service)
	}
	excluded, other := member("test-2", service("test-client").Spec.Selector), member("test-0", service("test-client").Spec.Selector)
	exclude(excluded)
	Expect(labels.SelectorFromSet(service("test-client").Spec.Selector).Matches(labels.Set(excluded.Labels))).To(BeFalse())
	operator := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: "operator", Labels: map[string]string{
		"networking.resources.gardener.cloud/to-all-shoots-test-client-tcp-2379": "allowed",
		"networking.resources.gardener.cloud/to-all-shoots-test-client-tcp-8080": "allowed",
	}}}
	namespace := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}}
	}
	c := fakeclient.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(service("test-client"), service("test-peer"), excluded, other, operator, namespace("test-ns"), namespace("garden")).Build()
	r := &networkpolicy.Reconciler{TargetClient: c, Recorder: events.NewFakeRecorder(10)}
	for _, name := range []string{"test-client", "test-peer"} {
		_, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "test-ns", Name: name}})
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(allowed(ctx, c, other, excluded)).To(Equal("2379 2380 8080"), "as to a pod that is selected")
	Expect(allowed(ctx, c, other, other)).To(Equal("2379 2380 8080"))
	Expect(allowed(ctx, c, operator, excluded)).To(Equal("2379 8080"))
},
	Entry("while it is excluded", func(in *etcd.Input) { in.ExcludesPods = true }, func(pod *corev1.Pod) { pod.Labels["app.kubernetes.io/name"] = "excluded-from-clients" }),
	Entry("while a scale-in removes its member", func(in *etcd.Input) { in.Remaining = 1 }, func(pod *corev1.Pod) { delete(pod.Labels, "etcd-druid.extensions.gardener.cloud/accepts-clients") }),
	Entry("during a surge", func(in *etcd.Input) { in.PodSize, in.ServiceMember = 1, new(int32(0)) }, func(*corev1.Pod) {}),
)

// allowed returns the ports at which the NetworkPolicies allow connections from one pod to another: both as egress and as ingress.
func allowed(ctx context.Context, c client.Client, from, to *corev1.Pod) string {
	GinkgoHelper()
	policies := &networkingv1.NetworkPolicyList{}
	Expect(c.List(ctx, policies)).To(Succeed())
	ingress, egress := map[string]bool{}, map[string]bool{}
	for _, policy := range policies.Items {
		for _, rule := range policy.Spec.Ingress {
			if matches(ctx, c, policy.Namespace, networkingv1.NetworkPolicyPeer{PodSelector: &policy.Spec.PodSelector}, to) && slices.ContainsFunc(rule.From, func(peer networkingv1.NetworkPolicyPeer) bool { return matches(ctx, c, policy.Namespace, peer, from) }) {
				ingress[rule.Ports[0].Port.String()] = true
			}
		}
		for _, rule := range policy.Spec.Egress {
			if matches(ctx, c, policy.Namespace, networkingv1.NetworkPolicyPeer{PodSelector: &policy.Spec.PodSelector}, from) && slices.ContainsFunc(rule.To, func(peer networkingv1.NetworkPolicyPeer) bool { return matches(ctx, c, policy.Namespace, peer, to) }) {
				egress[rule.Ports[0].Port.String()] = true
			}
		}
	}
	var ports []string
	for port := range ingress {
		if egress[port] {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)

	return strings.Join(ports, " ")
}

// matches is true for a pod that a peer in a NetworkPolicy of a namespace selects.
func matches(ctx context.Context, c client.Client, namespace string, peer networkingv1.NetworkPolicyPeer, pod *corev1.Pod) bool {
	GinkgoHelper()
	pods, err := metav1.LabelSelectorAsSelector(peer.PodSelector)
	Expect(err).NotTo(HaveOccurred())
	if peer.NamespaceSelector == nil {
		return pod.Namespace == namespace && pods.Matches(labels.Set(pod.Labels))
	}
	namespaces, err := metav1.LabelSelectorAsSelector(peer.NamespaceSelector)
	Expect(err).NotTo(HaveOccurred())
	found := &corev1.Namespace{}
	Expect(c.Get(ctx, client.ObjectKey{Name: pod.Namespace}, found)).To(Succeed())

	return namespaces.Matches(labels.Set(found.Labels)) && pods.Matches(labels.Set(pod.Labels))
}
