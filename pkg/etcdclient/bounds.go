// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits for the data of a member, which is not trusted. Members of a real cluster stay far below them: a list of seven
// members has about one kilobyte.
const (
	// maxMessageSize is the maximum size of a response, in bytes.
	maxMessageSize = 1 << 20
	// maxHeaderSize is the maximum size of the headers of a response, in bytes. gRPC sends errors in headers.
	maxHeaderSize = 64 << 10
	// maxItems is the maximum number of members, of URLs of a member, and of errors in a status.
	maxItems = 64
	// maxVersionLength, maxTextLength and maxURLLength are the maximum lengths of texts, in bytes.
	maxVersionLength = 64
	maxTextLength    = 512
	maxURLLength     = 2048
)

// truncate returns at most limit bytes of the text. It replaces each character that is not printable by the replacement
// character.
func truncate(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit]
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}

		return utf8.RuneError
	}, strings.ToValidUTF8(text, ""))
	for len(text) > limit { // a replacement character can be longer than the original
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}

	return text
}

// truncateAll truncates each text, and returns at most maxItems of them. Nil if there are none.
func truncateAll(texts []string, limit int) []string {
	var all []string
	for _, text := range texts[:min(len(texts), maxItems)] {
		all = append(all, truncate(text, limit))
	}

	return all
}

// boundedError is an error whose text is truncated.
type boundedError struct{ error }

func (e boundedError) Error() string { return truncate(e.error.Error(), maxTextLength) }

func (e boundedError) Unwrap() error { return e.error }
