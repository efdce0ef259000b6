// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package metrics tells Prometheus how each Etcd is, from what stands in its status. Nothing is remembered: each scrape reads the
// Etcds anew, and an Etcd that is gone has no metrics any more.
//
// What may not live here: metrics of what a controller does, which are beside it, and judgement, which is in the conditions and
// in the alerts of the chart.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// timeout bounds one scrape, which reads from a cache.
const timeout = 5 * time.Second

var (
	membersDesired = describe("members_desired", "Members that an Etcd asks for; 0 while it hibernates.")
	membersReady   = describe("members_ready", "Members of an Etcd that are ready.")
	condition      = describe("condition", "1 for the status that each condition of an Etcd has, and the reason for it.", "condition", "status", "reason")
	operation      = describe("operation", "1 for the type and the state of the last operation on an Etcd.", "type", "state")
	lastError      = describe("last_error", "1 for each code among the last errors of an Etcd.", "code")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("etcd_druid_"+name, help, append([]string{"etcd_namespace", "etcd"}, labels...), nil)
}

// Etcds collects the metrics of all Etcds.
type Etcds struct {
	// Reader reads Etcds, from a cache.
	Reader client.Reader
}

// Describe names the metrics.
func (*Etcds) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{membersDesired, membersReady, condition, operation, lastError} {
		descriptions <- description
	}
}

// Collect reads all Etcds and measures them. While they cannot be read, the scrape fails, and says why.
func (e *Etcds) Collect(measured chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	etcds := &druidv1alpha1.EtcdList{}
	if err := e.Reader.List(ctx, etcds); err != nil {
		if notStarted := (*cache.ErrCacheNotStarted)(nil); errors.As(err, &notStarted) {
			return // the process has just begun, and has metrics of its own
		}

		measured <- prometheus.NewInvalidMetric(membersDesired, err)

		return
	}

	for i := range etcds.Items {
		measure(&etcds.Items[i], measured)
	}
}

func measure(etcd *druidv1alpha1.Etcd, measured chan<- prometheus.Metric) {
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		measured <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, append([]string{etcd.Namespace, etcd.Name}, labels...)...)
	}

	gauge(membersDesired, float64(etcd.Spec.Replicas))
	gauge(membersReady, float64(etcd.Status.ReadyReplicas))

	// Metrics are told apart by their labels, and what others wrote may hold a type twice.
	seen := map[string]bool{}
	once := func(description *prometheus.Desc, labels ...string) {
		key := description.String() + labels[0]
		if !seen[key] {
			seen[key] = true
			gauge(description, 1, labels...)
		}
	}

	for _, c := range etcd.Status.Conditions {
		once(condition, string(c.Type), string(c.Status), c.Reason)
	}

	if last := etcd.Status.LastOperation; last != nil {
		once(operation, string(last.Type), string(last.State))
	}

	for _, e := range etcd.Status.LastErrors {
		once(lastError, string(e.Code))
	}
}
