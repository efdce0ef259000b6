// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// WriteVale writes the words of the dictionary as a substitution rule of vale. Rules for some files only are left out.
func WriteVale(out io.Writer, dictionary *Dictionary) error {
	text := &strings.Builder{}
	text.WriteString(`# SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
#
# SPDX-License-Identifier: Apache-2.0

# Generated from hack/words/words.yaml by ` + "`make generate`" + `.
extends: substitution
message: "Use '%s' instead of '%s'."
level: error
ignorecase: true
swap:
`)

	for _, rule := range dictionary.Words {
		if len(rule.In) > 0 {
			continue
		}

		for _, term := range rule.Find {
			fmt.Fprintf(text, "  '%s': '%s'\n", valeExpression(term, rule.Except), strings.ReplaceAll(rule.Use, ", ", "|"))
		}
	}

	_, err := io.WriteString(out, text.String())

	return err
}

// valeExpression returns the regular expression that finds a term outside of the longer terms in which it is correct.
func valeExpression(term string, except []string) string {
	var (
		words         = strings.Fields(term)
		before, after string
	)

	for _, longer := range except {
		longer := strings.Fields(longer)

		for n := min(len(words), len(longer)); n > 0; n-- {
			if slices.Equal(words[len(words)-n:], longer[:n]) && len(longer) > n {
				after += `(?!\s+` + joined(longer[n:]) + `\b)`
				break
			}

			if slices.Equal(words[:n], longer[len(longer)-n:]) && len(longer) > n {
				before += `(?<!\b` + joined(longer[:len(longer)-n]) + `\s)`
				break
			}
		}
	}

	return before + joined(words) + after
}

func joined(words []string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, regexp.QuoteMeta(word))
	}

	return strings.Join(quoted, `\s+`)
}
