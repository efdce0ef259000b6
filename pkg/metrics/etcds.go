// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package metrics exports the state of each Etcd to Prometheus, from its status. It keeps no state: each scrape reads the
// Etcds again, and a deleted Etcd has no metrics.
//
// What may not live here: metrics of the actions of a controller, and evaluation. These metrics are in the package of the
// controller, and evaluation is in the conditions and in the alerts of the chart.
package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// timeout limits one scrape, which reads from a cache.
const timeout = 5 * time.Second

var (
	membersDesired = describe("members_desired", "Desired members of an Etcd; 0 while it hibernates.")
	membersReady   = describe("members_ready", "Members of an Etcd that are ready.")
	condition      = describe("condition", "1 for the status that each condition of an Etcd has, and the reason for it.", "condition", "status", "reason")
	operation      = describe("operation", "1 for the type and the state of the last operation on an Etcd.", "type", "state")
	lastError      = describe("last_error", "1 for each code among the last errors of an Etcd.", "code")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("etcd_druid_"+name, help, append([]string{"etcd_namespace", "etcd"}, labels...), nil)
}

// Etcds is the collector of the metrics of all Etcds.
type Etcds struct {
	// Reader reads Etcds, from a cache.
	Reader client.Reader
}

// Describe implements the interface Collector of the Prometheus client.
func (*Etcds) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{membersDesired, membersReady, condition, operation, lastError} {
		descriptions <- description
	}
}

// Collect implements the interface Collector of the Prometheus client. It reads all Etcds. If it cannot read them, the scrape fails with the error.
func (e *Etcds) Collect(measured chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()

	etcds := &druidv1alpha1.EtcdList{}
	if err := e.Reader.List(ctx, etcds, client.UnsafeDisableDeepCopy); err != nil {
		// The process is starting: the cache does not run, or has not received all Etcds within the timeout. The metrics of the process itself must be
		// available.
		if notStarted := (*cache.ErrCacheNotStarted)(nil); errors.As(err, &notStarted) || apierrors.IsTimeout(err) {
			return
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

	// A metric must be unique by its labels, but a status that another component wrote may contain a type twice.
	type series struct {
		description *prometheus.Desc
		label       string
	}
	emitted := map[series]bool{}
	once := func(description *prometheus.Desc, labels ...string) {
		key := series{description, labels[0]}
		if !emitted[key] {
			emitted[key] = true
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
