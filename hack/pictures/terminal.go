// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"
)

// The sizes of the characters of a terminal, in pixels.
const (
	characterWidth = 7.8
	lineHeight     = 17
	padding        = 14
	barHeight      = 26
)

// unbreakable replaces spaces. Otherwise programs that draw SVG collapse them.
var unbreakable = strings.NewReplacer(" ", "\u00a0")

// WriteTerminal writes a picture of a terminal in SVG, with a command and its output. It sets the width of each line, so that the columns are
// aligned with every font.
func WriteTerminal(w io.Writer, command, output string) error {
	lines := append([]string{"$ " + command}, strings.Split(strings.TrimRight(output, "\n"), "\n")...)

	longest := 0
	for _, line := range lines {
		longest = max(longest, utf8.RuneCountInString(line))
	}

	width, height := float64(longest)*characterWidth+2*padding, barHeight+len(lines)*lineHeight+padding

	var svg strings.Builder

	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d">`+"\n", width, height, width, height)
	fmt.Fprintf(&svg, "<title>%s</title>\n", html.EscapeString(command))
	svg.WriteString(`<rect width="100%" height="100%" rx="6" fill="#1e1e1e"/>` + "\n")

	for i, color := range []string{"#ff5f56", "#ffbd2e", "#27c93f"} {
		fmt.Fprintf(&svg, `<circle cx="%d" cy="14" r="5" fill="%s"/>`+"\n", 18+16*i, color)
	}

	svg.WriteString(`<g font-family="Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace" font-size="13" fill="#d4d4d4">` + "\n")

	for i, line := range lines {
		if line == "" {
			continue
		}

		weight := ""
		if i == 0 {
			weight = ` font-weight="bold" fill="#ffffff"`
		}

		fmt.Fprintf(&svg, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs"%s>%s</text>`+"\n",
			float64(padding), barHeight+(i+1)*lineHeight-3, float64(utf8.RuneCountInString(line))*characterWidth, weight, html.EscapeString(unbreakable.Replace(line)))
	}

	svg.WriteString("</g>\n</svg>\n")

	_, err := io.WriteString(w, svg.String())

	return err
}
