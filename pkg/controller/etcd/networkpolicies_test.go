// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("NetworkPolicies for new Etcds only", func() {
	// start starts an operator that restricts only Etcds that have not run without NetworkPolicies.
	start := func(k *kube.Cluster) *operator {
		o := startOperator(k, nil)
		o.reconciler.Config.RestrictsNewOnly = true
		o.reconciler.Config.Defaults.NetworkPolicies = &state.NetworkPolicies{Operator: []networkingv1.NetworkPolicyPeer{{}}}

		return o
	}

	It("are reported as missing with each generation of an Etcd that has run without", func() {
		k := reconciledCluster(1)
		earlier := start(k)
		earlier.run()
		Expect(earlier.events).NotTo(ContainElement(HavePrefix("NoNetworkPolicies")), "the generation was accepted before")
		update(relabel)(k)
		o := start(k)
		o.run()
		Expect(o.events).To(ContainElement(HavePrefix("NoNetworkPolicies")))
	})

	It("are not reported as missing for a new Etcd", func() {
		k := newCluster()
		create(1)(k)
		start(k).run()
		update(relabel)(k)
		o := start(k)
		o.run()
		Expect(o.events).To(ContainElement(HavePrefix("ManagedResourceUpdated")))
		Expect(o.events).NotTo(ContainElement(HavePrefix("NoNetworkPolicies")))
	})
})
