// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/drift"
	"github.com/gardener/gardener-extension-etcd-druid/test/kube"
)

var _ = Describe("Repair of drift while gardener-resource-manager does not run", func() {
	// repaired are the objects whose repairs are recorded at the ManagedResource.
	repaired := func(k *kube.Cluster) []string {
		mr := &resourcesv1alpha1.ManagedResource{}
		Expect(k.Client(nil).Get(context.Background(), client.ObjectKey{Namespace: k.Etcd.Namespace, Name: "druid-" + k.Etcd.Name}, mr)).To(Succeed())
		Expect(mr.Annotations).To(HaveKeyWithValue("gardener.cloud/operation", "reconcile"))
		recorded := drift.Repairs{}
		Expect(json.Unmarshal([]byte(mr.Annotations[druidv1alpha1.ManagedResourceAnnotationRepairs]), &recorded)).To(Succeed())

		return slices.Sorted(maps.Keys(recorded.At))
	}

	It("records each object once, also while an earlier request is pending", func() {
		k := reconciledCluster(1)
		o := startOperator(k, nil)
		o.run()
		service, disruptionBudget := "Service/"+k.Etcd.Name+"-client", "PodDisruptionBudget/"+k.Etcd.Name

		selector(k, "other")
		o.reconcileOnce()
		Expect(repaired(k)).To(ConsistOf(service))
		budget := &policyv1.PodDisruptionBudget{}
		Expect(k.Client(nil).Get(context.Background(), k.Etcd, budget)).To(Succeed())
		minAvailable := budget.Spec.MinAvailable
		budget.Spec.MinAvailable = new(intstr.FromInt32(7))
		Expect(k.Client(nil).Update(context.Background(), budget)).To(Succeed())
		o.reconcileOnce()
		Expect(repaired(k)).To(ConsistOf(service, disruptionBudget), "the second request is recorded while the first one is pending")
		Expect(o.count("RepairingDrift")).To(Equal(2))

		By("repeating nothing within five minutes, also by a new operator")
		began := k.Clock.Now()
		events := o.events
		o = startOperator(k, nil)
		for second := range 30 {
			k.Clock.SetTime(began.Add(time.Duration(10*second) * time.Second))
			o.reconcileOnce()
			Expect(o.err).NotTo(HaveOccurred())
		}
		Expect(o.count("RepairingDrift")).To(BeZero(), "events before: %s", events)

		By("repairing both when gardener-resource-manager runs again")
		o.run()
		Expect(selector(k, "")).NotTo(HaveKey("x"))
		Expect(k.Client(nil).Get(context.Background(), k.Etcd, budget)).To(Succeed())
		Expect(budget.Spec.MinAvailable).To(Equal(minAvailable))
		Expect(o.count("RepairingDrift")).To(BeZero())
	})
})

var _ = DescribeTable("A dry run that fails", func(response error, isDrift bool) {
	k := reconciledCluster(1)
	o := startOperator(k, nil)
	o.run()
	requests := o.countRequests("*v1.Service/" + k.Etcd.Name + "-client")
	requests.dryRunError = response
	selector(k, "other")
	o.reconcileOnce()
	Expect(requests.dryRuns).To(Equal(1))
	if isDrift {
		Expect(o.count("RepairingDrift")).To(Equal(1))

		return
	}
	Expect(o.err).NotTo(HaveOccurred())
	Expect(o.count("RepairingDrift")).To(BeZero())
	Expect(k.EtcdObject().Status.LastErrors).To(BeEmpty())
	Expect(k.EtcdObject().Status.Conditions).To(ContainElement(And(HaveField("Type", BeEquivalentTo("Reconciled")), HaveField("Reason", "Reconciled"))))
	Expect(o.due).To(BeTemporally("~", k.Clock.Now().Add(6*time.Minute), 5*time.Minute), "no event follows")

	By("comparing the object in the next reconciliation")
	requests.dryRunError = nil
	o.reconcileOnce()
	Expect(requests.dryRuns).To(Equal(2))
	Expect(o.count("RepairingDrift")).To(Equal(1))
},
	Entry("since a webhook does not respond, is repeated in the next reconciliation", apierrors.NewInternalError(errors.New("failed calling webhook")), false),
	Entry("since a webhook is too slow, is repeated in the next reconciliation", apierrors.NewTimeoutError("webhook", 0), false),
	Entry("since the API server is too busy, is repeated in the next reconciliation", apierrors.NewServerTimeout(corev1.Resource("services"), "patch", 0), false),
	Entry("since the API server refuses the object, is reported by gardener-resource-manager", apierrors.NewForbidden(corev1.Resource("services"), "x", errors.New("quota")), true),
	Entry("since the object is invalid, is reported by gardener-resource-manager", apierrors.NewBadRequest("x"), true),
)
