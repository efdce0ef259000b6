// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// The testrun command counts the tests in one report: that of gotestsum (--jsonfile) or that of Ginkgo (--json-report). It writes
// lines for run.sh, which adds them up: `passed NUMBER`, `failed NAME` and `skipped NAME`.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: testrun STEP EXITCODE REPORT")
		os.Exit(2)
	}

	report, err := os.ReadFile(os.Args[3]) // #nosec G304 G703 -- the report that the caller names
	if err != nil {
		report = nil // its step failed before its first test, and is counted as failed
	}

	Count(report, os.Args[1], os.Args[2]).write(os.Stdout)
}

// Result is the outcome of the tests of one step.
type Result struct {
	// Passed is the number of passed tests. Each Ginkgo spec is one test.
	Passed int
	// Failed and Skipped name the other tests. Specs that a label filter excludes are in neither.
	Failed, Skipped []string
}

// Count counts the tests in the report of a step. A step counts as one failed test in two cases. Its report contains no
// result, or its command returned another exit code than 0 without a failed test.
func Count(report []byte, step, exitCode string) Result {
	var (
		result Result
		err    error
	)

	if strings.HasPrefix(string(bytes.TrimSpace(report)), "[") {
		result, err = countSpecs(report)
	} else {
		result, err = countEvents(report)
	}

	switch {
	case err != nil:
		result.Failed = append(result.Failed, step+": "+err.Error())
	case len(result.Failed) == 0 && exitCode != "0":
		result.Failed = append(result.Failed, step+": exit code "+exitCode)
	case len(result.Failed) == 0 && result.Passed == 0:
		result.Failed = append(result.Failed, step+": no test ran")
	}

	return result
}

func (r Result) write(w io.Writer) {
	fmt.Fprintf(w, "passed %d\n", r.Passed)

	for _, name := range r.Failed {
		fmt.Fprintf(w, "failed %s\n", name)
	}

	for _, name := range r.Skipped {
		fmt.Fprintf(w, "skipped %s\n", name)
	}
}

// countSpecs counts the specs of a report of Ginkgo. A failed node that is no spec, such as BeforeSuite, is one failed test.
func countSpecs(content []byte) (Result, error) {
	var (
		reports []types.Report
		result  Result
	)

	if err := json.Unmarshal(content, &reports); err != nil {
		return result, err
	}

	for _, report := range reports {
		for _, spec := range report.SpecReports {
			result.addSpec(spec)
		}

		if !report.SuiteSucceeded && len(result.Failed) == 0 {
			result.Failed = append(result.Failed, fmt.Sprintf("%s: %v", report.SuiteDescription, report.SpecialSuiteFailureReasons))
		}
	}

	return result, nil
}

func (r *Result) addSpec(spec types.SpecReport) {
	name := strings.TrimPrefix(strings.TrimSpace(spec.LeafNodeType.String()+" "+spec.FullText()), "It ")
	if spec.Failed() {
		name += locationOf(spec)
	}

	name += fmt.Sprintf(": %.600s", strings.Join(strings.Fields(spec.Failure.Message), " "))

	switch {
	case spec.Failed():
		r.Failed = append(r.Failed, name)
	case !spec.LeafNodeType.Is(types.NodeTypeIt):
	case spec.State.Is(types.SpecStatePassed):
		r.Passed++
	case spec.State.Is(types.SpecStatePending):
		r.Skipped = append(r.Skipped, name+"pending")
	case spec.State.Is(types.SpecStateSkipped) && (spec.NumAttempts > 0 || spec.Failure.Message != ""): // else filtered by its label
		r.Skipped = append(r.Skipped, name)
	}
}

// locationOf returns the line of the failure and the description of the step in progress. A log of CI contains only this line of a report.
func locationOf(spec types.SpecReport) string {
	location := ""
	if spec.Failure.Location.FileName != "" {
		location = fmt.Sprintf(" (%s:%d)", filepath.Base(spec.Failure.Location.FileName), spec.Failure.Location.LineNumber)
	}

	for _, event := range slices.Backward(spec.SpecEvents) {
		if event.SpecEventType.Is(types.SpecEventByStart) {
			return location + ", step " + strconv.Quote(event.Message)
		}
	}

	return location
}

