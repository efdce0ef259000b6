// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

func TestConditions(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "conditions Suite")
}

// noon is the time of every observation. A full snapshot is due at noon.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// healthy returns the input for a healthy cluster of three members with a backup store, after the change.
func healthy(change func(*conditions.Input)) conditions.Input {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Name, etcd.Namespace = "main", "demo"
	etcd.Spec.Replicas = 3
	etcd.Status.ObservedGeneration = new(int64(0))
	etcd.Spec.Backup.Store = &druidv1alpha1.StoreSpec{}
	etcd.Spec.Backup.FullSnapshotSchedule = new("0 */1 * * *")
	etcd.Spec.Backup.DeltaSnapshotPeriod = &metav1.Duration{Duration: 5 * time.Minute}
	etcd.Spec.Backup.EtcdSnapshotTimeout = &metav1.Duration{Duration: 9 * time.Minute}
	in := conditions.Input{
		Etcd:       etcd,
		Now:        noon,
		Thresholds: conditions.Thresholds{Unknown: time.Minute, NotReady: 5 * time.Minute},
	}
	o := &in.Observation
	o.StatefulSet = etcdcluster.StatefulSet{Exists: true, Name: "main", SpecReplicas: 3, UpdateRevision: "a"}
	for ordinal, name := range []string{"main-0", "main-1", "main-2"} {
		o.Pods = append(o.Pods, etcdcluster.Pod{
			Name: name, Ordinal: ordinal, RevisionHash: "a", Ready: true, ContainersReady: true, CreationTime: noon.Add(-24 * time.Hour),
		})
		o.Etcd.Members = append(o.Etcd.Members, etcdcluster.EndpointStatus{
			Ordinal: ordinal, Reachable: true, Healthy: true, MemberID: uint64(ordinal) + 1, ClusterID: 7, LeaderID: 1, Revision: 100,
		})
		o.Claims = append(o.Claims, etcdcluster.Claim{Name: "main-" + name, Ordinal: ordinal, Exists: true, Bound: true})
	}
	day := noon.Add(-24 * time.Hour)
	o.FullSnapshotLease = etcdcluster.Lease{Exists: true, Name: "main-full-snap", Holder: "50", CreationTime: day, RenewTime: noon.Add(-time.Hour).Add(time.Minute)}
	o.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, Name: "main-delta-snap", Holder: "90", CreationTime: day, RenewTime: noon.Add(-time.Minute)}
	change(&in)

	return in
}

func withoutResponses(in *conditions.Input) {
	in.Observation.Etcd = etcdcluster.EtcdResponses{}
}

// statusAndReason returns the status and the reason of a condition. Two dashes: there is no condition.
func statusAndReason(condition *druidv1alpha1.Condition) string {
	if condition == nil {
		return "--"
	}

	return string(condition.Status) + " " + condition.Reason
}

func failing(section etcdcluster.Section) func(*conditions.Input) {
	return func(in *conditions.Input) {
		in.Observation.Failures = []etcdcluster.ReadFailure{{Section: section, Message: "timeout"}}
	}
}
