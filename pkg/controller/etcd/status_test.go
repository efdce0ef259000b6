// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("The status of an Etcd whose pods are older than the manifests of the operator", func() {
	var (
		ctx = context.Background()
		k   *kube.Cluster
		o   *operator
	)

	BeforeEach(func() {
		k = kube.New(scheme)
		o = startOperator(k, nil)
		create(3)(k)
		o.run()
	})

	// outdate gives the pods an older revision, as if a new version of the operator had rendered another pod template.
	outdate := func() {
		GinkgoHelper()
		for _, name := range []string{"main-0", "main-1", "main-2"} {
			pod := &corev1.Pod{}
			must(k.Client(nil).Get(ctx, client.ObjectKey{Namespace: k.EtcdObject().Namespace, Name: name}, pod))
			before := pod.DeepCopy()
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "earlier"
			must(k.Client(nil).Patch(ctx, pod, client.MergeFrom(before)))
		}
	}
	run := func() {
		o.due = k.Clock.Now()
		o.run()
	}
	expectKept := func() {
		GinkgoHelper()
		status := k.EtcdObject().Status
		Expect(conditions.Find(status.Conditions, druidv1alpha1.ConditionTypeAllMembersUpdated)).To(HaveField("Status", druidv1alpha1.ConditionFalse))
		Expect(status.Ready).To(HaveValue(BeTrue()), "gardenlet reports the cluster as unhealthy otherwise")
	}

	It("stays ready while the pods wait for the next operation", func() {
		outdate()
		run()
		expectKept()
		Expect(conditions.Find(k.EtcdObject().Status.Conditions, druidv1alpha1.ConditionTypeReconciled)).To(HaveField("Message", ContainSubstring("3 pods are older")))
	})

	It("stays ready while a later generation waits for its annotation", func() {
		changed := k.EtcdObject().DeepCopy()
		relabel(changed)
		must(k.Client(nil).Update(ctx, changed))
		run()
		outdate()
		run()
		expectKept()
	})

	It("is not ready while an operation replaces the pods", func() {
		outdate()
		update(func(*druidv1alpha1.Etcd) {})(k)
		o.reconcileOnce()
		Expect(k.EtcdObject().Status.Ready).To(HaveValue(BeFalse()))
		o.run()
		Expect(k.EtcdObject().Status.Ready).To(HaveValue(BeTrue()))
		Expect(conditions.Find(k.EtcdObject().Status.Conditions, druidv1alpha1.ConditionTypeAllMembersUpdated)).To(HaveField("Status", druidv1alpha1.ConditionTrue))
	})
})

var _ = Describe("The status of an Etcd that changes during a reconciliation", func() {
	var (
		ctx = context.Background()
		k   *kube.Cluster
	)

	BeforeEach(func() { k = kube.New(scheme) })

	// reconcileWith reconciles a new Etcd once. It calls change immediately before the first patch of the status.
	reconcileWith := func(change func(etcd *druidv1alpha1.Etcd)) {
		GinkgoHelper()
		changed := false
		o := startOperator(k, func(write kube.Write) {
			if write.What == "patch status of Etcd "+k.Etcd.Name && !changed {
				changed = true
				change(k.EtcdObject().DeepCopy())
			}
		})
		create(1)(k)
		o.reconcileOnce()
		Expect(o.err).NotTo(HaveOccurred())
		Expect(changed).To(BeTrue())
	}
	ofCare := druidv1alpha1.Condition{Type: druidv1alpha1.ConditionTypeReady, Status: druidv1alpha1.ConditionFalse, Reason: "Test", Message: "written by the care controller"}

	It("contains the result of the reconciliation, and the change", func() {
		reconcileWith(func(etcd *druidv1alpha1.Etcd) {
			etcd.Status.Conditions = append(etcd.Status.Conditions, ofCare)
			must(k.Client(nil).Status().Update(ctx, etcd))
		})
		status := k.EtcdObject().Status
		Expect(conditions.Find(status.Conditions, druidv1alpha1.ConditionTypeReconciled)).To(HaveField("Status", druidv1alpha1.ConditionFalse))
		Expect(conditions.Find(status.Conditions, druidv1alpha1.ConditionTypeReady)).To(HaveField("Message", ofCare.Message))
	})

	DescribeTable("does not contain the result of the reconciliation if there is another request", func(request func(etcd *druidv1alpha1.Etcd)) {
		reconcileWith(request)
		Expect(conditions.Find(k.EtcdObject().Status.Conditions, druidv1alpha1.ConditionTypeReconciled)).To(BeNil())
	},
		Entry("in the spec", func(etcd *druidv1alpha1.Etcd) {
			relabel(etcd)
			must(k.Client(nil).Update(ctx, etcd))
		}),
		Entry("in an annotation", func(etcd *druidv1alpha1.Etcd) {
			completeRotation(etcd)
			must(k.Client(nil).Update(ctx, etcd))
		}),
		Entry("for a deletion", func(etcd *druidv1alpha1.Etcd) { must(k.Client(nil).Delete(ctx, etcd)) }),
	)
})

