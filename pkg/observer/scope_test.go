// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
)

var _ = Describe("RequestFor", func() {
	always := observer.Request{Gardener: true, StorageClasses: true, Tasks: true, Events: true, Admission: true}
	DescribeTable("reads what a plan needs",
		func(change func(*druidv1alpha1.Etcd), add func(*observer.Request)) {
			etcd, expected := &druidv1alpha1.Etcd{}, always
			etcd.Spec.Replicas = 1
			change(etcd)
			add(&expected)
			Expect(observer.RequestFor(etcd)).To(Equal(expected))
		},
		Entry("of one member", func(*druidv1alpha1.Etcd) {}, func(r *observer.Request) { r.Volumes = true }),
		Entry("of one member with a backup store, from which it may be restored", func(e *druidv1alpha1.Etcd) {
			e.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
		}, func(r *observer.Request) { r.Volumes, r.RestoreVerification = true, true }),
		Entry("of three members", func(e *druidv1alpha1.Etcd) { e.Spec.Replicas = 3 }, func(r *observer.Request) { r.QueryEtcd, r.RestoreVerification, r.Volumes = true, true, true }),
		Entry("of three members that run, although the spec wants one", func(e *druidv1alpha1.Etcd) { e.Status.Replicas = 3 }, func(r *observer.Request) { r.QueryEtcd, r.RestoreVerification, r.Volumes = true, true, true }),
		Entry("of a cluster that hibernates", func(e *druidv1alpha1.Etcd) { e.Spec.Replicas = 0 }, func(*observer.Request) {}),
		Entry("of a cluster that hibernates with a backup store", func(e *druidv1alpha1.Etcd) {
			e.Spec.Replicas, e.Spec.Backup.Store = 0, &druidv1alpha1.StoreSpec{}
		}, func(r *observer.Request) { r.QueryEtcd = true }),
		Entry("of a cluster that is to be restored", func(e *druidv1alpha1.Etcd) {
			e.Annotations = map[string]string{druidv1alpha1.RestoreAnnotation: druidv1alpha1.RestoreFromStore}
		}, func(r *observer.Request) { r.QueryEtcd, r.RestoreVerification, r.Volumes = true, true, true }),
		Entry("of members that join an existing cluster", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.BootstrapWithExistingCluster = &druidv1alpha1.BootstrapWithExistingCluster{}
		}, func(r *observer.Request) { r.QueryEtcd, r.QueryExisting, r.Volumes = true, true, true }),
	)
})
