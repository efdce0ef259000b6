// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"path"
	"slices"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

// sidecarArgs are the arguments of etcd-backup-restore. It exits on an unknown flag, so that all versions in use must know
// each flag.
func sidecarArgs(v Values) []string {
	return slices.Concat(
		[]string{"server", fmt.Sprintf("--server-port=%d", v.Ports.Backup)},
		storeArgs(v),
		maintenanceArgs(v),
		connectionArgs(v),
		serverArgs(v),
		[]string{
			"--data-dir=" + pathEtcdData,
			"--restoration-temp-snapshots-dir=" + pathRestoration,
			"--snapstore-temp-directory=" + v.Sidecar.TempDir,
			"--etcd-connection-timeout=5m",
			"--use-etcd-wrapper=true",
		},
		restoreArgs(v),
		heartbeatArgs(v),
		[]string{fmt.Sprintf("--embedded-etcd-quota-bytes=%d", v.Etcd.Quota.Value())},
		electionArgs(v),
	)
}

// flagOfPodUID is the flag whose value the kubelet takes from variablePodUID.
const flagOfPodUID = "--initial-cluster-token"

// restoreArgs give a restored member the name and the peer URLs of its configuration. Without them the sidecar restores a member with the peer
// URL of localhost. It registers the configured ones after etcd has started, and stops etcd if they use TLS. The next start of a single member
// takes more than half a minute: its sidecar requests the member list from a Service without endpoints. Only the first member of a cluster is
// ever restored. The token makes the cluster ID differ from those of earlier clusters: a member of one that returns cannot join.
func restoreArgs(v Values) []string {
	if v.Store == nil || v.Bootstrap != nil || v.MembersByAddress || len(v.Members) == 0 {
		return nil
	}
	first, entries := v.Members[0], []string{}
	args := []string{"--name=" + first.Name, flagOfPodUID + "=$(" + variablePodUID + ")"}
	for _, url := range peerURLs(v, first) {
		entries = append(entries, first.Name+"="+url)
		args = append(args, "--initial-advertise-peer-urls="+url)
	}

	return append(args, "--initial-cluster="+strings.Join(entries, ","))
}

// storeArgs configure snapshots and their store. Without a store the sidecar only checks the integrity of the data.
func storeArgs(v Values) []string {
	if v.Store == nil {
		return nil
	}

	var args []string
	if v.Components.Identity {
		args = append(args,
			"--enable-snapshot-lease-renewal=true",
			"--full-snapshot-lease-name="+v.Names.FullSnapshotLease,
			"--delta-snapshot-lease-name="+v.Names.DeltaSnapshotLease,
		)
	}
	args = append(args, v.Store.Flags(backupstore.Primary)...)
	args = appendSet(args, "schedule", v.Sidecar.FullSnapshotSchedule)
	args = appendSet(args, "delta-snapshot-period", v.Sidecar.DeltaSnapshotPeriod)
	args = appendSet(args, "delta-snapshot-retention-period", v.Sidecar.DeltaSnapshotRetentionPeriod)
	args = append(args,
		fmt.Sprintf("--delta-snapshot-memory-limit=%d", v.Sidecar.DeltaSnapshotMemoryLimit),
		"--garbage-collection-policy="+v.Sidecar.GarbageCollectionPolicy,
	)
	if v.Sidecar.GarbageCollectionPolicy == string(druidv1alpha1.GarbageCollectionPolicyLimitBased) {
		args = append(args, fmt.Sprintf("--max-backups=%d", v.Sidecar.MaxBackups))
	}
	args = appendSet(args, "garbage-collection-period", v.Sidecar.GarbageCollectionPeriod)

	return append(args,
		fmt.Sprintf("--compress-snapshots=%t", v.Sidecar.CompressionEnabled),
		"--compression-policy="+v.Sidecar.CompressionPolicy,
		"--etcd-snapshot-timeout="+v.Sidecar.SnapshotTimeout,
	)
}

func maintenanceArgs(v Values) []string {
	return append(appendSet(nil, "defragmentation-schedule", v.Sidecar.DefragmentationSchedule),
		"--etcd-defrag-timeout="+v.Sidecar.DefragmentationTimeout,
		"--auto-compaction-mode="+v.Etcd.AutoCompactionMode,
		"--auto-compaction-retention="+v.Etcd.AutoCompactionRetention,
	)
}

// connectionArgs configure how the sidecar reaches etcd: its own member directly, and all ready members through the client
// Service.
func connectionArgs(v Values) []string {
	args := []string{"--insecure-transport=true", "--insecure-skip-tls-verify=true"}
	if v.ClientTLS != nil {
		args = []string{
			"--cacert=" + path.Join(pathClientCA, v.ClientTLS.CADataKey),
			"--cert=" + path.Join(pathClientClient, keyCertificate),
			"--key=" + path.Join(pathClientClient, keyPrivateKey),
			"--insecure-transport=false",
			"--insecure-skip-tls-verify=false",
		}
	}
	args = append(args, "--endpoints="+hostURL(v.ClientTLS, v.Names.LocalHost, v.Ports.Client))
	if v.Components.Network {
		endpoints := []string{hostURL(v.ClientTLS, v.Names.ClientService, v.Ports.Client)}
		if v.Bootstrap != nil {
			endpoints = append(endpoints, v.Bootstrap.ClientEndpoints...)
		}
		args = append(args, "--service-endpoints="+strings.Join(endpoints, ","))
	}

	return args
}

func serverArgs(v Values) []string {
	if v.BackupTLS == nil {
		return nil
	}

	return []string{
		"--server-cert=" + path.Join(pathBackupServer, keyCertificate),
		"--server-key=" + path.Join(pathBackupServer, keyPrivateKey),
	}
}

func heartbeatArgs(v Values) []string {
	if !v.Components.Identity {
		return nil
	}

	return []string{"--enable-member-lease-renewal=true", "--k8s-heartbeat-duration=" + v.Sidecar.HeartbeatDuration}
}

func electionArgs(v Values) []string {
	var args []string
	if v.Sidecar.EnableProfiling {
		args = append(args, "--enable-profiling=true")
	}
	args = appendSet(args, "etcd-connection-timeout-leader-election", v.Sidecar.ElectionConnectionTimeout)

	return appendSet(args, "reelection-period", v.Sidecar.ReelectionPeriod)
}

// appendSet appends a flag if its value is not empty.
func appendSet(args []string, flag, value string) []string {
	if value == "" {
		return args
	}

	return append(args, "--"+flag+"="+value)
}
