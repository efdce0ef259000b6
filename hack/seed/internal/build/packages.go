// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package build

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/progress"
)

// busybox is a package with a static binary, since the image contains no libraries. The package busybox may have
// replaced its binary.
const busybox = "busybox-static"

// debian maps each required Debian package to one of its files. A package counts as installed if the file exists.
func debian() map[string]string {
	return map[string]string{
		"containerd":                  "/usr/bin/containerd",
		"runc":                        "/usr/sbin/runc",
		"containernetworking-plugins": "/usr/lib/cni/bridge",
		busybox:                       "/bin/busybox",
		"conntrack":                   "/usr/sbin/conntrack",
		"iptables":                    "/usr/sbin/iptables",
		"ipset":                       "/usr/sbin/ipset",
		"nftables":                    "/usr/sbin/nft",
		"iproute2":                    "/bin/ip",
		"ethtool":                     "/usr/sbin/ethtool",
		"socat":                       "/usr/bin/socat",
		"util-linux":                  "/usr/bin/nsenter",
		"procps":                      "/usr/sbin/sysctl",
	}
}

// isStatic returns whether a program runs in an image without libraries.
func isStatic(file string) bool {
	program, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = program.Close() }()

	return program.Section(".interp") == nil
}

// MissingPackages returns the Debian packages whose files do not exist, in alphabetical order.
func MissingPackages() []string {
	var missing []string

	for name, file := range debian() {
		if _, err := os.Stat(file); err != nil || (name == busybox && !isStatic(file)) {
			missing = append(missing, name)
		}
	}

	slices.Sort(missing)

	return missing
}

// EnsurePackages installs the missing packages with apt-get.
func EnsurePackages(ctx context.Context, out *progress.Printer) error {
	missing := MissingPackages()
	if len(missing) == 0 {
		return nil
	}

	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can install the missing Debian packages: %s", strings.Join(missing, " "))
	}

	out.Println("installing Debian packages: %s", strings.Join(missing, " "))

	// The error is ignored: a package list that cannot be fetched may be irrelevant, and the installation fails if it is not.
	lists, _ := aptGet(ctx, "update", "-q")

	if output, err := aptGet(ctx, append([]string{"install", "-qy", "--no-install-recommends"}, missing...)...); err != nil {
		return fmt.Errorf("apt-get install: %w; check the network, or install these packages yourself: %s\n%s%s",
			err, strings.Join(missing, " "), lists, output)
	}

	if missing = MissingPackages(); len(missing) > 0 {
		return fmt.Errorf("apt-get has installed %s, but not the files of Debian 12", strings.Join(missing, ", "))
	}

	return nil
}

// aptGet runs apt-get without questions. It waits for another apt-get, such as that of an automatic update.
func aptGet(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")

	return command.CombinedOutput()
}
