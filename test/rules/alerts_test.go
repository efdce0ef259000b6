// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// scenario contains the series of one Etcd and the expected alert.
type scenario struct {
	// series replace or extend the series of a healthy Etcd with three members.
	series []string
	// at is the time after the first sample at which the alerts are evaluated.
	at time.Duration
	// firing is the only alert that fires at that time. Empty: no alert fires at any time.
	firing string
	// summary is the expected annotation summary of the alert.
	summary string
}

const etcd = `etcd_namespace="shoot--a",etcd="main"`

// condition returns the series of a condition from two replicas of the operator.
func condition(name, status, values string) string {
	return conditionBecause(name, status, "Some", values)
}

func conditionBecause(name, status, reason, values string) string {
	var series []string
	for _, replica := range []string{"druid-a", "druid-b"} {
		series = append(series, fmt.Sprintf(`etcd_druid_condition{%s,condition=%q,status=%q,reason=%q,pod=%q} %s`, etcd, name, status, reason, replica, values))
	}

	return strings.Join(series, "\n  ")
}

// task returns the counter of tasks of a kind that ended in a state. Only the leader exports it.
func task(kind, state, values string) string {
	return fmt.Sprintf(`etcd_druid_tasks_total{%s,kind=%q,state=%q,pod="druid-a"} %s`, etcd, kind, state, values)
}

// members returns the series of the desired number of members.
func members(values string) string {
	return fmt.Sprintf(`etcd_druid_members_desired{%s,pod="druid-a"} %s`, etcd, values)
}

const operatorRuns = `up{job="gardener-extension-etcd-druid",pod="druid-a"} 1x360
  leader_election_master_status{job="gardener-extension-etcd-druid",pod="druid-a"} 1x360
  leader_election_master_status{job="gardener-extension-etcd-druid",pod="druid-b"} 0x360`

// withHealthyDefaults adds the series of a healthy Etcd that the scenario does not set.
func withHealthyDefaults(with []string) []string {
	all := []string{operatorRuns}

	for _, name := range []string{
		"Ready", "AllMembersReady", "AllMembersUpdated", "BackupReady", "SecretsValid",
		"StoreResolved", "DataVolumesReady", "LastSnapshotCompactionSucceeded", "RevisionConfirmed", "DataConsistent", "DatabaseSpaceAvailable",
		"RestoreProven",
	} {
		if !slices.ContainsFunc(with, func(series string) bool { return strings.Contains(series, fmt.Sprintf("condition=%q", name)) }) {
			all = append(all, condition(name, "True", "1x360"))
		}
	}

	all = append(all, condition("ClusterIDMismatch", "False", "1x360"))

	if !slices.ContainsFunc(with, func(series string) bool { return strings.Contains(series, "members_desired") }) {
		all = append(all, members("3x360"))
	}

	return append(all, with...)
}

func expect(s scenario) {
	GinkgoHelper()

	firing, ever := evaluate(strings.Join(withHealthyDefaults(s.series), "\n  "), s.at)

	if s.firing == "" {
		Expect(ever).To(BeEmpty())

		return
	}

	Expect(slices.Collect(maps.Keys(firing))).To(ConsistOf(s.firing))
	Expect(firing[s.firing]).To(HaveLen(1), "one alert, regardless of the number of replicas")
	Expect(firing[s.firing][0].Annotations.Get("summary")).To(Equal(s.summary))
	fired[s.firing] = true
}

// fired contains the names of alerts that fired in at least one scenario.
var fired = map[string]bool{}

// since returns the samples of a series that begins after the given number of minutes.
func since(minutes int, value string) string { return fmt.Sprintf("_x%d %sx300", minutes, value) }

