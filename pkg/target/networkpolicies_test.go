// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = DescribeTable("NetworkPolicies", func(o etcdcluster.Observation, restrictsNewOnly, expected bool) {
	c := config
	c.RestrictsNewOnly, c.Defaults.NetworkPolicies = restrictsNewOnly, &state.NetworkPolicies{}
	t := target.ForNewest(fixture.Etcd(generation(2), fixture.WithAnnotation(operation, "reconcile")))
	Expect(t.Admit(o, c)).To(Succeed())
	t.ResolveNetworkPolicies(c)
	Expect(t.NetworkPolicies != nil).To(Equal(expected))
	Expect(t.IsUnrestricted).To(Equal(!expected))
},
	Entry("are for a new Etcd", etcdcluster.Observation{}, true, true),
	Entry("are for a running Etcd that has them", withPolicies(running()), true, true),
	Entry("are not for a running Etcd that has none", running(), true, false),
	Entry("are for a running Etcd that has none, if each Etcd gets them", running(), false, true),
	Entry("are not for an adopted Etcd", etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true}}, true, false),
	Entry("are for an Etcd whose record is lost", etcdcluster.Observation{ManagedResource: etcdcluster.ManagedResource{Exists: true}, StatefulSet: etcdcluster.StatefulSet{Exists: true}}, true, true),
	Entry("are for an adopted Etcd, if each Etcd gets them", etcdcluster.Observation{StatefulSet: etcdcluster.StatefulSet{Exists: true}}, false, true),
)

func withPolicies(o etcdcluster.Observation) etcdcluster.Observation {
	o.State.Accepted.Defaults.NetworkPolicies = &state.NetworkPolicies{}

	return o
}
