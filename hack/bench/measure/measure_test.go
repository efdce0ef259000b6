// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package measure_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/measure"
	"github.com/gardener/gardener-extension-etcd-druid/hack/bench/report"
)

var _ = Describe("AuditLog", func() {
	var log *measure.AuditLog

	BeforeEach(func() {
		log = &measure.AuditLog{
			Path:    filepath.Join(GinkgoT().TempDir(), "audit.log"),
			Clients: measure.Clients{OperatorUser: "system:serviceaccount:operator:operator", OperatorNamespace: "operator"},
		}
		Expect(os.WriteFile(log.Path, nil, 0o600)).To(Succeed())
	})

	write := func(text string) {
		GinkgoHelper()
		file, err := os.OpenFile(log.Path, os.O_APPEND|os.O_WRONLY, 0o600)
		Expect(err).NotTo(HaveOccurred())
		_, err = file.WriteString(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(file.Close()).To(Succeed())
	}
	line := func(user, agent, verb string, object map[string]string) string {
		GinkgoHelper()
		content, err := json.Marshal(map[string]any{
			"stage": "ResponseComplete", "verb": verb, "userAgent": agent, "user": map[string]string{"username": user}, "objectRef": object,
		})
		Expect(err).NotTo(HaveOccurred())

		return string(content) + "\n"
	}
	pods := map[string]string{"resource": "pods", "namespace": "a"}

	It("counts the requests of each client since the last call", func() {
		write(line("admin", "kwok/v1", "patch", map[string]string{"resource": "pods", "subresource": "status"}))
		Expect(log.Skip()).To(Succeed())
		write(line("system:serviceaccount:operator:operator", "x", "get", pods) + line("system:serviceaccount:operator:operator", "y", "get", pods))
		write(line("system:serviceaccount:kube-system:statefulset-controller", "x", "create", pods) + line("system:kube-controller-manager", "x", "create", pods))
		write(line("system:serviceaccount:garden:gardener-resource-manager", "x", "update", pods))
		write(line("admin", "kwok/v1", "patch", map[string]string{"resource": "pods", "subresource": "status"}))

		Expect(log.Next()).To(HaveExactElements(
			report.Requests{Client: "kube-controller-manager", Verb: "create", Resource: "pods", Count: 2},
			report.Requests{Client: "operator", Verb: "get", Resource: "pods", Count: 2},
			report.Requests{Client: "gardener-resource-manager", Verb: "update", Resource: "pods", Count: 1},
			report.Requests{Client: "kwok", Verb: "patch", Resource: "pods/status", Count: 1},
		))
		Expect(log.Next()).To(BeEmpty())
	})

	It("marks the Leases of the operator itself", func() {
		operator := "system:serviceaccount:operator:operator"
		write(line(operator, "x", "update", map[string]string{"resource": "leases", "namespace": "operator"}))
		write(line(operator, "x", "update", map[string]string{"resource": "leases", "namespace": "a"}))
		Expect(log.Next()).To(ConsistOf(And(HaveField("Own", true), HaveField("Count", 1)), And(HaveField("Own", false), HaveField("Count", 1))))
	})

	It("counts a line that was not complete once", func() {
		text := line("admin", "bench/1", "get", pods)
		write(text[:20])
		Expect(log.Next()).To(BeEmpty())
		write(text[20:])
		Expect(log.Next()).To(ConsistOf(report.Requests{Client: "bench", Verb: "get", Resource: "pods", Count: 1}))
	})

	It("ignores requests that are not complete", func() {
		write(strings.ReplaceAll(line("admin", "bench/1", "watch", pods), "ResponseComplete", "ResponseStarted"))
		Expect(log.Next()).To(BeEmpty())
	})

	It("returns an error for a line that is no event", func() {
		write("x\n")
		_, err := log.Next()
		Expect(err).To(MatchError(ContainSubstring("audit log")))
	})
})

var _ = Describe("Merge", func() {
	It("adds up the counts", func() {
		get := report.Requests{Client: "a", Verb: "get", Count: 2}
		list := report.Requests{Client: "a", Verb: "list", Count: 1}
		Expect(measure.Merge([]report.Requests{get}, []report.Requests{list, get})).To(HaveExactElements(
			report.Requests{Client: "a", Verb: "get", Count: 4}, list,
		))
	})
})

var _ = Describe("ParseMetrics", func() {
	It("reads samples, and adds up those of a metric", func() {
		metrics, err := measure.ParseMetrics(strings.NewReader("# HELP depth x\n# TYPE depth gauge\ndepth{name=\"a b\"} 2\ndepth{name=\"c\"} 1\ndepth_total 9\ngo_goroutines 1.5e+02\n"))
		Expect(err).NotTo(HaveOccurred())
		Expect(metrics.Sum("depth")).To(BeEquivalentTo(3))
		Expect(metrics["go_goroutines"]).To(BeEquivalentTo(150))
	})

	It("returns an error for a sample without a number", func() {
		_, err := measure.ParseMetrics(strings.NewReader("depth x\n"))
		Expect(err).To(MatchError(ContainSubstring("depth x")))
	})
})

var _ = Describe("A process", func() {
	It("has CPU time and resident memory", func() {
		Expect(measure.CPUSeconds(os.Getpid())).To(BeNumerically(">=", 0))
		Expect(measure.ResidentBytes(os.Getpid())).To(BeNumerically(">", 1<<20))
	})

	It("has the sum of its user and system time, also with a bracket in its name", func() {
		Expect(measure.ParseCPU("1 (a) b) S 1 1 1 0 -1 4194304 100 0 0 0 150 50 7 8 20 0 1 0 100")).To(BeEquivalentTo(2))
	})

	It("is read from the records of the seed", func() {
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "kwok.json"), []byte(`{"pid":17,"args":["kwok"]}`), 0o600)).To(Succeed())
		Expect(measure.Processes(dir)).To(Equal(map[string]int{"kwok": 17}))
	})
})
