// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// SetDefaults fills every field that is not set. After it, no pointer that has a default is nil.
func SetDefaults(c *OperatorConfiguration) {
	// One budget serves all Etcds: with 100 requests a second a few Etcds that change all the time delay others by seconds. Priority and
	// fairness protect the API server from more.
	setDefault(&c.ClientConnection.QPS, 500)
	setDefault(&c.ClientConnection.Burst, 1000)

	setPointerDefault(&c.LeaderElection.Enabled, true)
	setDurationDefault(&c.LeaderElection.LeaseDuration, 15*time.Second)
	setDurationDefault(&c.LeaderElection.RenewDeadline, 10*time.Second)
	setDurationDefault(&c.LeaderElection.RetryPeriod, 2*time.Second)
	setDefault(&c.LeaderElection.ResourceLock, "leases")
	setDefault(&c.LeaderElection.ResourceName, "druid-leader-election")

	setPointerDefault(&c.Server.Webhooks, TLSServer{})
	setPointerDefault(&c.Server.Metrics, Server{})
	setPointerDefault(&c.Server.HealthProbes, Server{})
	setDefault(&c.Server.Webhooks.Port, 9443)
	setDefault(&c.Server.Webhooks.ServerCertDir, "/etc/webhook-server-tls")
	setDefault(&c.Server.Metrics.Port, 8080)
	setDefault(&c.Server.HealthProbes.Port, 8081)

	setControllerDefaults(&c.Controllers)
	setPointerDefault(&c.Webhooks.Eviction.Enabled, true)

	setDurationDefault(&c.ResourceManager.SyncPeriod, time.Hour)
	setDefault(&c.Predecessor, PredecessorStandBy)
	setDefault(&c.Logging.LogLevel, LogLevelInfo)
	setDefault(&c.Logging.LogFormat, LogFormatJSON)
}

func setControllerDefaults(c *ControllerConfiguration) {
	setPointerDefault(&c.Etcd.ConcurrentSyncs, 3)
	setDurationDefault(&c.Etcd.EtcdStatusSyncPeriod, 15*time.Second)
	setDurationDefault(&c.Etcd.DataComparisonPeriod, 6*time.Hour)
	setDurationDefault(&c.Etcd.EtcdMember.NotReadyThreshold, 5*time.Minute)
	setDurationDefault(&c.Etcd.EtcdMember.UnknownThreshold, time.Minute)
	setDurationDefault(&c.Etcd.StoreTimeout, 30*time.Minute)
	setDefault(&c.Etcd.DefaultUpdateStrategy, druidv1alpha1.UpdateStrategyRestart)
	setDurationDefault(&c.Etcd.Defragmentation.Window, time.Hour)
	setPointerDefault(&c.Etcd.Defragmentation.MinReclaimableSize, resource.MustParse("200Mi"))
	setDurationDefault(&c.Etcd.Defragmentation.StallBudget, 0)
	setDurationDefault(&c.Etcd.Recovery.DwellTime, 10*time.Minute)
	setPointerDefault(&c.Etcd.Recovery.MaxClusters, 3)
	setPointerDefault(&c.Etcd.Rollout.Enabled, true)
	setPointerDefault(&c.Etcd.Rollout.Total, RolloutLimit{Number: new(20), Percentage: new(10)})
	setPointerDefault(&c.Etcd.Rollout.PerZone, RolloutLimit{Percentage: new(10)})
	setPointerDefault(&c.Etcd.Rollout.PerChange, RolloutLimit{Percentage: new(10)})
	setPointerDefault(&c.Etcd.Rollout.Canaries, 1)
	setDurationDefault(&c.Etcd.Rollout.CanaryPeriod, 5*time.Minute)
	setDurationDefault(&c.Etcd.Rollout.Timeout, 10*time.Minute)

	setPointerDefault(&c.Compaction.ConcurrentSyncs, 3)
	setDefault(&c.Compaction.EventsThreshold, 1_000_000)
	setDefault(&c.Compaction.TriggerFullSnapshotThreshold, 3_000_000)
	if deadline := c.Compaction.ActiveDeadlineDuration; !c.Compaction.Enabled && deadline != nil && deadline.Duration <= 0 {
		// gardenlet writes zeros where compaction is off. A task may request one nevertheless.
		c.Compaction.ActiveDeadlineDuration = nil
	}
	setDurationDefault(&c.Compaction.ActiveDeadlineDuration, 3*time.Hour)
	setDurationDefault(&c.Compaction.MetricsScrapeWaitDuration, 0)
	setDurationDefault(&c.RestoreDrill.Period, 0)
	setPointerDefault(&c.RestoreDrill.MaxConcurrentDrills, 2)

	setPointerDefault(&c.EtcdCopyBackupsTask.ConcurrentSyncs, 3)
	setPointerDefault(&c.Secret.ConcurrentSyncs, 10)
	setPointerDefault(&c.EtcdOpsTask.ConcurrentSyncs, 3)
	setDurationDefault(&c.EtcdOpsTask.RequeueInterval, 15*time.Second)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func setPointerDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func setDurationDefault(field **metav1.Duration, value time.Duration) {
	setPointerDefault(field, metav1.Duration{Duration: value})
}
