// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
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

// retainedVolumes and oldestRetainedVolume report the retained volumes that the record names. They occupy storage that is not part of the quota of
// the namespace.
var (
	retainedVolumes = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_druid_retained_volumes",
		Help: "PersistentVolumes with earlier data of an Etcd that the operator retains and has not released yet. Those that only a user deletes are not among them. Absent if there are none.",
	}, []string{"etcd_namespace", "etcd"})
	oldestRetainedVolume = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_druid_retained_volumes_oldest_timestamp_seconds",
		Help: "When the operator decided to retain the oldest of the PersistentVolumes of etcd_druid_retained_volumes. Absent if there are none.",
	}, []string{"etcd_namespace", "etcd"})
)

func init() {
	metrics.Registry.MustRegister(certificateExpiration, memberVersion, quotaReached, retainedVolumes, oldestRetainedVolume)
}

// measured is what the metrics of an Etcd contain.
type measured struct {
	certificates   []etcdcluster.CertificateInUse
	members        []etcdcluster.Member
	quotaReachedIn time.Duration
	retained       []state.RetainedVolume
}

// series is one time series of a metric.
type series struct {
	metric *prometheus.GaugeVec
	// labels are the values of the labels, joined by a byte that no label contains.
	labels string
}

// separator joins the values of labels.
const separator = "\xff"

func (s series) values() []string { return strings.Split(s.labels, separator) }

// exposed are the series of each Etcd. A search in the metrics would read the series of all Etcds for each reconciliation.
var exposed = struct {
	sync.Mutex
	series map[client.ObjectKey]map[series]float64
}{series: map[client.ObjectKey]map[series]float64{}}

// setMetrics replaces the metrics of an Etcd. Those about certificates, versions, the quota and retained volumes are absent if nothing is known about
// them.
func setMetrics(etcd client.ObjectKey, m measured) {
	wanted := m.series(etcd)
	exposed.Lock()
	previous := exposed.series[etcd]
	if exposed.series[etcd] = wanted; len(wanted) == 0 {
		delete(exposed.series, etcd)
	}
	exposed.Unlock()

	for s := range previous {
		if _, remains := wanted[s]; !remains {
			s.metric.DeleteLabelValues(s.values()...)
		}
	}
	for s, value := range wanted {
		s.metric.WithLabelValues(s.values()...).Set(value)
	}
}

// series returns the series of an Etcd with their values.
func (m measured) series(etcd client.ObjectKey) map[series]float64 {
	all := map[series]float64{}
	add := func(value float64, metric *prometheus.GaugeVec, labels ...string) {
		all[series{metric, strings.Join(slices.Concat([]string{etcd.Namespace, etcd.Name}, labels), separator)}] = value
	}
	if m.quotaReachedIn > 0 {
		add(m.quotaReachedIn.Seconds(), quotaReached)
	}
	if len(m.retained) > 0 {
		oldest := slices.MinFunc(m.retained, func(a, b state.RetainedVolume) int { return a.At.Compare(b.At) })
		add(float64(len(m.retained)), retainedVolumes)
		add(float64(oldest.At.Unix()), oldestRetainedVolume)
	}
	for _, member := range m.members {
		if versions := member.Versions(); versions != (etcdcluster.Versions{}) {
			add(1, memberVersion, member.Name, versions.Etcd, versions.Wrapper, versions.Sidecar)
		}
	}
	for _, certificate := range m.certificates {
		add(float64(certificate.NotAfter.Unix()), certificateExpiration, certificate.SecretName, certificate.Key)
	}

	return all
}
