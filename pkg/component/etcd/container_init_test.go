// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// nonroot is the user of the members' containers.
const nonroot = 65532

var _ = Describe("The init container of a Local store", func() {
	for _, shell := range []string{"sh", "busybox sh"} {
		describeInitContainer(strings.Fields(shell))
	}
})

// fakeChown replaces chown for a user that cannot change owners: it records its arguments, and the folder in which it is called.
const fakeChown = `chown() { echo "$* in $(pwd -P)" >>"$CHOWN_LOG"; }
`

// describeInitContainer runs the script in a shell: that of this machine, which is required, and that of the image. Only root changes
// owners; for any other user the function fakeChown records what the script requests, and everything else runs unchanged.
func describeInitContainer(shell []string) {
	Context("in "+strings.Join(shell, " "), func() {
		var (
			folder    string
			container corev1.Container
			isRoot    = os.Geteuid() == 0
			self      = os.Geteuid()
			chownLog  string
		)

		BeforeEach(func() {
			if _, err := exec.LookPath(shell[0]); err != nil {
				Expect(shell[0]).NotTo(Equal("sh"), "this machine has no shell")
				Skip("this machine has no " + shell[0] + ": the script of the init container ran in sh only, and not in the shell of its image")
			}
			Expect(self).NotTo(Equal(nonroot), "run the tests as another user than that of the members")
			folder = filepath.Join(GinkgoT().TempDir(), "test-bucket")
			Expect(os.Mkdir(folder, 0o755)).To(Succeed())
			container = initContainerOf(fixture.WithLocalStore())
			chownLog = filepath.Join(GinkgoT().TempDir(), "chown.log")
		})

		// run executes the container's command for the folder as if it were mounted; source is the folder of the node as the kernel
		// reports it. It returns whether the container succeeds, and its log.
		run := func(source string) (bool, string) {
			mountInfo := filepath.Join(GinkgoT().TempDir(), "mountinfo")
			Expect(os.WriteFile(mountInfo, []byte("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n23 22 8:1 "+source+" "+folder+" rw - ext4 /dev/sda1 rw\n"), 0o600)).To(Succeed())
			var command []string
			for _, arg := range container.Command {
				command = append(command, strings.NewReplacer("$$", "$", "/home/nonroot/test-bucket", folder, "/proc/self/mountinfo", mountInfo).Replace(arg))
			}
			if command[0] == "sh" {
				if !isRoot {
					Expect(command[1]).To(Equal("-c"))
					command[2] = fakeChown + command[2]
				}
				command = append(slices.Clone(shell), command[1:]...)
			}
			process := exec.Command(command[0], command[1:]...) // #nosec G204 -- it is the script that is tested
			process.Env = append(os.Environ(), "CHOWN_LOG="+chownLog)
			output, err := process.CombinedOutput()
			return err == nil, string(output)
		}
		ownerOf := func(path string) int {
			info, err := os.Lstat(path)
			Expect(err).NotTo(HaveOccurred())
			return int(info.Sys().(*syscall.Stat_t).Uid)
		}
		expectGiven := func() {
			GinkgoHelper()
			if isRoot {
				Expect(ownerOf(folder)).To(Equal(nonroot))
				return
			}
			resolved, err := filepath.EvalSymlinks(folder)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.ReadFile(chownLog)).To(BeEquivalentTo("65532:65532 . in " + resolved + "\n"))
		}
		expectKept := func(path string) {
			GinkgoHelper()
			Expect(ownerOf(path)).To(Equal(self), path)
			Expect(chownLog).NotTo(BeAnExistingFile(), "chown is called")
		}

		It("should give an empty folder to the user of the members", func() {
			succeeded, log := run("/etc/gardener/local-backupbuckets/test-bucket")
			Expect(succeeded).To(BeTrue(), log)
			expectGiven()
		})

		It("should leave a folder of the members' user as it is", func() {
			content := filepath.Join(folder, "other")
			Expect(os.Mkdir(content, 0o700)).To(Succeed())
			if isRoot {
				Expect(os.Chown(folder, nonroot, nonroot)).To(Succeed())
			} else {
				container.Command = replaceIn(container.Command, "65532:65532", fmt.Sprintf("%d:%d", self, os.Getegid()))
			}
			succeeded, log := run("/etc/gardener/local-backupbuckets/test-bucket")
			Expect(succeeded).To(BeTrue(), log)
			expectKept(content)
		})

		DescribeTable("should refuse a folder of another user that is not empty", func(name string) {
			content := filepath.Join(folder, name)
			Expect(os.WriteFile(content, nil, 0o600)).To(Succeed())
			succeeded, log := run("/etc/gardener/local-backupbuckets/test-bucket")
			expectKept(folder)
			expectKept(content)
			Expect(succeeded).To(BeFalse())
			Expect(log).To(And(ContainSubstring("belongs to user %d and is not empty", self), ContainSubstring("chown 65532:65532")))
		},
			Entry("a file", "data"),
			Entry("a hidden file", ".data"),
			Entry("a name of two dots and more", "..data"),
			Entry("a name that the shell could expand", "*"),
			Entry("a name of white space", "\n"),
		)

		It("should refuse a symbolic link, which mounts another folder", func() {
			succeeded, log := run("/var/lib/kubelet")
			expectKept(folder)
			Expect(succeeded).To(BeFalse())
			Expect(log).To(And(ContainSubstring("symbolic link"), ContainSubstring("/var/lib/kubelet")))
		})

		It("should accept a folder that is a file system of its own", func() {
			succeeded, log := run("/")
			Expect(succeeded).To(BeTrue(), log)
			expectGiven()
		})

		It("should not change owners where the members run as root, and nevertheless refuse symbolic links", func() {
			container = initContainerOf(fixture.WithLocalStore(), func(etcd *druidv1alpha1.Etcd) { etcd.Spec.RunAsRoot = new(true) })
			container.Command = replaceIn(container.Command, "/root/test-bucket", "/home/nonroot/test-bucket")
			succeeded, log := run("/etc/gardener/local-backupbuckets/test-bucket")
			Expect(succeeded).To(BeTrue(), log)
			expectKept(folder)
			succeeded, log = run("/var/lib/kubelet")
			Expect(succeeded).To(BeFalse(), log)
		})
	})
}

// replaceIn returns the arguments with every occurrence of a text replaced.
func replaceIn(args []string, text, replacement string) []string {
	replaced := make([]string, 0, len(args))
	for _, arg := range args {
		replaced = append(replaced, strings.ReplaceAll(arg, text, replacement))
	}

	return replaced
}

func initContainerOf(options ...func(*druidv1alpha1.Etcd)) corev1.Container {
	GinkgoHelper()
	values, err := etcd.ValuesFor(inputOf(options...)())
	Expect(err).NotTo(HaveOccurred())
	objects, err := etcd.Objects(values)
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		if statefulSet, is := object.(*appsv1.StatefulSet); is {
			Expect(statefulSet.Spec.Template.Spec.InitContainers).To(HaveLen(1))
			return statefulSet.Spec.Template.Spec.InitContainers[0]
		}
	}
	Fail("there is no StatefulSet")
	return corev1.Container{}
}
