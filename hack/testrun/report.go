// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

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
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// boundExceeded begins the failure message of a spec that exceeded its bound on a duration. test/e2e has the same text.
const boundExceeded = "exceeded its bound on a duration: "

// setUpEntry is the name of the report entry that ends the set-up of a scenario. test/e2e/framework has the same text.
const setUpEntry = "set-up"

// test is a spec of Ginkgo, or a test function of Go or its subtest.
type test struct {
	// name is the full text of the spec, or the package and the name of the function.
	name string
	// state is passed, failed or skipped. Empty means that a filter excluded the spec.
	state string
	// detail is the failure or the reason of the skip in one line.
	detail string
	// took is the duration. setUp is the part of it before the first assertion, and cleanUp the part after the last one.
	took, setUp, cleanUp time.Duration
}

// readReport reads a report of Ginkgo (--json-report) or of gotestsum (--jsonfile). It returns the tests before an error too.
func readReport(path string) ([]test, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the report that the caller names
	if err != nil {
		return nil, errors.New("no test ran")
	}

	if !bytes.HasPrefix(bytes.TrimSpace(content), []byte("[")) {
		return readEvents(content)
	}

	var (
		suites []types.Report
		tests  []test
	)

	if err := json.Unmarshal(content, &suites); err != nil {
		return nil, err
	}

	for _, suite := range suites {
		failed := false

		for _, spec := range suite.SpecReports {
			t := testOf(spec)
			failed = failed || t.state == "failed"
			tests = append(tests, t)
		}

		if !suite.SuiteSucceeded && !failed {
			tests = append(tests, test{name: suite.SuiteDescription, state: "failed", detail: fmt.Sprint(suite.SpecialSuiteFailureReasons)})
		}
	}

	return tests, nil
}

// testOf returns the test of a spec. A node that is no spec, such as BeforeSuite, is a test only if it failed.
func testOf(spec types.SpecReport) test {
	isSpec := spec.LeafNodeType.Is(types.NodeTypeIt)
	t := test{name: strings.TrimSpace(spec.FullText()), detail: strings.Join(strings.Fields(spec.Failure.Message), " "), took: spec.RunTime}

	switch {
	case spec.Failed():
		t.state, t.detail = "failed", locationOf(spec)+t.detail
	case isSpec && spec.State.Is(types.SpecStatePassed):
		t.state = "passed"
	case isSpec && spec.State.Is(types.SpecStatePending):
		t.state, t.detail = "skipped", "pending"
	case isSpec && spec.State.Is(types.SpecStateSkipped) && (spec.NumAttempts > 0 || t.detail != ""): // else a filter excluded it
		t.state = "skipped"
	}

	if !isSpec {
		t.name = strings.TrimSpace(spec.LeafNodeType.String() + " " + t.name)
	}

	t.setUp, t.cleanUp = partsOf(spec)

	return t
}

// partsOf returns how long the set-up and the clean-up of a spec took. The set-up ends with the entry of the framework, or with the first node
// that is the spec itself.
func partsOf(spec types.SpecReport) (setUp, cleanUp time.Duration) {
	const after = types.NodeTypeAfterEach | types.NodeTypeJustAfterEach | types.NodeTypeAfterAll | types.NodeTypeCleanupAfterEach | types.NodeTypeCleanupAfterAll

	for _, event := range spec.SpecEvents {
		switch {
		case event.SpecEventType.Is(types.SpecEventNodeStart) && event.NodeType.Is(types.NodeTypeIt):
			setUp = event.TimelineLocation.Time.Sub(spec.StartTime)
		case event.SpecEventType.Is(types.SpecEventNodeEnd) && event.NodeType.Is(after):
			cleanUp += event.Duration
		}
	}

	for _, entry := range spec.ReportEntries {
		if entry.Name == setUpEntry {
			setUp = entry.Time.Sub(spec.StartTime)
		}
	}

	return setUp, cleanUp
}

// locationOf returns the line of the failure and the description of the step in progress. A log of CI contains only this line of a report.
func locationOf(spec types.SpecReport) string {
	location := ""
	if spec.Failure.Location.FileName != "" {
		location = fmt.Sprintf("%s:%d: ", filepath.Base(spec.Failure.Location.FileName), spec.Failure.Location.LineNumber)
	}

	for i := len(spec.SpecEvents) - 1; i >= 0; i-- {
		if spec.SpecEvents[i].SpecEventType.Is(types.SpecEventByStart) {
			return fmt.Sprintf("%sstep %q: ", location, spec.SpecEvents[i].Message)
		}
	}

	return location
}

// event is one line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// readEvents returns the test functions and their subtests without the functions that have subtests. A package that fails without a failed
// test is a failed test.
func readEvents(content []byte) ([]test, error) {
	var (
		tests   []test
		parents = map[string]bool{}
		failed  = map[string]bool{}
		output  = map[string][]string{} // a test can print megabytes in short lines
	)

	for decoder := json.NewDecoder(bytes.NewReader(content)); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return tests, nil
		} else if err != nil {
			return tests, err
		}

		name := strings.TrimSuffix(e.Package+"."+e.Test, ".")
		output[name] = append(output[name], e.Output)
		state := map[string]string{"pass": "passed", "fail": "failed", "skip": "skipped"}[e.Action]
		isPackage := e.Test == ""

		if state == "" || parents[name] || isPackage && (state != "failed" || failed[e.Package]) {
			continue
		}

		if end := strings.LastIndex(name, "/"); !isPackage && end > len(e.Package) {
			parents[name[:end]] = true
		}

		failed[e.Package] = failed[e.Package] || state == "failed"
		t := test{name: name, state: state, took: time.Duration(e.Elapsed * float64(time.Second))}

		if state == "skipped" {
			t.detail = strings.Join(strings.Fields(strings.Join(output[name], "")), " ")
		}

		tests = append(tests, t)
	}
}

// Repeatable returns a regular expression for the --focus of Ginkgo if one scenario of the report failed, and failed only its bound on a duration. A
// container of ordered specs is repeated as a whole. The result is empty if nothing may be repeated. It returns an error if it cannot read the report.
func Repeatable(path string) (string, error) {
	content, err := os.ReadFile(path) // #nosec G304 -- the report that the caller names
	if err != nil {
		return "", err
	}

	var suites []types.Report
	if err := json.Unmarshal(content, &suites); err != nil {
		return "", err
	}

	var failed []types.SpecReport

	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if spec.Failed() {
				failed = append(failed, spec)
			}
		}
	}

	if len(failed) != 1 || !strings.HasPrefix(failed[0].Failure.Message, boundExceeded) || len(failed[0].AdditionalFailures) > 0 {
		return "", nil
	}

	focus := failed[0].FullText()
	if failed[0].IsInOrderedContainer {
		focus = strings.Join(failed[0].ContainerHierarchyTexts, " ")
	}

	return regexp.QuoteMeta(focus), nil
}
