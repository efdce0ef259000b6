// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

var _ = Describe("The comparison of rights", func() {
	const (
		roles = `{"items": [
  {"kind": "ClusterRole", "rules": [{"apiGroups": [""], "resources": ["pods", "pods/eviction"], "verbs": ["get", "create"]}, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
  {"kind": "Role", "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["a"], "verbs": ["list"]}]},
  {"kind": "ClusterRole", "metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}}, "rules": [{"apiGroups": ["druid.gardener.cloud"], "resources": ["etcds"], "verbs": ["create"]}]}
]}`
		now      = "2026-03-01T12:00:00Z"
		before   = "2026-03-01T11:59:59Z"
		pods     = `{"resource":"pods","apiVersion":"v1"}`
		eviction = `{"resource":"pods","subresource":"eviction"}`
	)
	write := func(name, content string) string {
		path := filepath.Join(GinkgoT().TempDir(), name)
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())

		return path
	}
	event := func(user, verb, object, at, decision string) string {
		return fmt.Sprintf(`{"verb":%q,"user":{"username":%q},"objectRef":%s,"requestReceivedTimestamp":%q,"annotations":{"authorization.k8s.io/decision":%q}}`+"\n", verb, user, object, at, decision)
	}
	since, _ := time.Parse(time.RFC3339, now)
	run := func(roles, unused, log string) (string, error) {
		out := gbytes.NewBuffer()
		err := compare(out, write("roles.json", roles), requests{user: "operator", since: since}, write("unused.txt", unused), []string{write("audit.log", log), write("audit-1.log", `{"verb":"cut off`)})

		return string(out.Contents()), err
	}
	used := event("operator", "get", pods, now, "allow") + event("operator", "create", eviction, now, "allow")
	const named = "get pods/eviction: a reason\nlist deployments.apps: another reason\n"

	It("prints the rights that no request used, with their reasons", func() {
		out, err := run(roles, named+"create pods: a third reason\n", used)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(Equal("create pods: a third reason\nget pods/eviction: a reason\nlist deployments.apps: another reason\n3 of 5 rights were not used\n"))
	})

	DescribeTable("fails", func(roles, unused, log, message string) {
		_, err := run(roles, unused, log)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("for a right without a reason", roles, named, used, "create pods was not used: remove the right"),
		Entry("for a right that only another user used", roles, named, used+event("other", "create", pods, now, "allow"), "create pods was not used"),
		Entry("for a right that was used before", roles, named, used+event("operator", "create", pods, before, "allow"), "create pods was not used"),
		Entry("for a right with which a request was forbidden", roles, named, used+event("operator", "create", pods, now, "forbid"), "create pods was not used"),
		Entry("for a line about a right that is not granted", roles, named+"create pods: a reason\ndelete pods: a reason\n", used, "delete pods is not granted: remove its line"),
		Entry("for a line without a reason", roles, "create pods\n", used, "has no reason"),
		Entry("without any right", `{"items": []}`, named, used, "it grants none"),
	)
})
