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
	var (
		path string
		log  *measure.AuditLog
	)

	BeforeEach(func() {
		path = filepath.Join(GinkgoT().TempDir(), "audit.log")
		Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
		file, err := os.Open(path)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)
		log = measure.NewAuditLog(file, "system:serviceaccount:operator:operator", "operator")
	})

	write := func(text string) {
		GinkgoHelper()
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
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

	It("counts the requests of each client since the last reset", func() {
		write(line("admin", "kwok/v1", "patch", map[string]string{"resource": "pods", "subresource": "status"}))
		Expect(log.Reset()).To(Succeed())
		write(line("system:serviceaccount:operator:operator", "x", "get", pods) + line("system:serviceaccount:operator:operator", "y", "get", pods))
		write(line("system:serviceaccount:kube-system:statefulset-controller", "x", "create", pods) + line("system:kube-controller-manager", "x", "create", pods))
		write(line("system:serviceaccount:garden:gardener-resource-manager", "x", "update", pods))
		write(line("admin", "kwok/v1", "patch", map[string]string{"resource": "pods", "subresource": "status"}))

		Expect(log.Requests()).To(HaveExactElements(
			report.Requests{Client: "kube-controller-manager", Verb: "create", Resource: "pods", Count: 2},
			report.Requests{Client: "operator", Verb: "get", Resource: "pods", Count: 2},
			report.Requests{Client: "gardener-resource-manager", Verb: "update", Resource: "pods", Count: 1},
			report.Requests{Client: "kwok", Verb: "patch", Resource: "pods/status", Count: 1},
		))
		write(line("admin", "kwok/v1", "patch", map[string]string{"resource": "pods", "subresource": "status"}))
		Expect(log.Requests()).To(ContainElement(report.Requests{Client: "kwok", Verb: "patch", Resource: "pods/status", Count: 2}))
		Expect(log.Reset()).To(Succeed())
		Expect(log.Requests()).To(BeEmpty())
	})

	It("marks the Leases of the operator itself", func() {
		operator := "system:serviceaccount:operator:operator"
		write(line(operator, "x", "update", map[string]string{"resource": "leases", "namespace": "operator"}))
		write(line(operator, "x", "update", map[string]string{"resource": "leases", "namespace": "a"}))
		Expect(log.Requests()).To(ConsistOf(And(HaveField("Own", true), HaveField("Count", 1)), And(HaveField("Own", false), HaveField("Count", 1))))
	})

	It("counts a line that was not complete once", func() {
		text := line("admin", "bench/1", "get", pods)
		write(text[:20])
		Expect(log.Requests()).To(BeEmpty())
		write(text[20:])
		Expect(log.Requests()).To(ConsistOf(report.Requests{Client: "bench", Verb: "get", Resource: "pods", Count: 1}))
	})

	It("ignores requests that are not complete", func() {
		write(strings.ReplaceAll(line("admin", "bench/1", "watch", pods), "ResponseComplete", "ResponseStarted"))
		Expect(log.Requests()).To(BeEmpty())
	})

	It("returns an error for a line that is no event", func() {
		write("x\n")
		_, err := log.Requests()
		Expect(err).To(MatchError(ContainSubstring("audit log")))
	})
})

var _ = Describe("SumMetrics", func() {
	It("adds up the samples of the metrics, and ignores others", func() {
		sums, err := measure.SumMetrics(strings.NewReader("# HELP depth x\n# TYPE depth gauge\ndepth{name=\"a b\"} 2\ndepth{name=\"c\"} 1\ndepth_total x\ngo_goroutines 1.5e+02\n"), "depth", "go_goroutines")
		Expect(err).NotTo(HaveOccurred())
		Expect(sums).To(Equal(map[string]float64{"depth": 3, "go_goroutines": 150}))
	})

	It("returns an error for a sample without a number", func() {
		_, err := measure.SumMetrics(strings.NewReader("depth x\n"), "depth")
		Expect(err).To(MatchError(ContainSubstring("depth x")))
	})
})

var _ = Describe("A process", func() {
	It("has CPU time and resident memory", func() {
		process, err := measure.Process(os.Getpid())
		Expect(err).NotTo(HaveOccurred())
		Expect(process.CPUTime()).To(BeNumerically(">=", 0))
		Expect(process.ResidentMemory()).To(BeNumerically(">", 1<<20))
	})

	It("is read from the records of the seed", func() {
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "kwok.json"), []byte(`{"pid":17,"args":["kwok"]}`), 0o600)).To(Succeed())
		Expect(measure.Processes(dir)).To(Equal(map[string]int{"kwok": 17}))
	})
})
