// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/cmd/kubectl-etcd/forecast"
)

// Forecast writes what would be done, a numbered paragraph a line. The error is that of the writer.
func Forecast(w io.Writer, name string, lines []forecast.Line) error {
	text := &strings.Builder{}
	for i, line := range lines {
		paragraph := line.Act
		switch {
		case line.Act != "":
			paragraph += ", because " + line.Reason
		case line.WaitsFor != "":
			paragraph = "wait for " + line.WaitsFor + " (" + line.Reason + "). The operator continues after that"
		case i == 0 && line.Stage == "Done":
			paragraph = "nothing: " + line.Reason
		case line.Stage == "Refused":
			paragraph = "refuse: " + line.Reason
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
