// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = DescribeTable("LeaderStoreLocation",
	func(expected, rolledOut, statefulSet, lease string, pods ...etcdcluster.Pod) {
		o := etcdcluster.Observation{StoreLocation: rolledOut, Pods: pods}
		o.StatefulSet = etcdcluster.StatefulSet{Exists: true, Store: statefulSet}
		o.FullSnapshotLease = etcdcluster.Lease{Exists: true, Store: lease}
		o.DeltaSnapshotLease = o.FullSnapshotLease
		Expect(o.LeaderStoreLocation()).To(Equal(expected))
	},
	Entry("is the store of the Leases before the StatefulSet has another container", inA, inB, "a", inA, podInA),
	Entry("is the store of the Leases before the StatefulSet has another container, if the location of the pod is not known", inA, inB, "a", inA, etcdcluster.Pod{Store: "a"}),
	Entry("is the store of the Leases while the pod has the former container", inA, inB, "b", inA, podInA),
	Entry("is the new store when the pod has it, although the Leases are not recreated yet", inB, inB, "b", inA, podInB),
	Entry("is not known after a change of the container back, while the pod has the other one", "", inA, "a", inA, podInB),
	Entry("is not known after such a change, if the location of the pod is not known", "", inA, "a", inA, etcdcluster.Pod{Store: "b"}),
	Entry("is the store of the pod after such a change, if a Lease names it", inB, inA, "a", inB, podInB),
	Entry("is not known while any pod may be in another store, without a leader", "", inA, "a", inA, podInA, podInB),
	Entry("is the store of all pods without a leader", inA, inA, "a", inA, podInA, podInA),
	Entry("is the store of the Leases without pods", inA, inB, "a", inA),
)

var _ = DescribeTable("FormerStoreUse", func(expected etcdcluster.StoreUse, provider string, pods ...etcdcluster.Pod) {
	changed := time.Unix(1000, 0)
	Expect(etcdcluster.Observation{Pods: pods}.FormerStoreUse(&state.Store{Provider: provider, ChangedAt: changed})).To(Equal(expected))
	Expect(etcdcluster.Observation{Pods: pods}.FormerStoreUse(&state.Store{Provider: provider})).To(Equal(etcdcluster.StoreUse{Restarted: true, IsKnown: true}))
},
	Entry("counts pods that do not exist any more as older than the change", etcdcluster.StoreUse{Since: time.Unix(1300, 0), IsKnown: true}, "S3"),
	Entry("does not know whether such pods used a changed environment", etcdcluster.StoreUse{Since: time.Unix(1300, 0)}, "ECS"),
	Entry("counts all pods", etcdcluster.StoreUse{Since: time.Unix(1300, 0)}, "ECS", etcdcluster.Pod{CreationTime: time.Unix(900, 0)}, etcdcluster.Pod{CreationTime: time.Unix(1100, 0)}),
	Entry("counts from the newest pod", etcdcluster.StoreUse{Since: time.Unix(1200, 0), Restarted: true, IsKnown: true}, "ECS",
		etcdcluster.Pod{CreationTime: time.Unix(1200, 0)}, etcdcluster.Pod{CreationTime: time.Unix(1100, 0)}),
)

const (
	inA = `S3 container "a" prefix "p" endpoint "e"`
	inB = `S3 container "b" prefix "p" endpoint "e"`
)

var (
	podInA = etcdcluster.Pod{Store: "a", StoreLocation: `S3 container "a" prefix "p"`}
	podInB = etcdcluster.Pod{Store: "b", StoreLocation: `S3 container "b" prefix "p"`}
)
