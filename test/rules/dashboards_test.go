// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"
)

// dashboardSeries are series of Etcd demo/main, of its members and of the operator. With them, each panel shows something. The Etcd has a fault for
// each panel that shows only faults.
const dashboardSeries = `
  etcd_druid_members_desired{etcd_namespace="demo", etcd="main"} 3x120
  etcd_druid_members_desired{etcd_namespace="demo", etcd="hibernated"} 0x120
  etcd_druid_members_ready{etcd_namespace="demo", etcd="main"} 2x120
  etcd_druid_condition{etcd_namespace="demo", etcd="main", condition="Ready", status="False", reason="QuorumLost"} 1x120
  etcd_druid_condition{etcd_namespace="demo", etcd="main", condition="AllMembersReady", status="False", reason="NotAllMembersReady"} 1x120
  etcd_druid_condition{etcd_namespace="demo", etcd="main", condition="BackupReady", status="False", reason="DeltaSnapshotOverdue"} 1x120
  etcd_druid_condition{etcd_namespace="demo", etcd="main", condition="Reconciled", status="False", reason="Waiting"} 1x120
  etcd_druid_operation{etcd_namespace="demo", etcd="main", type="Reconcile", state="Error"} 1x120
  etcd_druid_certificate_expiration_timestamp_seconds{etcd_namespace="demo", etcd="main", secret="main-server", key="tls.crt"} 90000x120
  etcd_druid_database_quota_reached_seconds{etcd_namespace="demo", etcd="main"} 90000x120
  etcd_druid_member_version_info{etcd_namespace="demo", etcd="main", member="main-0", etcd_version="3.4.34", wrapper_version="v0.6.2", sidecar_version="v0.41.2"} 1x120
  etcd_druid_operations_total{etcd_namespace="demo", etcd="main", kind="rolling-update", outcome="done"} 0+1x120
  etcd_druid_operation_duration_seconds_bucket{kind="rolling-update", outcome="done", le="60"} 0+1x120
  etcd_druid_operation_duration_seconds_bucket{kind="rolling-update", outcome="done", le="+Inf"} 0+1x120
  etcd_druid_operation_duration_seconds_count{kind="rolling-update", outcome="done"} 0+1x120
  etcd_druid_steps_total{etcd_namespace="demo", etcd="main", step="EvictPod", outcome="done"} 0+1x120
  controller_runtime_reconcile_total{job="gardener-extension-etcd-druid", controller="etcd", result="success"} 0+1x120
  controller_runtime_reconcile_time_seconds_bucket{job="gardener-extension-etcd-druid", controller="etcd", le="1"} 0+1x120
  controller_runtime_reconcile_time_seconds_bucket{job="gardener-extension-etcd-druid", controller="etcd", le="+Inf"} 0+1x120
  workqueue_depth{job="gardener-extension-etcd-druid", name="etcd"} 1x120
  rest_client_requests_total{job="gardener-extension-etcd-druid", method="PATCH", code="200"} 0+1x120
  process_cpu_seconds_total{job="gardener-extension-etcd-druid", pod="operator-0"} 0+1x120
  process_resident_memory_bytes{job="gardener-extension-etcd-druid", pod="operator-0"} 1x120
  process_resident_memory_bytes{job="main-client", namespace="demo", pod="main-0"} 1x120
  etcd_mvcc_db_total_size_in_bytes{namespace="demo", pod="main-0"} 2x120
  etcd_mvcc_db_total_size_in_use_in_bytes{namespace="demo", pod="main-0"} 1x120
  etcd_server_quota_backend_bytes{namespace="demo", pod="main-0"} 8x120
  etcd_disk_wal_fsync_duration_seconds_bucket{namespace="demo", pod="main-0", le="1"} 0+1x120
  etcd_disk_wal_fsync_duration_seconds_bucket{namespace="demo", pod="main-0", le="+Inf"} 0+1x120
  etcd_disk_backend_commit_duration_seconds_bucket{namespace="demo", pod="main-0", le="1"} 0+1x120
  etcd_disk_backend_commit_duration_seconds_bucket{namespace="demo", pod="main-0", le="+Inf"} 0+1x120
  etcd_server_has_leader{namespace="demo", pod="main-0"} 1x120
  etcd_server_leader_changes_seen_total{namespace="demo", pod="main-0"} 0+1x120
  etcd_server_proposals_committed_total{namespace="demo", pod="main-0"} 0+1x120
  etcd_server_proposals_pending{namespace="demo", pod="main-0"} 1x120
`

// panel is a panel of a dashboard.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Targets     []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
}

// dashboards returns the panels for Etcd demo/main.
func dashboards() map[string][]panel {
	GinkgoHelper()

	return dashboardsOf("demo", "main")
}

// dashboardsOf returns the panels of the dashboards by the name of the file, without rows. The variables of the queries have the values of an Etcd.
func dashboardsOf(namespace, etcd string) map[string][]panel {
	GinkgoHelper()

	files, err := filepath.Glob(filepath.Join("..", "..", "charts", "gardener-extension-etcd-druid", "files", "dashboards", "*.json"))
	Expect(err).NotTo(HaveOccurred())
	Expect(files).NotTo(BeEmpty())

	result := map[string][]panel{}

	for _, file := range files {
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())

		var dashboard struct {
			Panels []panel `json:"panels"`
		}
		Expect(json.Unmarshal(content, &dashboard)).To(Succeed(), file)

		for _, panel := range dashboard.Panels {
			if panel.Type == "row" {
				continue
			}

			for i, target := range panel.Targets {
				panel.Targets[i].Expr = strings.NewReplacer("$namespace", namespace, "$etcd", etcd).Replace(target.Expr)
			}

			result[filepath.Base(file)] = append(result[filepath.Base(file)], panel)
		}
	}

	return result
}

var _ = Describe("The dashboards", func() {
	It("show something in each panel, and explain it", func(ctx SpecContext) {
		storage := promqltest.LoadedStorage(GinkgoTB(), "load 1m"+dashboardSeries)
		DeferCleanup(storage.Close)

		engine := promqltest.NewTestEngine(GinkgoTB(), false, 0, promqltest.DefaultMaxSamplesPerQuery)

		for file, panels := range dashboards() {
			ids := map[int]bool{}

			for _, panel := range panels {
				Expect(ids).NotTo(HaveKey(panel.ID), "%s: two panels have the ID %d", file, panel.ID)
				ids[panel.ID] = true

				Expect(panel.Description).NotTo(BeEmpty(), "%s: %s", file, panel.Title)
				Expect(panel.Targets).NotTo(BeEmpty(), "%s: %s", file, panel.Title)

				for _, target := range panel.Targets {
					expression := strings.TrimSuffix(target.Expr, " or vector(0)")
					Expect(query(ctx, engine, storage, expression)).NotTo(BeEmpty(), "%s: %s: %s", file, panel.Title, target.Expr)
				}
			}
		}
	})
})

// query returns the result of an instant query two hours after the first sample.
func query(ctx context.Context, engine *promql.Engine, storage *teststorage.TestStorage, expression string) promql.Vector {
	GinkgoHelper()

	query, err := engine.NewInstantQuery(ctx, storage, nil, expression, time.Unix(0, 0).Add(2*time.Hour))
	Expect(err).NotTo(HaveOccurred(), expression)

	defer query.Close()

	vector, err := query.Exec(ctx).Vector()
	Expect(err).NotTo(HaveOccurred(), expression)

	return vector
}
