// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// The sizes of Plutono and Grafana, in pixels.
const (
	cellHeight = 30
	gap        = 8
	margin     = 16
	headHeight = 56
	titleSize  = 28
	legendLine = 19
)

//go:embed page.html.tmpl
var pageTemplate string

// Page is a dashboard with the results of its queries.
type Page struct {
	Title, Description string
	Variables          []string
	During             Range
	Width, Height      int
	Panels             []View
}

// View is a panel with its position in pixels. One of the other fields has content.
type View struct {
	Panel                    Panel
	Left, Top, Width, Height int
	Stats                    []Stat
	Table                    *Table
	Graph                    *Graph
}

// Stat is a large value.
type Stat struct {
	Text, Color string
	Background  bool
	Size        int
}

// Table is the result of an instant query.
type Table struct {
	Columns []string
	Rows    [][]Cell
}

// Cell is a value of a table.
type Cell struct {
	Text, Color string
	Background  bool
	IsLink      bool
	number      float64
}

// Page evaluates the panels of a dashboard.
func (p *Prometheus) Page(ctx context.Context, dashboard *Dashboard, variables map[string]string, during Range, width int) (*Page, error) {
	page := &Page{Title: dashboard.Title, Description: dashboard.Description, During: during, Width: width}

	for _, variable := range dashboard.Templating.List {
		page.Variables = append(page.Variables, variable.Label+": "+variables[variable.Name])
	}

	cell := float64(width-2*margin+gap) / 24

	for _, panel := range dashboard.Panels {
		at := panel.GridPos
		view := View{
			Panel: panel, Left: margin + int(float64(at.X)*cell), Top: headHeight + at.Y*(cellHeight+gap),
			Width: int(float64(at.W)*cell) - gap, Height: at.H*(cellHeight+gap) - gap,
		}

		if err := view.evaluate(ctx, p, during); err != nil {
			return nil, fmt.Errorf("%s: %w", panel.Title, err)
		}

		page.Height = max(page.Height, view.Top+view.Height+margin)
		page.Panels = append(page.Panels, view)
	}

	return page, nil
}

// Write writes the page. It refers to no other file.
func (p *Page) Write(w io.Writer) error {
	page, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return err
	}

	return page.Execute(w, p)
}

// evaluate runs the queries of a panel.
func (v *View) evaluate(ctx context.Context, prometheus *Prometheus, during Range) error {
	// Like Grafana: one point for each pixel, but not more than the scrapes.
	step := max(interval, during.To.Sub(during.From)/time.Duration(v.Width)).Round(interval)

	var lines []Line

	for _, target := range v.Panel.Targets {
		result, err := prometheus.Query(ctx, target, during, step)
		if err != nil {
			return err
		}

		lines = append(lines, result...)
	}

	switch v.Panel.Type {
	case "row":
	case "stat":
		v.Stats = v.stats(lines)
	case "table":
		table, err := v.Panel.table(lines)
		v.Table = table

		return err
	case "graph":
		v.Graph = &Graph{Panel: v.Panel, Lines: lines, During: during, Step: step, Width: float64(v.Width), Height: float64(v.Height - titleSize)}
		v.Graph.Height -= float64(v.LegendHeight())
	default:
		return fmt.Errorf("panels of type %s are not supported", v.Panel.Type)
	}

	return nil
}

// LegendHeight returns the height of the legend: a line for each series, and at most a third of the panel. The rest of the legend scrolls.
func (v *View) LegendHeight() int {
	return min(legendLine*(len(v.Graph.Legend())+1)+4, v.Height*35/100)
}

func (v *View) stats(lines []Line) []Stat {
	field := v.Panel.FieldConfig.Defaults

	if len(lines) == 0 {
		text := field.NoValue
		if text == "" {
			text = "No data"
		}

		return []Stat{{Text: text, Color: hex("text"), Size: fontSize(text, v.Width, v.Height-titleSize)}}
	}

	var stats []Stat

	for _, line := range lines {
		value := line.Points[len(line.Points)-1].F

		text := field.text(value)
		if v.Panel.Options.TextMode == "name" {
			text = line.Legend
		}

		stats = append(stats, Stat{
			Text: text, Color: hex(field.Thresholds.color(value)), Background: v.Panel.Options.ColorMode == "background",
			Size: fontSize(text, v.Width/len(lines), v.Height-titleSize),
		})
	}

	return stats
}

// text returns a value with its unit, or the text that replaces it.
func (f Field) text(value float64) string {
	for _, mapping := range f.Mappings {
		if mapping.Value == decimals(value) {
			return mapping.Text
		}
	}

	return format(value, f.Unit)
}

func fontSize(text string, width, height int) int {
	return max(12, min(height*6/10, int(float64(width-24)/(0.6*float64(max(len(text), 1)))), 60))
}

// hex returns the color with a name of Plutono and Grafana.
func hex(name string) string {
	colors := map[string]string{"text": "#24292e", "green": "#37872d", "red": "#c4162a", "orange": "#e57000", "yellow": "#e0b400", "blue": "#1f60c4", "transparent": "transparent"}
	if color := colors[name]; color != "" {
		return color
	}

	return name
}

// table returns the columns that the transformation of the panel selects, and a row for each series.
func (p Panel) table(lines []Line) (*Table, error) {
	var organize Organize
	for _, transformation := range p.Transformations {
		organize = transformation.Options
	}

	names := map[string]bool{"Time": true, "Value": true}

	for _, line := range lines {
		line.Labels.Range(func(label labels.Label) { names[label.Name] = true })
	}

	var columns []string

	for name := range names {
		if !organize.ExcludeByName[name] {
			columns = append(columns, name)
		}
	}

	slices.SortFunc(columns, func(a, b string) int {
		return cmp.Or(cmp.Compare(organize.IndexByName[a], organize.IndexByName[b]), strings.Compare(a, b))
	})

	table := &Table{Columns: make([]string, len(columns)), Rows: make([][]Cell, len(lines))}

	for i, column := range columns {
		table.Columns[i] = cmp.Or(organize.RenameByName[column], column)

		field, err := p.FieldConfig.field(table.Columns[i])
		if err != nil {
			return nil, err
		}

		for row, line := range lines {
			cell := Cell{Text: line.Labels.Get(column)}
			if column == "Value" {
				cell.number = line.Points[0].F
				cell.Text = field.text(cell.number)
				cell.Color = hex(field.Thresholds.color(cell.number))
			}

			cell.IsLink = p.FieldConfig.property(table.Columns[i], "links") != nil
			cell.Background = isBackground(p.FieldConfig.property(table.Columns[i], "custom.displayMode"))
			table.Rows[row] = append(table.Rows[row], cell)
		}
	}

	table.sort(p)

	return table, nil
}

func isBackground(raw json.RawMessage) bool {
	return strings.HasPrefix(strings.Trim(string(raw), `"`), "color-background")
}

func (t *Table) sort(p Panel) {
	for _, by := range p.Options.SortBy {
		column := slices.Index(t.Columns, by.DisplayName)
		if column < 0 {
			continue
		}

		slices.SortStableFunc(t.Rows, func(a, b []Cell) int {
			order := cmp.Or(cmp.Compare(a[column].number, b[column].number), strings.Compare(a[column].Text, b[column].Text))
			if by.Desc {
				return -order
			}

			return order
		})
	}
}
