// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// clockTicks is the number of clock ticks per second in /proc. It is 100 on all platforms of Linux that Go supports.
const clockTicks = 100

// CPUSeconds returns the CPU time of a process in user and kernel mode.
func CPUSeconds(pid int) (float64, error) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of process %d: %w", pid, err)
	}

	return parseCPU(string(content))
}

// parseCPU reads the fields 14 and 15 of a stat file. The second field, the command in brackets, may contain spaces and brackets.
func parseCPU(stat string) (float64, error) {
	const user, system, first = 14, 15, 3
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) <= system-first {
		return 0, fmt.Errorf("the stat file of a process has %d fields after the command", len(fields))
	}
	sum := 0.0
	for _, index := range []int{user, system} {
		ticks, err := strconv.ParseFloat(fields[index-first], 64)
		if err != nil {
			return 0, fmt.Errorf("field %d of the stat file of a process: %w", index, err)
		}
		sum += ticks
	}

	return sum / clockTicks, nil
}

// ResidentBytes returns the resident memory of a process.
func ResidentBytes(pid int) (int64, error) {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
	}
	defer func() { _ = file.Close() }()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if value, found := strings.CutPrefix(scanner.Text(), "VmRSS:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)

			return kilobytes << 10, err
		}
	}

	return 0, fmt.Errorf("process %d has no resident memory", pid)
}

// Processes returns the IDs of the processes that the seed started. dir is the directory with a record of each process.
func Processes(dir string) (map[string]int, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	pids := map[string]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the record of a process: %w", err)
		}
		var record struct{ PID int }
		if err := json.Unmarshal(content, &record); err != nil {
			return nil, fmt.Errorf("reading the record %s: %w", file, err)
		}
		pids[strings.TrimSuffix(filepath.Base(file), ".json")] = record.PID
	}

	return pids, nil
}
