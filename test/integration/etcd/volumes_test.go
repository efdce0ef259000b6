// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("The volumes of an Etcd", func() {
	// createIn creates an Etcd with a bound claim of 16Gi in a new StorageClass.
	createIn := func(ctx context.Context, expandable bool) *testEtcd {
		GinkgoHelper()
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"}, Provisioner: "example.com/fake", AllowVolumeExpansion: &expandable}
		Expect(env.Client.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(env.Client.Delete(ctx, class)).To(Succeed()) })
		s := create(ctx, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = &class.Name })
		s.awaitReady(ctx)
		claim := &corev1.PersistentVolumeClaim{}
		s.get(ctx, Default, claim, "main-main-0")
		before := claim.DeepCopy()
		claim.Spec.VolumeName = "volume"
		Expect(env.Client.Patch(ctx, claim, client.MergeFrom(before))).To(Succeed())
		claim.Status.Phase = corev1.ClaimBound
		Expect(env.Client.Status().Patch(ctx, claim, client.MergeFrom(before))).To(Succeed())

		return s
	}
	resize := func(ctx context.Context, s *testEtcd, size string) {
		GinkgoHelper()
		s.update(ctx, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.StorageCapacity = new(resource.MustParse(size))
			setOperation("gardener.cloud/operation")(etcd)
		})
	}
	requested := func(ctx context.Context, s *testEtcd) string {
		claim := &corev1.PersistentVolumeClaim{}
		s.get(ctx, Default, claim, "main-main-0")

		return claim.Spec.Resources.Requests.Storage().String()
	}

	It("should be expanded in place, with a recreated StatefulSet and the same pod", func(ctx SpecContext) {
		s := createIn(ctx, true)
		statefulSet, pod := s.statefulSet(ctx, Default), s.pod(ctx, Default)
		resize(ctx, s, "32Gi")
		s.awaitReady(ctx)
		Expect(requested(ctx, s)).To(Equal("32Gi"))
		Expect(s.statefulSet(ctx, Default).UID).NotTo(Equal(statefulSet.UID))
		Expect(s.pod(ctx, Default).UID).To(Equal(pod.UID))
	})

	DescribeTable("should not be resized if the new size is invalid, which is reported with the remedy",
		func(ctx SpecContext, expandable bool, size, message string) {
			s := createIn(ctx, expandable)
			statefulSet, mr := s.statefulSet(ctx, Default), s.managedResource(ctx, Default)
			resize(ctx, s, size)
			Eventually(func(g Gomega) {
				g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "InvalidSpec", message))
			}).Should(Succeed())
			expectUnchanged(ctx, mr, s.etcd, statefulSet)
			Expect(requested(ctx, s)).To(Equal("16Gi"))

			resize(ctx, s, "16Gi")
			s.awaitReady(ctx)
		},
		Entry("larger, if the StorageClass does not allow expansion", false, "32Gi", "does not allow it"),
		Entry("smaller", true, "8Gi", "no volume shrinks"),
	)

	It("should not be resized if the API server rejects the resize, which is reported", func(ctx SpecContext) {
		s := createIn(ctx, true)
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "quota"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.storage": resource.MustParse("20Gi")}},
		}
		Expect(env.Client.Create(ctx, quota)).To(Succeed())
		quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{"requests.storage": resource.MustParse("16Gi")}
		Expect(env.Client.Status().Update(ctx, quota)).To(Succeed())
		statefulSet := s.statefulSet(ctx, Default)
		resize(ctx, s, "32Gi")
		Eventually(func(g Gomega) {
			g.Expect(s.read(ctx, g).Status.Conditions).To(haveCondition("Reconciled", "False", "InvalidSpec", "exceeded quota"))
		}).Should(Succeed())
		Expect(s.statefulSet(ctx, Default).UID).To(Equal(statefulSet.UID))
	})
})
