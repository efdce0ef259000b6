// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("An invalid spec", func() {
	It("is rejected by the API server with the name of the field", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "invalid-schema")

		for field, mistake := range map[string]func(*druidv1alpha1.Etcd){
			"spec.replicas":                    func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 2 },
			"spec.backup.fullSnapshotSchedule": func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.FullSnapshotSchedule = new("at noon") },
		} {
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace(ns.Name), mistake)
			err := ns.Client.Create(ctx, etcd)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(field)))
		}
	}, SpecTimeout(specTimeout))

	It("is rejected by the operator without an effect on the cluster, until it is corrected", SpecPriority(4), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "invalid-spec")
		etcd := fixture.Etcd(fixture.WithName("main"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.SchedulingConstraints.Affinity = affinity("Sometimes")
		})
		ns.Create(ctx, etcd)

		By("creating an Etcd with an invalid field")
		eventuallyInvalidSpec(ctx, ns, etcd, "operator")
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(operator.MissingMetrics).WithContext(ctx).WithArguments("rejections").WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())
		Expect(objectsIn(ctx, ns)).To(HaveEach(HavePrefix("Secret main-")), "the operator issues certificates and creates nothing else")

		By("correcting the field")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.SchedulingConstraints.Affinity = affinity("Exists") })
		ns.EventuallyReady(ctx, etcd)

		writeLog := ns.NewWriteLog(etcd)
		writeLog.Write(ctx, 1)

		By("changing another field to an invalid value")
		resource, pod := managedResource(ctx, ns, etcd), ns.Pod(ctx, etcd)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.SchedulingConstraints.Tolerations = []corev1.Toleration{{Key: "key", Operator: "Perhaps"}}
		})
		eventuallyInvalidSpec(ctx, ns, etcd, "tolerations")
		Expect(managedResource(ctx, ns, etcd).Spec).To(Equal(resource.Spec), "the operator does not apply the change")
		writeLog.Write(ctx, 1)

		By("reverting the change")
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.SchedulingConstraints.Tolerations = nil })
		ns.EventuallyReady(ctx, etcd)
		Expect(managedResource(ctx, ns, etcd).Spec).To(Equal(resource.Spec))
		Expect(ns.Pod(ctx, etcd).UID).To(Equal(pod.UID))
	}, SpecTimeout(specTimeout))
})

// eventuallyInvalidSpec waits until the status reports that the newest generation is invalid, with a message that contains the
// field.
func eventuallyInvalidSpec(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd, field string) {
	GinkgoHelper()
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(etcd.Status.LastErrors).To(ContainElement(HaveField("Description", ContainSubstring(field))))
		g.Expect(framework.Condition(etcd, "Progressing")).To(And(
			HaveField("Reason", "InvalidSpec"),
			HaveField("Message", ContainSubstring(field)),
		))
		g.Expect(etcd.Status.LastOperation.State).To(BeEquivalentTo("Error"))
	})
}

// managedResource returns the ManagedResource of the Etcd, which must exist.
func managedResource(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) *resourcesv1alpha1.ManagedResource {
	GinkgoHelper()

	resource := &resourcesv1alpha1.ManagedResource{}
	Expect(ns.Client.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: "druid-" + etcd.Name}, resource)).To(Succeed())

	return resource
}

// affinity returns a node affinity with this operator for the hostname label, which every node has.
func affinity(operator corev1.NodeSelectorOperator) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: operator}}}},
	}}}
}
