// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/opstask"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

var _ = Describe("The Lease of full snapshots", func() {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	DescribeTable("wants a full snapshot if it was recreated while members run", func(change func(*etcdcluster.Observation), expected bool) {
		o := etcdcluster.Observation{
			StatefulSet:       etcdcluster.StatefulSet{Exists: true, Store: "a"},
			Pods:              []etcdcluster.Pod{{Ready: true, Store: "a", CreationTime: created.Add(-time.Hour)}},
			FullSnapshotLease: etcdcluster.Lease{Exists: true, OwnerUID: "1", CreationTime: created},
		}
		change(&o)
		Expect(planner.WantsSnapshotForLease(o, "1")).To(Equal(expected))
	},
		Entry("recreated", func(*etcdcluster.Observation) {}, true),
		Entry("gone", func(o *etcdcluster.Observation) { o.FullSnapshotLease = etcdcluster.Lease{} }, false),
		Entry("of another Etcd", func(o *etcdcluster.Observation) { o.FullSnapshotLease.OwnerUID = "2" }, false),
		Entry("written by the sidecar", func(o *etcdcluster.Observation) { o.FullSnapshotLease.RenewTime = created }, false),
		Entry("refilled by the sidecar with its former snapshot", func(o *etcdcluster.Observation) {
			o.FullSnapshotLease.Holder, o.FullSnapshotLease.RenewTime = "42", created.Add(-time.Second)
		}, true),
		Entry("of a restored cluster with the snapshot that it was restored from", func(o *etcdcluster.Observation) {
			o.FullSnapshotLease.Holder, o.FullSnapshotLease.RenewTime = "42", created.Add(-time.Second)
			o.Pods[0].CreationTime = created.Add(time.Second)
		}, false),
		Entry("of a new cluster, whose sidecar takes the first snapshot by itself", func(o *etcdcluster.Observation) { o.Pods[0].CreationTime = created.Add(time.Second) }, false),
		Entry("of a store that the members do not use yet", func(o *etcdcluster.Observation) { o.Pods[0].Store = "" }, false),
		Entry("without members", func(o *etcdcluster.Observation) { o.Pods = nil }, false),
		Entry("while no member is ready", func(o *etcdcluster.Observation) { o.Pods[0].Ready = false }, false),
		Entry("with a request since", func(o *etcdcluster.Observation) { o.FullSnapshotRequested = created }, false),
		Entry("with a request before", func(o *etcdcluster.Observation) { o.FullSnapshotRequested = created.Add(-time.Second) }, true),
	)

	It("knows when a full snapshot of the Etcd was last requested", func() {
		task := func(etcd string, kind druidv1alpha1.OnDemandSnapshotType, at time.Time) druidv1alpha1.EtcdOpsTask {
			return druidv1alpha1.EtcdOpsTask{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)},
				Spec:       druidv1alpha1.EtcdOpsTaskSpec{EtcdName: &etcd, Config: druidv1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: kind}}},
			}
		}
		etcd := &druidv1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main"}}
		Expect(opstask.FullSnapshotRequestedAt(etcd, []druidv1alpha1.EtcdOpsTask{
			task("main", druidv1alpha1.OnDemandSnapshotTypeFull, created),
			task("main", druidv1alpha1.OnDemandSnapshotTypeFull, created.Add(-time.Hour)),
			task("main", druidv1alpha1.OnDemandSnapshotTypeDelta, created.Add(time.Hour)),
			task("other", druidv1alpha1.OnDemandSnapshotTypeFull, created.Add(time.Hour)),
		})).To(Equal(created))
	})
})
