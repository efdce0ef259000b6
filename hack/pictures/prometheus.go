// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// Prometheus answers queries over a recording.
type Prometheus struct {
	directory string
	db        *tsdb.DB
	engine    *promql.Engine
}

// NewPrometheus loads a recording.
func NewPrometheus(ctx context.Context, recording *Recording) (*Prometheus, error) {
	directory, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}

	options := tsdb.DefaultOptions()
	options.MinBlockDuration = (24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration

	db, err := tsdb.Open(directory, nil, nil, options, tsdb.NewDBStats())
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}

	prometheus := &Prometheus{directory: directory, db: db, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: parser.NewParser(parser.Options{}),
	})}

	if err := prometheus.load(ctx, recording); err != nil {
		return nil, errors.Join(err, prometheus.Close())
	}

	return prometheus, nil
}

func (p *Prometheus) load(ctx context.Context, recording *Recording) error {
	appender := p.db.Appender(ctx)

	for _, series := range recording.Series {
		var reference storage.SeriesRef

		for i, sample := range series.Samples {
			if sample.Omitted {
				continue
			}

			at := recording.Start.Add(time.Duration(i) * interval).UnixMilli()

			var err error
			if reference, err = appender.Append(reference, series.Labels, at, sample.Value); err != nil {
				return errors.Join(fmt.Errorf("loading %s: %w", series.Labels, err), appender.Rollback())
			}
		}
	}

	return appender.Commit()
}

// Close deletes the data.
func (p *Prometheus) Close() error {
	return errors.Join(p.engine.Close(), p.db.Close(), os.RemoveAll(p.directory))
}

// Range is the time of a dashboard.
type Range struct {
	From, To time.Time
}

// Line is a series of a result with its legend.
type Line struct {
	Labels labels.Labels
	Legend string
	Points []promql.FPoint
}

// Query evaluates a target. A panel of a graph has one point for each step. Other panels have the values at the end of the range.
func (p *Prometheus) Query(ctx context.Context, target Target, during Range, step time.Duration) ([]Line, error) {
	query, err := p.query(ctx, target, during, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", target.Expr, err)
	}
	defer query.Close()

	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", target.Expr, result.Err)
	}

	var lines []Line

	switch data := result.Value.(type) {
	case promql.Vector:
		for _, sample := range data {
			lines = append(lines, Line{sample.Metric, target.legend(sample.Metric), []promql.FPoint{{T: sample.T, F: sample.F}}})
		}
	case promql.Matrix:
		for _, series := range data {
			lines = append(lines, Line{series.Metric, target.legend(series.Metric), slices.Clone(series.Floats)})
		}
	default:
		return nil, fmt.Errorf("%s: the result is a %s", target.Expr, result.Value.Type())
	}

	slices.SortStableFunc(lines, func(a, b Line) int { return labels.Compare(a.Labels, b.Labels) })

	return lines, nil
}

func (p *Prometheus) query(ctx context.Context, target Target, during Range, step time.Duration) (promql.Query, error) {
	if target.Instant {
		return p.engine.NewInstantQuery(ctx, p.db, nil, target.Expr, during.To)
	}

	// Like Grafana, begin at a multiple of the step.
	return p.engine.NewRangeQuery(ctx, p.db, nil, target.Expr, during.From.Truncate(step), during.To.Truncate(step), step)
}

var placeholder = regexp.MustCompile(`\{\{\s*([a-zA-Z_]\w*)\s*\}\}`)

// legend returns the name of a series in the legend.
func (t Target) legend(set labels.Labels) string {
	if t.LegendFormat == "" {
		return notation(set)
	}

	return strings.TrimSpace(placeholder.ReplaceAllStringFunc(t.LegendFormat, func(match string) string {
		return set.Get(placeholder.FindStringSubmatch(match)[1])
	}))
}
