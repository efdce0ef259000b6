// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package host_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/host"
)

var _ = Describe("ParseMounts", func() {
	const mounts = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 22 0:30 / /seed rw - tmpfs tmpfs rw
41 40 0:31 / /seed/n1/pods/a rw - tmpfs tmpfs rw
42 22 0:32 / /seedling rw - tmpfs tmpfs rw
43 41 0:33 / /seed/n1/pods/a/b\040c rw - tmpfs tmpfs rw
`

	It("returns the mounts at the directory or below, the latest first, and not those of a path with the same prefix", func() {
		Expect(host.ParseMounts(mounts, "/seed")).To(HaveExactElements("/seed/n1/pods/a/b c", "/seed/n1/pods/a", "/seed"))
	})

	It("returns nothing without a mount", func() {
		Expect(host.ParseMounts(mounts, "/other")).To(BeEmpty())
	})
})

var _ = Describe("MountMemory", func() {
	It("mounts a tmpfs once, which Unmount removes", func() {
		if os.Geteuid() != 0 {
			Skip("only root can mount")
		}

		dir := filepath.Join(GinkgoT().TempDir(), "volumes")
		Expect(host.MountMemory(dir)).To(Succeed())
		DeferCleanup(host.Unmount, dir)
		Expect(os.WriteFile(filepath.Join(dir, "data"), nil, 0o600)).To(Succeed())
		Expect(host.MountMemory(dir)).To(Succeed())
		Expect(host.Mounts(dir)).To(HaveExactElements(dir))

		Expect(host.Unmount(dir)).To(Succeed())
		Expect(os.ReadDir(dir)).To(BeEmpty(), "the file was on the tmpfs")
	})

	It("does not hide files on disk", func() {
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, "data"), nil, 0o600)).To(Succeed())
		Expect(host.MountMemory(dir)).To(MatchError(host.ErrNotEmpty))
		Expect(host.Mounts(dir)).To(BeEmpty())
	})
})

var _ = Describe("State", func() {
	var first, second, made string

	BeforeEach(func() {
		dir := GinkgoT().TempDir()
		first, second, made = filepath.Join(dir, "first", "host.json"), filepath.Join(dir, "second", "host.json"), filepath.Join(dir, "made")
		Expect(os.MkdirAll(made, 0o755)).To(Succeed())
		Expect(os.MkdirAll(filepath.Dir(first), 0o755)).To(Succeed())
		Expect(os.WriteFile(first, []byte(`{"absent": ["`+made+`"]}`), 0o600)).To(Succeed())
		Expect(host.Save(second, first)).To(Succeed())
	})

	It("is copied from the first cluster", func() {
		Expect(os.ReadFile(second)).To(ContainSubstring(made))
	})

	It("is restored by the last cluster", func() {
		Expect(host.Restore(first, second)).To(Succeed())
		Expect(made).To(BeADirectory(), "the other cluster needs it")

		Expect(os.Remove(first)).To(Succeed())
		Expect(host.Restore(second, first)).To(Succeed())
		Expect(made).NotTo(BeAnExistingFile())
	})
})
