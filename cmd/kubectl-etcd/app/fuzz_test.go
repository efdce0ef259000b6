// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"testing"
	"unicode"
)

// FuzzTerminal checks that a terminal gets only characters that print, line ends and tabs, however the text is divided into writes.
func FuzzTerminal(f *testing.F) {
	for _, text := range []string{"main-0\n", "\x1b[2J", "\u202eabc", "\xff\xfe", "日本\t", "\U0001f600\U000e0001"} {
		f.Add([]byte(text), 1)
	}
	write := func(t *testing.T, parts ...[]byte) string {
		var shown bytes.Buffer
		out := &terminal{Writer: &shown}
		for _, part := range parts {
			if n, err := out.Write(part); err != nil || n != len(part) {
				t.Fatalf("%d of %d bytes written: %v", n, len(part), err)
			}
		}

		return shown.String()
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		at = min(max(at, 0), len(text))
		shown := write(t, text)
		for _, r := range shown {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == unicode.ReplacementChar {
				t.Errorf("%q is shown as %q", text, shown)
			}
		}
		if divided := write(t, text[:at], text[at:]); divided != shown {
			t.Errorf("%q is shown as %q, and as %q if it is divided at %d", text, shown, divided, at)
		}
	})
}
