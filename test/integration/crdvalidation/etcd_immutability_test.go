// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("An immutable field of an Etcd", func() {
	DescribeTable("cannot be changed, added, or removed",
		func(set func(*druidv1alpha1.EtcdSpec, *string), message string) {
			with := func(value *string) override { return func(e *druidv1alpha1.Etcd) { set(&e.Spec, value) } }

			object := create(with(new("a")))
			Expect(change(object.DeepCopy(), with(new("b")))).To(beRejected(message))
			Expect(change(object.DeepCopy(), with(nil))).To(beRejected(message))
			Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) { e.Spec.RunAsRoot = new(true) })).To(Succeed())

			without := create(func(e *druidv1alpha1.Etcd) { e.Name = "without" })
			Expect(change(without, with(new("a")))).To(beRejected(message))
		},
		Entry("spec.memberNamePrefix", func(spec *druidv1alpha1.EtcdSpec, v *string) { spec.MemberNamePrefix = v }, "spec.memberNamePrefix"),
		Entry("spec.storageClass", func(spec *druidv1alpha1.EtcdSpec, v *string) { spec.StorageClass = v }, "spec.storageClass"),
		Entry("spec.volumeClaimTemplate", func(spec *druidv1alpha1.EtcdSpec, v *string) { spec.VolumeClaimTemplate = v }, "spec.volumeClaimTemplate"),
	)

	It("is the StorageClass, unless new members or volumes replace the old ones", func() {
		withSurge := func(e *druidv1alpha1.Etcd) {
			e.Spec.Replicas, e.Spec.StorageClass, e.Spec.Etcd.UpdateStrategy = 1, new("a"), new(druidv1alpha1.UpdateStrategySurge)
		}
		object := create(withSurge)
		Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) {
			e.Spec.StorageClass, e.Spec.Etcd.UpdateStrategy = new("b"), new(druidv1alpha1.UpdateStrategyRestart)
		})).To(beRejected("unless spec.replicas is more than 1, or is 1 and spec.etcd.updateStrategy is Surge"))
		Expect(change(object.DeepCopy(), func(e *druidv1alpha1.Etcd) { e.Spec.Replicas, e.Spec.StorageClass = 0, new("b") })).To(beRejected("spec.storageClass is immutable"))
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass = new("b") })).To(Succeed())
	})

	It("is not the StorageClass of a multi-member cluster, which gets other volumes", func() {
		object := create(func(e *druidv1alpha1.Etcd) { e.Spec.Replicas, e.Spec.StorageClass = 3, new("a") })
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass = new("b") })).To(Succeed())
	})

	It("differs from an empty field: an empty storage class is not the default storage class", func() {
		object := create(func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass = new("") })
		Expect(change(object, func(e *druidv1alpha1.Etcd) { e.Spec.StorageClass = nil })).To(beRejected("spec.storageClass"))
	})
})
