// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package host remembers what this machine was like before the first cluster, and restores it after the last. It also finds and removes mounts.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// Memory is what is restored by Restore.
type State struct {
	// Sysctls maps the settings that the kubelet changes for the whole machine to their values before.
	Sysctls map[string]string `json:"sysctls"`
	// Absent are the paths that did not exist before and that the seed's programs make wherever they are told to work.
	Absent []string `json:"absent"`
}

// sysctls are set by the kubelet.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// paths are hard-coded in the kubelet and containerd, or are the default of etcd-druid's local store. Parents come after children.
var paths = []string{
	"/var/log/containers", "/var/log/pods",
	"/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
	"/run/containerd/s", "/run/containerd/fifo", "/run/containerd",
	"/var/lib/cni/results", "/var/lib/cni",
	layout.LocalStore, "/etc/gardener",
	namespaces,
}

// namespaces is made and mounted by `ip netns`, with the first namespace of the machine.
const namespaces = "/run/netns"

// Save writes down what the machine is like, once for each cluster. Where one runs beside, whose file is among the others, the machine
// has been changed already, and what that one remembers counts.
func Save(file string, others ...string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}

	for _, other := range others {
		if content, err := os.ReadFile(other); err == nil {
			return write(file, content)
		}
	}

	state := State{Sysctls: map[string]string{}}

	for _, name := range sysctls {
		if content, err := os.ReadFile("/proc/sys/" + name); err == nil {
			state.Sysctls[name] = strings.TrimSpace(string(content))
		}
	}

	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			state.Absent = append(state.Absent, path)
		}
	}

	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}

	return write(file, content)
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}

	return os.WriteFile(file, content, 0o644)
}

// Restore puts back what Remember wrote, unless one of the others is still there, and its cluster needs the machine as it is. No file
// means that nothing was changed.
func Restore(file string, others ...string) error {
	for _, other := range others {
		if _, err := os.Stat(other); err == nil {
			return nil
		}
	}

	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	var state State
	if err == nil {
		err = json.Unmarshal(content, &state)
	}

	if err != nil {
		return fmt.Errorf("reading what this machine was like: %w", err)
	}

	var errs []error

	for name, value := range state.Sysctls {
		errs = append(errs, os.WriteFile("/proc/sys/"+name, []byte(value), 0o644))
	}

	for _, path := range state.Absent {
		if entries, _ := os.ReadDir(path); path == namespaces && len(entries) > 0 {
			continue // someone else has come to use it
		}

		errs = append(errs, Unmount(path), os.RemoveAll(path))
	}

	return errors.Join(errs...)
}

// Unmount removes every mount at or below dir, the deepest first.
func Unmount(dir string) error {
	mounts, err := Mounts(dir)
	if err != nil {
		return err
	}

	for _, mount := range mounts {
		// Detached at once, and gone when the last user is: a dead container may keep one for a moment.
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", mount, err)
		}
	}

	return nil
}

// Mounts returns the mount points at or below dir, the latest first.
func Mounts(dir string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}

	return parseMounts(string(content), dir), nil
}

// parseMounts reads the fifth field of each line, in which spaces are written as \040.
func parseMounts(content, dir string) []string {
	var mounts []string

	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}

		if mount := strings.ReplaceAll(fields[4], `\040`, " "); mount == dir || strings.HasPrefix(mount, dir+"/") {
			mounts = append([]string{mount}, mounts...)
		}
	}

	return mounts
}
