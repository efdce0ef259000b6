// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"encoding/json"
	"io"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/app"
	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/report"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

var _ = Describe("The plugin kubectl etcd", func() {
	It("shows the status of a cluster, the planned steps, and objects that the user cannot read", func(ctx SpecContext) {
		ns := seed.NewNamespace(ctx, "plugin")
		etcd := fixture.Etcd(fixture.WithName("main"), withLocalStore(ns))
		ns.Create(ctx, etcd)
		ns.EventuallyReady(ctx, etcd)
		run := func(input io.Reader, args ...string) (int, string) {
			out := &bytes.Buffer{}
			code := app.Run(ctx, genericiooptions.IOStreams{In: input, Out: out, ErrOut: out}, append(args, "-n", ns.Name))
			_, _ = GinkgoWriter.Write(out.Bytes()) // part of the report if the test fails

			return code, out.String()
		}

		By("showing the status of a healthy cluster, with the status that its member reports")
		code, text := run(nil, "status", "-o", "json")
		Expect(code).To(Equal(0), text)
		status := report.Status{}
		Expect(json.Unmarshal([]byte(text), &status)).To(Succeed())
		Expect(status.State).To(Equal("Ready"))
		Expect(status.Unavailable).To(BeEmpty())
		Expect(status.Members).To(HaveLen(1))
		Expect(status.Members[0].Version).NotTo(BeEmpty())

		By("showing the status to a viewer, who cannot read all objects")
		viewer := viewerIn(ctx, ns)
		code, text = run(nil, "status", "main", "--as", viewer)
		Expect(code).To(Equal(0), text)
		Expect(text).To(And(ContainSubstring("UNAVAILABLE"), MatchRegexp(`is\s+forbidden,\s+and\s+4\s+more`)))
		code, text = run(nil, "suspend", "--as", viewer)
		Expect(code).To(Equal(1))
		Expect(text).To(ContainSubstring("you lack the rights"))

		By("planning a scale-up without executing it")
		eventuallySnapshot(ctx, ns, etcd, "main-full-snap", 0) // otherwise the plan waits for a full snapshot before the restart
		larger := etcd.DeepCopy()
		larger.Spec.Replicas = 3
		larger.APIVersion, larger.Kind = "druid.gardener.cloud/v1alpha1", "Etcd"
		manifest, err := yaml.Marshal(larger)
		Expect(err).NotTo(HaveOccurred())
		code, text = run(bytes.NewReader(manifest), "plan", "-f", "-")
		Expect(code).To(Equal(0), text)
		Expect(text).To(And(MatchRegexp(`main-1\s+joins\s+as\s+a\s+learner`), ContainSubstring("Nothing was done with main")))
		Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
		Expect(etcd.Spec.Replicas).To(Equal(int32(1)))

		By("suspending and resuming reconciliation")
		code, text = run(nil, "suspend")
		Expect(code).To(Equal(0), text)
		Expect(text).To(ContainSubstring("resume main"))
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Reason).To(Equal("Suspended"))
		})
		code, text = run(nil, "resume")
		Expect(code).To(Equal(0), text)
		ns.Eventually(ctx, etcd, func(g Gomega) {
			g.Expect(framework.Condition(etcd, "Progressing").Reason).To(Equal("Reconciled"))
			g.Expect(framework.CheckReady(etcd)).To(Succeed())
		})

		By("running tasks until they succeed")
		code, text = run(nil, "snapshot")
		Expect(code).To(Equal(0), text)
		Expect(text).To(MatchRegexp(`Full-\S+ holds everything up to revision \d+`))
		code, text = run(nil, "defrag")
		Expect(code).To(Equal(0), text)
		Expect(text).To(MatchRegexp(`main-0: \S+ before, \S+ after, unavailable for \S+`))

		By("explaining the status, and printing the log of the member")
		_, text = run(nil, "why")
		Expect(text).To(ContainSubstring("Now: The cluster is as the spec describes it"))
		_, text = run(nil, "logs", "--tail", "1")
		Expect(text).To(HavePrefix("main-0  "))

		By("returning exit code 3 for a cluster that is not healthy")
		waiting := fixture.Etcd(fixture.WithName("waiting"), fixture.WithClientTLS())
		ns.Create(ctx, waiting)
		ns.Eventually(ctx, waiting, func(g Gomega) {
			g.Expect(framework.Condition(waiting, "SecretsAvailable").Status).To(BeEquivalentTo("False"))
		})
		code, text = run(nil, "status", "waiting")
		Expect(code).To(Equal(3), text)
	}, SpecTimeout(specTimeout))
})

// viewerIn creates a ServiceAccount that can read all objects of an Etcd in the namespace except Secrets. It returns the user name.
func viewerIn(ctx SpecContext, ns *framework.TestNamespace) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{}
	account.Name = "viewer"
	role := &rbacv1.Role{Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/log", "persistentvolumeclaims", "events"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"apps", "coordination.k8s.io", "druid.gardener.cloud", "resources.gardener.cloud"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
	}}
	role.Name = "viewer"
	binding := &rbacv1.RoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "viewer"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "viewer", Namespace: ns.Name}},
	}
	binding.Name = "viewer"
	ns.Create(ctx, account, role, binding)

	viewer := "system:serviceaccount:" + ns.Name + ":viewer"
	Eventually(func(g Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: viewer, ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: ns.Name, Verb: "get", Group: "druid.gardener.cloud", Resource: "etcds",
		}}}
		g.Expect(ns.Client.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(BeTrue(), review.Status.Reason)
	}).WithContext(ctx).WithTimeout(framework.ReconcileTimeout).WithPolling(framework.PollInterval).Should(Succeed(), "the API server applies the RoleBinding")

	return viewer
}
