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

// busybox goes into an image without libraries; the package of the plain name may have put another one into its place.
const busybox = "busybox-static"

// debian maps each Debian package that the seed needs to one of its files, by which it is seen to be installed.
func debian() map[string]string {
	return map[string]string{
		"containerd":                  "/usr/bin/containerd",
		"runc":                        "/usr/sbin/runc",
		"containernetworking-plugins": "/usr/lib/cni/bridge",
		busybox:                       "/bin/busybox",
		"conntrack":                   "/usr/sbin/conntrack",
		"iptables":                    "/usr/sbin/iptables",
		"nftables":                    "/usr/sbin/nft",
		"iproute2":                    "/bin/ip",
		"ethtool":                     "/usr/sbin/ethtool",
		"socat":                       "/usr/bin/socat",
		"util-linux":                  "/usr/bin/nsenter",
		"procps":                      "/usr/sbin/sysctl",
	}
}

// isStatic tells whether a program runs in an image that holds nothing else.
func isStatic(file string) bool {
	program, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer func() { _ = program.Close() }()

	return program.Section(".interp") == nil
}

// MissingPackages returns the Debian packages whose files are not there, sorted.
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

// EnsurePackages installs what is missing, and calls apt-get only then.
func EnsurePackages(ctx context.Context, out *progress.Printer) error {
	missing := MissingPackages()
	if len(missing) == 0 {
		return nil
	}

	if os.Geteuid() != 0 {
		return fmt.Errorf("only root can install the Debian packages that are missing: %s", strings.Join(missing, " "))
	}

	out.Println("installing Debian packages: %s", strings.Join(missing, " "))

	// It warns only of a list that it cannot fetch, and a broken one of someone else's need not matter: the installation decides.
	lists, _ := aptGet(ctx, "update", "-q")

	if output, err := aptGet(ctx, append([]string{"install", "-qy", "--no-install-recommends"}, missing...)...); err != nil {
		return fmt.Errorf("apt-get install: %w; is there a network? Else install these yourself and try again: %s\n%s%s",
			err, strings.Join(missing, " "), lists, output)
	}

	if missing = MissingPackages(); len(missing) > 0 {
		return fmt.Errorf("apt-get has installed %s, but the files are elsewhere than on Debian 12", strings.Join(missing, ", "))
	}

	return nil
}

// aptGet asks nothing, and waits for another apt-get, such as the one that updates a machine after its start.
func aptGet(ctx context.Context, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")

	return command.CombinedOutput()
}
