// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The backup of an Etcd", func() {
	DescribeTable("is rejected",
		func(message string, options ...override) {
			Expect(c.Create(ctx, etcd(options...))).To(beRejected(message))
		},
		Entry("with a garbage collection period that equals the delta snapshot period", "must be longer than spec.backup.deltaSnapshotPeriod", periods(time.Minute, time.Minute)),
		Entry("with a negative period", "spec.backup.deltaSnapshotPeriod", periods(-time.Minute, time.Minute)),
		Entry("with a schedule out of range", "spec.backup.fullSnapshotSchedule", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.FullSnapshotSchedule = new("60 * * * *") }),
		Entry("with a container name that no provider allows", "spec.backup.store.container", fixture.WithStore("S3"),
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store.Container = new("a/b/c") }),
		Entry("with an endpoint that is not a URL", "endpointOverride must be a URL", fixture.WithStore("S3"),
			func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Store.EndpointOverride = new("no url") }),
		Entry("with an unknown compression policy", "spec.backup.compression.policy", func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.SnapshotCompression = &druidv1alpha1.CompressionSpec{Policy: new(druidv1alpha1.CompressionPolicy("zip"))}
		}),
		Entry("with a reference to a BackupEntry without a name", "spec.backup.store.backupEntryRef.name", fixture.WithStore("S3"),
			func(e *druidv1alpha1.Etcd) {
				e.Spec.Backup.Store.BackupEntryRef = &druidv1alpha1.BackupEntryReference{}
			}),
		Entry("with an unknown retention policy of volumes", "spec.pvcRetentionPolicy",
			func(e *druidv1alpha1.Etcd) {
				e.Spec.PVCRetentionPolicy = new(druidv1alpha1.PVCRetentionPolicy("Delete"))
			}),
	)

	DescribeTable("is accepted",
		func(options ...override) { Expect(c.Create(ctx, etcd(options...))).To(Succeed()) },
		Entry("with a garbage collection period above the delta snapshot period", periods(time.Minute, time.Minute+time.Millisecond)),
		Entry("with lists in a schedule", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.FullSnapshotSchedule = new("0,30 8-18/2 * * 0") }),
		Entry("with a store that only references a BackupEntry", func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{BackupEntryRef: &druidv1alpha1.BackupEntryReference{Name: "entry"}}
		}),
	)
})

func periods(delta, gc time.Duration) override {
	return func(e *druidv1alpha1.Etcd) {
		e.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: delta}
		e.Spec.Backup.GarbageCollectionPeriod = &metav1.Duration{Duration: gc}
	}
}
