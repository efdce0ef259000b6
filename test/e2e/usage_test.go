// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// The tests share the bare cluster, in this order. Only the first one expects that it is empty.
var _ = Describe("The tutorial", Ordered, SpecPriority(11), framework.NeedsSeed("starts another cluster"), func() {
	const page = "usage/first-etcd.md"

	var (
		ns    *framework.TestNamespace
		store string
	)

	BeforeAll(func(ctx SpecContext) {
		bare := seed.StartBareCluster(ctx)
		ns = &framework.TestNamespace{Framework: bare, Name: "first"}
		store = filepath.Join(bare.LocalStore, "first-etcd")
		Expect(os.RemoveAll(store)).To(Succeed())
		DeferCleanup(os.RemoveAll, store)
	}, NodeTimeout(specTimeout))

	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			ns.Report(ctx)
		}
	})

	It("leads to the first key in less than ten minutes on an empty cluster, and to each result of the page", gate, func(ctx SpecContext) {
		follow := func(section string) string {
			GinkgoHelper()

			return ns.Follow(ctx, page, section, nil)
		}
		Expect(ns.CustomResourceDefinitions(ctx)).To(BeEmpty(), "the cluster is empty")
		Expect(ns.ValidatingWebhooks(ctx)).To(BeEmpty())

		began := time.Now()
		follow("1. Install the operator")
		follow("2. Create")
		Expect(follow("3. Write a key")).To(ContainSubstring("greeting\nhello\n"))
		took := time.Since(began)
		AddReportEntry("the first key on a bare cluster", took.Round(time.Second).String(), ReportEntryVisibilityAlways)
		GinkgoWriter.Printf("etcd returned the first key %s after the start of the installation.\n", took.Round(time.Second))
		Expect(took).To(BeNumerically("<=", 10*time.Minute))

		By("checking what the chart has installed")
		Expect(ns.CustomResourceDefinitions(ctx)).To(ConsistOf("etcds.druid.gardener.cloud", "etcdopstasks.druid.gardener.cloud", "etcdcopybackupstasks.druid.gardener.cloud", "managedresources.resources.gardener.cloud"))
		Expect(ns.ValidatingWebhooks(ctx)).To(ConsistOf("gardener-extension-etcd-druid"))
		operator, err := ns.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(operator.Deployment.Namespace).To(Equal("etcd-druid"))
		operator.EventuallyLeading(ctx)

		By("following the rest of the page")
		Expect(follow("4. Connect as an application")).To(ContainSubstring("greeting\nhello\n"))
		Expect(follow("5. Take a snapshot")).To(MatchRegexp(`Full-\S+ holds everything up to revision \d+`))
		Expect(filepath.Glob(filepath.Join(store, "first", "first", "*", "Full-*"))).NotTo(BeEmpty())
		Expect(follow("6. Lose the pod")).To(And(ContainSubstring("Refused: "), ContainSubstring("greeting\nhello\n")))
		Expect(follow("7. Hibernate and wake")).To(ContainSubstring("greeting\nhello\n"))
		Expect(follow("8. Delete")).To(ContainSubstring("first-first-0"))
		follow("9. Uninstall")
		Expect(ns.CustomResourceDefinitions(ctx)).NotTo(BeEmpty(), "the CustomResourceDefinitions stay, with all Etcds")
		Expect(ns.ValidatingWebhooks(ctx)).To(BeEmpty(), "no operator could respond to their requests")
		Expect(ns.IsGone(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "etcd-druid"}})).To(BeTrue())
	}, SpecTimeout(specTimeout))

	It("has NetworkPolicies that restrict connections from other pods, and an operator that the installation page updates", Label("long"), func(ctx SpecContext) {
		ns.Follow(ctx, page, "1. Install the operator", nil)
		ns.Follow(ctx, page, "2. Create", nil)
		operator, err := ns.Operator(ctx)
		Expect(err).NotTo(HaveOccurred())

		pods := &corev1.PodList{}
		Expect(ns.Client.List(ctx, pods, client.InNamespace(operator.Deployment.Namespace))).To(Succeed())
		addresses := addressesOf(pods.Items[0])
		Expect(ns.Client.List(ctx, pods, client.InNamespace(ns.Name))).To(Succeed())
		addresses = append(addresses, addressesOf(pods.Items[0])...)
		Expect(reachable(ctx, ns, addresses)).To(ConsistOf(HavePrefix("client="), HavePrefix("webhooks=")))
		Expect(reachable(ctx, &framework.TestNamespace{Framework: ns.Framework, Name: "default"}, addresses)).To(ConsistOf(HavePrefix("webhooks=")))

		By("updating the operator with the commands of the installation page")
		ns.Follow(ctx, "operations/installation.md", "In another cluster", nil)
		operator.EventuallyLeading(ctx)
	}, SpecTimeout(specTimeout))
})

