// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var _ = It("does not change the reclaim policy of a PersistentVolume to that of a record that no operator has written", func(ctx SpecContext) {
	volume := &corev1.PersistentVolume{}
	volume.Name, volume.UID, volume.Labels = "pv", "pv-uid", map[string]string{druidv1alpha1.VolumeLabelUID: "etcd-uid"}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(volume).Build()
	r := &etcd.Reconciler{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}
	owner := &druidv1alpha1.Etcd{}
	owner.UID = "etcd-uid"
	record := state.RetainedVolume{Name: "pv", UID: "pv-uid", ReclaimPolicy: "Invalid"}
	Expect(r.ChangeReclaimPolicy(ctx, owner, plan.ReleaseVolume{Meta: plan.Meta{Object: "pv", UID: "pv-uid"}, Record: record})).To(Succeed())
	Expect(c.Get(ctx, client.ObjectKeyFromObject(volume), volume)).To(Succeed())
	Expect(volume.Spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimRetain))
})

var _ = DescribeTable("The reclaim policy of a PersistentVolume", func(ctx SpecContext, isRelease bool, change func(*corev1.PersistentVolume), expected corev1.PersistentVolumeReclaimPolicy) {
	owner := &druidv1alpha1.Etcd{}
	owner.Namespace, owner.Name, owner.UID = "demo", "main", "etcd-uid"
	volume := &corev1.PersistentVolume{}
	volume.Name, volume.UID = "pv", "pv-uid"
	volume.Spec.PersistentVolumeReclaimPolicy, volume.Spec.ClaimRef = corev1.PersistentVolumeReclaimDelete, &corev1.ObjectReference{UID: "claim-uid"}
	meta, record := plan.Meta{Object: "pv", UID: "pv-uid"}, state.RetainedVolume{Name: "pv", UID: "pv-uid", ClaimUID: "claim-uid", ReclaimPolicy: corev1.PersistentVolumeReclaimDelete}
	step := plan.Step(plan.RetainVolume{Meta: meta, Record: record})
	if isRelease {
		step = plan.ReleaseVolume{Meta: meta, Record: record}
		volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		volume.Labels = map[string]string{druidv1alpha1.VolumeLabelUID: "etcd-uid"}
	}
	change(volume)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(volume).Build()
	r := &etcd.Reconciler{Client: c, Reader: c, Recorder: events.NewFakeRecorder(10)}
	Expect(r.ChangeReclaimPolicy(ctx, owner, step)).To(Succeed())
	Expect(c.Get(ctx, client.ObjectKeyFromObject(volume), volume)).To(Succeed())
	Expect(volume.Spec.PersistentVolumeReclaimPolicy).To(Equal(expected))
},
	Entry("becomes Retain before its claim is deleted", false, func(*corev1.PersistentVolume) {}, corev1.PersistentVolumeReclaimRetain),
	Entry("stays if the volume is bound to another claim meanwhile", false, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" }, corev1.PersistentVolumeReclaimDelete),
	Entry("stays if the volume is another one", false, func(v *corev1.PersistentVolume) { v.UID = "other" }, corev1.PersistentVolumeReclaimDelete),
	Entry("becomes the original one", true, func(*corev1.PersistentVolume) {}, corev1.PersistentVolumeReclaimDelete),
	Entry("stays Retain if a user has removed the label", true, func(v *corev1.PersistentVolume) { v.Labels = nil }, corev1.PersistentVolumeReclaimRetain),
	Entry("stays Retain if it is retained for another Etcd", true, func(v *corev1.PersistentVolume) { v.Labels[druidv1alpha1.VolumeLabelUID] = "other" }, corev1.PersistentVolumeReclaimRetain),
	Entry("stays Retain if a new claim uses the volume", true, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" }, corev1.PersistentVolumeReclaimRetain),
)
