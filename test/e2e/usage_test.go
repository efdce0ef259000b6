// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/landscape"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("A newcomer", func() {
	// The operator is installed anew, so that no other story may run beside this one.
	It("has a first key within ten minutes on a cluster without the operator, and all else that the page promises", Serial, func(ctx SpecContext) {
		const page = "usage/first-etcd.md"
		operator, err := seed.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		story := &landscape.Story{Landscape: seed, Namespace: "first"}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: story.Namespace}}
		store := filepath.Join(seed.LocalStore, "first-etcd")
		Expect(story.IsGone(ctx, namespace)).To(BeTrue(), "the page makes the namespace "+story.Namespace)
		Expect(os.RemoveAll(store)).To(Succeed())
		follow := func(section string) string {
			GinkgoHelper()

			return story.Follow(ctx, page, section, nil)
		}

		DeferCleanup(func(ctx SpecContext) {
			etcd := fixture.Etcd(fixture.WithNamespace(story.Namespace), fixture.WithName("first"))
			Expect(client.IgnoreNotFound(story.Client.Delete(ctx, etcd))).To(Succeed())
			Eventually(func() bool { return story.IsGone(ctx, etcd) }).WithContext(ctx).WithTimeout(landscape.Patience).WithPolling(landscape.Pause).Should(BeTrue())
			Expect(client.IgnoreNotFound(story.Client.Delete(ctx, namespace))).To(Succeed())
			Expect(os.RemoveAll(store)).To(Succeed())
		})
		GinkgoT().Setenv("VALUES", operator.Uninstall(ctx))
		DeferCleanup(func(ctx SpecContext) {
			if CurrentSpecReport().Failed() {
				story.Report(ctx)
			}
		})

		began := time.Now()
		follow("1. Install the operator")
		follow("2. Create")
		Expect(follow("3. Write a key")).To(ContainSubstring("greeting\nhello\n"))
		took := time.Since(began)
		AddReportEntry("the first key on a cluster without the operator", took.Round(time.Second).String(), ReportEntryVisibilityAlways)
		GinkgoWriter.Printf("The first key was served %s after the installation began.\n", took.Round(time.Second))
		Expect(took).To(BeNumerically("<=", 10*time.Minute))

		By("finding the operator as the page about the installation leaves it, since that is the same")
		story.Follow(ctx, "operations/installation.md", "In any other cluster", nil)

		By("going on as the page does")
		Expect(follow("4. Connect as an application")).To(ContainSubstring("greeting\nhello\n"))
		Expect(follow("5. Take a snapshot")).To(MatchRegexp(`Full-\S+ holds everything up to revision \d+`))
		Expect(filepath.Glob(filepath.Join(store, "first", "first", "*", "Full-*"))).NotTo(BeEmpty())
		Expect(follow("6. Lose the pod")).To(And(ContainSubstring("Refused: "), ContainSubstring("greeting\nhello\n")))
		Expect(follow("7. Hibernate and wake")).To(ContainSubstring("greeting\nhello\n"))
		Expect(follow("8. Delete")).To(ContainSubstring("first-first-0"))
		follow("9. Uninstall")
	}, SpecTimeout(15*time.Minute))

	It("rotates the CAs, plans growth and completes names as the pages say", func(ctx SpecContext) {
		story := seed.Begin(ctx, "pages")
		etcd := fixture.Etcd(fixture.WithName("main"), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.Etcd.EnableTLS = new(true) })
		story.Create(ctx, etcd)
		story.EventuallyReady(ctx, etcd)
		words := map[string]string{"NAMESPACE": story.Namespace, "NAME": etcd.Name}

		Expect(story.Follow(ctx, "operations/kubectl-etcd.md", "Before you change something", words)).To(ContainSubstring("Nothing was done with main"))
		Expect(story.Follow(ctx, "operations/kubectl-etcd.md", "Completion", words)).To(ContainSubstring("\nmain\n:4\n"))
		Expect(story.Follow(ctx, "operations/waiting.md", "What it waits for", words)).To(ContainSubstring("Progressing=False Reconciled: "))
		Expect(story.Follow(ctx, "operations/alerts.md", "First look", words)).To(ContainSubstring("Now: The cluster is as the spec describes it"))
		story.Follow(ctx, "operations/protection.md", "How to get past it", words)
		story.EventuallyReady(ctx, etcd)
		Expect(etcd.Annotations).NotTo(HaveKey(unprotectedAnnotation))

		ledger := story.Ledger(etcd)
		old, err := story.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())
		ledger.TLS = old
		ledger.Write(ctx, 10)
		story.Follow(ctx, "usage/tls.md", "Rotation of the CAs", words)
		story.EventuallyReady(ctx, etcd)
		ledger.TLS, err = story.Connection(ctx, etcd)
		Expect(err).NotTo(HaveOccurred())
		Expect(ledger.TLS.RootCAs.Equal(old.RootCAs)).To(BeFalse())
		ledger.ExpectComplete(ctx)
		Expect(ledger.TryWrite(ctx, old)).NotTo(Succeed(), "the old CA is trusted no longer")
	}, SpecTimeout(storyTimeout))
})
