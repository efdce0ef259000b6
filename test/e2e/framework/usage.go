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

// usageEntry is the name of the entries of reports that hold a Usage: they get from the process of a story to the one that reports.
const usageEntry = "usage"

// String is a row of the table.
func (u Usage) String() string {
	row := fmt.Sprintf("%9s %9s %9s %8s %7d %7d %6d %5d  %s", short(u.WriteGap), short(u.MembersGap), short(u.ReadGap), short(u.Took), u.Writes, u.Reads, u.Failed, u.Lost, u.Phase)
	if u.LastError != "" {
		row += "; last failure " + u.LastError
	}

	return row
}

func short(duration time.Duration) string {
	if duration >= 10*time.Second {
		return duration.Round(time.Second).String()
	}

	return duration.Round(time.Millisecond).String()
}

// UsageTable is the table of what the users of all stories met with: the longest gaps first of all. Empty: there were none.
func UsageTable(reports types.SpecReports) string {
	var table strings.Builder

	for _, report := range reports {
		for _, entry := range report.ReportEntries {
			usage, here := entry.Value.GetRawValue().(Usage) // those of other processes come as JSON
			if entry.Name != usageEntry || !here && json.Unmarshal([]byte(entry.Value.AsJSON), &usage) != nil {
				continue
			}

			usage.Phase = report.FullText() + ": " + usage.Phase
			fmt.Fprintln(&table, usage)
		}
	}

	if table.Len() == 0 {
		return ""
	}

	return fmt.Sprintf("%9s %9s %9s %8s %7s %7s %6s %5s  %s\n", "write gap", "by member", "read gap", "took", "writes", "reads", ">1s", "lost", "story: phase") + table.String()
}
