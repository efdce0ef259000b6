// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// certificateExpiration has the expiration times of mounted certificates, in seconds since 1970.
var certificateExpiration = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "etcd_druid_certificate_expiration_timestamp_seconds",
	Help: "When a certificate expires that the pods of an Etcd mount.",
}, []string{"etcd_namespace", "etcd", "secret", "key"})

// memberVersion has the versions of the programs of each member as labels. A seed whose CustomResourceDefinition prunes them from the status has
// them here.
var memberVersion = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "etcd_druid_member_version_info",
	Help: "Versions of etcd, etcd-wrapper and etcd-backup-restore of a member. The value is always 1.",
}, []string{"etcd_namespace", "etcd", "member", "etcd_version", "wrapper_version", "sidecar_version"})

// quotaReached predicts when the keys need the quota.
var quotaReached = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "etcd_druid_database_quota_reached_seconds",
	Help: "Time until the keys of an Etcd need the quota of its databases, if they continue to increase as in the last day. Absent if they do not increase.",
}, []string{"etcd_namespace", "etcd"})

func init() {
	metrics.Registry.MustRegister(certificateExpiration, memberVersion, quotaReached)
}

// measured is what the metrics of an Etcd contain.
type measured struct {
	certificates   []conditions.CertificateInUse
	members        []etcdcluster.Member
	quotaReachedIn time.Duration
}

// setMetrics replaces the metrics of an Etcd. Those about certificates, versions and the quota are absent if nothing is known about them.
func setMetrics(etcd client.ObjectKey, m measured) {
	labels := prometheus.Labels{"etcd_namespace": etcd.Namespace, "etcd": etcd.Name}
	certificateExpiration.DeletePartialMatch(labels)
	memberVersion.DeletePartialMatch(labels)
	if quotaReached.DeletePartialMatch(labels); m.quotaReachedIn > 0 {
		quotaReached.WithLabelValues(etcd.Namespace, etcd.Name).Set(m.quotaReachedIn.Seconds())
	}
	for _, member := range m.members {
		if versions := member.Versions(); versions != (etcdcluster.Versions{}) {
			memberVersion.WithLabelValues(etcd.Namespace, etcd.Name, member.Name, versions.Etcd, versions.Wrapper, versions.Sidecar).Set(1)
		}
	}
	for _, certificate := range m.certificates {
		certificateExpiration.WithLabelValues(etcd.Namespace, etcd.Name, certificate.SecretName, certificate.Key).Set(float64(certificate.NotAfter.Unix()))
	}
}
