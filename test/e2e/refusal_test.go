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

var _ = Describe("A spec cannot be carried out", func() {
	It("is refused by the API server, which names the field", func(ctx SpecContext) {
		story := seed.Begin(ctx, "refusal-schema")

		for field, mistake := range map[string]func(*druidv1alpha1.Etcd){
			"spec.replicas":                    func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Replicas = 2 },
			"spec.backup.fullSnapshotSchedule": func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Backup.FullSnapshotSchedule = new("at noon") },
		} {
			etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithNamespace(story.Namespace), mistake)
			err := story.Client.Create(ctx, etcd)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring(field)))
		}
	}, SpecTimeout(storyTimeout))

	It("is refused before it harms what runs, and heals when it is corrected", SpecPriority(4), func(ctx SpecContext) {
		story := seed.Begin(ctx, "refusal")
		etcd := fixture.Etcd(fixture.WithName("main"), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.SchedulingConstraints.Affinity = affinity("Sometimes")
		})
		story.Create(ctx, etcd)

		By("naming the field of a new Etcd")
		eventuallyRefused(ctx, story, etcd, "operator")
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Eventually(operator.MissingForAlerts).WithContext(ctx).WithArguments("refusals").WithTimeout(framework.Soon).WithPolling(framework.Pause).Should(BeEmpty())
		Expect(objects(ctx, story)).To(HaveEach(HavePrefix("Secret main-")), "certificates are issued, and nothing else is made")

		By("healing it")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.SchedulingConstraints.Affinity = affinity("Exists") })
		story.EventuallyReady(ctx, etcd)

		ledger := story.Ledger(etcd)
		ledger.Write(ctx, 1)

		By("naming the field of a change")
		resource, pod := managedResource(ctx, story, etcd), story.Pod(ctx, etcd)
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.SchedulingConstraints.Tolerations = []corev1.Toleration{{Key: "key", Operator: "Perhaps"}}
		})
		eventuallyRefused(ctx, story, etcd, "tolerations")
		Expect(managedResource(ctx, story, etcd).Spec).To(Equal(resource.Spec), "it never reaches the ManagedResource")
		ledger.Write(ctx, 1)

		By("healing the change, which comes to nothing")
		story.Change(ctx, etcd, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.SchedulingConstraints.Tolerations = nil })
		story.EventuallyReady(ctx, etcd)
		Expect(managedResource(ctx, story, etcd).Spec).To(Equal(resource.Spec))
		Expect(story.Pod(ctx, etcd).UID).To(Equal(pod.UID))
	}, SpecTimeout(storyTimeout))
})

// eventuallyRefused waits until the status says that the newest generation is refused, with a text that names the field.
func eventuallyRefused(ctx context.Context, story *framework.Story, etcd *druidv1alpha1.Etcd, field string) {
	GinkgoHelper()
	story.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(etcd.Status.LastErrors).To(ContainElement(HaveField("Description", ContainSubstring(field))))
		g.Expect(framework.Condition(etcd, "Progressing")).To(And(
			HaveField("Reason", "InvalidSpec"),
			HaveField("Message", ContainSubstring(field)),
		))
		g.Expect(etcd.Status.LastOperation.State).To(BeEquivalentTo("Error"))
	})
}

// managedResource is that of the Etcd, which must exist.
func managedResource(ctx context.Context, story *framework.Story, etcd *druidv1alpha1.Etcd) *resourcesv1alpha1.ManagedResource {
	GinkgoHelper()

	resource := &resourcesv1alpha1.ManagedResource{}
	Expect(story.Client.Get(ctx, client.ObjectKey{Namespace: story.Namespace, Name: "druid-" + etcd.Name}, resource)).To(Succeed())

	return resource
}

// affinity demands nodes whose label with the host's name is this or that; every node has one.
func affinity(operator corev1.NodeSelectorOperator) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: operator}}}},
	}}}
}
