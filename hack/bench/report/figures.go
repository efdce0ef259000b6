// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// OperatorClient is the name of the operator among the clients and the processes.
const OperatorClient = "operator"

// Figure is one quantity, measured with different numbers of Etcds.
type Figure struct {
	// Phase is the name of the phase, or empty.
	Phase string
	// Name says what was measured.
	Name string
	// Unit is the unit of the values.
	Unit string
	// Values maps the number of Etcds to the value.
	Values map[int]float64
	// Plot is false for a figure that is only in the tables.
	Plot bool
}

// Exponent returns the exponent of the power of the number of Etcds that fits the values best. It is 1 for a linear figure, and 0
// for a constant one. It returns false if fewer than two values are above 0. It is the slope of the regression line in logarithmic scales.
func (f Figure) Exponent() (float64, bool) {
	var xs, ys []float64
	for etcds, value := range f.Values {
		if etcds > 0 && value > 0 {
			xs, ys = append(xs, math.Log(float64(etcds))), append(ys, math.Log(value))
		}
	}
	meanX, meanY := mean(xs), mean(ys)
	covariance, variance := 0.0, 0.0
	for i := range xs {
		covariance += (xs[i] - meanX) * (ys[i] - meanY)
		variance += (xs[i] - meanX) * (xs[i] - meanX)
	}
	if variance == 0 {
		return 0, false
	}

	return covariance / variance, true
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}

	return sum / float64(max(len(values), 1))
}

// figures collects the figures of the results of one fleet in the order in which they are added first.
type figures struct {
	list  []*Figure
	index map[string]*Figure
}

func (f *figures) add(etcds int, value float64, figure Figure) {
	key := figure.Phase + "\n" + figure.Label()
	known := f.index[key]
	if known == nil {
		figure.Values = map[int]float64{}
		known = &figure
		f.list, f.index[key] = append(f.list, known), known
	}
	known.Values[etcds] = value
}

// Figures returns the figures of results of one fleet.
func Figures(results []Result) []Figure {
	all := figures{index: map[string]*Figure{}}
	for _, result := range results {
		for _, phase := range result.Phases {
			all.addPhase(result.Etcds, phase)
		}
	}
	list := make([]Figure, 0, len(all.list))
	for _, figure := range all.list {
		list = append(list, *figure)
	}

	return list
}

func (f *figures) addPhase(etcds int, phase Phase) {
	add := func(name, unit string, value float64) {
		f.add(etcds, value, Figure{Phase: phase.Name, Name: name, Unit: unit, Plot: true})
	}
	for _, duration := range phase.Durations {
		add(duration.Name, "s", duration.Seconds)
	}
	isOperator := func(r Requests) bool { return r.Client == OperatorClient }
	add("requests of the operator", "", float64(phase.SumRequests(isOperator)))
	add("writes of the operator, without its own Leases", "", float64(phase.SumRequests(func(r Requests) bool {
		return isOperator(r) && r.IsWrite() && !r.Own
	})))
	add("requests of all clients", "", float64(phase.SumRequests(func(Requests) bool { return true })))
	cpu := phase.CPUOf(OperatorClient)
	add("CPU of the operator", "s", cpu)
	if phase.Seconds > 0 {
		add("CPU of the operator", "% of a core", 100*cpu/phase.Seconds)
	}
	add("resident memory of the operator", "MB", float64(phase.Operator.ResidentBytes)/1e6)
	if phase.Operator.HeapBytes > 0 {
		add("live heap of the operator", "MB", float64(phase.Operator.HeapBytes)/1e6)
	}
	add("goroutines of the operator", "", float64(phase.Operator.Goroutines))
}

// RequestFigures returns a figure for each client and verb in each phase, the most requests first.
func RequestFigures(results []Result) []Figure {
	all := figures{index: map[string]*Figure{}}
	order := map[string]int{}
	for _, result := range results {
		for _, phase := range result.Phases {
			if _, known := order[phase.Name]; !known {
				order[phase.Name] = len(order)
			}
			sums := map[string]int{}
			for _, requests := range phase.Requests {
				sums[requests.Client+" "+requests.Verb] += requests.Count
			}
			for name, sum := range sums {
				all.add(result.Etcds, float64(sum), Figure{Phase: phase.Name, Name: name})
			}
		}
	}
	list := make([]Figure, 0, len(all.list))
	for _, figure := range all.list {
		list = append(list, *figure)
	}
	slices.SortFunc(list, func(a, b Figure) int {
		return cmp.Or(cmp.Compare(order[a.Phase], order[b.Phase]), cmp.Compare(largest(b), largest(a)), cmp.Compare(a.Name, b.Name))
	})

	return list
}

func largest(f Figure) float64 {
	value := 0.0
	for _, v := range f.Values {
		value = max(value, v)
	}

	return value
}

// Label is the name with the unit.
func (f Figure) Label() string {
	if f.Unit == "" {
		return f.Name
	}

	return fmt.Sprintf("%s (%s)", f.Name, f.Unit)
}
