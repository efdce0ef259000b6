// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
)

// jobs are the values of the label job by the directory of the scrapes. Prometheus takes them from the Services.
var jobs = map[string]string{"operator": "gardener-extension-etcd-druid", "etcd": "etcd"}

// Import reads the scrapes of a directory: JOB/NAMESPACE/POD/MILLISECONDS.txt in the text format of Prometheus. An empty file is a failed
// scrape. It keeps the metrics that read contains, and renames the namespaces.
func Import(directory string, read map[string]bool, names *Names) (*Recording, error) {
	targets, err := findTargets(directory)
	if err != nil {
		return nil, err
	}

	if len(targets) == 0 {
		return nil, fmt.Errorf("no scrapes in %s", directory)
	}

	first, last := int64(math.MaxInt64), int64(0)
	for _, target := range targets {
		first, last = min(first, target.scrapes[0].slot), max(last, target.scrapes[len(target.scrapes)-1].slot)
	}

	names.assign(targets)

	recording := &Recording{Start: time.UnixMilli(first * interval.Milliseconds()).UTC()}

	for _, target := range targets {
		series, err := target.series(first, read, names)
		if err != nil {
			return nil, err
		}

		recording.Series = append(recording.Series, series...)
	}

	sortSeries(recording.Series)

	return recording, nil
}

// target is a scraped pod.
type target struct {
	job, namespace, pod string
	scrapes             []scrape
}

// scrape is a file with metrics. slot is the number of intervals since 1970.
type scrape struct {
	slot int64
	file string
}

func findTargets(directory string) ([]target, error) {
	files, err := filepath.Glob(filepath.Join(directory, "*", "*", "*", "*.txt"))
	if err != nil {
		return nil, err
	}

	var targets []target

	for _, file := range files {
		parts := strings.Split(filepath.ToSlash(file), "/")
		job, namespace, pod := parts[len(parts)-4], parts[len(parts)-3], parts[len(parts)-2]

		milliseconds, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".txt"), 10, 64)
		if err != nil || jobs[job] == "" {
			return nil, errors.Join(fmt.Errorf("%s is not the file of a scrape", file), err)
		}

		if n := len(targets); n == 0 || targets[n-1].job != job || targets[n-1].namespace != namespace || targets[n-1].pod != pod {
			targets = append(targets, target{job: job, namespace: namespace, pod: pod})
		}

		last := &targets[len(targets)-1]
		last.scrapes = append(last.scrapes, scrape{slot: milliseconds / interval.Milliseconds(), file: file})
	}

	for _, target := range targets {
		slices.SortFunc(target.scrapes, func(a, b scrape) int { return strings.Compare(a.file, b.file) })
	}

	return targets, nil
}

// series returns the series of a target. A series that a scrape does not contain ends with a stale marker, as in Prometheus.
func (t target) series(first int64, read map[string]bool, names *Names) ([]Series, error) {
	all := map[string]*Series{}

	for _, scrape := range t.scrapes {
		content, err := os.ReadFile(scrape.file)
		if err != nil {
			return nil, err
		}

		samples, err := parse(content, read)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", scrape.file, err)
		}

		slot := int(scrape.slot - first)

		// Sorted, so that equal scrapes result in equal names.
		for _, key := range slices.Sorted(maps.Keys(samples)) {
			sample := samples[key]

			if all[key] == nil {
				all[key] = &Series{Labels: t.labels(sample.labels, names)}
			}

			all[key].set(slot, sample.value)
		}

		for key, series := range all {
			if _, found := samples[key]; !found && series.isLive() {
				series.set(slot, math.Float64frombits(value.StaleNaN))
			}
		}
	}

	result := make([]Series, 0, len(all))
	for _, series := range all {
		result = append(result, *series)
	}

	return result, nil
}

// set writes the sample of a slot. A later scrape in the same slot replaces the earlier one.
func (s *Series) set(slot int, v float64) {
	for len(s.Samples) <= slot {
		s.Samples = append(s.Samples, parser.SequenceValue{Omitted: true})
	}

	s.Samples[slot] = parser.SequenceValue{Value: v}
}

func (s *Series) isLive() bool {
	for _, sample := range slices.Backward(s.Samples) {
		if !sample.Omitted {
			return !value.IsStaleNaN(sample.Value)
		}
	}

	return false
}

// labels returns the labels of a scraped series with those of the target.
func (t target) labels(scraped labels.Labels, names *Names) labels.Labels {
	builder := labels.NewBuilder(scraped)
	builder.Set("job", jobs[t.job])
	builder.Set("namespace", names.Namespace(t.namespace))
	builder.Set("pod", t.pod)

	if namespace := scraped.Get("etcd_namespace"); namespace != "" {
		builder.Set("etcd_namespace", names.Namespace(namespace))
	}

	return builder.Labels()
}

type sample struct {
	labels labels.Labels
	value  float64
}

// parse returns the samples of a scrape by their series.
func parse(content []byte, read map[string]bool) (map[string]sample, error) {
	samples := map[string]sample{}
	text := textparse.NewPromParser(content, labels.NewSymbolTable(), false)

	for {
		entry, err := text.Next()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}

		if err != nil {
			return nil, err
		}

		if entry != textparse.EntrySeries {
			continue
		}

		series, _, v := text.Series()

		name, _, _ := strings.Cut(string(series), "{")
		if !read[name] {
			continue
		}

		var set labels.Labels

		text.Labels(&set)
		samples[string(series)] = sample{set, v}
	}
}

// ReadMetrics returns the metrics that the alerts and the dashboards read.
func ReadMetrics(file string) (map[string]bool, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	var sources map[string]map[string][]string
	if err := json.Unmarshal(content, &sources); err != nil {
		return nil, err
	}

	read := map[string]bool{}

	for _, metrics := range sources {
		for name := range metrics {
			read[name] = true
		}
	}

	return read, nil
}
