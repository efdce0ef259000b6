// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

// file is the path of the alerts of the chart.
var file = filepath.Join("..", "..", "charts", "gardener-extension-etcd-druid", "files", "alerts.yaml")

const interval = time.Minute

// evaluate evaluates all alerts over the series once a minute. It returns the alerts that fire at the time until, by name, and the names
// of all alerts that fired before. The series use the notation of promtool with one sample a minute: `metric{label="x"} 0 1x10`.
func evaluate(series string, until time.Duration) (firing map[string][]*rules.Alert, ever map[string]bool) {
	GinkgoHelper()

	storage := promqltest.LoadedStorage(GinkgoTB(), "load 1m\n  "+series)
	DeferCleanup(storage.Close)

	engine := promqltest.NewTestEngine(GinkgoTB(), false, 0, promqltest.DefaultMaxSamplesPerQuery)
	firing, ever = map[string][]*rules.Alert{}, map[string]bool{}

	for _, group := range groups(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Appendable: storage, Queryable: storage,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	}) {
		for at := time.Duration(0); at <= until; at += interval {
			group.Eval(context.Background(), time.Unix(0, 0).Add(at))

			for _, alert := range group.AlertingRules() {
				Expect(alert.LastError()).NotTo(HaveOccurred(), alert.Name())

				delete(firing, alert.Name())

				for _, active := range alert.ActiveAlerts() {
					if active.State == rules.StateFiring {
						firing[alert.Name()] = append(firing[alert.Name()], active)
						ever[alert.Name()] = true
					}
				}
			}
		}
	}

	return firing, ever
}

// names returns the sorted names of all alerts in the file.
func names() []string {
	GinkgoHelper()

	found := map[string]bool{}

	for _, group := range groups(&rules.ManagerOptions{}) {
		for _, alert := range group.AlertingRules() {
			found[alert.Name()] = true
		}
	}

	return slices.Sorted(maps.Keys(found))
}

// groups returns the rule groups of the file. It fails if Prometheus rejects the file.
func groups(options *rules.ManagerOptions) map[string]*rules.Group {
	GinkgoHelper()

	options.Context = context.Background()
	loaded, errs := rules.NewManager(options).LoadGroups(interval, labels.EmptyLabels(), "", nil, false, file)
	Expect(errs).To(BeEmpty())

	return loaded
}
