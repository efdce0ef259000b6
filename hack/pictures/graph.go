// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
)

// palette contains the colors of the series of a graph.
var palette = []string{
	"#4c9a2a", "#e0a800", "#3fa7d6", "#e8743b", "#d43d3d", "#1f4e9c", "#b03a9b", "#6b4fa0", "#2f6b3a", "#a37b00", "#2f6f9f", "#a8481c", "#7a1f1f", "#12305f",
	"#6d1f61", "#3e2d63", "#8cc63f", "#f2cc60", "#7fd0e8", "#f4a582",
}

// Graph is a graph in a panel of a number of pixels.
type Graph struct {
	Panel         Panel
	Lines         []Line
	During        Range
	Step          time.Duration
	Width, Height float64
}

const (
	axisWidth  = 62 // pixels left of the graph
	axisHeight = 20 // pixels below the graph
	topMargin  = 6
)

// values returns the values of each line at each step. A missing value is not a number, or zero if the panel says so.
func (g Graph) values() [][]float64 {
	from := g.During.From.Truncate(g.Step)
	length := int(g.During.To.Truncate(g.Step).Sub(from)/g.Step) + 1
	missing := math.NaN()

	if g.Panel.NullPointMode == "null as zero" {
		missing = 0
	}

	result := make([][]float64, len(g.Lines))

	for i, line := range g.Lines {
		result[i] = slices.Repeat([]float64{missing}, length)

		for _, point := range line.Points {
			if index := int((point.T - from.UnixMilli()) / g.Step.Milliseconds()); index < length && !math.IsNaN(point.F) {
				result[i][index] = point.F
			}
		}
	}

	return result
}

// stacked returns the lower and upper edge of each line.
func (g Graph) stacked(values [][]float64) (lower, upper [][]float64) {
	if !g.Panel.Stack {
		return make([][]float64, len(values)), values
	}

	for i := range values {
		below := make([]float64, len(values[i]))
		if i > 0 {
			below = upper[i-1]
		}

		above := make([]float64, len(values[i]))
		for j := range above {
			above[j] = below[j] + values[i][j]
		}

		lower, upper = append(lower, below), append(upper, above)
	}

	return lower, upper
}

// SVG draws the axes and the lines.
func (g Graph) SVG() template.HTML {
	var svg strings.Builder

	fmt.Fprintf(&svg, `<svg width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f">`, g.Width, g.Height, g.Width, g.Height)

	values := g.values()
	lower, upper := g.stacked(values)
	area := g.area(upper)

	area.axes(&svg, g.During)

	for i := range values {
		color := palette[i%len(palette)]

		for _, part := range parts(upper[i]) {
			path := area.path(upper[i], part, g.Panel.SteppedLine)
			fmt.Fprintf(&svg, `<path d="M%s" fill="none" stroke="%s" stroke-width="1.3"/>`, path, color)

			if g.Panel.Fill > 0 {
				bottom := slices.Repeat([]float64{0}, len(upper[i]))
				if lower[i] != nil {
					bottom = lower[i]
				}

				fmt.Fprintf(&svg, `<path d="M%sL%sZ" fill="%s" fill-opacity="%.1f"/>`,
					path, backwards(area.path(bottom, part, g.Panel.SteppedLine)), color, float64(g.Panel.Fill)/10)
			}
		}
	}

	if len(g.Lines) == 0 {
		fmt.Fprintf(&svg, `<text x="%.0f" y="%.0f" class="nodata">No data</text>`, g.Width/2, g.Height/2)
	}

	svg.WriteString("</svg>")

	return template.HTML(svg.String()) // #nosec G203 -- numbers, and escaped texts
}

// area maps values and steps to pixels.
type area struct {
	width, height float64
	bottom, top   float64
	ticks         []float64
	unit          string
	decimals      *int
	steps         int
}

func (g Graph) area(upper [][]float64) area {
	a := area{width: g.Width - axisWidth - 6, height: g.Height - axisHeight - topMargin, steps: 1}
	highest, lowest := math.Inf(-1), math.Inf(1)

	for _, line := range upper {
		a.steps = max(a.steps, len(line)-1)

		for _, v := range line {
			if !math.IsNaN(v) {
				highest, lowest = math.Max(highest, v), math.Min(lowest, v)
			}
		}
	}

	if math.IsInf(highest, 0) {
		highest, lowest = 1, 0
	}

	if len(g.Panel.Yaxes) > 0 {
		axis := g.Panel.Yaxes[0]
		a.unit, a.decimals = axis.Format, axis.Decimals

		if axis.Min != nil {
			lowest = *axis.Min
		}

		if axis.Max != nil {
			highest = *axis.Max
		}
	}

	a.ticks = ticks(lowest, highest, a.unit, max(2, int(a.height/36)))
	if a.decimals != nil && *a.decimals == 0 {
		a.ticks = wholeTicks(a.ticks)
	}

	a.bottom, a.top = a.ticks[0], a.ticks[len(a.ticks)-1]

	return a
}

