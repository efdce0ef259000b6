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

	for _, args := range [][]string{
		{"update", "-q"},
		append([]string{"install", "-qy", "--no-install-recommends"}, missing...),
	} {
		command := exec.CommandContext(ctx, "apt-get", args...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")

		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w; install these yourself and try again: %s\n%s", args[0], err, strings.Join(missing, " "), output)
		}
	}

	return nil
}