// event is one line of `go test -json`.
type event struct{ Action, Package, Test, Output string }

// test is one test function, or one of its subtests.
type test struct {
	name, action string
	output       strings.Builder
}

// countEvents counts the tests of Go packages. A function that runs Ginkgo specs counts as these specs, and one with subtests as its
// subtests. A package that fails without a failed test is one failed test.
func countEvents(content []byte) (Result, error) {
	var (
		result   Result
		packages = map[string][]*test{}
	)

	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return result, nil
		} else if err != nil {
			return result, err
		}

		if e.Test != "" {
			packages[e.Package] = record(packages[e.Package], e)
			continue
		}

		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			failed := len(result.Failed)
			for _, t := range packages[e.Package] {
				if !isParent(t.name, packages[e.Package]) {
					result.addTest(e.Package, t)
				}
			}

			if e.Action == "fail" && len(result.Failed) == failed {
				result.Failed = append(result.Failed, e.Package)
			}
		}
	}
}

// record adds the event to its test, which it appends to the tests if this is its first event.
func record(tests []*test, e event) []*test {
	i := slices.IndexFunc(tests, func(t *test) bool { return t.name == e.Test })
	if i < 0 {
		i, tests = len(tests), append(tests, &test{name: e.Test})
	}

	tests[i].output.WriteString(e.Output)
	if e.Action != "output" {
		tests[i].action = e.Action
	}

	return tests
}

func isParent(name string, tests []*test) bool {
	return slices.ContainsFunc(tests, func(t *test) bool { return strings.HasPrefix(t.name, name+"/") })
}

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	// summary is the last line of a suite of Ginkgo. Its report as JSON is of no use here, since a package with results in Go's cache writes
	// none.
	summary      = regexp.MustCompile(`(?m)^(?:SUCCESS|FAIL)! .*-- (\d+) Passed \| (\d+) Failed \| (?:\d+ Flaked \| )?(\d+) Pending \| (\d+) Skipped`)
	failedSpecs  = regexp.MustCompile(`(?m)^\s*\[(?:FAIL|PANICKED!|TIMEDOUT|INTERRUPTED)\] (.*)$`)
	skippedSpecs = regexp.MustCompile(`(?m)^(?:S \[SKIPPED\]|P \[PENDING\]).*\n(.*)$`)
)

func (r *Result) addTest(path string, t *test) {
	name, output := path+"."+t.name, colours.ReplaceAllString(t.output.String(), "")

	specs := summary.FindStringSubmatch(output)
	if specs == nil || t.action != "pass" && specs[2] == "0" {
		specs = []string{"", "0", "0", "0", "0"}

		switch t.action {
		case "pass":
			specs[1] = "1"
		case "skip":
			r.Skipped = append(r.Skipped, name+": "+strings.Join(strings.Fields(output), " "))
		default:
			r.Failed = append(r.Failed, name)
		}
	}

	number := func(i int) int {
		n, _ := strconv.Atoi(specs[i]) // digits by the expression

		return n
	}

	r.Passed += number(1)
	r.Failed = append(r.Failed, names(name, failedSpecs.FindAllStringSubmatch(output, -1), number(2))...)
	r.Skipped = append(r.Skipped, names(name, skippedSpecs.FindAllStringSubmatch(output, -1), number(3)+number(4))...)
}

// names returns n names, also if the output contains fewer.
func names(suite string, found [][]string, n int) []string {
	all := make([]string, n)

	for i := range all {
		all[i] = suite + ": a spec that -ginkgo.v names"
		if i < len(found) {
			all[i] = suite + ": " + strings.TrimSpace(found[i][1])
		}
	}

	return all
}
