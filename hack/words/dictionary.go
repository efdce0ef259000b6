// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Dictionary is the content of words.yaml.
type Dictionary struct {
	// Identifiers are replaced in Go code.
	Identifiers []Rule `json:"identifiers"`
	// Parts are replaced wherever they are a part of a Go identifier: "story" is a part of newStory and StoryTimeout. A rule of
	// several words, such as "known by", matches consecutive parts.
	Parts []Rule `json:"parts"`
	// Words are replaced in prose. They match whole words in any case. The words of a phrase may be on two lines.
	Words []Rule `json:"words"`
	// Files are patterns of file names that are replaced.
	Files []Rule `json:"files"`
	// Skip are files that are not read.
	Skip []Skipped `json:"skip"`
}

// Rule maps terms to their replacement.
type Rule struct {
	// Find are the terms: an identifier, a part of one, a word or phrase, or a pattern of a file name.
	Find []string `json:"find"`
	// Use is the replacement. Several alternatives are separated by commas.
	Use string `json:"use"`
	// Except are longer terms in which a term of Find is correct, such as "look up" for "look".
	Except []string `json:"except,omitempty"`
	// In restricts the rule to files that match one of these patterns. Empty: all files.
	In []string `json:"in,omitempty"`
}

// Skipped are files that are not read.
type Skipped struct {
	// Path is a pattern: "*" matches within a path component, "**" also matches "/".
	Path string `json:"path"`
	// Reason says why. It is required.
	Reason string `json:"reason"`
}

// LoadDictionary reads words.yaml.
func LoadDictionary(file string) (*Dictionary, error) {
	dictionary := &Dictionary{}
	if err := load(file, dictionary); err != nil {
		return nil, err
	}

	for _, rules := range [][]Rule{dictionary.Identifiers, dictionary.Parts, dictionary.Words, dictionary.Files} {
		for _, rule := range rules {
			if len(rule.Find) == 0 || rule.Use == "" {
				return nil, fmt.Errorf("%s: a rule needs find and use: %+v", file, rule)
			}
		}
	}

	for _, skipped := range dictionary.Skip {
		if skipped.Path == "" || skipped.Reason == "" {
			return nil, fmt.Errorf("%s: an entry of skip needs path and reason: %+v", file, skipped)
		}
	}

	return dictionary, nil
}

// isSkipped is true for files that are not read.
func (d *Dictionary) isSkipped(path string) bool {
	return slices.ContainsFunc(d.Skip, func(s Skipped) bool { return matches(s.Path, path) })
}

// appliesTo is true if the rule is meant for the file.
func (e Rule) appliesTo(path string) bool {
	return len(e.In) == 0 || slices.ContainsFunc(e.In, func(pattern string) bool { return matches(pattern, path) })
}

// load reads a YAML file strictly.
func load(file string, into any) error {
	data, err := os.ReadFile(file) // #nosec G304 -- a file of the repository
	if err != nil {
		return err
	}

	if err := yaml.UnmarshalStrict(data, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}

	return nil
}

// patterns caches compiled patterns of paths.
var patterns = map[string]*regexp.Regexp{}

// matches is true if the path matches the pattern. "*" matches within a path component, "**" also matches "/".
func matches(pattern, path string) bool {
	expression, found := patterns[pattern]
	if !found {
		quoted := regexp.QuoteMeta(pattern)
		quoted = strings.ReplaceAll(quoted, `\*\*/`, `(?:.*/)?`)
		quoted = strings.ReplaceAll(quoted, `\*\*`, `.*`)
		quoted = strings.ReplaceAll(quoted, `\*`, `[^/]*`)
		expression = regexp.MustCompile("^" + quoted + "$")
		patterns[pattern] = expression
	}

	return expression.MatchString(path)
}
