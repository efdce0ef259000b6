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
	Entry("stops a renewal", func(l *coordinationv1.Lease) {
		l.ResourceVersion = "2"
		l.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2026, 1, 1, 12, 0, 10, 0, time.UTC)}
	}, false),
	Entry("lets a change of role pass", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("1:7:Leader") }, true),
	Entry("lets an annotation pass", func(l *coordinationv1.Lease) {
		l.Annotations = map[string]string{"member.etcd.gardener.cloud/tls-enabled": "true"}
	}, true),
	Entry("lets a lease pass that was never renewed before or is not any more", func(l *coordinationv1.Lease) { l.Spec.RenewTime = nil }, true),
	Entry("lets a lease pass that was emptied", func(l *coordinationv1.Lease) { l.Spec = coordinationv1.LeaseSpec{} }, true),
	Entry("lets a holder pass that appears", func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }, true),
)
