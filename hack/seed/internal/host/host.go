// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package host saves the state of this machine before the first cluster starts, and restores it after the last cluster has stopped. It also
// finds and removes mounts.
package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/layout"
)

// State is the state of the machine that Restore restores.
type State struct {
	// Sysctls maps the settings that the kubelet changes to their previous values.
	Sysctls map[string]string `json:"sysctls"`
	// Absent are the paths that did not exist and that the programs of the seed create in fixed locations.
	Absent []string `json:"absent"`
}

// sysctls are the settings that the kubelet changes.
var sysctls = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// paths are fixed in the kubelet and containerd, or are the default of etcd-druid's Local store. Children come before
// their parents.
var paths = []string{
	"/var/log/containers", "/var/log/pods",
	"/var/lib/kubelet/device-plugins", "/var/lib/kubelet",
	"/run/containerd/s", "/run/containerd/fifo", "/run/containerd",
	"/var/lib/cni/results", "/var/lib/cni",
	layout.LocalStore, "/etc/gardener",
	namespaces,
}

// namespaces is created and mounted by `ip netns` with the first network namespace of the machine.
const namespaces = "/run/netns"

// Save writes the state of the machine to the file, unless the file exists. If another cluster runs, it has changed the
// machine already: Save then copies the first file of others that exists.
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

	return os.WriteFile(file, content, 0o644) // #nosec G703 -- the record of the seed
}

// Restore restores the state in the file, unless one of the other files exists: its cluster still needs the machine as
// it is. Restore does nothing if the file does not exist.
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
		return fmt.Errorf("reading the saved state of this machine: %w", err)
	}

	var errs []error

	for name, value := range state.Sysctls {
		errs = append(errs, os.WriteFile("/proc/sys/"+name, []byte(value), 0o644))
	}

	for _, path := range state.Absent {
		if entries, _ := os.ReadDir(path); path == namespaces && len(entries) > 0 {
			continue // another program uses it
		}

		errs = append(errs, Unmount(path), os.RemoveAll(path))
	}

	return errors.Join(errs...)
}

// ErrNotEmpty is returned by MountMemory for a directory with files.
var ErrNotEmpty = errors.New("the directory contains files on disk")

// MountMemory creates dir and mounts a tmpfs there. It does nothing if dir is a mount point. It returns ErrNotEmpty if dir
// contains files, because the tmpfs would hide them.
func MountMemory(dir string) error {
	mounts, err := Mounts(dir)
	if err != nil || slices.Contains(mounts, dir) {
		return err
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}

	if len(entries) > 0 {
		return fmt.Errorf("%s: %w", dir, ErrNotEmpty)
	}

	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mounting a tmpfs at %s: %w", dir, err)
	}

	return nil
}

// Unmount removes every mount at dir or below, the deepest first.
func Unmount(dir string) error {
	mounts, err := Mounts(dir)
	if err != nil {
		return err
	}

	for _, mount := range mounts {
		// The mount is detached immediately, since an ended container may use it for a short time.
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("unmounting %s: %w", mount, err)
		}
	}

	return nil
}

// Mounts returns the mount points at dir or below, the latest first.
func Mounts(dir string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}

	return parseMounts(string(content), dir), nil
}

// parseMounts reads the fifth field of each line. mountinfo encodes a space as \040.
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
