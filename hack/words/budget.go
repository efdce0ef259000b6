// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
)

// Counts are the numbers of hits of each class.
type Counts struct {
	Identifiers int `json:"identifiers"`
	Words       int `json:"words"`
}

// Budget is the content of budget.yaml: the counts that the repository must have.
type Budget struct {
	Counts
}

// LoadBudget reads budget.yaml.
func LoadBudget(file string) (Budget, error) {
	var budget Budget
	err := load(file, &budget)

	return budget, err
}

// Write writes budget.yaml.
func (b Budget) Write(file string) error {
	text := fmt.Sprintf("# The numbers of terms of words.yaml that are still in use. `go run ./hack/words -lower` lowers them.\nidentifiers: %d\nwords: %d\n", b.Identifiers, b.Words)

	return os.WriteFile(file, []byte(text), 0o600)
}

// Lower returns the budget with the counts that are lower than it.
func (b Budget) Lower(counts Counts) Budget {
	return Budget{Counts{Identifiers: min(b.Identifiers, counts.Identifiers), Words: min(b.Words, counts.Words)}}
}

// IsExceeded is true if a count is higher than its budget.
func (b Budget) IsExceeded(counts Counts) bool {
	return counts.Identifiers > b.Identifiers || counts.Words > b.Words
}

// Check returns an error if a count differs from its budget.
func (b Budget) Check(counts Counts) error {
	return errors.Join(check("identifiers", counts.Identifiers, b.Identifiers), check("words", counts.Words, b.Words))
}

func check(class string, count, budget int) error {
	switch {
	case count > budget:
		return fmt.Errorf("%d %s of %s/words.yaml are in use, the budget is %d: use the replacements", count, class, folder, budget)
	case count < budget:
		return fmt.Errorf("%d %s of %s/words.yaml are in use, the budget is %d: run go run ./hack/words -lower", count, class, folder, budget)
	default:
		return nil
	}
}

func count(hits []Hit) Counts {
	var counts Counts

	for _, hit := range hits {
		switch hit.Class {
		case ClassIdentifier:
			counts.Identifiers++
		case ClassWord:
			counts.Words++
		}
	}

	return counts
}
