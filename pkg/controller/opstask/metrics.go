// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Labels of the metrics.
const (
	labelNamespace = "etcd_namespace"
	labelEtcd      = "etcd"
	labelKind      = "kind"
	labelState     = "state"
)

var (
	tasksTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_druid_tasks_total",
		Help: "EtcdOpsTasks of an Etcd that have ended, by what they do and the state in which they ended.",
	}, []string{labelNamespace, labelEtcd, labelKind, labelState})
	taskDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "etcd_druid_task_duration_seconds",
		Help:    "How long EtcdOpsTasks of an Etcd took that have ended, from when their turn had come.",
		Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 10800},
	}, []string{labelNamespace, labelEtcd, labelKind, labelState})
)

func init() {
	metrics.Registry.MustRegister(tasksTotal, taskDuration)
}

// count counts a finished task of an existing Etcd. The metrics of a nonexistent Etcd would never be deleted.
func count(task *druidv1alpha1.EtcdOpsTask) {
	labels := []string{task.Namespace, ptr.Deref(task.Spec.EtcdName, ""), helper.TaskKind(task), string(ptr.Deref(task.Status.State, ""))}
	tasksTotal.WithLabelValues(labels...).Inc()
	if begin, end := task.Status.StartedAt, task.Status.LastTransitionTime; begin != nil && end != nil {
		taskDuration.WithLabelValues(labels...).Observe(end.Sub(begin.Time).Seconds())
	}
}

// deleteMetrics deletes all metrics of an Etcd.
func deleteMetrics(etcd client.ObjectKey) {
	labels := prometheus.Labels{labelNamespace: etcd.Namespace, labelEtcd: etcd.Name}
	tasksTotal.DeletePartialMatch(labels)
	taskDuration.DeletePartialMatch(labels)
}
