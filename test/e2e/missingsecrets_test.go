// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("An Etcd whose Secrets are missing", func() {
	It("reports the missing Secrets, and starts when they exist", framework.NeedsSeed("reads the directory of the Local store"), func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "missing-secrets")
		etcd := fixture.Etcd(fixture.WithName("main"), fixture.WithClientTLS(), withLocalStore(ns), func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Backup.Store.SecretRef = &corev1.SecretReference{Name: "store"}
		})
		ns.Create(ctx, etcd)

		By("reporting each missing Secret and the field that references it, in the condition and in an event")
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "SecretsAvailable")
			g.Expect(condition.Status).To(BeEquivalentTo("False"))

			for name, field := range map[string]string{
				"client-ca":     "spec.etcd.clientUrlTls.tlsCASecretRef",
				"client-server": "spec.etcd.clientUrlTls.serverTLSSecretRef",
				"client-client": "spec.etcd.clientUrlTls.clientTLSSecretRef",
				"store":         "spec.backup.store.secretRef",
			} {
				g.Expect(condition.Message).To(And(ContainSubstring(name), ContainSubstring(field)))
			}

			g.Expect(allEventMessages(ctx, ns)).To(ContainElement(And(ContainSubstring("client-ca"), ContainSubstring("store"))))
		})
		expectNoObjects(ctx, ns)

		By("creating all Secrets except one")
		authority := framework.NewAuthority("e2e-clients")
		ns.Create(ctx,
			authority.Bundle("client-ca"),
			authority.Server("client-server", framework.ServerNames("main", ns.Name)...),
			authority.Client("client-client"),
		)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "SecretsAvailable")
			g.Expect(condition.Message).To(ContainSubstring("spec.backup.store.secretRef"))
			g.Expect(condition.Message).NotTo(ContainSubstring("client-ca"))
		})
		expectNoObjects(ctx, ns)

		By("creating the last Secret")
		ns.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "store"},
			Data:       map[string][]byte{"hostPath": []byte(seed.LocalStore)},
		})
		ns.EventuallyReady(ctx, etcd)
		Expect(framework.Condition(etcd, "SecretsAvailable").Status).To(BeEquivalentTo("True"))
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0)
		Expect(snapshots(ns, "Full-")).NotTo(BeEmpty())

		By("keeping a Secret that a user deletes while it is used")
		server := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "client-server"}}
		Eventually(func(g Gomega) {
			g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(server), server)).To(Succeed())
			g.Expect(server.Finalizers).To(ContainElement("druid.gardener.cloud/etcd-druid"))
		}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed())
		Expect(ns.Client.Delete(ctx, server)).To(Succeed())
		ns.Eventually(ctx, etcd, func(g Gomega) {
			condition := framework.Condition(etcd, "SecretsAvailable")
			g.Expect(condition.Reason).To(Equal("SecretsTerminating"))
			g.Expect(condition.Message).To(And(ContainSubstring("client-server"), ContainSubstring("spec.etcd.clientUrlTls.serverTLSSecretRef")))
		})

		By("completing the deletion after the spec names another Secret")
		replacement := authority.Server("client-server-2", framework.ServerNames("main", ns.Name)...)
		ns.Create(ctx, replacement)
		ns.Patch(ctx, etcd, func(etcd *druidv1alpha1.Etcd) {
			etcd.Spec.Etcd.ClientUrlTLS.ServerTLSSecretRef.Name = "client-server-2"
		})
		ns.EventuallyReady(ctx, etcd)
		Eventually(func() error { return ns.Client.Get(ctx, client.ObjectKeyFromObject(server), server) }).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "SecretsAvailable").Status).To(BeEquivalentTo("True"))
		})
	}, SpecTimeout(specTimeout))
})

func expectNoObjects(ctx context.Context, ns *framework.TestNamespace) {
	GinkgoHelper()
	Expect(slices.DeleteFunc(objectsIn(ctx, ns), func(name string) bool { return strings.HasPrefix(name, "Secret client-") })).To(BeEmpty())
}

// allEventMessages returns the messages of all events in the namespace.
func allEventMessages(ctx context.Context, ns *framework.TestNamespace) []string {
	GinkgoHelper()

	events := &corev1.EventList{}
	Expect(ns.Client.List(ctx, events, client.InNamespace(ns.Name))).To(Succeed())

	messages := make([]string, 0, len(events.Items))
	for _, event := range events.Items {
		messages = append(messages, event.Message)
	}

	return messages
}
