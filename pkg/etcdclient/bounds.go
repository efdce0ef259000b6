// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of what is taken from a member, which is not trusted. Members of a real cluster stay far below them: a list of seven members has
// about a kilobyte.
const (
	// largestMessage bounds a response, in bytes.
	largestMessage = 1 << 20
	// largestHeaders bounds the headers of a response, in bytes. An error comes in a header.
	largestHeaders = 64 << 10
	// mostItems bounds members, their URLs, and errors of a status.
	mostItems = 64
	// longestVersion, longestText and longestURL bound texts, in bytes.
	longestVersion = 64
	longestText    = 512
	longestURL     = 2048
)

// bounded is the text up to a number of bytes, with a replacement character for each that does not print.
func bounded(text string, longest int) string {
	if len(text) > longest {
		text = text[:longest]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}

		return utf8.RuneError
	}, strings.ToValidUTF8(text, ""))
	for len(text) > longest { // a replacement character is longer than what it replaces
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}

	return text
}

// allBounded are the first of the texts, each bounded. Nil for none.
func allBounded(texts []string, longest int) []string {
	var all []string
	for _, text := range texts[:min(len(texts), mostItems)] {
		all = append(all, bounded(text, longest))
	}

	return all
}

// boundedError is an error with a bounded text.
type boundedError struct{ error }

func (e boundedError) Error() string { return bounded(e.error.Error(), longestText) }

func (e boundedError) Unwrap() error { return e.error }
