// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// count is how many events begin with a reason.
func (o *operator) count(reason string) int {
	return len(slices.DeleteFunc(slices.Clone(o.events), func(event string) bool { return !strings.HasPrefix(event, reason+": ") }))
}

// selector returns the selector of the Service for clients, and sets a further key if there is a value.
func selector(k *kube.Cluster, value string) map[string]string {
	GinkgoHelper()
	ctx, service := context.Background(), &corev1.Service{}
	service.Namespace, service.Name = k.Etcd.Namespace, k.Etcd.Name+"-client"
	Expect(k.Client(nil).Get(ctx, client.ObjectKeyFromObject(service), service)).To(Succeed())
	if value != "" {
		service.Spec.Selector["x"] = value
		Expect(k.Client(nil).Update(ctx, service)).To(Succeed())
	}
	return service.Spec.Selector
}

var _ = Describe("Two writers of one object", func() {
	It("repairs once in five minutes, also after a restart of the operator", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		Expect(o.count("RepairingDrift")).To(BeZero())

		selector(k, "first")
		o.reconcileOnce()
		k.Tick()
		Expect(selector(k, "")).NotTo(HaveKey("x"))
		repaired := k.Clock.Now()
		Expect(o.count("RepairingDrift")).To(Equal(1))

		By("another writer changes it again while the repair may still be on its way")
		selector(k, "second")
		o.reconcileOnce()
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(o.count("DriftNotRepaired")).To(BeZero())
		Expect(o.due).To(BeTemporally("<=", repaired.Add(30*time.Second)))

		By("reporting it after that, by a new operator too")
		k.Clock.SetTime(repaired.Add(time.Minute))
		o = startOperator(k, nil)
		o.reconcileOnce()
		Expect(o.events).To(ConsistOf(And(HavePrefix("DriftNotRepaired: Waiting to repair again: Service "), ContainSubstring("spec.selector.x"), ContainSubstring("stop it"))))
		Expect(o.due).To(BeTemporally("~", repaired.Add(5*time.Minute), time.Second))
		Expect(selector(k, "")).To(HaveKey("x"))

		By("repairing it when the five minutes have passed")
		o.run()
		Expect(selector(k, "")).NotTo(HaveKey("x"))
		Expect(o.count("RepairingDrift")).To(Equal(1))
		Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Reason", "Reconciled"))))
	})

	It("recreates a Lease once in five minutes", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name = k.Etcd.Namespace, k.Etcd.Name+"-0"
		get := func() error { return k.Client(nil).Get(context.Background(), client.ObjectKeyFromObject(lease), lease) }

		Expect(k.Client(nil).Delete(context.Background(), lease)).To(Succeed())
		o.reconcileOnce()
		Expect(get()).To(Succeed())
		Expect(k.Client(nil).Delete(context.Background(), lease)).To(Succeed())
		o.reconcileOnce()
		Expect(get()).NotTo(Succeed())
		Expect(o.count("DriftNotRepaired")).To(Equal(1))
		o.run()
		Expect(get()).To(Succeed())
		Expect(o.count("RepairingDrift")).To(Equal(2))
	})
})
