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

// String returns a row of the table.
func (s PhaseStats) String() string {
	row := fmt.Sprintf("%9s %9s %9s %9s %9s %8s %7d %7d %6d %5d  %s", roundForTable(s.WriteGap), roundForTable(s.MembersGap), roundForTable(s.ReadGap),
		s.GapEnd.Format(time.TimeOnly), roundForTable(s.Stall), roundForTable(s.Took), s.Writes, s.Reads, s.Failed, s.Lost, s.Phase)
	if s.LastError != "" {
		row += "; last failure " + s.LastError
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
