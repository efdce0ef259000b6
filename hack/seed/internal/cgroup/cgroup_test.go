// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package cgroup_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/cgroup"
)

var _ = Describe("MissingControllers", func() {
	It("returns nothing when all required controllers are delegated", func() {
		Expect(cgroup.MissingControllers("cpuset cpu io memory hugetlb pids\n")).To(BeEmpty())
	})

	It("returns the required controllers that are not delegated", func() {
		Expect(cgroup.MissingControllers("cpu pids\n")).To(ConsistOf("cpuset", "memory"))
	})
})

var _ = Describe("WithShares", func() {
	It("returns the hierarchy that distributes CPU time, also if its directory has another name", func() {
		memory, cpu := GinkgoT().TempDir(), GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(cpu, "cpu.shares"), []byte("1024\n"), 0o644)).To(Succeed())

		Expect(cgroup.WithShares([]string{memory, cpu})).To(Equal(cpu))
	})

	It("returns an error that names the missing controller", func() {
		_, err := cgroup.WithShares([]string{GinkgoT().TempDir()})
		Expect(err).To(MatchError(ContainSubstring("the controller cpu")))
	})
})

var _ = Describe("Weight", func() {
	It("is that of one thread for each CPU with a share of 1", func() {
		Expect(cgroup.Weight(1024, 1)).To(Equal(1024 * runtime.NumCPU()))
		Expect(cgroup.Weight(100, 0.25)).To(Equal(25 * runtime.NumCPU()))
	})

	It("is not less than what the kernel accepts", func() {
		Expect(cgroup.Weight(1024, 0.000001)).To(Equal(2))
	})
})

var _ = Describe("IgnoreGone", func() {
	It("ignores the errors of a cgroup that was removed before or while it was read", func() {
		Expect(cgroup.IgnoreGone(&fs.PathError{Op: "open", Path: "cgroup.procs", Err: syscall.ENOENT})).To(Succeed())
		Expect(cgroup.IgnoreGone(&fs.PathError{Op: "read", Path: "cgroup.procs", Err: syscall.ENODEV})).To(Succeed())
	})

	It("returns other errors", func() {
		Expect(cgroup.IgnoreGone(syscall.EACCES)).To(MatchError(syscall.EACCES))
	})
})
