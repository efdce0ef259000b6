// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
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

func init() {
	metrics.Registry.MustRegister(certificateExpiration, memberVersion)
}

// setMetrics replaces the metrics of an Etcd. An Etcd without certificates has none about certificates, and one without members none about versions.
func setMetrics(etcd client.ObjectKey, certificates []conditions.CertificateInUse, members []etcdcluster.Member) {
	labels := prometheus.Labels{"etcd_namespace": etcd.Namespace, "etcd": etcd.Name}
	certificateExpiration.DeletePartialMatch(labels)
	memberVersion.DeletePartialMatch(labels)
	for _, member := range members {
		if versions := member.Versions(); versions != (etcdcluster.Versions{}) {
			memberVersion.WithLabelValues(etcd.Namespace, etcd.Name, member.Name, versions.Etcd, versions.Wrapper, versions.Sidecar).Set(1)
		}
	}
	for _, certificate := range certificates {
		certificateExpiration.WithLabelValues(etcd.Namespace, etcd.Name, certificate.SecretName, certificate.Key).Set(float64(certificate.NotAfter.Unix()))
	}
}
