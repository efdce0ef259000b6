// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

// terminal writes text for people. Names, messages and logs in the text come from the cluster. Therefore terminal writes each character
// that does not print as \u and its code, which JSON and YAML also understand. Examples are escape sequences of a terminal, and marks that
// reverse the direction of text. Line ends and tabs stay.
type terminal struct {
	io.Writer

	// incomplete is the beginning of a character whose rest comes with the next write.
	incomplete []byte
}

// Write implements io.Writer.
func (t *terminal) Write(text []byte) (int, error) {
	rest := slices.Concat(t.incomplete, text)
	escaped := make([]byte, 0, len(rest))
	for len(rest) > 0 && utf8.FullRune(rest) {
		r, size := utf8.DecodeRune(rest)
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && r != utf8.RuneError {
			escaped = append(escaped, rest[:size]...)
		} else {
			escaped = appendEscaped(escaped, r)
		}
		rest = rest[size:]
	}
	t.incomplete = append([]byte(nil), rest...)
	if _, err := t.Writer.Write(escaped); err != nil {
		return 0, err
	}

	return len(text), nil
}

// appendEscaped appends a character as JSON escapes it. One beyond 16 bits has two codes.
func appendEscaped(text []byte, r rune) []byte {
	if r <= 0xffff {
		return fmt.Appendf(text, `\u%04x`, r)
	}
	const first, second, ten = 0xd800, 0xdc00, 10
	r -= 0x10000

	return fmt.Appendf(text, `\u%04x\u%04x`, first+r>>ten, second+r&(1<<ten-1))
}
