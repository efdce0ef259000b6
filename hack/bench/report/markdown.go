// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Markdown returns a page with a table for each phase of each fleet, and a table with the requests of each client.
func Markdown(results []Result) string {
	out := &strings.Builder{}
	for _, fleet := range fleets(results) {
		fmt.Fprintf(out, "## Fleet %s\n\n%s\n", fleet[0].Fleet, provenance(fleet))
		writeTables(out, fleet, Figures(fleet))
		fmt.Fprint(out, "\n### Requests by client and verb\n")
		writeTables(out, fleet, withoutRare(RequestFigures(fleet), fleet))
	}

	return strings.TrimPrefix(out.String(), "\n")
}

// fleets splits the results by fleet.
func fleets(results []Result) [][]Result {
	sorted := slices.Clone(results)
	Sort(sorted)
	var split [][]Result
	for _, result := range sorted {
		if last := len(split) - 1; last >= 0 && split[last][0].Fleet == result.Fleet {
			split[last] = append(split[last], result)
		} else {
			split = append(split, []Result{result})
		}
	}

	return split
}

// provenance says where the results are from.
func provenance(fleet []Result) string {
	sentences := []string{}
	for _, text := range []string{"Operator: commit " + fleet[0].Commit, "Machine: " + fleet[0].Machine} {
		if !strings.HasSuffix(text, " ") {
			sentences = append(sentences, text+".")
		}
	}

	return strings.Join(sentences, " ") + "\n"
}

// withoutRare removes figures of fewer requests than a tenth of the largest number of Etcds.
func withoutRare(list []Figure, fleet []Result) []Figure {
	etcds := sizes(fleet)

	return slices.DeleteFunc(list, func(f Figure) bool { return largest(f) < float64(etcds[len(etcds)-1])/10 })
}

// sizes are the numbers of Etcds, sorted.
func sizes(fleet []Result) []int {
	numbers := map[int]bool{}
	for _, result := range fleet {
		numbers[result.Etcds] = true
	}

	return slices.Sorted(maps.Keys(numbers))
}

// writeTables writes a table for each run of figures of the same phase.
func writeTables(out *strings.Builder, fleet []Result, list []Figure) {
	numbers := sizes(fleet)
	phase := ""
	for _, figure := range list {
		if figure.Phase != phase {
			phase = figure.Phase
			fmt.Fprintf(out, "\n| %s |", capitalize(phase))
			for _, number := range numbers {
				fmt.Fprintf(out, " %s |", Number(float64(number)))
			}
			fmt.Fprintf(out, " exponent |\n|---|%s---|\n", strings.Repeat("---|", len(numbers)))
		}
		fmt.Fprintf(out, "| %s |", figure.Label())
		for _, number := range numbers {
			value, measured := figure.Values[number]
			if !measured {
				fmt.Fprint(out, " |")
			} else {
				fmt.Fprintf(out, " %s |", Number(value))
			}
		}
		fmt.Fprintf(out, " %s |\n", exponentText(figure))
	}
}

// exponentText is the exponent as text. Empty: it is not known.
func exponentText(figure Figure) string {
	exponent, known := figure.Exponent()
	if !known {
		return ""
	}

	return strconv.FormatFloat(exponent, 'f', 2, 64)
}

func capitalize(text string) string {
	if text == "" {
		return text
	}

	return strings.ToUpper(text[:1]) + text[1:]
}

// Number returns a number with three significant digits. It separates thousands with commas.
func Number(value float64) string {
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	whole, fraction, found := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	fraction = strings.TrimRight(fraction, "0")
	if !found || fraction == "" {
		return whole
	}

	return whole + "." + fraction
}
