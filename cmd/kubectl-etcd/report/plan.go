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
			paragraph += ", because " + line.Reason
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
	fmt.Fprintf(text, "\nNothing was done with %s.\n", name)
	_, err := io.WriteString(w, text.String())

	return err
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
