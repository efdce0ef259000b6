// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

// Plan writes what the operator would do, a numbered paragraph for each line. The error is that of the writer.
func Plan(w io.Writer, name string, lines []simulator.Line) error {
	text := &strings.Builder{}
	for i, line := range lines {
		paragraph := line.Act
		switch {
		case line.Act != "":
			paragraph += ", because " + line.Reason + effectOf(line)
		case line.WaitsFor != "":
			paragraph = "wait for " + line.WaitsFor + " (" + line.Reason + "). The operator continues after that"
		case line.Refused:
			paragraph = "refuse: " + line.Reason
		case i == 0 && line.Stage == plan.StageDone:
			paragraph = "nothing: " + line.Reason
		default:
			paragraph = "end: " + line.Reason
		}
		write(text, fmt.Sprintf("%3d. ", i+1), paragraph)
	}
	text.WriteString("\n")
	if summary := summaryOf(lines); summary != "" {
		write(text, "", summary)
	}
	fmt.Fprintf(text, "Nothing was done with %s.\n", name)
	_, err := io.WriteString(w, text.String())

	return err
}

// effectOf returns the quorum calculation before and after the step of a line, and the expected time without a write. Empty: the step has no such effect.
func effectOf(line simulator.Line) string {
	if line.Step == nil || line.Before == line.After && line.Gap == (simulator.Gap{}) {
		return ""
	}
	effect := fmt.Sprintf(". Voting members: %s", line.Before)
	if line.Before != line.After {
		effect += fmt.Sprintf(" -> %s", line.After)
	}

	return effect + ". Time without a write: " + gapText(line.Gap)
}

func gapText(gap simulator.Gap) string {
	switch {
	case gap.Any == 0:
		return "none"
	case gap.Connected > gap.Any:
		return fmt.Sprintf("%s, and %s for a client that is connected to the removed member", gap.Any, gap.Connected)
	default:
		return gap.Any.String()
	}
}

// summaryOf returns the longest expected time without a write, and the lowest tolerance. Empty: no line has a step, or there is no quorum at all.
func summaryOf(lines []simulator.Line) string {
	longest, lowest, steps := simulator.Gap{}, 0, 0
	for _, line := range lines {
		if line.Step == nil {
			continue
		}
		longest.Any, longest.Connected = max(longest.Any, line.Gap.Any), max(longest.Connected, line.Gap.Connected)
		tolerance := min(line.Before.Tolerance(), line.After.Tolerance())
		if steps == 0 || tolerance < lowest {
			lowest = tolerance
		}
		steps++
	}
	switch {
	case steps == 0, lowest < 0 && longest.Any == 0: // there is no quorum before either
		return ""
	case lowest < 0:
		return fmt.Sprintf("Longest time without a write: %s. Meanwhile there is no quorum.", gapText(longest))
	default:
		return fmt.Sprintf("Longest time without a write: %s. Lowest tolerance: %d.", gapText(longest), lowest)
	}
}

// Differences writes in what pods would differ from those that run. The error is that of the writer.
func Differences(w io.Writer, differences []string) error {
	text := &strings.Builder{}
	if len(differences) == 0 {
		write(text, "", "No pod would restart: those that run are as this operator makes them.")
	} else {
		write(text, "", "Pods would restart once, in order, since these differ:")
		for _, difference := range differences {
			write(text, "  - ", difference)
		}
	}
	text.WriteString("\n")
	_, err := io.WriteString(w, text.String())

	return err
}
