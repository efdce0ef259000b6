// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// gap is what separates the words of a phrase: white space, and the sign of a comment at the start of the next line.
const gap = `\s+(?:(?://|#|>|\*)\s+)?`

var gaps = regexp.MustCompile(gap)

// wordMatcher finds the words of the dictionary in prose.
type wordMatcher struct {
	find, except *regexp.Regexp
	rules        map[string]Rule
}

func newWordMatcher(rules []Rule) *wordMatcher {
	matcher := &wordMatcher{rules: map[string]Rule{}}

	var find, except []string

	for _, rule := range rules {
		for _, term := range rule.Find {
			find = append(find, term)
			matcher.rules[strings.ToLower(term)] = rule
		}

		except = append(except, rule.Except...)
	}

	matcher.find, matcher.except = anyOf(find), anyOf(except)

	return matcher
}

// anyOf returns an expression that finds the terms as whole words in any case. Of the terms that start at the same word, it finds
// the longest one. Nil: there are no terms.
func anyOf(terms []string) *regexp.Regexp {
	if len(terms) == 0 {
		return nil
	}

	expressions := make([]string, 0, len(terms))

	for _, term := range slices.SortedFunc(slices.Values(terms), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		words := strings.Fields(term)
		for i := range words {
			words[i] = regexp.QuoteMeta(words[i])
		}

		expressions = append(expressions, strings.Join(words, gap))
	}

	return regexp.MustCompile(`(?i)\b(?:` + strings.Join(expressions, "|") + `)\b`)
}

// match returns the hits in a segment of a file that starts at an offset of its text.
func (m *wordMatcher) match(name string, text []byte, segment string, offset int) []Hit {
	if m.find == nil {
		return nil
	}

	var (
		hits     []Hit
		excepted [][]int
	)

	if m.except != nil {
		excepted = m.except.FindAllStringIndex(segment, -1)
	}

	for _, at := range m.find.FindAllStringIndex(segment, -1) {
		term := strings.ToLower(gaps.ReplaceAllString(segment[at[0]:at[1]], " "))

		rule := m.rules[term]
		if !rule.appliesTo(name) || slices.ContainsFunc(excepted, func(other []int) bool { return other[0] < at[1] && at[0] < other[1] }) {
			continue
		}

		number, line := lineAt(text, min(offset+at[0], len(text)))
		hits = append(hits, Hit{Path: name, Number: number, Line: line, Class: ClassWord, Term: term, Use: rule.Use})
	}

	return hits
}

// lineAt returns the line of the text at an offset, and its number from 1.
func lineAt(text []byte, offset int) (int, string) {
	start := bytes.LastIndexByte(text[:offset], '\n') + 1

	end := bytes.IndexByte(text[offset:], '\n')
	if end < 0 {
		end = len(text)
	} else {
		end += offset
	}

	return bytes.Count(text[:offset], []byte("\n")) + 1, string(text[start:end])
}
