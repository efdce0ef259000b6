// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package cgroup creates the parents of the pods' cgroups, and a cgroup for the programs of the cluster. It removes them with their children. It
// supports cgroup v1 and v2.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Root is the mount point of the hierarchies.
const Root = "/sys/fs/cgroup"

// IsV2 returns whether the machine has the single hierarchy of cgroup v2.
func IsV2() bool {
	_, err := os.Stat(filepath.Join(Root, "cgroup.controllers"))
	return err == nil
}

// unified is the cgroup v2 hierarchy of a machine with both versions. runc also adds pods to it, but needs no parent
// there.
const unified = "unified"

// hierarchies returns the roots of all hierarchies to which pods are added.
func hierarchies() ([]string, error) {
	if IsV2() {
		return []string{Root}, nil
	}

	entries, err := os.ReadDir(Root)
	if err != nil {
		return nil, fmt.Errorf("reading the cgroup hierarchies: %w", err)
	}

	var roots []string

	for _, entry := range entries {
		// A link is another name of a hierarchy, such as cpu for cpu,cpuacct.
		if entry.IsDir() {
			roots = append(roots, filepath.Join(Root, entry.Name()))
		}
	}

	return roots, nil
}

// Ensure creates the cgroup in every hierarchy, where the kubelet expects its parent.
func Ensure(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}

	for _, root := range roots {
		if filepath.Base(root) == unified {
			continue
		}

		dir := root

		for part := range strings.SplitSeq(name, "/") {
			if IsV2() {
				if err := delegate(dir); err != nil {
					return err
				}
			}

			dir = filepath.Join(dir, part)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("creating cgroup %s: %w", dir, err)
			}

			if err := inheritCPUs(dir); err != nil {
				return err
			}
		}
	}

	return nil
}

// delegate enables every controller of a cgroup v2 for its children.
func delegate(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}

	for controller := range strings.FieldsSeq(string(content)) {
		// Some controllers cannot be delegated.
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644)
	}

	delegated, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}

	if missing := missingControllers(string(delegated)); len(missing) > 0 {
		return fmt.Errorf("cgroup %s does not delegate %s, which the kubelet requires; in a container with cgroup v2 "+
			"its processes must be moved to a cgroup of their own first", dir, strings.Join(missing, ", "))
	}

	return nil
}

// missingControllers returns the controllers that the kubelet requires and that are not delegated.
func missingControllers(delegated string) []string {
	return slices.DeleteFunc([]string{"cpu", "cpuset", "memory", "pids"}, func(controller string) bool {
		return slices.Contains(strings.Fields(delegated), controller)
	})
}

// inheritCPUs fills the two files that a cpuset of cgroup v1 needs before it accepts processes.
func inheritCPUs(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		target := filepath.Join(dir, file)

		current, err := os.ReadFile(target)
		if err != nil || IsV2() || strings.TrimSpace(string(current)) != "" {
			continue // another hierarchy, or not empty
		}

		parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if err != nil {
			return err
		}

		if err := os.WriteFile(target, parent, 0o644); err != nil { // #nosec G703 -- a file of a cgroup of the seed
			return fmt.Errorf("filling %s: %w", target, err)
		}
	}

	return nil
}

// Share creates the cgroup and sets its weight. A share of 1 gives it as much CPU time as one busy thread outside of it has on each CPU. On the
// root level, each thread counts as much as a whole cgroup. With the default, the many threads of busy processes would leave little CPU time for
// all pods together.
func Share(name string, share float64) error {
	if err := Ensure(name); err != nil {
		return err
	}

	dir, err := cpuHierarchy()
	if err != nil {
		return err
	}

	file, thread := filepath.Join(dir, name, "cpu.shares"), 1024.0 // the weight of a thread with the default priority
	if IsV2() {
		file, thread = filepath.Join(dir, name, "cpu.weight"), 100
	}

	if err := os.WriteFile(file, []byte(strconv.Itoa(weight(thread, share))), 0o644); err != nil { // #nosec G703 -- a file of a cgroup of the seed
		return fmt.Errorf("setting the weight of cgroup %s: %w", name, err)
	}

	return nil
}

// weight returns the weight of a cgroup with this share. The kernel accepts at least 2 in cgroup v1, and at least 1 in cgroup v2.
func weight(thread, share float64) int {
	return max(int(thread*share*float64(runtime.NumCPU())), 2)
}

// Join moves the process, with all of its threads, to the cgroup of the hierarchy that distributes CPU time.
func Join(name string, pid int) error {
	dir, err := cpuHierarchy()
	if err != nil {
		return err
	}

	if err := os.WriteFile(filepath.Join(dir, name, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil { // #nosec G703 -- as above
		return fmt.Errorf("adding process %d to cgroup %s: %w", pid, name, err)
	}

	return nil
}

// cpuHierarchy returns the root of the hierarchy that distributes CPU time.
func cpuHierarchy() (string, error) {
	if IsV2() {
		return Root, nil
	}

	roots, err := hierarchies()
	if err != nil {
		return "", err
	}

	return withShares(roots)
}

// withShares returns the only hierarchy of cgroup v1 whose cgroups have a weight for CPU time.
func withShares(roots []string) (string, error) {
	for _, root := range roots {
		if _, err := os.Stat(filepath.Join(root, "cpu.shares")); err == nil {
			return root, nil
		}
	}

	return "", fmt.Errorf("no cgroup hierarchy below %s has the controller cpu", Root)
}

// Kill kills every process in the cgroup and its children, and returns when they have ended.
func Kill(name string) error {
	for range 100 {
		pids, err := processes(name)
		if err != nil || len(pids) == 0 {
			return err
		}

		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}

		time.Sleep(50 * time.Millisecond)
	}

	return fmt.Errorf("processes in cgroup %s do not end", name)
}

func processes(name string) ([]int, error) {
	var pids []int

	err := walk(name, func(dir string) error {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return ignoreGone(err)
		}

		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}

		return nil
	})

	return pids, err
}

// Remove removes the cgroup and its children from every hierarchy. They must contain no process.
func Remove(name string) error {
	var dirs []string

	if err := walk(name, func(dir string) error {
		dirs = append(dirs, dir)
		return nil
	}); err != nil {
		return err
	}

	slices.Reverse(dirs) // children first

	for _, dir := range dirs {
		if err := ignoreGone(remove(dir)); err != nil {
			return fmt.Errorf("removing cgroup %s: %w", dir, err)
		}
	}

	return nil
}

// remove retries for a second, since the kernel keeps a cgroup busy for a short time after its last process.
func remove(dir string) error {
	for range 20 {
		err := syscall.Rmdir(dir)
		if !errors.Is(err, syscall.EBUSY) {
			return err
		}

		time.Sleep(50 * time.Millisecond)
	}

	return syscall.EBUSY
}

func walk(name string, visit func(dir string) error) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}

	for _, root := range roots {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return ignoreGone(err)
			}

			return visit(path)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// ignoreGone returns nil for the errors of a cgroup that the kernel or containerd has removed. Reading an open file of such a cgroup fails
// with ENODEV.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}

	return err
}
