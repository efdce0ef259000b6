// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("A restore that is asked for while a volume is left", func() {
	var (
		ctx     = context.Background()
		k       *kube.Cluster
		drive   *operator
		deleted []string
	)
	ask := func() {
		GinkgoHelper()
		etcd := k.EtcdObject().DeepCopy()
		metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store")
		Expect(k.Client(nil).Update(ctx, etcd)).To(Succeed())
	}
	isAsked := func() bool { return metav1.HasAnnotation(k.EtcdObject().ObjectMeta, "druid.gardener.cloud/restore") }
	// job is the Job that rehearses; nil where there is none.
	job := func() *batchv1.Job {
		GinkgoHelper()
		job := &batchv1.Job{}
		err := k.Client(nil).Get(ctx, client.ObjectKey{Namespace: "demo", Name: "main-rehearsal"}, job)
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
			drive.pass()
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
		k.Clock.SetTime(k.Clock.Now().Add(5 * time.Minute)) // nobody is about to serve
	})

	It("discards nothing before a Job has restored from the store, is ignored where that failed, and looks again when it is asked again", func() {
		ask()
		until(func() bool { return job() != nil })
		Expect(deleted).To(BeEmpty())
		Expect(isAsked()).To(BeTrue())
		Expect(job().Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/store", `Local container "bucket" prefix "snapshots"`))
		Expect(job().Spec.Template.Spec.InitContainers).To(ConsistOf(HaveField("Image", "registry.example.com/etcdbrctl:v1")))
		first := job().UID

		end(batchv1.JobFailed)
		until(func() bool { return !isAsked() })
		Expect(deleted).To(BeEmpty())
		Expect(drive.events).To(ContainElement(And(HavePrefix("RestoreIgnored"), ContainSubstring("three pods failed"))))
		Expect(job().Annotations).To(HaveKeyWithValue("etcd-druid.extensions.gardener.cloud/recorded", "failed"))
		Expect(job().UID).To(Equal(first), "its pods, and their logs, stay for whoever wants to know")

		ask()
		until(func() bool { return job() != nil && job().UID != first })
		Expect(deleted).To(BeEmpty())
		end(batchv1.JobComplete)
		until(func() bool { return len(deleted) > 0 })
		Expect(isAsked()).To(BeFalse())
	})

	It("is ignored for good where it is said to be, although somebody else writes to the Etcd just then", func() {
		ask()
		until(func() bool { return job() != nil })
		first := job().UID
		end(batchv1.JobFailed)
		disturbed := false
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, "Job main-rehearsal") {
				etcd := k.EtcdObject().DeepCopy()
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "example.com/somebody", "was here")
				Expect(k.Client(nil).Update(ctx, etcd)).To(Succeed())
				disturbed = true
			}
		})
		until(func() bool { return !isAsked() })
		Expect(disturbed).To(BeTrue())
		Expect(drive.events).To(ContainElement(HavePrefix("RestoreIgnored")))
		drive.run()
		Expect(job().UID).To(Equal(first), "no other looks into the store")
		Expect(deleted).To(BeEmpty())
		Expect(k.EtcdObject().Annotations).To(HaveKey("example.com/somebody"))
	})

	It("leaves what somebody asks for instead", func() {
		ask()
		until(func() bool { return job() != nil })
		end(batchv1.JobFailed)
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, "Job main-rehearsal") {
				etcd := k.EtcdObject().DeepCopy()
				metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, "druid.gardener.cloud/restore", "from-store-unverified")
				Expect(k.Client(nil).Update(ctx, etcd)).To(Succeed())
			}
		})
		until(func() bool { return !isAsked() })
		Expect(drive.events).NotTo(ContainElement(HavePrefix("RestoreIgnored")))
		Expect(drive.events).To(ContainElement(HavePrefix("Restoring: ")))
	})

	It("looks into the store once more after the operator died between noting that it told of a failure and telling it", func() {
		ask()
		until(func() bool { return job() != nil })
		first := job().UID
		end(batchv1.JobFailed)
		drive = startOperator(k, func(write kube.Write) {
			if write.Done && strings.Contains(write.What, "Job main-rehearsal") {
				panic("killed")
			}
		})
		Expect(func() { until(func() bool { return !isAsked() }) }).To(PanicWith("killed"))
		drive = startOperator(k, nil)
		until(func() bool { return job() != nil && job().UID != first })
		end(batchv1.JobFailed)
		until(func() bool { return !isAsked() })
	})
})
