// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Dashboard is the part of the JSON of Plutono and Grafana that the dashboards of the chart use.
type Dashboard struct {
	Title       string  `json:"title"`
	Description string  `json:"description"`
	Panels      []Panel `json:"panels"`
	Templating  struct {
		List []struct {
			Name  string `json:"name"`
			Label string `json:"label"`
			Type  string `json:"type"`
		} `json:"list"`
	} `json:"templating"`
}

// Panel is a panel or a row.
type Panel struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	GridPos     GridPos  `json:"gridPos"`
	Targets     []Target `json:"targets"`
	Options     struct {
		ColorMode string `json:"colorMode"`
		TextMode  string `json:"textMode"`
		SortBy    []struct {
			DisplayName string `json:"displayName"`
			Desc        bool   `json:"desc"`
		} `json:"sortBy"`
	} `json:"options"`
	FieldConfig     FieldConfig `json:"fieldConfig"`
	Transformations []struct {
		ID      string   `json:"id"`
		Options Organize `json:"options"`
	} `json:"transformations"`
	Decimals      *int   `json:"decimals"`
	Fill          int    `json:"fill"`
	Stack         bool   `json:"stack"`
	SteppedLine   bool   `json:"steppedLine"`
	NullPointMode string `json:"nullPointMode"`
	Legend        struct {
		HideZero bool   `json:"hideZero"`
		Sort     string `json:"sort"`
		SortDesc bool   `json:"sortDesc"`
	} `json:"legend"`
	Yaxes []struct {
		Format   string   `json:"format"`
		Min      *float64 `json:"min"`
		Max      *float64 `json:"max"`
		Decimals *int     `json:"decimals"`
	} `json:"yaxes"`
}

// GridPos is the position of a panel in a grid of 24 columns.
type GridPos struct{ X, Y, W, H int }

// Target is a query.
type Target struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
	Instant      bool   `json:"instant"`
	Format       string `json:"format"`
}

// FieldConfig contains the units and colors of values.
type FieldConfig struct {
	Defaults  Field `json:"defaults"`
	Overrides []struct {
		Matcher struct {
			Options string `json:"options"`
		} `json:"matcher"`
		Properties []Property `json:"properties"`
	} `json:"overrides"`
}

// Property is a property of the columns that a matcher selects.
type Property struct {
	ID    string          `json:"id"`
	Value json.RawMessage `json:"value"`
}

// Field describes how a value is shown.
type Field struct {
	Unit       string     `json:"unit"`
	NoValue    string     `json:"noValue"`
	Thresholds Thresholds `json:"thresholds"`
	Mappings   []Mapping  `json:"mappings"`
}

// Mapping shows a text in place of a value.
type Mapping struct {
	Type  int    `json:"type"`
	Value string `json:"value"`
	Text  string `json:"text"`
}

// Thresholds are the colors of values.
type Thresholds struct {
	Steps []struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"`
	} `json:"steps"`
}

// Organize orders, hides and renames the columns of a table.
type Organize struct {
	ExcludeByName map[string]bool   `json:"excludeByName"`
	IndexByName   map[string]int    `json:"indexByName"`
	RenameByName  map[string]string `json:"renameByName"`
}

// ReadDashboard reads a dashboard, and replaces the variables in its queries.
func ReadDashboard(file string, variables map[string]string) (*Dashboard, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	dashboard := &Dashboard{}
	if err := json.Unmarshal(content, dashboard); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}

	for _, panel := range dashboard.Panels {
		for i := range panel.Targets {
			for name, value := range variables {
				panel.Targets[i].Expr = strings.ReplaceAll(panel.Targets[i].Expr, "$"+name, value)
			}
		}
	}

	return dashboard, nil
}

// color returns the color of the last threshold that the value reaches.
func (t Thresholds) color(value float64) string {
	name := "text"

	for _, step := range t.Steps {
		if step.Value == nil || value >= *step.Value {
			name = step.Color
		}
	}

	return name
}

// property returns a property of a column, or nil.
func (c FieldConfig) property(column, id string) json.RawMessage {
	for _, override := range c.Overrides {
		if override.Matcher.Options != column {
			continue
		}

		for _, property := range override.Properties {
			if property.ID == id {
				return property.Value
			}
		}
	}

	return nil
}

// field returns how the values of a column are shown.
func (c FieldConfig) field(column string) (Field, error) {
	field := c.Defaults

	for id, target := range map[string]any{"unit": &field.Unit, "thresholds": &field.Thresholds, "mappings": &field.Mappings} {
		if raw := c.property(column, id); raw != nil {
			if err := json.Unmarshal(raw, target); err != nil {
				return Field{}, fmt.Errorf("%s of %s: %w", id, column, err)
			}
		}
	}

	return field, nil
}
