// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

var _ = DescribeTable("A move to another store, of the lease of a cluster",
	func(lease etcdcluster.Lease, isCompleted bool, expected planner.LeaseAct) {
		move := planner.StoreMoveTo("new", "etcd-uid", etcdcluster.Rendering{}, etcdcluster.Observation{})
		move.Completed = isCompleted
		Expect(move.ActOn(lease)).To(Equal(expected))
	},
	Entry("leaves alone one that is not there", etcdcluster.Lease{OwnerUID: "etcd-uid", Store: "old"}, true, planner.LeaseUnchanged),
	Entry("leaves alone one of another Etcd of the same name", etcdcluster.Lease{Exists: true, OwnerUID: "another", Store: "old"}, true, planner.LeaseUnchanged),
	Entry("notes the store on one of before", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid"}, false, planner.LeaseStoreRecorded),
	Entry("believes in the old store while a member may write there", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid", Store: "old"}, false, planner.LeaseUnchanged),
	Entry("resets the Lease of the old store when no member writes there", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid", Store: "old"}, true, planner.LeaseReset),
	Entry("leaves alone one of the new store", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid", Store: "new"}, true, planner.LeaseUnchanged),
)

var _ = DescribeTable("A move to another store wants a full snapshot there",
	func(recorded string, isCompleted, expected bool) {
		o := etcdcluster.Observation{DeltaSnapshotLease: etcdcluster.Lease{Exists: true, Store: recorded}}
		move := planner.StoreMoveTo("new", "etcd-uid", etcdcluster.Rendering{}, o)
		move.Completed = isCompleted
		Expect(move.WantsSnapshot()).To(Equal(expected))
	},
	Entry("once all members use it", "old", true, true),
	Entry("and not before", "old", false, false),
	Entry("and not after the lease of deltas has become that of the new store", "new", true, false),
	Entry("and not if no old one is known", "", true, false),
)