var _ = Describe("The alerts", Ordered, ContinueOnFailure, func() {
	DescribeTable("fire", expect,
		Entry("when a cluster has no quorum", scenario{
			series: []string{condition("Ready", "False", since(10, "1"))}, at: 16 * time.Minute,
			firing: "EtcdQuorumLost", summary: "Etcd shoot--a/main serves no clients.",
		}),
		Entry("when a quorum is lost forever, and a user has to choose the data", scenario{
			series: []string{conditionBecause("QuorumRecoverable", "False", "ChoiceRequired", since(10, "1"))}, at: 12 * time.Minute,
			firing: "EtcdQuorumUnrecoverable", summary: "The quorum of Etcd shoot--a/main is lost forever, and the operator does not recover it by itself.",
		}),
		Entry("when a quorum is lost forever, and the recovery policy forbids a recovery", scenario{
			series: []string{conditionBecause("QuorumRecoverable", "False", "RecoveryForbidden", since(10, "1"))}, at: 12 * time.Minute,
			firing: "EtcdQuorumUnrecoverable", summary: "The quorum of Etcd shoot--a/main is lost forever, and the operator does not recover it by itself.",
		}),
		Entry("when the operator may not choose by itself", scenario{
			series: []string{conditionBecause("QuorumRecoverable", "False", "RecoveryPending", since(10, "1"))}, at: 71 * time.Minute,
			firing: "EtcdRecoveryStuck", summary: "The recovery of Etcd shoot--a/main from a lost quorum does not end.",
		}),
		Entry("when a recovery does not end", scenario{
			series: []string{conditionBecause("QuorumRecoverable", "True", "Recovering", since(10, "1"))}, at: 71 * time.Minute,
			firing: "EtcdRecoveryStuck", summary: "The recovery of Etcd shoot--a/main from a lost quorum does not end.",
		}),
		Entry("when the quorum is unknown", scenario{
			series: []string{condition("Ready", "Unknown", since(10, "1"))}, at: 26 * time.Minute,
			firing: "EtcdHealthUnknown", summary: "The health of Etcd shoot--a/main is unknown.",
		}),
		Entry("when a member is missing", scenario{
			series: []string{condition("AllMembersReady", "False", since(10, "1"))}, at: 41 * time.Minute,
			firing: "EtcdMemberNotReady", summary: "A member of Etcd shoot--a/main is missing; the cluster has a quorum.",
		}),
		Entry("when a member cannot get a raft snapshot", scenario{
			series: []string{conditionBecause("AllMembersReady", "False", "RaftSnapshotBlocked", since(10, "1"))}, at: 16 * time.Minute,
			firing: "EtcdRaftSnapshotBlocked", summary: "A member of Etcd shoot--a/main waits for a raft snapshot that the leader cannot send.",
		}),
		Entry("when members belong to different clusters", scenario{
			series: []string{condition("ClusterIDMismatch", "True", since(10, "1"))}, at: 12 * time.Minute,
			firing: "EtcdClusterIDMismatch", summary: "Members of Etcd shoot--a/main belong to different clusters.",
		}),
		Entry("when a cluster has lost acknowledged writes", scenario{
			series: []string{condition("RevisionConfirmed", "False", since(10, "1"))}, at: 12 * time.Minute,
			firing: "EtcdRevisionRolledBack", summary: "Etcd shoot--a/main has lost acknowledged writes.",
		}),
		Entry("when a database stays full", scenario{
			series: []string{conditionBecause("DatabaseSpaceAvailable", "False", "FreeingSpaceBlocked", since(10, "1"))}, at: 16 * time.Minute,
			firing: "EtcdNoSpace", summary: "Etcd shoot--a/main rejects writes, because a database is full.",
		}),
		Entry("when the keys need the quota soon", scenario{
			series: []string{conditionBecause("DatabaseSpaceAvailable", "False", "QuotaReachedSoon", since(10, "1"))}, at: 71 * time.Minute,
			firing: "EtcdQuotaReachedSoon", summary: "The keys of Etcd shoot--a/main need the quota of its databases within a day.",
		}),
		Entry("when members have different data", scenario{
			series: []string{condition("DataConsistent", "False", since(10, "1"))}, at: 12 * time.Minute,
			firing: "EtcdDataCorrupt", summary: "Members of Etcd shoot--a/main have different data.",
		}),
		Entry("when a volume has warnings", scenario{
			series: []string{condition("DataVolumesReady", "False", since(10, "1"))}, at: 26 * time.Minute,
			firing: "EtcdDataVolumeWarning", summary: "A volume of Etcd shoot--a/main has warnings.",
		}),
		Entry("when a restore drill has found a fault", scenario{
			series: []string{conditionBecause("RestoreProven", "False", "EventsMissing", since(10, "1"))}, at: 41 * time.Minute,
			firing: "EtcdRestoreNotProven", summary: "The snapshots of Etcd shoot--a/main cannot be restored as they should.",
		}),
		Entry("when members have different data during a restore drill", scenario{
			series: []string{conditionBecause("RestoreProven", "False", "MembersDiffer", since(10, "1"))}, at: 41 * time.Minute,
			firing: "EtcdRestoreNotProven", summary: "The snapshots of Etcd shoot--a/main cannot be restored as they should.",
		}),
		Entry("when the proof of a restore is too old", scenario{
			series: []string{conditionBecause("RestoreProven", "False", "ProofOutdated", since(10, "1"))}, at: 71 * time.Minute,
			firing: "EtcdRestoreProofOutdated", summary: "No restore of Etcd shoot--a/main was proven in the last two periods.",
		}),
		Entry("when snapshots are overdue", scenario{
			series: []string{condition("BackupReady", "False", since(10, "1"))}, at: 26 * time.Minute,
			firing: "EtcdBackupsOverdue", summary: "Snapshots of Etcd shoot--a/main are overdue.",
		}),
		Entry("when the backup store is unresolved", scenario{
			series: []string{condition("StoreResolved", "False", since(10, "1"))}, at: 26 * time.Minute,
			firing: "EtcdBackupStoreUnresolved", summary: "The store of Etcd shoot--a/main is not known, or was changed.",
		}),
		Entry("when a cluster hibernates without a final snapshot", scenario{
			series: []string{conditionBecause("FinalSnapshotTaken", "False", "SnapshotFailed", since(10, "1")), members("3x10 0x300")}, at: 26 * time.Minute,
			firing: "EtcdFinalSnapshotMissing", summary: "Etcd shoot--a/main has no final full snapshot with all writes.",
		}),
		Entry("when compaction fails for hours", scenario{
			series: []string{condition("LastSnapshotCompactionSucceeded", "False", since(10, "1"))}, at: 191 * time.Minute,
			firing: "EtcdCompactionFailed", summary: "Snapshots of Etcd shoot--a/main are not compacted.",
		}),
		Entry("when a change fails", scenario{
			series: []string{`etcd_druid_operation{` + etcd + `,type="Reconcile",state="Error"} ` + since(10, "1")}, at: 26 * time.Minute,
			firing: "EtcdReconcileFailed", summary: "A change of Etcd shoot--a/main fails.",
		}),
		Entry("when a change takes hours, even if its reason changes", scenario{
			series: []string{
				conditionBecause("Reconciled", "False", "Waiting", "_x10 1x60 _x300"), conditionBecause("Reconciled", "False", "Reconciling", "_x71 1x200"),
			}, at: 131 * time.Minute,
			firing: "EtcdReconcileStuck", summary: "A change of Etcd shoot--a/main does not complete.",
		}),
		Entry("when the operator reconciles in a loop", scenario{
			series: []string{
				`etcd_druid_last_error{` + etcd + `,code="ERR_RECONCILE_LOOP",pod="druid-a"} ` + since(10, "1"), `etcd_druid_last_error{` + etcd + `,code="ERR_RECONCILE_LOOP",pod="druid-b"} ` + since(10, "1"),
			}, at: 16 * time.Minute,
			firing: "EtcdReconcileLoop", summary: "The operator writes to Etcd shoot--a/main again and again without effect.",
		}),
		Entry("when an Etcd is not deleted", scenario{
			series: []string{`etcd_druid_operation{` + etcd + `,type="Delete",state="Processing"} ` + since(10, "1")}, at: 71 * time.Minute,
			firing: "EtcdDeletionStuck", summary: "The deletion of Etcd shoot--a/main does not complete.",
		}),
		Entry("when the first task of its kind fails", scenario{
			series: []string{task("full-snapshot", "Failed", since(10, "1"))}, at: 16 * time.Minute,
			firing: "EtcdOpsTaskFailed", summary: "A task full-snapshot on Etcd shoot--a/main has failed.",
		}),
		Entry("when another task fails long after earlier tasks", scenario{
			series: []string{task("full-snapshot", "Failed", "_ 2x200 3x100"), task("full-snapshot", "Succeeded", "_ 7x300")}, at: 210 * time.Minute,
			firing: "EtcdOpsTaskFailed", summary: "A task full-snapshot on Etcd shoot--a/main has failed.",
		}),
		Entry("when a task fails and a task of another kind succeeds", scenario{
			series: []string{task("full-snapshot", "Failed", since(10, "1")), task("defragmentation", "Succeeded", since(10, "1"))}, at: 16 * time.Minute,
			firing: "EtcdOpsTaskFailed", summary: "A task full-snapshot on Etcd shoot--a/main has failed.",
		}),
		Entry("when a copy fails, until the task is deleted", scenario{
			series: []string{`etcd_druid_copy_tasks_total{etcd_namespace="shoot--a",task="main-copy",state="Failed",pod="druid-a"} ` + since(10, "1")}, at: 4 * time.Hour,
			firing: "EtcdCopyBackupsTaskFailed", summary: "Snapshots are not copied by shoot--a/main-copy.",
		}),
		Entry("when a Secret is missing", scenario{
			series: []string{conditionBecause("SecretsValid", "False", "SecretsMissing", since(10, "1"))}, at: 26 * time.Minute,
			firing: "EtcdSecretsMissing", summary: "Etcd shoot--a/main lacks a Secret, or will lack it.",
		}),
		Entry("when a certificate expires within a week", scenario{
			series: []string{`etcd_druid_certificate_expiration_timestamp_seconds{` + etcd + `,secret="main-server",key="tls.crt"} 262800x360`}, at: 61 * time.Minute,
			firing: "EtcdCertificateExpiring", summary: "A certificate of Etcd shoot--a/main expires in 2d 23h 59m 0s.",
		}),
		Entry("when a member nearly fills its quota", scenario{
			series: []string{
				`etcd_mvcc_db_total_size_in_bytes{namespace="shoot--a",pod="main-0"} 7000000000x360`, `etcd_server_quota_backend_bytes{namespace="shoot--a",pod="main-0"} 8000000000x360`,
			}, at: 11 * time.Minute,
			firing: "EtcdDatabaseQuotaLowSpace", summary: "The database of etcd shoot--a/main-0 is at 87.5% of its quota.",
		}),
		Entry("when a volume is slow", scenario{
			series: []string{
				`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="shoot--a",pod="main-0",le="0.5"} 0+0x360`,
				`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="shoot--a",pod="main-0",le="1"} 0+60x360`,
				`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="shoot--a",pod="main-0",le="+Inf"} 0+60x360`,
			}, at: 20 * time.Minute,
			firing: "EtcdHighFsyncDurations", summary: "The volume of etcd shoot--a/main-0 takes 995ms for a write.",
		}),
		Entry("when Etcds cannot be handed back", scenario{
			series: []string{`etcd_druid_give_back_refused{pod="druid-a"} 2x360`, `etcd_druid_give_back_refused{pod="druid-b"} 0x360`}, at: 31 * time.Minute,
			firing: "EtcdHandBackBlocked", summary: "2 Etcds cannot be handed back to etcd-druid.",
		}),
		Entry("when updates of Etcds have failed, so that no other one changes to newer default images", scenario{
			series: []string{`etcd_druid_rollout_stopped{pod="druid-a", from="etcd-wrapper:v1@1", to="etcd-wrapper:v2@2"} ` + since(10, "1"), `etcd_druid_rollout_stopped{pod="druid-a", from="etcd-wrapper:v0@3", to="etcd-wrapper:v2@2"} 0x360`},
			at:     16 * time.Minute, firing: "EtcdRolloutStopped", summary: "The change of Etcds to newer default images is stopped.",
		}),
	)

	DescribeTable("about the operator fire", func(series, alert, summary string) {
		firing, _ := evaluate(series, 15*time.Minute)
		Expect(slices.Collect(maps.Keys(firing))).To(ConsistOf(alert))
		Expect(firing[alert][0].Annotations.Get("summary")).To(Equal(summary))
		fired[alert] = true
	},
		Entry("when no operator runs", `up{job="gardener-extension-etcd-druid",pod="druid-a"} 0x360`, "EtcdDruidDown", "The Etcd operator does not run."),
		Entry("when no instance is the leader", strings.ReplaceAll(operatorRuns, `"druid-a"} 1x360
  leader_election_master_status{job="gardener-extension-etcd-druid",pod="druid-b"} 0x360`, `"druid-a"} 0x360
  etcd_druid_standing_by{pod="druid-a"} 0x360`), "EtcdDruidNoLeader", "No instance of the Etcd operator is the leader."),
	)

	DescribeTable("do not fire", func(series []string, at time.Duration) { expect(scenario{series: series, at: at}) },
		Entry("for a healthy cluster", nil, 5*time.Hour),
		Entry("for a cluster that starts within minutes", []string{
			condition("Ready", "False", "1x3 stale"), condition("AllMembersReady", "False", "1x3 stale"), conditionBecause("Reconciled", "False", "Waiting", "1x3 stale"),
			conditionBecause("SecretsValid", "False", "SecretsMissing", "1x3 stale"), condition("StoreResolved", "False", "1x3 stale"),
		}, time.Hour),
		Entry("for a hibernated cluster, whose conditions keep their last status", []string{
			members("0x360"), condition("Ready", "False", "1x360"), condition("AllMembersReady", "Unknown", "1x360"), condition("BackupReady", "False", "1x360"),
			conditionBecause("FinalSnapshotTaken", "True", "SnapshotVerified", "1x360"),
		}, 5*time.Hour),
		Entry("for a hibernated cluster that never had data", []string{
			members("0x360"), conditionBecause("FinalSnapshotTaken", "True", "NoDataToSnapshot", "1x360"),
		}, 5*time.Hour),
		Entry("for a recovery that the operator begins after its dwell time, and ends", []string{
			conditionBecause("QuorumRecoverable", "False", "RecoveryPending", "1x10 stale"), conditionBecause("QuorumRecoverable", "True", "Recovering", "_x11 1x10 stale"),
		}, 2*time.Hour),
		Entry("for a new cluster whose other members join slowly", []string{conditionBecause("Ready", "False", "Creating", "1x30 stale")}, time.Hour),
		Entry("for members that are unreachable for ten minutes", []string{condition("Ready", "Unknown", "1x10 stale")}, 30*time.Minute),
		Entry("for a member that restarts", []string{condition("AllMembersReady", "False", "1x20 stale")}, 40*time.Minute),
		Entry("for an unknown cluster ID while members start", []string{condition("ClusterIDMismatch", "Unknown", "1x360")}, 5*time.Hour),
		Entry("for a volume warning that disappears", []string{condition("DataVolumesReady", "False", "1x10 stale")}, 30*time.Minute),
		Entry("for an unknown backup status", []string{condition("BackupReady", "Unknown", "1x360")}, 5*time.Hour),
		Entry("for one compaction that failed", []string{condition("LastSnapshotCompactionSucceeded", "False", "1x120 stale")}, 5*time.Hour),
		Entry("for a failed reconciliation whose retry succeeds", []string{`etcd_druid_operation{` + etcd + `,type="Reconcile",state="Error"} 1x10 stale`}, 30*time.Minute),
		Entry("for a loop that ends with the next change", []string{`etcd_druid_last_error{` + etcd + `,code="ERR_RECONCILE_LOOP"} 1x4 stale`}, 30*time.Minute),
		Entry("for other errors", []string{`etcd_druid_last_error{` + etcd + `,code="ERR_INVALID_SPEC"} 1x360`}, 5*time.Hour),
		Entry("for a failed task whose repetition succeeds", []string{task("full-snapshot", "Failed", since(10, "1")), task("full-snapshot", "Succeeded", since(12, "1"))}, 3*time.Hour),
		Entry("for succeeded and rejected tasks", []string{task("full-snapshot", "Succeeded", since(10, "1")), task("full-snapshot", "Rejected", since(10, "1"))}, 3*time.Hour),
		Entry("for a restore drill that was incomplete", []string{
			task("restore-drill", "Failed", since(10, "1")), conditionBecause("RestoreProven", "Unknown", "DrillIncomplete", since(10, "1")),
		}, 3*time.Hour),
		Entry("for an inspection of a revision that the backup store does not contain", []string{task("backup-inspection", "Failed", since(10, "1"))}, 3*time.Hour),
		Entry("for a restore that was not checked", []string{conditionBecause("RestoreProven", "False", "NotChecked", "1x360")}, 5*time.Hour),
		Entry("for a fault of a restore drill that a full snapshot has repaired", []string{
			task("restore-drill", "Failed", since(10, "1")), conditionBecause("RestoreProven", "False", "EventsMissing", "_x10 1x25 stale"),
		}, 3*time.Hour),
		Entry("for a failed copy that succeeds after a change of its task", []string{
			`etcd_druid_copy_tasks_total{etcd_namespace="shoot--a",task="main-copy",state="Failed",pod="druid-a"} ` + since(10, "1"),
			`etcd_druid_copy_tasks_total{etcd_namespace="shoot--a",task="main-copy",state="Succeeded",pod="druid-a"} ` + since(13, "1"),
		}, 3*time.Hour),
		Entry("for operations in progress", []string{`etcd_druid_operation{` + etcd + `,type="Reconcile",state="Processing"} 1x360`}, 5*time.Hour),
		Entry("for a change that takes an hour", []string{conditionBecause("Reconciled", "False", "Waiting", "1x60 stale")}, 3*time.Hour),
		Entry("for a deletion that takes 30 minutes", []string{`etcd_druid_operation{` + etcd + `,type="Delete",state="Processing"} 1x30 stale`}, 2*time.Hour),
		Entry("for a certificate that is renewed in time", []string{`etcd_druid_certificate_expiration_timestamp_seconds{` + etcd + `,secret="main-server",key="tls.crt"} 1000000x360`}, 5*time.Hour),
		Entry("for a database far below its quota", []string{
			`etcd_mvcc_db_total_size_in_bytes{namespace="shoot--a",pod="main-0"} 2000000000x360`, `etcd_server_quota_backend_bytes{namespace="shoot--a",pod="main-0"} 8000000000x360`,
		}, time.Hour),
		Entry("for a fast volume", []string{
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="shoot--a",pod="main-0",le="0.01"} 0+60x360`,
			`etcd_disk_wal_fsync_duration_seconds_bucket{namespace="shoot--a",pod="main-0",le="+Inf"} 0+60x360`,
		}, time.Hour),
		Entry("for an operator without Etcds to hand back", []string{`etcd_druid_give_back_refused{pod="druid-a"} 0x360`}, 5*time.Hour),
	)

	DescribeTable("about the operator do not fire", func(series string) {
		_, ever := evaluate(series, 15*time.Minute)
		Expect(ever).To(BeEmpty())
	},
		Entry("while one of two instances runs as the leader", operatorRuns+"\n  "+`up{job="gardener-extension-etcd-druid",pod="druid-b"} 0x360`),
		Entry("while the operator runs in the etcd-druid Deployment of gardenlet", strings.NewReplacer(
			"druid-a", "etcd-druid-a", `pod=`, `namespace="garden",container="etcd-druid",pod=`).Replace(operatorRuns)),
		Entry("while all instances are standby for the etcd-druid of gardenlet", `up{job="gardener-extension-etcd-druid",pod="druid-a"} 1x360
  leader_election_master_status{job="gardener-extension-etcd-druid",pod="druid-a"} 0x360
  etcd_druid_standing_by{pod="druid-a"} 1x360`),
		Entry("while a new leader is elected", `up{job="gardener-extension-etcd-druid",pod="druid-a"} 1x360
  leader_election_master_status{job="gardener-extension-etcd-druid",pod="druid-a"} 1x5 0x5 1x300`),
	)

	It("fire in at least one scenario each", func() {
		Expect(slices.Sorted(maps.Keys(fired))).To(Equal(names()))
	})
})
