// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// GoReport counts the tests in a stream of events. A function that runs Ginkgo specs counts as these specs, a function
// with subtests as its subtests, and a package that fails without a failed test as one failure.
type GoReport struct {
	out      io.Writer
	packages map[string]*packageReport
	result   Result
}

type packageReport struct {
	output strings.Builder
	tests  map[string]*testReport
	names  []string
}

type testReport struct {
	action string
	output strings.Builder
}

// NewGoReport returns a report that writes its progress to out.
func NewGoReport(out io.Writer) *GoReport {
	return &GoReport{out: out, packages: map[string]*packageReport{}}
}

// Result returns what was counted so far.
func (g *GoReport) Result() Result { return g.result }

// Read consumes events until the end. Lines that are no events, as those of a build that fails early, are passed on.
func (g *GoReport) Read(r *bufio.Reader) error {
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			g.line(line)
		}

		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}
	}
}

func (g *GoReport) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		fmt.Fprint(g.out, line)
		return
	}

	if e.Package == "" {
		if e.Action == "build-output" {
			fmt.Fprint(g.out, e.Output)
		}

		return
	}

	report := g.packages[e.Package]
	if report == nil {
		report = &packageReport{tests: map[string]*testReport{}}
		g.packages[e.Package] = report
	}

	report.add(e)

	if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
		g.close(e, report)
	}
}

func (p *packageReport) add(e event) {
	if e.Action == "output" {
		p.output.WriteString(e.Output)
	}

	if e.Test == "" {
		return
	}

	test := p.tests[e.Test]
	if test == nil {
		test = &testReport{}
		p.tests[e.Test] = test
		p.names = append(p.names, e.Test)
	}

	switch e.Action {
	case "output":
		test.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		test.action = e.Action
	}
}

// close counts a package that has ended and writes its line of progress.
func (g *GoReport) close(e event, report *packageReport) {
	delete(g.packages, e.Package)

	result := report.count(e)
	g.result.Add(result)

	if e.Action == "fail" {
		fmt.Fprintf(g.out, "%sFAIL %s (%s)\n", report.output.String(), e.Package, counts(result))
	} else if len(report.names) > 0 {
		fmt.Fprintf(g.out, "ok   %s %.1fs (%s)\n", e.Package, e.Elapsed, counts(result))
	}
}

func (p *packageReport) count(e event) Result {
	var result Result

	for _, name := range p.names {
		if p.isParent(name) {
			continue
		}

		test, path := p.tests[name], e.Package+"."+name

		specs, ok := specsIn(test.output.String(), path)

		switch {
		case ok && (test.action == "pass" || len(specs.Failed) > 0):
			result.Add(specs)
		case test.action == "pass":
			result.Passed++
		case test.action == "skip":
			result.Skipped = append(result.Skipped, path+": "+skipReason(test.output.String()))
		default:
			result.Failed = append(result.Failed, path)
		}
	}

	if e.Action == "fail" && len(result.Failed) == 0 {
		result.Failed = append(result.Failed, e.Package)
	}

	return result
}

func (p *packageReport) isParent(name string) bool {
	for _, other := range p.names {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}

	return false
}

var (
	colours = regexp.MustCompile("\x1b\\[[0-9;]*m")
	summary = regexp.MustCompile(`(?m)^(?:SUCCESS|FAIL)! .*-- (\d+) Passed \| (\d+) Failed \| (?:\d+ Flaked \| )?(\d+) Pending \| (\d+) Skipped`)
	failed  = regexp.MustCompile(`(?m)^\s*\[(?:FAIL|PANICKED!|TIMEDOUT|INTERRUPTED)\] (.*)$`)
	reason  = regexp.MustCompile(`(?ms)^\s*\[FAILED\] (.*?)^\s*In \[`)
	skipped = regexp.MustCompile(`(?m)^(?:S \[SKIPPED\]|P \[PENDING\]).*\n(.*)$`)
)

// specsIn returns the counts of the Ginkgo suite whose output this is, and false if it is none.
func specsIn(output, path string) (Result, bool) {
	output = colours.ReplaceAllString(output, "")

	match := summary.FindStringSubmatch(output)
	if match == nil {
		return Result{}, false
	}

	number := func(i int) int {
		n, _ := strconv.Atoi(match[i]) // digits by the expression
		return n
	}
	names := func(expression *regexp.Regexp, n int) []string {
		found := expression.FindAllStringSubmatch(output, -1)
		result := make([]string, n)

		for i := range result {
			if result[i] = path + ": a spec that -ginkgo.v names"; i < len(found) {
				result[i] = path + ": " + strings.TrimSpace(found[i][1])
			}
		}

		return result
	}

	specs := Result{Passed: number(1), Failed: names(failed, number(2)), Skipped: names(skipped, number(3)+number(4))}
	// Ginkgo prints the reasons in the order of its summary, and more of them if one spec has more than one reason.
	if reasons := reason.FindAllStringSubmatch(output, -1); len(reasons) == len(specs.Failed) {
		for i, name := range specs.Failed {
			specs.Failed[i] = withMessage(name, reasons[i][1])
		}
	}

	return specs, true
}

// skipReason returns the last line that a skipped test has written.
func skipReason(output string) string {
	reason := "no reason given"

	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			reason = line
		}
	}

	return reason
}
