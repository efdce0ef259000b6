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
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

// appliedWithKubectl adds the annotation with the manifest that kubectl applied last. It also adds the finalizer: after it adds the finalizer itself, the
// operator has what the API server returned.
func appliedWithKubectl(etcd *druidv1alpha1.Etcd) {
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, corev1.LastAppliedConfigAnnotation, "{}")
	etcd.Finalizers = []string{druidv1alpha1.EtcdFinalizerName}
}

// trimmedClient reads an Etcd as the caches have it, without the manifest that kubectl applied last. The API server returns the manifest after a write.
type trimmedClient struct{ client.Client }

// Get implements client.Client.
func (c trimmedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, obj, opts...)
	if _, is := obj.(*druidv1alpha1.Etcd); is && obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation] != "" {
		obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation] = ""
	}

	return err
}

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

	// reconcileWith reconciles a new Etcd once, which was applied with kubectl. It calls change immediately before the first patch of the status.
	reconcileWith := func(change func(etcd *druidv1alpha1.Etcd)) {
		GinkgoHelper()
		changed := false
		o := startOperator(k, func(write kube.Write) {
			if write.What == "patch status of Etcd "+k.Etcd.Name && !changed {
				changed = true
				change(k.EtcdObject().DeepCopy())
			}
		})
		o.reconciler.Client = trimmedClient{o.reconciler.Client}
		create(1, appliedWithKubectl)(k)
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

var _ = Describe("An operation on an Etcd", func() {
	// isReported is true for a status with which clients take the newest generation as reconciled.
	isReported := func(etcd *druidv1alpha1.Etcd) bool {
		status := etcd.Status

		return status.ObservedGeneration != nil && *status.ObservedGeneration == etcd.Generation && status.LastOperation.State == druidv1alpha1.LastOperationStateSucceeded &&
			conditions.IsTrue(status.Conditions, druidv1alpha1.ConditionTypeReconciled) && *status.Ready && !helper.IsReconcileRequested(etcd)
	}

	DescribeTable("removes its annotations first, and ends with one patch of the status", func(isNew bool, replicas int32, change func(*kube.Cluster)) {
		k := newCluster()
		create(replicas)(k)
		startOperator(k, nil).run()
		change(k)
		ended, requests, patches, writes := false, len(k.EtcdObject().Annotations), 0, 0
		o := startOperator(k, func(write kube.Write) {
			if write.What == "patch Etcd "+k.Etcd.Name && write.Done {
				patches++
			}
			if !strings.HasSuffix(write.What, " Etcd "+k.Etcd.Name) || !write.Done {
				return
			}
			etcd := k.EtcdObject()
			if ended {
				writes++
			}
			ended = isReported(etcd)
			if isNew {
				Expect(ended).To(Equal(*etcd.Status.ObservedGeneration == etcd.Generation), "the last patch reports the generation and its result: %+v", etcd.Status)
			}
		})
		o.run()
		Expect(ended).To(BeTrue())
		Expect(writes).To(BeZero(), "after the end")
		Expect(patches).To(BeNumerically("<=", requests))
	},
		Entry("that changes three members", true, int32(3), update(relabel)),
		Entry("that changes one member", true, int32(1), update(relabel)),
		Entry("that adds members", true, int32(1), update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })),
		Entry("that hibernates", true, int32(3), update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })),
		Entry("that wakes up", true, int32(0), update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 3 })),
		Entry("without a change", false, int32(3), update(func(*druidv1alpha1.Etcd) {})),
		Entry("with another request", true, int32(1), update(func(etcd *druidv1alpha1.Etcd) {
			relabel(etcd)
			etcd.Annotations = map[string]string{"druid.gardener.cloud/rotate-ca": "invalid"}
		})),
	)

	It("removes its annotation without a conflict, and keeps the manifest that kubectl applied last", func() {
		k := newCluster()
		create(1, appliedWithKubectl)(k)
		startOperator(k, nil).run()
		update(func(*druidv1alpha1.Etcd) {})(k)
		o := startOperator(k, nil)
		o.reconciler.Client = trimmedClient{o.reconciler.Client}
		o.reconcileOnce()
		Expect(o.err).NotTo(HaveOccurred())
		Expect(o.due).To(BeTemporally(">", k.Clock.Now().Add(time.Minute)), "after a conflict, it reconciles again")
		Expect(k.EtcdObject().Annotations).To(Equal(map[string]string{corev1.LastAppliedConfigAnnotation: "{}"}))
	})

	DescribeTable("ends after the care controller has reported healthy members", func(conditionType druidv1alpha1.ConditionType) {
		k := newCluster()
		reported := func(status druidv1alpha1.ConditionStatus) {
			etcd := k.EtcdObject().DeepCopy()
			etcd.Status.Conditions = conditions.Merge(etcd.Status.Conditions, []druidv1alpha1.ConditionType{conditionType},
				[]druidv1alpha1.Condition{{Type: conditionType, Status: status, Reason: "Test", Message: "as care observes"}}, k.Clock.Now())
			must(k.Client(nil).Status().Update(context.Background(), etcd))
		}
		create(1)(k)
		reported(druidv1alpha1.ConditionUnknown)
		o := startOperator(k, nil)
		o.run()
		etcd := k.EtcdObject()
		Expect(etcd.Status.ObservedGeneration).To(BeNil())
		Expect(conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)).To(And(
			HaveField("Status", druidv1alpha1.ConditionFalse), HaveField("Message", "Waiting for condition "+string(conditionType)+": as care observes")))

		reported(druidv1alpha1.ConditionTrue)
		o.run()
		Expect(isReported(k.EtcdObject())).To(BeTrue())

		reported(druidv1alpha1.ConditionFalse)
		o.due = k.Clock.Now()
		o.run()
		etcd = k.EtcdObject()
		Expect(conditions.IsTrue(etcd.Status.Conditions, druidv1alpha1.ConditionTypeReconciled)).To(BeTrue(), "the operation has ended before")
		Expect(etcd.Status.Ready).To(HaveValue(Equal(conditionType != druidv1alpha1.ConditionTypeReady)))
	},
		Entry("to clients", druidv1alpha1.ConditionTypeReady),
		Entry("of the cluster", druidv1alpha1.ConditionTypeAllMembersReady),
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
