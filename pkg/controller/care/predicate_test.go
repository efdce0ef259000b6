// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/care"
)

var _ = DescribeTable("LeaseSaysMore",
	func(change func(*coordinationv1.Lease), passes bool) {
		before := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("1:7:Member"), RenewTime: &metav1.MicroTime{Time: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)},
		}}
		after := before.DeepCopy()
		change(after)
		Expect(care.LeaseContentChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(passes))
	},
	Entry("ignores a renewal", func(l *coordinationv1.Lease) {
		l.ResourceVersion = "2"
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2026, 1, 1, 12, 0, 10, 0, time.UTC)}
	}, false),
	Entry("passes a change of the role", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("1:7:Leader") }, true),
	Entry("passes a changed annotation", func(l *coordinationv1.Lease) {
		l.Annotations = map[string]string{"member.etcd.gardener.cloud/tls-enabled": "true"}
	}, true),
	Entry("passes the first renewal and the removal of the renew time", func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, true),
	Entry("passes a Lease that was reset", func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} }, true),
	Entry("passes a change of the holder", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, true),
)

var _ = DescribeTable("RestoreDrillRecorded",
	func(annotation string, passes bool) {
		before := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"etcd-druid.extensions.gardener.cloud/restore-drill": "{}"}}}
		after := before.DeepCopy()
		after.Annotations[annotation] = "changed"
		Expect(care.RestoreDrillRecorded().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(passes))
	},
	Entry("passes a changed record", "etcd-druid.extensions.gardener.cloud/restore-drill", true),
	Entry("ignores other annotations", "etcd-druid.extensions.gardener.cloud/state", false),
)
