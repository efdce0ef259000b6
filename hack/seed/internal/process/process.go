// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package process starts programs that outlive this process, and stops exactly those.
//
// A file for each process records its ID, its start time and the ID of the boot, since the kernel reuses process IDs. The package never
// identifies a process by its name.
package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/hack/seed/internal/cgroup"
)

// Spec describes a program that runs in the background.
type Spec struct {
	// Name is unique. The record and the log have this name.
	Name string
	// Args is the path of the program, followed by its arguments.
	Args []string
	// Env is added to the environment of this process, without the variables that name another cluster. Optional.
	Env []string
	// Inputs are files that the program reads only at its start. Ensure restarts the program when the contents change.
	// Optional.
	Inputs []string
}

// garbageCollection lets the heaps of the processes become larger before Go collects garbage. With the default, the API server spends a third of
// its CPU time on that during the end-to-end tests. containerd passes the variable to its shims and to runc.
const garbageCollection = "GOGC=400"

// environment returns the environment of this process without KUBECONFIG and TARGET_KUBECONFIG. gardener-resource-manager prefers them to its
// configuration. It would then manage the cluster of the user's shell instead of its own.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "KUBECONFIG=") || strings.HasPrefix(variable, "TARGET_KUBECONFIG=")
	})
}

// Record identifies a started process.
type Record struct {
	PID int `json:"pid"`
	// StartTime is the start time in clock ticks since the boot.
	StartTime string    `json:"startTime"`
	BootID    string    `json:"bootID"`
	Args      []string  `json:"args"`
	Inputs    string    `json:"inputs,omitempty"`
	Started   time.Time `json:"started"`
}

// Table stores records and logs in two directories.
type Table struct {
	Pids, Logs string
	// Cgroup is the cgroup of all started processes, relative to the root of each hierarchy. Empty: the cgroup of this process.
	Cgroup string
}

// Ensure starts the program if it does not run, and restarts it if it runs with other arguments or inputs.
func (t Table) Ensure(ctx context.Context, s Spec) error {
	inputs, err := digest(s.Inputs)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.Name, err)
	}

	if record, alive := t.Find(s.Name); alive {
		if slices.Equal(record.Args, s.Args) && record.Inputs == inputs {
			return nil
		}

		if err := t.Stop(ctx, s.Name, 20*time.Second); err != nil {
			return err
		}
	}

	return t.start(s, inputs)
}

func (t Table) start(s Spec, inputs string) error {
	for _, dir := range []string{t.Pids, t.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating a directory: %w", err)
		}
	}

	log, err := os.OpenFile(t.Log(s.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", s.Name, err)
	}
	defer func() { _ = log.Close() }()

	command := exec.Command(s.Args[0], s.Args[1:]...)
	command.Env = append(append(environment(), garbageCollection), s.Env...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // outlives this process and its terminal

	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.Name, err)
	}

	pid := command.Process.Pid
	// Wait reaps the child if it ends before this process does.
	go func() { _ = command.Wait() }()

	if t.Cgroup != "" {
		if err := cgroup.Join(t.Cgroup, pid); err != nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			return fmt.Errorf("starting %s: %w", s.Name, err)
		}
	}

	startTime, _ := startTime(pid)
	record := Record{PID: pid, StartTime: startTime, BootID: bootID(), Args: s.Args, Inputs: inputs, Started: time.Now().UTC()}

	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}

	// The record is written atomically, since the process could not be found again with an incomplete record.
	unfinished := t.record(s.Name) + ".unfinished"
	if err := os.WriteFile(unfinished, content, 0o644); err != nil {
		return err
	}

	return os.Rename(unfinished, t.record(s.Name))
}

// Find returns the record of a process, and whether the recorded process is alive. A process without a record is not
// alive.
func (t Table) Find(name string) (Record, bool) {
	content, err := os.ReadFile(t.record(name))
	if err != nil {
		return Record{}, false
	}

	var record Record
	if err := json.Unmarshal(content, &record); err != nil {
		return Record{}, false
	}

	return record, record.alive()
}

// CheckAlive returns an error for the first process that does not run, with the end of its log.
func (t Table) CheckAlive(names ...string) error {
	for _, name := range names {
		if _, alive := t.Find(name); !alive {
			return fmt.Errorf("%s is not running; the last lines of its log %s:\n%s", name, t.Log(name), t.Tail(name, 8))
		}
	}

	return nil
}

// Names returns the names of all records in alphabetical order, of running and ended processes.
func (t Table) Names() []string {
	files, _ := filepath.Glob(t.record("*"))

	names := make([]string, 0, len(files))
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}

	return names
}

// Stop sends SIGTERM to the process, after the grace period SIGKILL, and deletes the record. It returns no error if the
// process does not run. If ctx ends first, Stop sends no SIGKILL and keeps the record.
func (t Table) Stop(ctx context.Context, name string, grace time.Duration) error {
	record, alive := t.Find(name)
	if alive {
		_ = syscall.Kill(record.PID, syscall.SIGTERM)

		if !record.waitForEnd(ctx, grace) {
			if ctx.Err() != nil {
				return fmt.Errorf("stopping %s: %w", name, ctx.Err())
			}

			_ = syscall.Kill(record.PID, syscall.SIGKILL)

			if !record.waitForEnd(ctx, 5*time.Second) {
				return fmt.Errorf("%s (process %d) does not end, not even by SIGKILL", name, record.PID)
			}
		}
	}

	if err := os.Remove(t.record(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	return nil
}

// Log returns the path of the process's log.
func (t Table) Log(name string) string { return filepath.Join(t.Logs, name+".log") }

// Tail returns the last lines of the process's log for error messages.
func (t Table) Tail(name string, lines int) string {
	content, err := os.ReadFile(t.Log(name))
	if err != nil {
		return ""
	}

	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")

	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (t Table) record(name string) string { return filepath.Join(t.Pids, name+".json") }

func (r Record) waitForEnd(ctx context.Context, timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if !r.alive() {
			return true
		}

		select {
		case <-ctx.Done():
			return false
		case <-time.After(50 * time.Millisecond):
		}
	}

	return !r.alive()
}

func (r Record) alive() bool {
	if r.BootID != bootID() {
		return false
	}

	now, state := startTime(r.PID)

	return now != "" && now == r.StartTime && state != "Z"
}

// startTime returns fields 22 and 3 of the process's stat file, or empty strings if the process does not exist.
func startTime(pid int) (ticks, state string) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", ""
	}

	return parseStat(string(content))
}

// parseStat parses a stat file. The second field, the command in brackets, may contain spaces and brackets.
func parseStat(content string) (ticks, state string) {
	_, rest, found := cutLast(content, ") ")
	if !found {
		return "", ""
	}

	const first, ticksField = 3, 22 // as counted in proc(5)

	fields := strings.Fields(rest)
	if len(fields) <= ticksField-first {
		return "", ""
	}

	return fields[ticksField-first], fields[0]
}

func cutLast(s, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(s, separator); i >= 0 {
		return s[:i], s[i+len(separator):], true
	}

	return s, "", false
}

func bootID() string {
	content, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(content))
}
