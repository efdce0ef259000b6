// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/process"
)

var _ = Describe("Table", func() {
	var table process.Table

	BeforeEach(func() {
		dir := GinkgoT().TempDir()
		table = process.Table{Pids: filepath.Join(dir, "pids"), Logs: filepath.Join(dir, "logs")}
	})

	ensure := func(ctx SpecContext, args ...string) process.Record {
		GinkgoHelper()
		Expect(table.Ensure(ctx, process.Spec{Name: "sleeper", Args: args})).To(Succeed())

		record, alive := table.Find("sleeper")
		Expect(alive).To(BeTrue())
		DeferCleanup(func(ctx SpecContext) { Expect(table.Stop(ctx, "sleeper", time.Second)).To(Succeed()) })

		return record
	}

	It("starts a program once with the same arguments", func(ctx SpecContext) {
		first := ensure(ctx, "/bin/sleep", "600")
		Expect(ensure(ctx, "/bin/sleep", "600").PID).To(Equal(first.PID))
	})

	It("restarts a program whose arguments changed", func(ctx SpecContext) {
		first := ensure(ctx, "/bin/sleep", "600")
		second := ensure(ctx, "/bin/sleep", "700")
		Expect(second.PID).NotTo(Equal(first.PID))
	})

	It("restarts a program whose inputs changed", func(ctx SpecContext) {
		input := filepath.Join(GinkgoT().TempDir(), "config")
		spec := process.Spec{Name: "sleeper", Args: []string{"/bin/sleep", "600"}, Inputs: []string{input}}

		start := func(content string) int {
			GinkgoHelper()
			Expect(os.WriteFile(input, []byte(content), 0o600)).To(Succeed())
			Expect(table.Ensure(ctx, spec)).To(Succeed())

			record, _ := table.Find("sleeper")

			return record.PID
		}
		DeferCleanup(func(ctx SpecContext) { Expect(table.Stop(ctx, "sleeper", time.Second)).To(Succeed()) })

		first := start("a")
		Expect(start("a")).To(Equal(first))
		Expect(start("b")).NotTo(Equal(first))
	})

	It("stops the process and deletes its record", func(ctx SpecContext) {
		ensure(ctx, "/bin/sleep", "600")
		Expect(table.Stop(ctx, "sleeper", time.Second)).To(Succeed())

		_, alive := table.Find("sleeper")
		Expect(alive).To(BeFalse())
		Expect(table.Names()).To(BeEmpty())
	})

	It("kills a process that ignores SIGTERM", func(ctx SpecContext) {
		Expect(table.Ensure(ctx, process.Spec{Name: "stubborn", Args: []string{"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"}})).To(Succeed())
		Eventually(func() string { return table.Tail("stubborn", 1) }).Should(Equal("ready"))
		Expect(table.Stop(ctx, "stubborn", 100*time.Millisecond)).To(Succeed())

		_, alive := table.Find("stubborn")
		Expect(alive).To(BeFalse())
	})

	It("does not pass on the cluster of the shell, which programs prefer to their configuration", func(ctx SpecContext) {
		for _, name := range []string{"KUBECONFIG", "TARGET_KUBECONFIG"} {
			GinkgoT().Setenv(name, "/production")
		}
		Expect(table.Ensure(ctx, process.Spec{
			Name: "sleeper", Args: []string{"/bin/sh", "-c", `echo "$OTHER-${KUBECONFIG-none}-${TARGET_KUBECONFIG-none}"; exec sleep 600`}, Env: []string{"OTHER=own"},
		})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(table.Stop(ctx, "sleeper", time.Second)).To(Succeed()) })
		Eventually(func() (string, error) {
			log, err := os.ReadFile(table.Log("sleeper"))
			return string(log), err
		}).Should(Equal("own-none-none\n"))
	})

	It("does not kill the process when the context ends", func(ctx SpecContext) {
		Expect(table.Ensure(ctx, process.Spec{Name: "stubborn", Args: []string{"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"}})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(table.Stop(ctx, "stubborn", time.Millisecond)).To(Succeed()) })
		Eventually(func() string { return table.Tail("stubborn", 1) }).Should(Equal("ready"))

		interrupted, cancel := context.WithCancel(ctx)
		cancel()
		Expect(table.Stop(interrupted, "stubborn", time.Minute)).To(MatchError(context.Canceled))

		_, alive := table.Find("stubborn")
		Expect(alive).To(BeTrue())
	})

	It("reports an ended process with the end of its log", func(ctx SpecContext) {
		ensure(ctx, "/bin/sleep", "600")
		Expect(table.CheckAlive("sleeper")).To(Succeed())

		Expect(table.Ensure(ctx, process.Spec{Name: "short", Args: []string{"/bin/echo", "farewell"}})).To(Succeed())
		Eventually(func() error { return table.CheckAlive("sleeper", "short") }).Should(MatchError(And(
			ContainSubstring("short is not running"), ContainSubstring("farewell"))))
	})

	DescribeTable("does not mistake another process for its own", func(ctx SpecContext, change func(*process.Record)) {
		record := ensure(ctx, "/bin/sleep", "600")
		stolen := record
		change(&stolen)

		content, err := json.Marshal(stolen)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(table.Pids, "stranger.json"), content, 0o600)).To(Succeed())

		_, alive := table.Find("stranger")
		Expect(alive).To(BeFalse())

		By("stopping the stale record without an effect on the process")
		Expect(table.Stop(ctx, "stranger", time.Second)).To(Succeed())

		_, alive = table.Find("sleeper")
		Expect(alive).To(BeTrue())
	},
		Entry("when the kernel has reused the process ID", func(r *process.Record) { r.StartTime = "1" }),
		Entry("when the machine has rebooted", func(r *process.Record) { r.BootID = "another" }),
	)
})

var _ = Describe("ParseStat", func() {
	It("accepts brackets and spaces in the command", func() {
		ticks, state := process.ParseStat("42 (a ) b) S 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 10 18446744073709551615")
		Expect(ticks).To(Equal("987654"))
		Expect(state).To(Equal("S"))
	})

	It("returns empty strings for invalid content", func() {
		ticks, state := process.ParseStat("42 (a) S 1")
		Expect(ticks).To(BeEmpty())
		Expect(state).To(BeEmpty())
	})
})