// wholeTicks replaces ticks that are closer than one.
func wholeTicks(ticks []float64) []float64 {
	if len(ticks) < 2 || ticks[1]-ticks[0] >= 1 {
		return ticks
	}

	var whole []float64
	for at := math.Floor(ticks[0]); at <= math.Ceil(ticks[len(ticks)-1]); at++ {
		whole = append(whole, at)
	}

	return whole
}

func (a area) x(step int) float64 { return axisWidth + a.width*float64(step)/float64(a.steps) }

func (a area) y(value float64) float64 {
	return topMargin + a.height*(1-(value-a.bottom)/(a.top-a.bottom))
}

// path returns the points of a part of a line.
func (a area) path(values []float64, part [2]int, stepped bool) string {
	var points []string

	for i := part[0]; i < part[1]; i++ {
		if stepped && i > part[0] {
			points = append(points, fmt.Sprintf("%.1f,%.1f", a.x(i), a.y(values[i-1])))
		}

		points = append(points, fmt.Sprintf("%.1f,%.1f", a.x(i), a.y(values[i])))
	}

	return strings.Join(points, "L")
}

func backwards(path string) string {
	points := strings.Split(path, "L")
	slices.Reverse(points)

	return strings.Join(points, "L")
}

// parts returns the ranges without a missing value.
func parts(values []float64) [][2]int {
	var result [][2]int

	start := -1

	for i := 0; i <= len(values); i++ {
		missing := i == len(values) || math.IsNaN(values[i])

		switch {
		case missing && start >= 0:
			result = append(result, [2]int{start, i})
			start = -1
		case !missing && start < 0:
			start = i
		}
	}

	return result
}

// axes draws the ticks of both axes.
func (a area) axes(svg *strings.Builder, during Range) {
	for _, tick := range a.ticks {
		y := a.y(tick)
		fmt.Fprintf(svg, `<line x1="%d" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, axisWidth, axisWidth+a.width, y, y)
		fmt.Fprintf(svg, `<text x="%d" y="%.1f" class="tick right">%s</text>`, axisWidth-6, y+4, html.EscapeString(format(tick, a.unit)))
	}

	length := during.To.Sub(during.From)
	step := timeStep(length, int(a.width/70))

	for at := during.From.Truncate(step).Add(step); !at.After(during.To); at = at.Add(step) {
		x := axisWidth + a.width*float64(at.Sub(during.From))/float64(length)
		fmt.Fprintf(svg, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%.1f" class="grid"/>`, x, x, topMargin, topMargin+a.height)
		fmt.Fprintf(svg, `<text x="%.1f" y="%.1f" class="tick middle">%s</text>`, x, topMargin+a.height+15, at.UTC().Format("15:04"))
	}
}

func timeStep(length time.Duration, n int) time.Duration {
	for _, minutes := range []int{1, 2, 5, 10, 15, 20, 30, 60, 120, 180} {
		if step := time.Duration(minutes) * time.Minute; length <= step*time.Duration(n) {
			return step
		}
	}

	return 6 * time.Hour
}

// LegendEntry is a line of the legend.
type LegendEntry struct {
	Color, Name, Max, Current string

	max, current float64
}

// Legend returns the names of the lines with their values, in the order of the panel.
func (g Graph) Legend() []LegendEntry {
	var entries []LegendEntry

	for i, values := range g.values() {
		entry := LegendEntry{Color: palette[i%len(palette)], Name: g.Lines[i].Legend, max: math.NaN(), current: math.NaN()}

		for i, v := range values {
			if math.IsNaN(v) {
				continue
			}

			entry.max = math.Max(v, orZero(entry.max))
			if i == len(values)-1 {
				entry.current = v
			}
		}

		if g.Panel.Legend.HideZero && orZero(entry.max) == 0 {
			continue
		}

		entry.Max, entry.Current = g.Panel.value(entry.max), g.Panel.value(entry.current)
		entries = append(entries, entry)
	}

	sortBy := map[string]func(LegendEntry) float64{
		"max":     func(e LegendEntry) float64 { return orZero(e.max) },
		"current": func(e LegendEntry) float64 { return orZero(e.current) },
	}[g.Panel.Legend.Sort]

	if sortBy != nil {
		slices.SortStableFunc(entries, func(a, b LegendEntry) int {
			order := cmp.Compare(sortBy(a), sortBy(b))
			if g.Panel.Legend.SortDesc {
				return -order
			}

			return order
		})
	}

	return entries
}

// value returns a value of the legend with the unit of the axis.
func (p Panel) value(v float64) string {
	if p.Decimals != nil && *p.Decimals == 0 {
		v = math.Round(v)
	}

	return format(v, p.Yaxes[0].Format)
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}

	return v
}