// followPages follows the pages about the plugin, the conditions, the alerts and the protection for a cluster that the operator has changed. It expects
// all metrics that the alerts and the dashboards read.
func followPages(ctx context.Context, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	placeholders := map[string]string{"NAMESPACE": ns.Name, "NAME": etcd.Name}
	Expect(ns.Follow(ctx, "operations/kubectl-etcd.md", "Preview a change", placeholders)).To(ContainSubstring("Nothing was done with main"))
	Expect(ns.Follow(ctx, "operations/kubectl-etcd.md", "Completion", placeholders)).To(ContainSubstring("\nmain\n:4\n"))
	Expect(ns.Follow(ctx, "operations/conditions.md", "Conditions and progress", placeholders)).To(ContainSubstring("Reconciled=True Reconciled: "))
	Expect(ns.Follow(ctx, "operations/alerts.md", "Triage", placeholders)).To(And(
		ContainSubstring("Now: The cluster is as the spec describes it"), ContainSubstring("\nmain-0  "), ContainSubstring("\nmain-2  ")))
	ns.Follow(ctx, "operations/protection.md", "Bypass the protection", placeholders)
	ns.EventuallyReady(ctx, etcd)
	Expect(etcd.Annotations).NotTo(HaveKey(unprotectedAnnotation))

	By("scraping every metric that the alerts of the page and the dashboards read")
	operator, err := seed.Operator(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, source := range []string{"operator", "changes"} {
		Eventually(operator.MissingMetrics).WithContext(ctx).WithArguments(source).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(BeEmpty())
	}
	Expect(framework.MissingMetrics("etcd", ns.MemberMetrics(ctx, etcd))).To(BeEmpty())
}

// addressesOf returns each port of the pod as name=address.
func addressesOf(pod corev1.Pod) []string {
	var addresses []string
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			addresses = append(addresses, fmt.Sprintf("%s=%s:%d", port.Name, pod.Status.PodIP, port.ContainerPort))
		}
	}

	return addresses
}

// reachable returns those addresses, in the form of addressesOf, to which a new pod in the namespace can connect.
func reachable(ctx context.Context, ns *framework.TestNamespace, addresses []string) []string {
	GinkgoHelper()
	const script = `for entry in "$@"; do a=${entry#*=}; nc -w 3 "${a%:*}" "${a#*:}" </dev/null >/dev/null 2>&1 && echo "$entry"; done; true`
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, GenerateName: "client-"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
			// The namespace of the tutorial enforces the Pod Security Standard restricted.
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "client", Image: "seed.local/busybox:1", Command: append([]string{"sh", "-c", script, "sh"}, addresses...),
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
	Expect(ns.Client.Create(ctx, pod)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.Status.Phase).To(Equal(corev1.PodSucceeded))
	}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), ns.State)
	output := ns.ContainerLog(ctx, pod, "client")
	Expect(ns.Client.Delete(ctx, pod)).To(Succeed())

	return strings.Fields(output)
}
