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

var _ = DescribeTable("LeaderStoreLocation after a change of the endpoint", func(expected string, change func(*etcdcluster.Observation)) {
	o := etcdcluster.Observation{
		StoreLocation:     atNew,
		StatefulSet:       etcdcluster.StatefulSet{Exists: true, Store: "fingerprint-new"},
		Pods:              []etcdcluster.Pod{{Name: "main-0", Store: "fingerprint-old"}, {Name: "main-1", Ordinal: 1, Store: "fingerprint-new"}},
		FullSnapshotLease: etcdcluster.Lease{Exists: true, Name: "main-full-snap", Store: atOld},
		Etcd: etcdcluster.EtcdResponses{Queried: true, Members: []etcdcluster.EndpointStatus{
			{Reachable: true, Healthy: true, MemberID: 1, LeaderID: 1}, {Ordinal: 1, Reachable: true, Healthy: true, MemberID: 2, LeaderID: 1},
		}},
	}
	change(&o)
	Expect(o.LeaderStoreLocation()).To(Equal(expected))
},
	Entry("is the former store if the leader still uses it", atOld, func(*etcdcluster.Observation) {}),
	Entry("is the new store if the leader uses it", atNew, func(o *etcdcluster.Observation) { o.Etcd.Members[0].LeaderID, o.Etcd.Members[1].LeaderID = 2, 2 }),
	Entry("is not known if no Lease names the former store", "", func(o *etcdcluster.Observation) { o.FullSnapshotLease.Store = "" }),
	Entry("is the new store if the leader uses other credentials for it", atNew, usesOtherCredentials),
	Entry("is not known if the leader may use an endpoint that was corrected", "", func(o *etcdcluster.Observation) {
		usesOtherCredentials(o)
		o.State.Store = &state.Store{Provider: "S3", ChangedAt: time.Unix(1000, 0)}
	}),
	Entry("is the former store while no leader is known, and a pod uses it", atOld, func(o *etcdcluster.Observation) { o.Etcd.Members[0].LeaderID, o.Etcd.Members[1].LeaderID = 0, 0 }),
)

// usesOtherCredentials lets the first pod differ from the StatefulSet in the Secret of the store alone.
func usesOtherCredentials(o *etcdcluster.Observation) {
	o.Pods[0].StoreLocation = `S3 container "c" prefix "p"`
	o.FullSnapshotLease.Store, o.DeltaSnapshotLease.Store = o.StoreLocation, o.StoreLocation
}

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

	atOld = `S3 container "c" prefix "p" endpoint "old"`
	atNew = `S3 container "c" prefix "p" endpoint "new"`
)

var (
	podInA = etcdcluster.Pod{Store: "a", StoreLocation: `S3 container "a" prefix "p"`}
	podInB = etcdcluster.Pod{Store: "b", StoreLocation: `S3 container "b" prefix "p"`}
)
