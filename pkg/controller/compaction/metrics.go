// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/compaction"
)

// Labels of the metrics. Names and values are those of etcd-druid, with the name of the Etcd in addition to its namespace.
const (
	labelSucceeded = "succeeded"
	labelReason    = "failureReason"
	labelNamespace = "etcd_namespace"
	labelEtcd      = "etcd"
)

var (
	jobsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcddruid_compaction_jobs_total",
		Help: "Jobs that compacted the snapshots of an Etcd and have ended.",
	}, []string{labelSucceeded, labelReason, labelNamespace, labelEtcd})
	snapshotsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcddruid_compaction_full_snapshot_triggered_total",
		Help: "Full snapshots that were requested instead of a compaction and have ended.",
	}, []string{labelSucceeded, labelNamespace, labelEtcd})
	jobsCurrent = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcddruid_compaction_jobs_current",
		Help: "Jobs that compact the snapshots of an Etcd now.",
	}, []string{labelNamespace, labelEtcd})
	jobDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "etcddruid_compaction_job_duration_seconds",
		Help:    "How long Jobs took that compacted the snapshots of an Etcd.",
		Buckets: []float64{60, 300, 600, 900, 1200, 1800},
	}, []string{labelSucceeded, labelReason, labelNamespace, labelEtcd})
	deltaEvents = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcddruid_compaction_num_delta_events",
		Help: "Events of an Etcd since its last full snapshot.",
	}, []string{labelNamespace, labelEtcd})
)

func init() {
	metrics.Registry.MustRegister(jobsTotal, snapshotsTotal, jobsCurrent, jobDuration, deltaEvents)
}

// failureReasons maps the reasons of the condition to the label values of the metrics.
var failureReasons = map[string]string{
	druidv1alpha1.PodSuccessReasonNone:                   "none",
	druidv1alpha1.JobFailureReasonDeadlineExceeded:       "deadlineExceeded",
	druidv1alpha1.PodFailureReasonPreemptionByScheduler:  "preempted",
	druidv1alpha1.PodFailureReasonDeletionByTaintManager: "evicted",
	druidv1alpha1.PodFailureReasonEvictionByEvictionAPI:  "evicted",
	druidv1alpha1.PodFailureReasonTerminationByKubelet:   "evicted",
	druidv1alpha1.PodFailureReasonProcessFailure:         "processFailure",
	druidv1alpha1.PodFailureReasonUnknown:                "unknown",
}

// setMetrics sets the gauges of an Etcd.
func setMetrics(etcd client.ObjectKey, c compaction.Input) {
	if !c.HasStore {
		// deleteMetrics compares the labels of all Etcds. An Etcd that never had a store has no metrics.
		if jobsCurrent.DeleteLabelValues(etcd.Namespace, etcd.Name) {
			deleteMetrics(etcd)
		}

		return
	}
	running := 0.0
	if c.Job != nil && c.Job.Outcome == "" {
		running = 1
	}
	jobsCurrent.WithLabelValues(etcd.Namespace, etcd.Name).Set(running)
	if events, known := c.Events(); known {
		deltaEvents.WithLabelValues(etcd.Namespace, etcd.Name).Set(float64(events))
	}
}

// countJob counts a Job that ended.
func countJob(etcd client.ObjectKey, job compaction.Job) {
	succeeded := strconv.FormatBool(job.Outcome == druidv1alpha1.PodSuccessReasonNone)
	labels := []string{succeeded, failureReasons[job.Outcome], etcd.Namespace, etcd.Name}
	jobsTotal.WithLabelValues(labels...).Inc()
	if !job.StartTime.IsZero() && !job.EndTime.IsZero() {
		jobDuration.WithLabelValues(labels...).Observe(job.EndTime.Sub(job.StartTime).Seconds())
	}
}

// countSnapshot counts a full snapshot that was requested instead of a Job.
func countSnapshot(etcd client.ObjectKey, taken bool) {
	snapshotsTotal.WithLabelValues(strconv.FormatBool(taken), etcd.Namespace, etcd.Name).Inc()
}

// deleteMetrics deletes all metrics of an Etcd.
func deleteMetrics(etcd client.ObjectKey) {
	labels := prometheus.Labels{labelNamespace: etcd.Namespace, labelEtcd: etcd.Name}
	for _, metric := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{jobsTotal, snapshotsTotal, jobsCurrent, jobDuration, deltaEvents} {
		metric.DeletePartialMatch(labels)
	}
}