var _ = Describe("The operation annotation", func() {
	DescribeTable("is removed before the status reports the generation, and the Etcd has no other patch of its metadata", func(change func(*kube.Cluster)) {
		k := kube.New(scheme)
		isOperating, patches := false, 0
		o := startOperator(k, func(write kube.Write) {
			if !isOperating || !write.Done {
				return
			}
			etcd := k.EtcdObject()
			if write.What == "patch Etcd "+k.Etcd.Name {
				patches++
			}
			if isReported := etcd.Status.ObservedGeneration != nil && *etcd.Status.ObservedGeneration == etcd.Generation; isReported && etcd.Generation > 1 {
				Expect(etcd.Annotations).NotTo(HaveKey("druid.gardener.cloud/operation"))
			}
		})
		create(3)(k)
		o.run()
		isOperating = true
		change(k)
		o.due = k.Clock.Now()
		o.run()
		Expect(patches).To(Equal(1))
		Expect(conditions.Find(k.EtcdObject().Status.Conditions, druidv1alpha1.ConditionTypeReconciled)).To(HaveField("Status", druidv1alpha1.ConditionTrue))
	},
		Entry("of a change", update(relabel)),
		Entry("of an operation without a change", update(func(*druidv1alpha1.Etcd) {})),
	)
})

var _ = Describe("The events of an Etcd", func() {
	It("report each changed condition of the controller once", func() {
		k := kube.New(scheme)
		o := startOperator(k, nil)
		create(1)(k)
		o.run()
		update(relabel)(k)
		o.events, o.due = nil, k.Clock.Now()
		o.run()

		Expect(o.events).To(ContainElements(
			HavePrefix("NotAllMembersUpdated: Condition AllMembersUpdated is False: "), HavePrefix("AllMembersUpdated: Condition AllMembersUpdated is True: "),
		))
		observed := map[string]int{}
		for _, event := range o.events {
			observed[event]++
		}
		Expect(observed).To(HaveEach(1))
	})
})

var _ = Describe("An Etcd that waits for the changes of others", func() {
	It("is being created, or needs no action", func() {
		k := newCluster()
		o := startOperator(k, nil)
		waits := func() bool { return etcd.IsCreating(o.reconciler, reconcile.Request{NamespacedName: k.Etcd}) }
		create(1)(k)
		Expect(waits()).To(BeTrue(), "before the first reconciliation")
		result, err := o.reconcile()
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(And(HaveField("RequeueAfter", BeNumerically(">", 0)), HaveField("Priority", HaveValue(BeZero()))))
		Expect(waits()).To(BeTrue(), "after the first reconciliation")

		o.run()
		result, err = o.reconcile()
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(And(HaveField("RequeueAfter", BeNumerically(">", 0)), HaveField("Priority", HaveValue(Equal(queue.LowPriority)))))
		Expect(waits()).To(BeFalse(), "events of its members do not wait")

		update(relabel)(k)
		Expect(waits()).To(BeFalse(), "before the change is reconciled")
		result, err = o.reconcile()
		Expect(err).NotTo(HaveOccurred())
		Expect(result).To(HaveField("Priority", HaveValue(BeZero())))
		Expect(waits()).To(BeFalse(), "while the change is rolled out")
	})

	It("is not being deleted", func() {
		k := newCluster()
		o := startOperator(k, nil)
		create(1)(k)
		_, err := o.reconcile()
		Expect(err).NotTo(HaveOccurred())
		must(k.Client(nil).Delete(context.Background(), k.EtcdObject()))
		Expect(etcd.IsCreating(o.reconciler, reconcile.Request{NamespacedName: k.Etcd})).To(BeFalse())
	})
})
