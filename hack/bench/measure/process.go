// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// Process returns the state of a process, with its CPU time and its memory.
func Process(pid int) (procfs.ProcStat, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("reading the state of a process: %w", err)
	}

	return process.Stat()
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

// SumMetrics adds up all samples of each metric in the text format of Prometheus, without time stamps. It parses no other samples: with
// thousands of Etcds, this would take CPU time of the measured processes.
func SumMetrics(text io.Reader, metrics ...string) (map[string]float64, error) {
	sums := map[string]float64{}
	scanner := bufio.NewScanner(text)
	for scanner.Scan() {
		line := scanner.Text()
		name := line[:strings.IndexAny(line+" ", "{ ")]
		if !slices.Contains(metrics, name) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the sample %q: %w", line, err)
		}
		sums[name] += value
	}

	return sums, scanner.Err()
}
