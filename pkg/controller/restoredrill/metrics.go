// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package restoredrill

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Labels of the metrics.
const (
	labelNamespace = "etcd_namespace"
	labelEtcd      = "etcd"
	labelReason    = "reason"
)

var (
	drillsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_druid_restore_drills_total",
		Help: "Restore drills of an Etcd whose Job has ended, by the reason that the condition RestoreProven has then.",
	}, []string{labelNamespace, labelEtcd, labelReason})
	provenAt = gauge("etcd_druid_restore_proven_timestamp_seconds", "When a restore drill has last proven the backup store of an Etcd.")
	duration = gauge("etcd_druid_restore_duration_seconds", "How long the last restore drill that has proven the backup store of an Etcd copied and restored the snapshots.")
	dataAge  = gauge("etcd_druid_restore_data_age_seconds", "Age of the newest snapshot before the last restore drill that has proven the backup store of an Etcd. 0 if the snapshot contained all data.")
)

func gauge(name, help string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{labelNamespace, labelEtcd})
}

func init() {
	metrics.Registry.MustRegister(drillsTotal, provenAt, duration, dataAge)
}

// setMetrics sets the metrics of the last proof of the store. They are absent if there is none.
func setMetrics(etcd client.ObjectKey, proof *state.DrillProof) {
	if proof == nil {
		for _, metric := range []*prometheus.GaugeVec{provenAt, duration, dataAge} {
			metric.DeleteLabelValues(etcd.Namespace, etcd.Name)
		}

		return
	}
	provenAt.WithLabelValues(etcd.Namespace, etcd.Name).Set(float64(proof.ProvenAt.Unix()))
	duration.WithLabelValues(etcd.Namespace, etcd.Name).Set(time.Duration(proof.RestoreTime).Seconds())
	dataAge.WithLabelValues(etcd.Namespace, etcd.Name).Set(time.Duration(proof.DataAge).Seconds())
}

// count counts a drill whose Job has ended.
func count(etcd client.ObjectKey, reason string) {
	drillsTotal.WithLabelValues(etcd.Namespace, etcd.Name, reason).Inc()
}

// deleteMetrics deletes all metrics of an Etcd.
func deleteMetrics(etcd client.ObjectKey) {
	labels := prometheus.Labels{labelNamespace: etcd.Namespace, labelEtcd: etcd.Name}
	drillsTotal.DeletePartialMatch(labels)
	for _, metric := range []*prometheus.GaugeVec{provenAt, duration, dataAge} {
		metric.DeletePartialMatch(labels)
	}
}
