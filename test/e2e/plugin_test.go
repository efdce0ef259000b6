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
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/test/e2e/framework"
)

// usePlugin runs the plugin kubectl etcd for three members without a store. It reads their status, also as a user who cannot read all objects. It plans a
// scale-up to five, suspends the reconciliation, and creates a task.
func usePlugin(ctx SpecContext, ns *framework.TestNamespace, etcd *druidv1alpha1.Etcd) {
	GinkgoHelper()
	run := func(input io.Reader, args ...string) (int, string) {
		out := &bytes.Buffer{}
		code := app.Run(ctx, genericiooptions.IOStreams{In: input, Out: out, ErrOut: out}, append(args, "-n", ns.Name))
		_, _ = GinkgoWriter.Write(out.Bytes()) // part of the report if the test fails

		return code, out.String()
	}

	By("showing the status of a healthy cluster, with the status that its members report")
	code, text := run(nil, "status", "-o", "json")
	Expect(code).To(Equal(0), text)
	status := report.Status{}
	Expect(json.Unmarshal([]byte(text), &status)).To(Succeed())
	Expect(status.State).To(Equal("Ready"))
	Expect(status.Unavailable).To(BeEmpty())
	Expect(status.Members).To(And(HaveLen(3), HaveEach(HaveField("Version", Not(BeEmpty())))))

	By("showing the status to a viewer, who cannot read all objects")
	viewer := viewerIn(ctx, ns)
	code, text = run(nil, "status", "main", "--as", viewer)
	Expect(code).To(Equal(0), text)
	Expect(text).To(And(ContainSubstring("UNAVAILABLE"), MatchRegexp(`is\s+forbidden,\s+and\s+4\s+more`)))
	code, text = run(nil, "suspend", "--as", viewer)
	Expect(code).To(Equal(1))
	Expect(text).To(ContainSubstring("you lack the rights"))

	By("planning a scale-up without executing it")
	larger := etcd.DeepCopy()
	larger.Spec.Replicas = 5
	larger.APIVersion, larger.Kind = "druid.gardener.cloud/v1alpha1", "Etcd"
	manifest, err := yaml.Marshal(larger)
	Expect(err).NotTo(HaveOccurred())
	code, text = run(bytes.NewReader(manifest), "plan", "-f", "-")
	Expect(code).To(Equal(0), text)
	Expect(text).To(And(MatchRegexp(`main-3\s+joins\s+as\s+a\s+learner`), ContainSubstring("Nothing was done with main")))
	Expect(ns.Client.Get(ctx, client.ObjectKeyFromObject(etcd), etcd)).To(Succeed())
	Expect(etcd.Spec.Replicas).To(Equal(int32(3)))

	By("suspending and resuming reconciliation")
	code, text = run(nil, "suspend")
	Expect(code).To(Equal(0), text)
	Expect(text).To(ContainSubstring("resume main"))
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "Reconciled").Reason).To(Equal("Suspended"))
	})
	code, text = run(nil, "resume")
	Expect(code).To(Equal(0), text)
	ns.Eventually(ctx, etcd, func(g Gomega) {
		g.Expect(framework.Condition(etcd, "Reconciled").Reason).To(Equal("Reconciled"))
		g.Expect(framework.CheckReady(etcd)).To(Succeed())
	})

	By("running a task until it succeeds")
	code, text = run(nil, "defrag")
	Expect(code).To(Equal(0), text)
	Expect(text).To(MatchRegexp(`main-0: \S+ before, \S+ after, unavailable for \S+`))
}

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
