// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/restrictions"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("Values that the configuration of the operator does not allow", func() {
	const role = "iam.amazonaws.com/role"

	withRole := func(etcd *druidv1alpha1.Etcd) {
		etcd.Spec.Annotations = map[string]string{role: "admin"}
	}
	template := func(k *kube.Cluster) corev1.PodTemplateSpec {
		GinkgoHelper()

		return find(k, "main", &appsv1.StatefulSet{}).Spec.Template
	}
	reconciled := func(k *kube.Cluster) string {
		for _, condition := range k.EtcdObject().Status.Conditions {
			if condition.Type == druidv1alpha1.ConditionTypeReconciled {
				return string(condition.Status) + " " + condition.Reason + ": " + condition.Message
			}
		}

		return ""
	}
	// restricted starts an operator that allows no annotation.
	restricted := func(k *kube.Cluster) *operator {
		o := startOperator(k, nil)
		o.reconciler.Config.Restrictions.AllowedAnnotations = []string{}
		o.observer.Restrictions = o.reconciler.Config.Restrictions

		return o
	}

	It("stay with the last accepted generation of a running Etcd, until its author removes them", func() {
		k := reconciledCluster(3, plaintext, withRole)
		made := k.PodsCreated
		o := restricted(k)
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Labels["new"] = "label" })(k)
		o.run()
		Expect(reconciled(k)).To(And(HavePrefix("False InvalidSpec"),
			ContainSubstring(`spec.annotations: Forbidden: restrictions.allowedAnnotations of the operator's configuration does not allow "iam.amazonaws.com/role" (allowed: none): remove it from the spec, or add it to the configuration`)))
		Expect(k.EtcdObject().Spec.Annotations).To(HaveKey(role), "the operator does not change the spec")
		Expect(k.PodsCreated).To(Equal(made), "no pod is restarted")
		Expect(template(k).Annotations).To(HaveKey(role))
		Expect(template(k).Labels).NotTo(HaveKey("new"))

		By("repairing the cluster meanwhile")
		must(k.Client(nil).Delete(context.Background(), find(k, "main", &appsv1.StatefulSet{}), client.PropagationPolicy("Foreground")))
		o.due = k.Clock.Now()
		o.run()
		Expect(template(k).Annotations).To(HaveKey(role))

		By("rolling out the generation without the annotation")
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Annotations = nil })(k)
		o.due = k.Clock.Now()
		o.run()
		Expect(reconciled(k)).To(HavePrefix("True"))
		Expect(template(k).Annotations).NotTo(HaveKey(role))
		Expect(template(k).Labels).To(HaveKey("new"))
	})

	It("start no member of a new Etcd", func() {
		k := newCluster()
		create(1, withRole)(k)
		o := restricted(k)
		o.run()
		Expect(reconciled(k)).To(And(HavePrefix("False InvalidSpec"), ContainSubstring("restrictions.allowedAnnotations")))
		Expect(k.PodsCreated).To(BeZero())
	})

	It("do not reach the Job that inspects a volume before the deletion of a hibernated Etcd", func() {
		k := reconciledCluster(1, plaintext, withStore, deletingAll, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.PriorityClassName = new("allowed") })
		update(func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 0 })(k)
		startOperator(k, nil).run()
		var selected []string
		o := startOperator(k, func(kube.Write) {
			jobs := &batchv1.JobList{}
			must(k.Client(nil).List(context.Background(), jobs))
			for _, job := range jobs.Items {
				selected = append(selected, job.Spec.Template.Spec.PriorityClassName+job.Spec.Template.Annotations[role])
			}
		})
		o.reconciler.Config.Restrictions = restrictions.Restrictions{AllowedPriorityClasses: []string{"allowed"}, AllowedAnnotations: []string{}}
		update(func(etcd *druidv1alpha1.Etcd) {
			withRole(etcd)
			etcd.Spec.PriorityClassName = new("system-node-critical")
		})(k)
		deleteEtcd(k)
		o.run()
		Expect(k.EtcdObject()).To(BeNil())
		Expect(selected).To(And(Not(BeEmpty()), HaveEach("allowed")))
	})
})
