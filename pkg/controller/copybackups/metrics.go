// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// Labels of the metrics. A copy task belongs to no Etcd.
const (
	labelNamespace = "etcd_namespace"
	labelTask      = "task"
	labelState     = "state"
)

var (
	copiesTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_druid_copy_tasks_total",
		Help: "Copies of an EtcdCopyBackupsTask that have ended, one for each of its generations, by how they ended.",
	}, []string{labelNamespace, labelTask, labelState})
	copyDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "etcd_druid_copy_task_duration_seconds",
		Help:    "How long the copies of an EtcdCopyBackupsTask took with all attempts, and with waiting for the final snapshot.",
		Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 10800},
	}, []string{labelNamespace, labelTask, labelState})
)

func init() {
	metrics.Registry.MustRegister(copiesTotal, copyDuration)
}

// count counts a task that has just ended, and ignores all other tasks.
func (r *Reconciler) count(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, computed []druidv1alpha1.Condition) {
	for _, end := range []druidv1alpha1.ConditionType{druidv1alpha1.EtcdCopyBackupsTaskSucceeded, druidv1alpha1.EtcdCopyBackupsTaskFailed} {
		if condition := conditions.Find(computed, end); condition == nil || condition.Status != druidv1alpha1.ConditionTrue {
			continue
		}
		labels := []string{task.Namespace, task.Name, string(end)}
		copiesTotal.WithLabelValues(labels...).Inc()
		if job, err := r.job(ctx, task); err == nil && job != nil && job.Status.StartTime != nil {
			copyDuration.WithLabelValues(labels...).Observe(r.Clock.Since(job.Status.StartTime.Time).Seconds())
		}
	}
}

// deleteMetrics deletes all metrics of a task.
func deleteMetrics(task client.ObjectKey) {
	labels := prometheus.Labels{labelNamespace: task.Namespace, labelTask: task.Name}
	copiesTotal.DeletePartialMatch(labels)
	copyDuration.DeletePartialMatch(labels)
}
