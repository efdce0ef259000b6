// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Exceptions is the content of exceptions.yaml: places where a term is correct.
type Exceptions struct {
	Exceptions []Exception `json:"exceptions"`

	used []bool
}

// Exception allows a term in some files.
type Exception struct {
	// Path is a pattern of files: "*" matches within a path component, "**" also matches "/".
	Path string `json:"path"`
	// Word is the term as words.yaml has it, or a whole identifier that has the term as a part.
	Word string `json:"word"`
	// Line restricts the exception to lines with this text. Empty: every line.
	Line string `json:"line,omitempty"`
	// Reason says why the term is correct there. It is required.
	Reason string `json:"reason"`
}

// LoadExceptions reads exceptions.yaml.
func LoadExceptions(file string) (*Exceptions, error) {
	exceptions := &Exceptions{}
	if err := load(file, exceptions); err != nil {
		return nil, err
	}

	for _, exception := range exceptions.Exceptions {
		if exception.Path == "" || exception.Word == "" || exception.Reason == "" {
			return nil, fmt.Errorf("%s: an exception needs path, word and reason: %+v", file, exception)
		}
	}

	exceptions.used = make([]bool, len(exceptions.Exceptions))

	return exceptions, nil
}

// Filter returns the hits that no exception allows.
func (e *Exceptions) Filter(hits []Hit) []Hit {
	return slices.DeleteFunc(hits, func(hit Hit) bool {
		allowed := false

		for i, exception := range e.Exceptions {
			if exception.allows(hit) {
				e.used[i], allowed = true, true
			}
		}

		return allowed
	})
}

func (e Exception) allows(hit Hit) bool {
	return (e.Word == hit.Term || e.Word == hit.Identifier) && matches(e.Path, hit.Path) && strings.Contains(hit.Line, e.Line)
}

// CheckUsed returns an error that names the exceptions that allowed no hit of the last call of Filter.
func (e *Exceptions) CheckUsed() error {
	var errs []error

	for i, exception := range e.Exceptions {
		if !e.used[i] {
			errs = append(errs, fmt.Errorf("%s/exceptions.yaml: remove the exception for %q in %s: it matches nothing", folder, exception.Word, exception.Path))
		}
	}

	return errors.Join(errs...)
}
