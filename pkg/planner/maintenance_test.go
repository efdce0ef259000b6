// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var newStore, other = state.Store{Provider: "new"}.String(), state.Store{Provider: "other"}.String()

var _ = DescribeTable("A move to another store, of the lease of a cluster",
	func(lease etcdcluster.Lease, isCompleted bool, expected planner.LeaseAct) {
		move := planner.StoreMoveTo(state.Store{Provider: "new"}, "etcd-uid", etcdcluster.Rendering{}, etcdcluster.Observation{}, time.Time{})
		move.Completed = isCompleted
		Expect(move.ActOn(lease)).To(Equal(expected))
	},
	Entry("leaves alone one that is not there", etcdcluster.Lease{OwnerUID: "etcd-uid", Store: other}, true, planner.LeaseUnchanged),
	Entry("leaves alone one of another Etcd of the same name", etcdcluster.Lease{Exists: true, OwnerUID: "another", Store: other}, true, planner.LeaseUnchanged),
	Entry("notes the store on one of before", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid"}, false, planner.LeaseStoreRecorded),
	Entry("believes in the old store while a member may write there", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid", Store: other}, false, planner.LeaseUnchanged),
	Entry("resets the Lease of the old store when no member writes there", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid", Store: other}, true, planner.LeaseReset),
	Entry("leaves alone one of the new store", etcdcluster.Lease{Exists: true, OwnerUID: "etcd-uid", Store: newStore}, true, planner.LeaseUnchanged),
)

var _ = DescribeTable("A move to another store wants a full snapshot there",
	func(recorded string, isCompleted, expected bool) {
		o := etcdcluster.Observation{DeltaSnapshotLease: etcdcluster.Lease{Exists: true, Store: recorded}}
		move := planner.StoreMoveTo(state.Store{Provider: "new"}, "etcd-uid", etcdcluster.Rendering{}, o, time.Time{})
		move.Completed = isCompleted
		Expect(move.WantsSnapshot()).To(Equal(expected))
	},
	Entry("once all members use it", other, true, true),
	Entry("and not before", other, false, false),
	Entry("and not after the lease of deltas has become that of the new store", newStore, true, false),
	Entry("and not if no old one is known", "", true, false),
)
