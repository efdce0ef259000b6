// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The Job that inspects a volume", func() {
	var (
		ctx   = context.Background()
		k     *kube.Cluster
		drive *operator
		run   *engine.Run
		claim = etcdcluster.Claim{Name: "main-main-1", Ordinal: 1, UID: "claim"}
	)
	job := func() *batchv1.Job {
		GinkgoHelper()
		job := &batchv1.Job{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-1-inspect"}, job)).To(Succeed())
		return job
	}
	inspect := func() error { return drive.reconciler.CreateInspectionJob(ctx, run, claim) }

	BeforeEach(func() {
		k = kube.New(scheme)
		create(3, plaintext, withStore)(k)
		drive = startOperator(k, nil)
		run = &engine.Run{Target: &target.Target{Stored: k.EtcdObject().DeepCopy(), Etcd: k.EtcdObject().DeepCopy()}}
		run.Observation.Pods = []etcdcluster.Pod{{Name: "main-1", Ordinal: 1, Node: "n2"}}
	})

	It("mounts the claim on the node of the member's pod, and is created once", func() {
		Expect(inspect()).To(Succeed())
		created := job()
		Expect(metav1.IsControlledBy(created, run.Target.Stored)).To(BeTrue())
		observed := etcdcluster.ClaimInspectionFor(created, nil)
		Expect([]string{observed.Claim, string(observed.ClaimUID)}).To(Equal([]string{"main-main-1", "claim"}))
		Expect(created.Spec.Template.Spec.Affinity).NotTo(BeNil())
		Expect(drive.events).To(ConsistOf(HavePrefix("InspectingVolume: Job main-1-inspect reads the revision in the volume of PersistentVolumeClaim main-main-1")))

		Expect(inspect()).To(Succeed(), "after a restart of the operator the Job exists already")
		Expect(job().UID).To(Equal(created.UID))
		Expect(drive.events).To(HaveLen(1))
	})

	It("is not bound to a node whose pod is being deleted", func() {
		run.Observation.Pods[0].Deleting = true
		Expect(inspect()).To(Succeed())
		Expect(job().Spec.Template.Spec.Affinity).To(BeNil())
	})

	It("is refused if a Job of something else has its name", func() {
		other := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "main-1-inspect"}}
		Expect(k.Client(nil).Create(ctx, other)).To(Succeed())
		Expect(inspect()).To(MatchError(ContainSubstring("Job main-1-inspect")))
		Expect(job().UID).To(Equal(other.UID))
	})

	It("is not created without an image, and the error names the field", func() {
		drive.reconciler.Config.EtcdHelper = target.EtcdHelper{PullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}
		Expect(inspect()).To(MatchError(ContainSubstring("inspecting PersistentVolumeClaim main-main-1: etcdHelper.image is not set")))
	})
})
