// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// figure is one quantity of a phase. The label contains the unit.
type figure struct {
	label string
	value float64
}

// figures returns what the tables contain of a phase.
func (p Phase) figures() []figure {
	var list []figure
	for _, duration := range p.Durations {
		list = append(list, figure{duration.Name + " (s)", duration.Seconds})
	}
	cpu := p.CPU[OperatorClient]

	return append(list,
		figure{"requests of the operator", float64(p.SumRequests(func(r Requests) bool { return r.Client == OperatorClient }))},
		figure{"writes of the operator, without its own Leases", float64(p.SumRequests(Requests.IsOperatorWrite))},
		figure{"requests of all clients", float64(p.SumRequests(func(Requests) bool { return true }))},
		figure{"CPU of the operator (s)", cpu},
		figure{"CPU of the operator (% of a core)", 100 * cpu / p.Seconds},
		figure{"resident memory of the operator (MB)", float64(p.Operator.ResidentBytes) / 1e6},
		figure{"live heap of the operator (MB)", float64(p.Operator.HeapBytes) / 1e6},
		figure{"goroutines of the operator", float64(p.Operator.Goroutines)},
	)
}

// Markdown returns a page with a table for each phase of each fleet. A table has a column for each result.
func Markdown(results []Result) string {
	fleets := map[string][]Result{}
	for _, result := range results {
		fleets[result.Fleet] = append(fleets[result.Fleet], result)
	}
	out := &strings.Builder{}
	for _, name := range slices.Sorted(maps.Keys(fleets)) {
		fleet := fleets[name]
		slices.SortStableFunc(fleet, func(a, b Result) int { return cmp.Compare(a.Etcds, b.Etcds) })
		fmt.Fprintf(out, "## Fleet %s\n\nOperator: commit %s. Machine: %s.\n", name, fleet[0].Commit, fleet[0].Machine)
		// A run that was interrupted lacks the last phases.
		longest := slices.MaxFunc(fleet, func(a, b Result) int { return cmp.Compare(len(a.Phases), len(b.Phases)) })
		for _, phase := range longest.Phases {
			writeTable(out, fleet, phase)
		}
		fmt.Fprintln(out)
	}

	return out.String()
}

// writeTable writes the table of a phase. One of the results contains the phase.
func writeTable(out *strings.Builder, fleet []Result, phase Phase) {
	fmt.Fprintf(out, "\n| %s%s |", strings.ToUpper(phase.Name[:1]), phase.Name[1:])
	for _, result := range fleet {
		fmt.Fprintf(out, " %s |", number(float64(result.Etcds)))
	}
	fmt.Fprintf(out, " exponent |\n|---|%s---|\n", strings.Repeat("---|", len(fleet)))
	for _, row := range phase.figures() {
		fmt.Fprintf(out, "| %s |", row.label)
		values := map[int]float64{}
		for _, result := range fleet {
			value, measured := result.value(phase.Name, row.label)
			if !measured {
				fmt.Fprint(out, " |")

				continue
			}
			values[result.Etcds] = value
			fmt.Fprintf(out, " %s |", number(value))
		}
		fmt.Fprintf(out, " %s |\n", exponent(values))
	}
}

// value returns a figure of a phase. It returns false if it was not measured.
func (r Result) value(phase, label string) (float64, bool) {
	for _, p := range r.Phases {
		for _, f := range p.figures() {
			if p.Name == phase && f.label == label {
				return f.value, true
			}
		}
	}

	return 0, false
}

// exponent returns the exponent of the power of the number of Etcds that fits the values best. It is 1 for a linear figure, and 0 for a
// constant one. Empty: fewer than two values are above 0. It is the slope of the regression line in logarithmic scales.
func exponent(values map[int]float64) string {
	var n, sumX, sumY, sumXX, sumXY float64
	for etcds, value := range values {
		if value > 0 {
			x, y := math.Log(float64(etcds)), math.Log(value)
			n, sumX, sumY, sumXX, sumXY = n+1, sumX+x, sumY+y, sumXX+x*x, sumXY+x*y
		}
	}
	if n < 2 {
		return ""
	}

	return strconv.FormatFloat((n*sumXY-sumX*sumY)/(n*sumXX-sumX*sumX), 'f', 2, 64)
}

// number returns a number with three significant digits. It separates thousands with commas.
func number(value float64) string {
	decimals := 0
	if value != 0 {
		decimals = max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(value, 'f', decimals, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction = strings.TrimRight(fraction, "0"); fraction == "" {
		return whole
	}

	return whole + "." + fraction
}
