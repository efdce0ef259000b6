// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mitchellh/go-wordwrap"
)

// Decision is something that the operator did, or saw change.
type Decision struct {
	// Time of it.
	Time time.Time
	// Reason is a word for programs, Message a sentence with the why.
	Reason, Message string
	// Warning is true when it requires attention.
	Warning bool
}

// Decisions writes decisions in the order given, each with its time, and what is being done now. The error is that of the writer.
func Decisions(w io.Writer, decisions []Decision, current string, now time.Time) error {
	text := &strings.Builder{}
	for _, decision := range decisions {
		sign := " "
		if decision.Warning {
			sign = "!"
		}
		write(text, decision.Time.UTC().Format("15:04:05")+" "+sign+" ", decision.Reason+": "+decision.Message)
	}
	if len(decisions) == 0 {
		write(text, "", "There are no events for this Etcd.")
	}
	write(text, now.UTC().Format("15:04:05")+"   ", "Now: "+current)
	_, err := io.WriteString(w, text.String())

	return err
}

// write adds a paragraph with a word in front of its first line.
func write(text *strings.Builder, front, paragraph string) {
	for i, line := range strings.Split(wordwrap.WrapString(paragraph, uint(columns-len(front))), "\n") {
		if i > 0 {
			front = strings.Repeat(" ", len(front))
		}
		fmt.Fprintf(text, "%s%s\n", front, line)
	}
}
