// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// phaseStatsEntry is the name of report entries that contain a PhaseStats. Ginkgo sends them from the process of a test to the
// process that prints the table.
const phaseStatsEntry = "workload"

// PhaseStats are the figures of a workload for one phase of a test.
type PhaseStats struct {
	// Phase is the name of the phase.
	Phase string
	// Writes counts the acknowledged writes, Reads the successful reads.
	Writes, Reads int
	// Failed counts the operations that did not succeed within a second, with all their retries.
	Failed int
	// LastError is the error of the last failed operation. Empty means none.
	LastError string
	// Connections are the first failed and slow attempts to connect to the Service, each with the time that it took.
	Connections []string
	// WriteGap is the longest time between two acknowledged writes through the Service. MembersGap is the same for the
	// client that connects to all members. ReadGap is the longest time between two successful reads.
	WriteGap, MembersGap, ReadGap time.Duration
	// GapEnd is the end of the longest of these three gaps.
	GapEnd time.Time
	// Stall is the longest time by which a timer of the test process was late. The clients are in this process: a gap that is not longer than
	// the stall says nothing about etcd.
	Stall time.Duration
	// Took is the duration of the phase.
	Took time.Duration
	// Lost counts the acknowledged writes that etcd does not have. It is zero until the workload has stopped.
	Lost int

	start time.Time
	last  [3]time.Time
}

func (s *PhaseStats) recordGap(kind int, now time.Time) {
	gap := now.Sub(s.last[kind])
	s.last[kind] = now

	if gap > max(s.WriteGap, s.MembersGap, s.ReadGap) {
		s.GapEnd = now
	}

	for i, longest := range []*time.Duration{&s.WriteGap, &s.MembersGap, &s.ReadGap} {
		if i == kind {
			*longest = max(*longest, gap)
		}
	}
}

// String returns a row of the table.
func (s PhaseStats) String() string {
	row := fmt.Sprintf("%9s %9s %9s %9s %9s %8s %7d %7d %6d %5d  %s", roundForTable(s.WriteGap), roundForTable(s.MembersGap), roundForTable(s.ReadGap),
		s.GapEnd.Format(time.TimeOnly), roundForTable(s.Stall), roundForTable(s.Took), s.Writes, s.Reads, s.Failed, s.Lost, s.Phase)
	if s.LastError != "" {
		row += "; last failure " + s.LastError
	}

	for _, attempt := range s.Connections {
		row += "; " + attempt
	}

	return row
}

func roundForTable(duration time.Duration) string {
	if duration >= 10*time.Second {
		return duration.Round(time.Second).String()
	}

	return duration.Round(time.Millisecond).String()
}

// PhaseTable returns a table of the phases of all workloads. The gaps are the first columns. It is empty if there was
// no workload.
func PhaseTable(reports types.SpecReports) string {
	var table strings.Builder

	for _, report := range reports {
		for _, entry := range report.ReportEntries {
			stats, here := entry.Value.GetRawValue().(PhaseStats) // entries of other processes are JSON
			if entry.Name != phaseStatsEntry || !here && json.Unmarshal([]byte(entry.Value.AsJSON), &stats) != nil {
				continue
			}

			stats.Phase = report.FullText() + ": " + stats.Phase
			fmt.Fprintln(&table, stats)
		}
	}

	if table.Len() == 0 {
		return ""
	}

	return fmt.Sprintf("%9s %9s %9s %9s %9s %8s %7s %7s %6s %5s  %s\n", "write gap", "by member", "read gap", "gap end", "stall", "took", "writes", "reads", ">1s", "lost", "test: phase") + table.String()
}
