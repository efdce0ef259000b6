// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The NetworkPolicies of an Etcd", func() {
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		drive *operator
	)

	policies := func() []networkingv1.NetworkPolicy {
		list := &networkingv1.NetworkPolicyList{}
		must(k.Client(nil).List(ctx, list))
		return list.Items
	}
	// start starts an operator with NetworkPolicies.
	start := func() {
		drive = startOperator(k, nil)
		drive.reconciler.Config.Defaults.NetworkPolicies = &state.NetworkPolicies{Operator: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}}
	}
	requestReconciliation := func() {
		update(func(etcd *druidv1alpha1.Etcd) {
			etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
		})(k)
		drive.due = k.Clock.Now()
		drive.run()
		Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), "%+v", k.EtcdObject().Status)
	}

	It("exist when a reconciliation is requested, without a restart, and go with the configuration", func() {
		k = reconciledCluster(3)
		created := k.PodsCreated
		start()
		drive.run()
		Expect(policies()).To(BeEmpty(), "the accepted generation keeps its defaults")

		requestReconciliation()
		Expect(policies()).To(ConsistOf(HaveField("Name", "main-members"), HaveField("Name", "main-jobs")))
		Expect(policies()).To(HaveEach(HaveField("OwnerReferences", ConsistOf(And(HaveField("Kind", "Etcd"), HaveField("Name", "main"))))))

		By("repairing one that was changed, and one that was deleted")
		for _, policy := range policies() {
			if policy.Name == "main-members" {
				policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
				must(k.Client(nil).Update(ctx, &policy))
			} else {
				must(k.Client(nil).Delete(ctx, &policy))
			}
		}
		drive.due = k.Clock.Now()
		drive.run()
		Expect(policies()).To(HaveLen(2))
		Expect(policies()).To(ContainElement(And(HaveField("Name", "main-members"), HaveField("Spec.Ingress", HaveLen(2)))))

		By("removing them when the operator is configured without them")
		drive = startOperator(k, nil)
		requestReconciliation()
		Expect(policies()).To(BeEmpty())
		Expect(k.PodsCreated).To(Equal(created))
		Expect(k.Violations).To(BeEmpty())
	})

	It("go with the namespace of the operator and with its configuration, without a new generation", func() {
		k = newCluster()
		create(3)(k)
		start()
		drive.run()
		created := k.PodsCreated
		peer := func(namespace string) networkingv1.NetworkPolicyPeer {
			return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}}}
		}
		reach := func() []networkingv1.NetworkPolicyPeer {
			member := &networkingv1.NetworkPolicy{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "main-members"}, member))
			return member.Spec.Ingress[0].From
		}
		restart := func(policies *state.NetworkPolicies) {
			drive = startOperator(k, nil)
			drive.reconciler.Config.Defaults.NetworkPolicies = policies
			drive.run()
			Expect(k.EtcdObject().Status.LastOperation).To(HaveField("State", BeEquivalentTo("Succeeded")), "%+v", k.EtcdObject().Status)
		}
		moved := &state.NetworkPolicies{Operator: []networkingv1.NetworkPolicyPeer{peer("moved")}, Clients: []networkingv1.NetworkPolicyPeer{peer("apps")}}
		restart(moved)
		Expect(reach()).To(And(ContainElement(peer("moved")), Not(ContainElement(networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}))),
			"otherwise the operator reaches no member")
		Expect(policies()).To(HaveEach(Not(HaveField("Spec.Ingress", ContainElement(HaveField("From", ContainElement(peer("apps"))))))), "the other peers are those of the accepted generation")

		By("doing so too while the newest generation is rejected")
		update(func(etcd *druidv1alpha1.Etcd) {
			etcd.Generation++
			etcd.Annotations = map[string]string{"druid.gardener.cloud/operation": "reconcile"}
			etcd.Spec.Etcd.ClientPort = new(int32(70000))
		})(k)
		drive = startOperator(k, nil)
		drive.reconciler.Config.Defaults.NetworkPolicies = &state.NetworkPolicies{Operator: []networkingv1.NetworkPolicyPeer{peer("again")}}
		drive.run()
		Expect(k.EtcdObject().Status.LastErrors).NotTo(BeEmpty())
		Expect(reach()).To(ContainElement(peer("again")))
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.ClientPort = nil })(k)
		restart(drive.reconciler.Config.Defaults.NetworkPolicies)
		Expect(k.EtcdObject().Annotations).To(BeEmpty())

		By("removing them while they are disabled, because the operator may then not write them, and creating them again")
		restart(nil)
		Expect(policies()).To(BeEmpty())
		restart(moved)
		Expect(reach()).To(ContainElement(peer("moved")))
		Expect(k.PodsCreated).To(Equal(created))
		Expect(k.Violations).To(BeEmpty())
	})

	It("are deleted with the Etcd", func() {
		k = newCluster()
		create(1)(k)
		start()
		drive.run()
		Expect(policies()).To(HaveLen(2))
		deleteEtcd(k)
		drive = startOperator(k, nil)
		drive.run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(policies()).To(BeEmpty())
	})

	It("are refused where a NetworkPolicy of another owner has the name, which stays", func() {
		k = newCluster()
		foreign := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: k.Etcd.Namespace, Name: "main-members"}}
		must(k.Client(nil).Create(ctx, foreign))
		create(1)(k)
		start()
		drive.run()
		Expect(k.EtcdObject().Status.LastErrors).To(ConsistOf(HaveField("Description", ContainSubstring("NetworkPolicy main-members in namespace"))))
		deleteEtcd(k)
		drive.run()
		Expect(k.EtcdObject()).To(BeNil())
		must(k.Client(nil).Get(ctx, client.ObjectKeyFromObject(foreign), foreign))
	})
})
