// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longest is how many specs the summary prints with their durations.
const longest = 10

// Summary reads what run.sh has written into the directory. steps.tsv has a line for each step, with its suite, name, exit code and
// report, and the report that it repeats. suites.tsv has a line for each suite: its name, and its seconds.
// The last line is for all suites, and has the seconds of CPU time of the machine, too. Suites overlap.
//
// Summary writes specs.tsv, and returns the text at the end of a run. It returns an error if it cannot read or write these files.
func Summary(dir string) (string, error) {
	steps, err := readTable(filepath.Join(dir, "steps.tsv"), 5)
	if err != nil {
		return "", err
	}

	suites, err := readTable(filepath.Join(dir, "suites.tsv"), 3)
	if err != nil {
		return "", err
	}

	s := summary{counts: map[string]*count{}}
	for _, step := range steps {
		s.addStep(step[0], step[1], step[2], step[3], step[4])
	}

	if err := s.addSpecs(dir); err != nil {
		return "", err
	}

	return s.text(suites), os.WriteFile(filepath.Join(dir, "specs.tsv"), []byte(s.table()), 0o600)
}

// readTable returns the lines of a file with this number of columns, which tabs separate.
func readTable(path string, columns int) ([][]string, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- a file of run.sh
	if err != nil {
		return nil, err
	}

	var rows [][]string

	for line := range strings.Lines(string(content)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) != columns {
			return nil, fmt.Errorf("%s: %q has %d columns instead of %d", path, line, len(row), columns)
		}

		rows = append(rows, row)
	}

	return rows, nil
}

type count struct{ passed, failed, skipped int }

func (c *count) String() string {
	text := fmt.Sprintf("%d passed, %d failed", c.passed, c.failed)
	if c.skipped > 0 {
		text += fmt.Sprintf(", %d skipped", c.skipped)
	}

	return text
}

// result is a test with the suite and the report that contain it.
type result struct {
	test

	suite, report string
}

type summary struct {
	counts map[string]*count
	// results are the tests that the counts contain.
	results []result
	// specs are the specs of Ginkgo that `go test` ran. The results have one test for each of their packages.
	specs []result
	// repeated are the failed scenarios whose repetition passed.
	repeated []result
}

// addStep adds the tests in the report of a step. Without a report the step is a test itself. A step counts as a failed test, too, if it has no test,
// or if its exit code is not 0 although no test failed.
func (s *summary) addStep(suite, name, exitCode, report, repeats string) {
	if report == "" {
		state := "passed"
		if exitCode != "0" {
			state = "failed"
		}

		s.results = append(s.results, result{test{name: name, state: state, detail: "exit code " + exitCode}, suite, ""})

		return
	}

	tests, err := readReport(report)
	ran, failed := 0, 0

	for _, t := range tests {
		if t.state == "passed" || t.state == "failed" {
			ran++
		}

		if t.state == "failed" {
			failed++
		}

		s.replace(repeats, t)
		s.results = append(s.results, result{t, suite, report})
	}

	failure := ""

	switch {
	case err != nil:
		failure = err.Error()
	case failed == 0 && exitCode != "0":
		failure = "exit code " + exitCode
	case ran == 0:
		failure = "no test ran"
	default:
		return
	}

	s.results = append(s.results, result{test{name: name, state: "failed", detail: failure}, suite, report})
}

// replace removes the failure of the repeated report if its repetition passed. A spec that passed twice counts once.
func (s *summary) replace(repeats string, t test) {
	if repeats == "" || t.state != "passed" {
		return
	}

	s.results = slices.DeleteFunc(s.results, func(r result) bool {
		same := r.report == repeats && r.name == t.name
		if same && r.state == "failed" {
			s.repeated = append(s.repeated, r)
		}

		return same
	})
}

// addSpecs adds the reports of Ginkgo suites that `go test` ran.
func (s *summary) addSpecs(dir string) error {
	reports, err := filepath.Glob(filepath.Join(dir, "specs", "*", "*.json"))
	if err != nil {
		return err
	}

	for _, report := range reports {
		tests, err := readReport(report)
		if err != nil {
			return fmt.Errorf("%s: %w", report, err)
		}

		for _, t := range tests {
			s.specs = append(s.specs, result{t, filepath.Base(filepath.Dir(report)), report})
		}
	}

	return nil
}

// timed returns all specs that ran, the longest first.
func (s *summary) timed() []result {
	all := slices.DeleteFunc(slices.Concat(s.results, s.repeated, s.specs), func(r result) bool { return r.state == "" || r.took == 0 })
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(b.took, a.took) })

	return all
}

func (s *summary) table() string {
	var table strings.Builder

	table.WriteString("seconds\tset-up\tclean-up\tstate\tsuite\tspec\n")

	for _, r := range s.timed() {
		fmt.Fprintf(&table, "%.1f\t%.1f\t%.1f\t%s\t%s\t%s\n", r.took.Seconds(), r.setUp.Seconds(), r.cleanUp.Seconds(), r.state, r.suite, r.name)
	}

	return table.String()
}

// text returns the longest specs, the skipped, repeated and failed tests, a row for each suite, and the counts in the last line.
func (s *summary) text(suites [][]string) string {
	var text strings.Builder

	fmt.Fprintf(&text, "The longest specs (seconds, share of set-up, share of clean-up); specs.tsv has all:\n")

	timed := s.timed()
	for _, r := range timed[:min(longest, len(timed))] {
		fmt.Fprintf(&text, "%6.0f %3.0f%% %3.0f%%  %s: %s\n", r.took.Seconds(), 100*r.setUp.Seconds()/r.took.Seconds(), 100*r.cleanUp.Seconds()/r.took.Seconds(), r.suite, r.name)
	}

	text.WriteString("\n")

	for _, r := range s.repeated {
		fmt.Fprintf(&text, "Repeated once: %s: %.600s\n", r.name, r.detail)
	}

	var failures strings.Builder

	for _, r := range s.results {
		c := s.of(r.suite)

		switch r.state {
		case "passed":
			c.passed++
		case "failed":
			c.failed++
			fmt.Fprintf(&failures, "--- FAIL: %s: %s: %.600s\n", r.suite, r.name, r.detail) // log parsers search for this prefix
		case "skipped":
			c.skipped++
			fmt.Fprintf(&text, "Skipped: %s: %.600s\n", r.name, r.detail)
		}
	}

	text.WriteString(failures.String())
	text.WriteString(s.rows(suites))

	return text.String()
}

func (s *summary) of(suite string) *count {
	if s.counts[suite] == nil {
		s.counts[suite] = &count{}
	}

	return s.counts[suite]
}

func (s *summary) rows(suites [][]string) string {
	var (
		text strings.Builder
		all  count
	)

	text.WriteString("\n")

	for _, suite := range suites {
		took, counts := seconds(suite[1]), ""
		if suite[2] == "" {
			c := s.of(suite[0])
			all = count{all.passed + c.passed, all.failed + c.failed, all.skipped + c.skipped}
			counts = c.String()
		} else {
			counts = all.String() + ", " + suite[2] + " s of CPU time"
		}

		fmt.Fprintf(&text, "%-12s %5dm%02ds   %s\n", suite[0], int(took.Minutes()), int(took.Seconds())%60, counts)
	}

	fmt.Fprintf(&text, "\n%d passed, %d failed\n", all.passed, all.failed)

	return text.String()
}

// seconds returns the duration. run.sh writes whole seconds.
func seconds(text string) time.Duration {
	n, _ := strconv.Atoi(text)

	return time.Duration(n) * time.Second
}
