// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// A Result counts tests. Those that need a reader's attention are kept by name.
type Result struct {
	Passed  int
	Failed  []string
	Skipped []string
}

// Add adds another result to this one.
func (r *Result) Add(other Result) {
	r.Passed += other.Passed
	r.Failed = append(r.Failed, other.Failed...)
	r.Skipped = append(r.Skipped, other.Skipped...)
}

// A Row is what the summary says about one suite.
type Row struct {
	Name   string
	Took   time.Duration
	Result Result
}

// WriteSummary writes the skipped and failed tests by name, the time of each suite, and the counts over all as last
// line, which has the same form whether or not something was skipped.
func WriteSummary(w io.Writer, rows []Row, total Result) {
	writeNames(w, "Skipped", total.Skipped)
	writeNames(w, "Failed", failures(total.Failed))
	fmt.Fprintln(w)

	var took time.Duration

	for _, row := range rows {
		took += row.Took
		writeRow(w, row.Name, row.Took, row.Result)
	}

	writeRow(w, "all", took, total)
	fmt.Fprintf(w, "\n%d passed, %d failed\n", total.Passed, len(total.Failed))
}

// failures marks each name as `go test` does, because tools search logs for it.
func failures(names []string) []string {
	marked := make([]string, len(names))
	for i, name := range names {
		marked[i] = "--- FAIL: " + name
	}

	return marked
}

// shortest is the number of characters of a failure's message that are printed after the name of the test.
const shortest = 300

// withMessage is the name of a failed test and the beginning of the reason on the same line.
func withMessage(name, message string) string {
	words := strings.Join(strings.Fields(message), " ")
	if words == "" {
		return name
	}

	if len(words) > shortest {
		words = strings.ToValidUTF8(words[:shortest], "") + "…"
	}

	return name + ": " + words
}

func writeNames(w io.Writer, title string, names []string) {
	if len(names) == 0 {
		return
	}

	fmt.Fprintf(w, "\n%s:\n", title)

	for _, name := range names {
		fmt.Fprintf(w, "  %s\n", name)
	}
}

func writeRow(w io.Writer, name string, took time.Duration, result Result) {
	fmt.Fprintf(w, "%-12s %8s   %s\n", name, took.Round(time.Second), counts(result))
}

func counts(r Result) string {
	line := fmt.Sprintf("%d passed, %d failed", r.Passed, len(r.Failed))
	if len(r.Skipped) > 0 {
		line += fmt.Sprintf(", %d skipped", len(r.Skipped))
	}

	return line
}
