// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"maps"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("A requested restore while a volume is left", func() {
	var (
		ctx     = context.Background()
		k       *kube.Cluster
		drive   *operator
		deleted []string
	)
	request := func() {
		GinkgoHelper()
		etcd := k.EtcdObject().DeepCopy()
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
		Expect(k.Client(nil).Update(ctx, etcd)).To(Succeed())
	}
	isRequested := func() bool { return metav1.HasAnnotation(k.EtcdObject().ObjectMeta, "druid.gardener.cloud/restore") }
	// job returns the Job that verifies the restore, or nil.
	job := func() *batchv1.Job {
		GinkgoHelper()
		job := &batchv1.Job{}
		err := k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-verify"}, job)
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err != nil {
			return nil
		}
		return job
	}
	end := func(how batchv1.JobConditionType) {
		GinkgoHelper()
		ended := job()
		ended.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue, Message: "three pods failed"}}
		Expect(k.Client(nil).Status().Update(ctx, ended)).To(Succeed())
	}
	until := func(is func() bool) {
		GinkgoHelper()
		for range 500 {
			if is() {
				return
			}
			drive.reconcileOnce()
			Expect(drive.err).NotTo(HaveOccurred())
			k.Tick()
		}
		Fail("it never came to that: " + strings.Join(drive.events, "\n"))
	}

	BeforeEach(func() {
		k, deleted = kube.New(scheme), nil
		create(3, plaintext, withStore)(k)
		startOperator(k, nil).run()
		lease := &coordinationv1.Lease{}
		Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-full-snap"}, lease)).To(Succeed())
		lease.Spec.RenewTime = &metav1.MicroTime{Time: k.Clock.Now()}
		Expect(k.Client(nil).Update(ctx, lease)).To(Succeed())
		drive = startOperator(k, func(write kube.Write) {
			if strings.HasPrefix(write.What, "delete PersistentVolumeClaim ") {
				deleted = append(deleted, write.What)
			}
		})
		k.RemoveNode("n2")
		k.RemoveNode("n3")
		drive.run()
		k.Clock.SetTime(k.Clock.Now().Add(5 * time.Minute)) // no member is about to become healthy
	})

	It("discards nothing before a Job has restored from the store, is ignored if that failed, and is verified again after another request", func() {
		request()
		until(func() bool { return job() != nil })
		Expect(deleted).To(BeEmpty())
		Expect(isRequested()).To(BeTrue())
		Expect(job().Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", `Local container "bucket" prefix "snapshots"`))
		Expect(job().Spec.Template.Spec.InitContainers).To(ConsistOf(HaveField("Image", "registry.example.com/etcdbrctl:v1")))
		first := job().UID

		end(batchv1.JobFailed)
		until(func() bool { return !isRequested() })
		Expect(deleted).To(BeEmpty())
		Expect(drive.events).To(ContainElement(And(HavePrefix("RestoreIgnored"), ContainSubstring("three pods failed"))))
		Expect(job().Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", "failed"))
		Expect(job().UID).To(Equal(first), "its pods, and their logs, stay for the user")

		request()
		until(func() bool { return job() != nil && job().UID != first })
		Expect(deleted).To(BeEmpty())
		until(func() bool { return len(deleted) > 0 })
		Expect(isRequested()).To(BeFalse())
	})

	It("withdraws the restore with an event if a quorum has returned a higher revision before the claims are deleted", func() {
		raised := false
		drive = startOperator(k, func(write kube.Write) {
			if !write.Done || raised || !strings.Contains(write.What, "ManagedResource druid-main") {
				return
			}
			mr := &resourcesv1alpha1.ManagedResource{}
			Expect(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "druid-main"}, mr)).To(Succeed())
			recorded, err := state.Decode(mr.Annotations)
			Expect(err).NotTo(HaveOccurred())
			if recorded.Restore != state.RestoreDiscard {
				return
			}
			raised = true
			evidence := state.Evidence{}
			if recorded.Evidence != nil {
				evidence = *recorded.Evidence
			}
			evidence.HighestRevision = 1 << 40
			recorded.Evidence = &evidence
			annotations, err := recorded.Encode()
			Expect(err).NotTo(HaveOccurred())
			maps.Copy(mr.Annotations, annotations)
			Expect(k.Client(nil).Update(ctx, mr)).To(Succeed())
		})
		request()
		until(func() bool { return raised })
		until(func() bool { return strings.Contains(strings.Join(drive.events, "\n"), "RestoreWithdrawn") })
		Expect(drive.events).To(ContainElement(And(HavePrefix("RestoreWithdrawn"), ContainSubstring("the highest known revision is 1099511627776"))))
		Expect(deleted).To(BeEmpty())
		Expect(isRequested()).To(BeFalse())
	})

	It("discards nothing after a Job that succeeded and whose result is lost", func() {
		request()
		until(func() bool { return job() != nil })
		end(batchv1.JobComplete) // without a pod
		until(func() bool { return !isRequested() })
		Expect(deleted).To(BeEmpty())
		Expect(drive.events).To(ContainElement(And(HavePrefix("RestoreIgnored"), ContainSubstring("its result is not known, because its pod was deleted"))))
	})

	It("runs etcd-helper from the configured image, and creates no Job without one", func() {
		drive.reconciler.Config.EtcdHelper = target.EtcdHelper{}
		request()
		for range 100 {
			drive.reconcileOnce()
			k.Tick()
		}
		Expect(drive.err).To(MatchError(ContainSubstring("etcdHelper.image is not set in the configuration of the operator")))
		Expect(job()).To(BeNil())
		Expect(deleted).To(BeEmpty())
		Expect(isRequested()).To(BeTrue())

		drive.reconciler.Config.EtcdHelper = target.EtcdHelper{Image: "registry.example.com/operator:v2", PullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}}
		drive.err = nil
		k.Clock.SetTime(k.Clock.Now().Add(10 * time.Minute))
		until(func() bool { return job() != nil })
		Expect(job().Spec.Template.Spec.Containers).To(ConsistOf(HaveField("Image", "registry.example.com/operator:v2")))
		Expect(job().Spec.Template.Spec.ImagePullSecrets).To(ConsistOf(corev1.LocalObjectReference{Name: "registry"}))
	})

	It("is ignored for good once that is reported, although another client writes to the Etcd just then", func() {
		request()
		until(func() bool { return job() != nil })
		first := job().UID
		end(batchv1.JobFailed)
		disturbed := false
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, "Job main-verify") {
				etcd := k.EtcdObject().DeepCopy()
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "example.com/another-client", "was here")
				Expect(k.Client(nil).Update(ctx, etcd)).To(Succeed())
				disturbed = true
			}
		})
		until(func() bool { return !isRequested() })
		Expect(disturbed).To(BeTrue())
		Expect(drive.events).To(ContainElement(HavePrefix("RestoreIgnored")))
		drive.run()
		Expect(job().UID).To(Equal(first), "no other Job verifies the store")
		Expect(deleted).To(BeEmpty())
		Expect(k.EtcdObject().Annotations).To(HaveKey("example.com/another-client"))
	})

	It("leaves another request that a user makes instead", func() {
		request()
		until(func() bool { return job() != nil })
		end(batchv1.JobFailed)
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, "Job main-verify") {
				etcd := k.EtcdObject().DeepCopy()
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store-unverified")
				Expect(k.Client(nil).Update(ctx, etcd)).To(Succeed())
			}
		})
		until(func() bool { return !isRequested() })
		Expect(drive.events).NotTo(ContainElement(HavePrefix("RestoreIgnored")))
		Expect(drive.events).To(ContainElement(HavePrefix("Restoring: ")))
	})

	It("verifies the store once more after the operator was killed between recording and reporting a failure", func() {
		request()
		until(func() bool { return job() != nil })
		first := job().UID
		end(batchv1.JobFailed)
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, "Job main-verify") {
				panic("killed")
			}
		})
		Expect(func() { until(func() bool { return !isRequested() }) }).To(PanicWith("killed"))
		drive = startOperator(k, nil)
		until(func() bool { return job() != nil && job().UID != first })
		end(batchv1.JobFailed)
		until(func() bool { return !isRequested() })
	})
})
