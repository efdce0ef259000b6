// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// certificateExpiration has the expiration times of mounted certificates, in seconds since 1970.
var certificateExpiration = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "etcd_druid_certificate_expiration_timestamp_seconds",
	Help: "When a certificate expires that the pods of an Etcd mount.",
}, []string{"etcd_namespace", "etcd", "secret", "key"})

func init() {
	metrics.Registry.MustRegister(certificateExpiration)
}

// setMetrics replaces the metrics of an Etcd. An Etcd without certificates has none.
func setMetrics(etcd client.ObjectKey, certificates []conditions.CertificateInUse) {
	certificateExpiration.DeletePartialMatch(prometheus.Labels{"etcd_namespace": etcd.Namespace, "etcd": etcd.Name})
	for _, certificate := range certificates {
		certificateExpiration.WithLabelValues(etcd.Namespace, etcd.Name, certificate.SecretName, certificate.Key).Set(float64(certificate.NotAfter.Unix()))
	}
}
