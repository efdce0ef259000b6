// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
)

//go:embed page.html.tmpl
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Plot area of a figure in pixels. The margins contain the labels of the axes.
const (
	plotWidth, plotHeight              = 320.0, 200.0
	marginLeft, marginRight, marginTop = 52.0, 12.0, 10.0
	marginBottom                       = 28.0
)

// HTML returns a page with the tables and plots. The page loads no other files.
func HTML(results []Result) (string, error) {
	type section struct {
		Fleet, Provenance string
		Sizes             []string
		Phases            []phaseView
	}
	var sections []section
	for _, fleet := range fleets(results) {
		view := section{Fleet: fleet[0].Fleet, Provenance: strings.TrimSpace(provenance(fleet))}
		for _, number := range sizes(fleet) {
			view.Sizes = append(view.Sizes, Number(float64(number)))
		}
		view.Phases = phaseViews(Figures(fleet), sizes(fleet))
		for _, phase := range phaseViews(withoutRare(RequestFigures(fleet), fleet), sizes(fleet)) {
			phase.Name = "Requests by client and verb: " + strings.ToLower(phase.Name[:1]) + phase.Name[1:]
			view.Phases = append(view.Phases, phase)
		}
		sections = append(sections, view)
	}
	out := &strings.Builder{}
	if err := page.Execute(out, sections); err != nil {
		return "", fmt.Errorf("rendering the page: %w", err)
	}

	return out.String(), nil
}

// phaseView is a phase on the HTML page.
type phaseView struct {
	Name string
	Rows []rowView
}

// rowView is a figure on the HTML page.
type rowView struct {
	Label, Exponent string
	// Superlinear is true if the exponent shows that the figure is more than linear.
	Superlinear bool
	Values      []string
	// Plot is nil for a figure without a plot.
	Plot *plotView
}

// superlinearExponent is the exponent above which a figure is marked. The noise of measurements is below the difference to 1.
const superlinearExponent = 1.15

func phaseViews(list []Figure, numbers []int) []phaseView {
	var views []phaseView
	for _, figure := range list {
		name := capitalize(figure.Phase)
		if last := len(views) - 1; last < 0 || views[last].Name != name {
			views = append(views, phaseView{Name: name})
		}
		row := rowView{Label: figure.Label(), Exponent: exponentText(figure)}
		exponent, known := figure.Exponent()
		row.Superlinear = known && exponent > superlinearExponent
		for _, number := range numbers {
			value, measured := figure.Values[number]
			text := ""
			if measured {
				text = Number(value)
			}
			row.Values = append(row.Values, text)
		}
		if figure.Plot {
			row.Plot = plotOf(figure, numbers)
		}
		last := &views[len(views)-1]
		last.Rows = append(last.Rows, row)
	}

	return views
}

// plotView is a plot with logarithmic axes, in pixels.
type plotView struct {
	Width, Height float64
	// Points are the measured values, and Line connects them.
	Points []pointView
	Line   string
	// Linear is a line with the exponent 1 through the first point.
	Linear string
	// Ticks are the labels of the axes.
	XTicks, YTicks []tickView
}

type pointView struct {
	X, Y float64
	Text string
}

type tickView struct {
	X, Y float64
	Text string
}

// plotOf returns the plot of the values above 0. Nil: there are fewer than two.
func plotOf(figure Figure, numbers []int) *plotView {
	var xs, ys []float64
	for _, number := range numbers {
		if value := figure.Values[number]; value > 0 && number > 0 {
			xs, ys = append(xs, float64(number)), append(ys, value)
		}
	}
	if len(xs) < 2 {
		return nil
	}
	linearEnd := ys[0] * xs[len(xs)-1] / xs[0]
	horizontal := scale{from: xs[0], to: xs[len(xs)-1], start: marginLeft, end: plotWidth - marginRight}
	low, high := ys[0], linearEnd
	for _, y := range ys {
		low, high = min(low, y), max(high, y)
	}
	vertical := scale{from: low, to: high, start: plotHeight - marginBottom, end: marginTop}
	view := &plotView{Width: plotWidth, Height: plotHeight}
	var line []string
	for i := range xs {
		point := pointView{X: horizontal.at(xs[i]), Y: vertical.at(ys[i]), Text: Number(xs[i]) + ": " + Number(ys[i])}
		view.Points = append(view.Points, point)
		view.XTicks = append(view.XTicks, tickView{X: point.X, Y: plotHeight - marginBottom/3, Text: Number(xs[i])})
		line = append(line, fmt.Sprintf("%.1f,%.1f", point.X, point.Y))
	}
	view.Line = strings.Join(line, " ")
	view.Linear = fmt.Sprintf("%.1f,%.1f %.1f,%.1f", horizontal.at(xs[0]), vertical.at(ys[0]), horizontal.at(xs[len(xs)-1]), vertical.at(linearEnd))
	for _, value := range []float64{low, math.Sqrt(low * high), high} {
		view.YTicks = append(view.YTicks, tickView{X: marginLeft - 4, Y: vertical.at(value), Text: Number(value)})
	}

	return view
}

// scale maps values to pixels logarithmically.
type scale struct{ from, to, start, end float64 }

func (s scale) at(value float64) float64 {
	if s.to == s.from {
		return (s.start + s.end) / 2
	}

	return s.start + (s.end-s.start)*math.Log(value/s.from)/math.Log(s.to/s.from)
}
