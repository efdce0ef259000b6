// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package crdvalidation_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

var _ = Describe("EtcdOpsTask", func() {
	task := func(options ...func(*druidv1alpha1.EtcdOpsTask)) *druidv1alpha1.EtcdOpsTask {
		object := &druidv1alpha1.EtcdOpsTask{
			ObjectMeta: metav1.ObjectMeta{Name: "task", Namespace: namespace},
			Spec: druidv1alpha1.EtcdOpsTaskSpec{
				EtcdName: new("test"),
				Config: druidv1alpha1.EtcdOpsTaskConfig{
					OnDemandSnapshot: &druidv1alpha1.OnDemandSnapshotConfig{Type: druidv1alpha1.OnDemandSnapshotTypeFull},
				},
			},
		}
		for _, option := range options {
			option(object)
		}

		return object
	}

	It("gets its defaults from the API server", func() {
		object := task()
		Expect(c.Create(ctx, object)).To(Succeed())
		Expect(object.Spec.TTLSecondsAfterFinished).To(HaveValue(BeEquivalentTo(3600)))
		Expect(object.Spec.Config.OnDemandSnapshot.TimeoutSecondsFull).To(HaveValue(BeEquivalentTo(900)))
		Expect(object.Spec.Config.OnDemandSnapshot.TimeoutSecondsDelta).To(HaveValue(BeEquivalentTo(60)))
	})

	DescribeTable("is rejected",
		func(message string, option func(*druidv1alpha1.EtcdOpsTask)) {
			Expect(c.Create(ctx, task(option))).To(beRejected(message))
		},
		Entry("without the name of an Etcd", "must name the Etcd", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.EtcdName = nil }),
		Entry("with an empty name", "must name the Etcd", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.EtcdName = new("") }),
		Entry("without an operation", "should have at least 1 properties", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.Config.OnDemandSnapshot = nil }),
		Entry("with a final delta snapshot", "isFinal can only be true with type full", func(t *druidv1alpha1.EtcdOpsTask) {
			t.Spec.Config.OnDemandSnapshot.Type, t.Spec.Config.OnDemandSnapshot.IsFinal = "delta", new(true)
		}),
		Entry("with a timeout below the minimum", "should be greater than or equal to 120", func(t *druidv1alpha1.EtcdOpsTask) {
			t.Spec.Config.OnDemandSnapshot.TimeoutSecondsFull = new(int32(119))
		}),
		Entry("with no time to live", "should be greater than or equal to 1", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.TTLSecondsAfterFinished = new(int32(0)) }),
	)

	DescribeTable("cannot change",
		func(message string, mutate func(*druidv1alpha1.EtcdOpsTask)) {
			object := task()
			Expect(c.Create(ctx, object)).To(Succeed())
			before := object.DeepCopy()
			mutate(object)
			Expect(c.Patch(ctx, object, client.MergeFrom(before))).To(beRejected(message))
		},
		Entry("its operation", "spec.config is immutable", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.Config.OnDemandSnapshot.IsFinal = new(true) }),
		Entry("its time to live", "spec.ttlSecondsAfterFinished is immutable", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.TTLSecondsAfterFinished = new(int32(1)) }),
		Entry("its Etcd", "spec.etcdName is immutable", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.EtcdName = new("other") }),
		Entry("into a task without an Etcd", "must be neither added nor removed", func(t *druidv1alpha1.EtcdOpsTask) { t.Spec.EtcdName = nil }),
	)
})

var _ = Describe("EtcdCopyBackupsTask", func() {
	It("is accepted with two stores and without a limit of the wait time", func() {
		Expect(c.Create(ctx, &druidv1alpha1.EtcdCopyBackupsTask{
			ObjectMeta: metav1.ObjectMeta{Name: "copy", Namespace: namespace},
			Spec: druidv1alpha1.EtcdCopyBackupsTaskSpec{
				SourceStore:          druidv1alpha1.StoreSpec{Prefix: "source"},
				TargetStore:          druidv1alpha1.StoreSpec{Prefix: "target"},
				MaxBackups:           new(uint32(0)),
				WaitForFinalSnapshot: &druidv1alpha1.WaitForFinalSnapshotSpec{Enabled: true, Timeout: &metav1.Duration{}},
			},
		})).To(Succeed())
	})

	It("has a name from which the name of its Job can be derived, on creation", func() {
		object := &druidv1alpha1.EtcdCopyBackupsTask{
			ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("n", 57), Namespace: namespace},
			Spec:       druidv1alpha1.EtcdCopyBackupsTaskSpec{SourceStore: druidv1alpha1.StoreSpec{Prefix: "source"}, TargetStore: druidv1alpha1.StoreSpec{Prefix: "target"}},
		}
		Expect(c.Create(ctx, object.DeepCopy())).To(beRejected("metadata.name must have at most 56 characters"))
		object.Name = object.Name[1:]
		Expect(c.Create(ctx, object)).To(Succeed())
	})
})
