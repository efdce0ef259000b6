// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
)

// nameLabel is the label with the name of the metric.
const nameLabel = "__name__"

// interval is the time between two samples of a series.
const interval = 15 * time.Second

// Series contains the samples of one series, one for each interval of the recording.
type Series struct {
	Labels  labels.Labels
	Samples []parser.SequenceValue
}

// Recording contains the series of all targets. Its text has the notation of promtool and of the tests of Prometheus. The first line contains
// the time of the first sample.
type Recording struct {
	Start  time.Time
	Series []Series
}

// End returns the time of the last sample.
func (r *Recording) End() time.Time {
	length := 0
	for _, series := range r.Series {
		length = max(length, len(series.Samples))
	}

	return r.Start.Add(time.Duration(max(length-1, 0)) * interval)
}

const startPrefix = "# The first sample is of "

// WriteTo writes the recording as text.
func (r *Recording) WriteTo(w io.Writer) (int64, error) {
	var text bytes.Buffer

	fmt.Fprintf(&text, "%s%s\nload %s\n", startPrefix, r.Start.UTC().Format(time.RFC3339), interval)

	for _, series := range r.Series {
		fmt.Fprintf(&text, "  %s %s\n", notation(series.Labels), encode(series.Samples))
	}

	return text.WriteTo(w)
}

// notation returns the name and the labels of a series: metric{label="value"}.
func notation(set labels.Labels) string {
	var pairs []string

	set.Range(func(label labels.Label) {
		if label.Name != nameLabel {
			pairs = append(pairs, fmt.Sprintf("%s=%q", label.Name, label.Value))
		}
	})

	return set.Get(nameLabel) + "{" + strings.Join(pairs, ",") + "}"
}

// ReadRecording reads what WriteTo has written.
func ReadRecording(r io.Reader) (*Recording, error) {
	recording := &Recording{}
	reader := parser.NewParser(parser.Options{})

	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)

	for scanner.Scan() {
		line := strings.TrimSpace(scanner.Text())

		switch {
		case strings.HasPrefix(line, startPrefix):
			start, err := time.Parse(time.RFC3339, strings.TrimPrefix(line, startPrefix))
			if err != nil {
				return nil, err
			}

			recording.Start = start
		case line == "", strings.HasPrefix(line, "#"):
		case line == "load "+interval.String():
		default:
			set, samples, err := reader.ParseSeriesDesc(line)
			if err != nil {
				return nil, fmt.Errorf("%.80s: %w", line, err)
			}

			recording.Series = append(recording.Series, Series{Labels: set, Samples: samples})
		}
	}

	return recording, scanner.Err()
}

// encode returns the samples in the notation of promtool: 3 samples of 1 are 1x2, and 1 2 3 are 1+1x2.
func encode(samples []parser.SequenceValue) string {
	var items []string

	for len(samples) > 0 {
		item, length := next(samples)
		items = append(items, item)
		samples = samples[length:]
	}

	return strings.Join(items, " ")
}

// next returns the notation of the first samples, and their number.
func next(samples []parser.SequenceValue) (string, int) {
	first := samples[0]

	if first.Omitted {
		length := 1
		for length < len(samples) && samples[length].Omitted {
			length++
		}

		if length == 1 {
			return "_", 1
		}

		return fmt.Sprintf("_x%d", length), length
	}

	if value.IsStaleNaN(first.Value) {
		return "stale", 1
	}

	step, length := steps(samples)

	switch {
	case length == 1:
		return number(first.Value), 1
	case step == 0:
		return fmt.Sprintf("%sx%d", number(first.Value), length-1), length
	case length == 2:
		return number(first.Value), 1 // not shorter
	default:
		return fmt.Sprintf("%s%+dx%d", number(first.Value), int64(step), length-1), length
	}
}

// steps returns the number of samples from the first one on that differ by the same whole number, and this number.
func steps(samples []parser.SequenceValue) (step float64, length int) {
	ok := func(i int) bool { return i < len(samples) && !samples[i].Omitted && !math.IsNaN(samples[i].Value) }

	if !ok(0) || !ok(1) {
		return 0, 1
	}

	step = samples[1].Value - samples[0].Value
	if step != 0 && (!isWhole(samples[0].Value) || !isWhole(step)) {
		return 0, 1
	}

	for length = 2; ok(length) && samples[length].Value-samples[length-1].Value == step; {
		length++
	}

	return step, length
}

func isWhole(v float64) bool { return v == math.Trunc(v) && math.Abs(v) < 1<<52 }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// sortSeries sorts by name and labels, so that equal data has equal text.
func sortSeries(series []Series) {
	slices.SortFunc(series, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
}
