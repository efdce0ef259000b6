// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The servers of a pod", func() {
	DescribeTable("cannot have",
		func(options override, message string) {
			Expect(c.Create(ctx, etcd(options))).To(beRejected(message))
		},
		Entry("the port 0", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ServerPort = new(int32(0)) }, "spec.etcd.serverPort"),
		Entry("a port above 65535", func(e *druidv1alpha1.Etcd) { e.Spec.Backup.Port = new(int32(65536)) }, "spec.backup.port"),
		Entry("the port of another server", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.WrapperPort, e.Spec.Etcd.ClientPort = new(int32(1234)), new(int32(1234))
		}, "must differ"),
		Entry("the default port of another server", func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ClientPort = new(int32(8080)) }, "must differ"),
		Entry("TLS of the sidecar without TLS of etcd", fixture.WithBackupTLS(), "etcd and its sidecar must both serve with TLS"),
	)

	DescribeTable("can have",
		func(options ...override) { Expect(c.Create(ctx, etcd(options...))).To(Succeed()) },
		Entry("TLS everywhere", fixture.WithTLS()),
		Entry("only TLS of etcd, which the sidecar then also uses", fixture.WithClientTLS()),
		Entry("TLS of the sidecar that is disabled", fixture.WithBackupTLS(), func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.EnableTLS = new(false) }),
		Entry("swapped ports", func(e *druidv1alpha1.Etcd) {
			e.Spec.Etcd.ClientPort, e.Spec.Etcd.ServerPort = new(int32(2380)), new(int32(2379))
		}),
	)

	It("can lose TLS of etcd later, because the operator then reports the problem", func() {
		object := create(fixture.WithTLS())
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.Etcd.ClientUrlTLS = nil })).To(Succeed())
	})
})
