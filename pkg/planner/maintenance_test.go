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

var _ = Describe("A move to another endpoint", func() {
	changed := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	store := state.Store{Provider: "S3", Container: "c", Prefix: "p", Endpoint: "new", ChangedAt: changed}
	text := func(endpoint string) string {
		return state.Store{Provider: "S3", Container: "c", Prefix: "p", Endpoint: endpoint}.String()
	}
	lease := func(name, endpoint string, renewed time.Duration) etcdcluster.Lease {
		return etcdcluster.Lease{Exists: true, Name: name, OwnerUID: "etcd-uid", Store: text(endpoint), RenewTime: changed.Add(renewed)}
	}
	observed := func(pods ...time.Duration) etcdcluster.Observation {
		o := etcdcluster.Observation{
			StatefulSet:       etcdcluster.StatefulSet{Exists: true, Store: "s"},
			FullSnapshotLease: lease("full", "old", -time.Hour), DeltaSnapshotLease: lease("delta", "old", -time.Hour),
		}
		for _, created := range pods {
			o.Pods = append(o.Pods, etcdcluster.Pod{Store: "s", CreationTime: changed.Add(created)})
		}

		return o
	}
	moveTo := func(store state.Store, o etcdcluster.Observation, now time.Duration) planner.StoreMove {
		return planner.StoreMoveTo(store, "etcd-uid", etcdcluster.Rendering{}, o, changed.Add(now))
	}

	DescribeTable("is completed when all sidecars use it", func(provider string, now time.Duration, expected bool, pods ...time.Duration) {
		moved := store
		moved.Provider = provider
		Expect(moveTo(moved, observed(pods...), now).Completed).To(Equal(expected))
	},
		Entry("not before the kubelet has updated the Secret", "S3", 5*time.Minute-time.Second, false, -time.Hour),
		Entry("when it has", "S3", 5*time.Minute, true, -time.Hour),
		Entry("at once with new pods", "S3", 2*time.Minute, true, time.Minute),
		Entry("not with one pod of before", "S3", 2*time.Minute, false, time.Minute, -time.Hour),
		Entry("never with the environment of a pod of before", "ECS", 24*time.Hour, false, -time.Hour),
		Entry("with the environment of new pods", "ECS", 2*time.Minute, true, time.Minute),
		Entry("not without pods", "S3", time.Hour, false),
	)

	DescribeTable("of pods that run on", func(changeTo func(*etcdcluster.Observation), full, delta planner.LeaseAct, wantsSnapshot bool) {
		o := observed(-time.Hour)
		changeTo(&o)
		move := moveTo(store, o, time.Hour)
		Expect(move.ActOn(o.FullSnapshotLease)).To(Equal(full))
		Expect(move.ActOn(o.DeltaSnapshotLease)).To(Equal(delta))
		Expect(move.WantsSnapshot()).To(Equal(wantsSnapshot))
	},
		Entry("wants a full snapshot", func(*etcdcluster.Observation) {}, planner.LeaseUnchanged, planner.LeaseUnchanged, true),
		Entry("does not count one of before all sidecars used it", func(o *etcdcluster.Observation) { o.FullSnapshotLease = lease("full", "old", time.Minute) }, planner.LeaseUnchanged, planner.LeaseUnchanged, true),
		Entry("records a later one, and the delta snapshots afterwards", func(o *etcdcluster.Observation) {
			o.FullSnapshotLease, o.DeltaSnapshotLease = lease("full", "old", 6*time.Minute), lease("delta", "old", 6*time.Minute)
		}, planner.LeaseStoreRecorded, planner.LeaseUnchanged, true),
		Entry("records the delta snapshots after the full one", func(o *etcdcluster.Observation) {
			o.FullSnapshotLease, o.DeltaSnapshotLease = lease("full", "new", 6*time.Minute), lease("delta", "old", 7*time.Minute)
		}, planner.LeaseUnchanged, planner.LeaseStoreRecorded, false),
		Entry("has ended", func(o *etcdcluster.Observation) {
			o.FullSnapshotLease, o.DeltaSnapshotLease = lease("full", "new", 6*time.Minute), lease("delta", "new", 7*time.Minute)
		}, planner.LeaseUnchanged, planner.LeaseUnchanged, false),
	)

	DescribeTable("and back wants a full snapshot, because delta snapshots may be in the other store", func(created, now time.Duration, verified, expected bool) {
		back := store
		back.Endpoint = "old"
		if verified {
			back.VerifiedAt = changed.Add(6 * time.Minute)
		}
		o := observed(created)
		move := moveTo(back, o, now)
		Expect(move.WantsSnapshot()).To(Equal(expected))
		Expect(move.IsPending()).To(Equal(!verified))
		Expect(move.ActOn(o.FullSnapshotLease)).To(Equal(planner.LeaseUnchanged))
	},
		Entry("when all sidecars use it", -time.Hour, 5*time.Minute, false, true),
		Entry("not before", -time.Hour, 4*time.Minute, false, false),
		Entry("after a restart", time.Minute, 2*time.Minute, false, true),
		Entry("not after that snapshot", -time.Hour, time.Hour, true, false),
	)

	It("of new pods resets the Leases", func() {
		o := observed(time.Minute)
		move := moveTo(store, o, time.Hour)
		Expect(move.ActOn(o.FullSnapshotLease)).To(Equal(planner.LeaseReset))
		Expect(move.WantsSnapshot()).To(BeTrue())
		Expect(move.IsPending()).To(BeTrue())
	})

	It("completes the text of a Lease when the endpoint is known", func() {
		o := observed(-time.Hour)
		o.StoreLocation, o.FullSnapshotLease = text(""), lease("full", "", -time.Hour)
		same := store
		same.ChangedAt = time.Time{}
		move := moveTo(same, o, 0)
		Expect(move.ActOn(o.FullSnapshotLease)).To(Equal(planner.LeaseStoreRecorded))
		Expect(move.TextFor(o.FullSnapshotLease)).To(Equal(text("new")))
	})
})
