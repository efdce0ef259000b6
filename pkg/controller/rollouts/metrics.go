// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

var (
	etcds = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_druid_rollout_etcds",
		Help: "Etcds that change from earlier to newer defaults of the operator, by state: waiting, updating, failed or updated. Absent when none waits or is updated.",
	}, []string{"from", "to", "state"})
	stopped = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_druid_rollout_stopped",
		Help: "1 while the change to newer defaults is stopped because updates of Etcds have failed, else 0. Absent when no Etcd waits or is updated.",
	}, []string{"from", "to"})
)

func init() {
	metrics.Registry.MustRegister(etcds, stopped)
}

// setMetrics replaces the metrics of all changes. A scrape meanwhile misses no change that stays.
func setMetrics(before, changes []rollout.Progressed) {
	stays := map[state.Change]bool{}
	for _, change := range changes {
		stays[change.Change] = true
		for name, count := range map[string]int{"waiting": change.Waiting, "updating": change.Updating, "failed": change.Failed, "updated": change.Updated} {
			etcds.WithLabelValues(change.From, change.To, name).Set(float64(count))
		}
		value := 0.0
		if change.Stopped {
			value = 1
		}
		stopped.WithLabelValues(change.From, change.To).Set(value)
	}
	for _, change := range before {
		if labels := (prometheus.Labels{"from": change.From, "to": change.To}); !stays[change.Change] {
			etcds.DeletePartialMatch(labels)
			stopped.DeletePartialMatch(labels)
		}
	}
}
