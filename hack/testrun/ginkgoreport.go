// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"github.com/onsi/ginkgo/v2/types"
)

// ReadGinkgoReport counts the specs of a report that Ginkgo wrote as JSON. A set-up or tear-down of a suite counts when it
// has failed. Specs that a label filter left out count as nothing: they are another suite's.
func ReadGinkgoReport(path string) (Result, error) {
	data, err := os.ReadFile(path) // #nosec G304 -- below the temporary folder of this run
	if err != nil {
		return Result{}, fmt.Errorf("no report: %w", err)
	}

	var reports []types.Report
	if err := json.Unmarshal(data, &reports); err != nil {
		return Result{}, fmt.Errorf("reading %s: %w", path, err)
	}

	var result Result

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
	name := spec.FullText()
	if name == "" {
		name = spec.LeafNodeType.String()
	}

	switch isSpec := spec.LeafNodeType.Is(types.NodeTypeIt); {
	case spec.Failed():
		r.Failed = append(r.Failed, withMessage(name, spec.Failure.Message))
	case !isSpec:
	case spec.State.Is(types.SpecStatePassed):
		r.Passed++
	case spec.State.Is(types.SpecStatePending):
		r.Skipped = append(r.Skipped, name+": pending")
	case spec.State.Is(types.SpecStateSkipped) && (spec.NumAttempts > 0 || spec.Failure.Message != ""):
		r.Skipped = append(r.Skipped, name+": "+cmp.Or(spec.Failure.Message, "no reason given"))
	}
}
