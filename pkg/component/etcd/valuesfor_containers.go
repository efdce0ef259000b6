// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

func serverValuesFor(etcd *druidv1alpha1.Etcd, in Input) ServerValues {
	config := etcd.Spec.Etcd
	token := in.InitialClusterToken
	if token == "" {
		token = InitialClusterToken(etcd)
	}

	return ServerValues{
		Image:                   ptr.Deref(config.Image, in.Defaults.ImagesOf(in.EtcdVersion).EtcdWrapper),
		Version:                 in.EtcdVersion,
		Resources:               resourcesOr(config.Resources),
		InitialClusterToken:     token,
		Metrics:                 string(helper.Metrics(etcd)),
		SnapshotCount:           helper.SnapshotCount(etcd),
		EnableGRPCGateway:       ptr.Deref(config.EnableGRPCGateway, false),
		Quota:                   helper.Quota(etcd),
		AutoCompactionMode:      string(helper.AutoCompactionMode(etcd)),
		AutoCompactionRetention: helper.AutoCompactionRetention(etcd),
		MemberNamePrefix:        ptr.Deref(etcd.Spec.MemberNamePrefix, ""),
		FreelistType:            string(ptr.Deref(config.BackendBboltFreelistType, "")),
	}
}

func sidecarValuesFor(etcd *druidv1alpha1.Etcd, images state.Images) SidecarValues {
	backup := etcd.Spec.Backup
	memoryLimit := helper.DeltaSnapshotMemoryLimit(etcd)
	election := ptr.Deref(backup.LeaderElection, druidv1alpha1.LeaderElectionSpec{})

	return SidecarValues{
		Image:                        ptr.Deref(backup.Image, images.BackupRestore),
		Resources:                    resourcesOr(backup.Resources),
		FullSnapshotSchedule:         ptr.Deref(backup.FullSnapshotSchedule, ""),
		DeltaSnapshotPeriod:          durationOrEmpty(backup.DeltaSnapshotPeriod),
		DeltaSnapshotRetentionPeriod: durationOrEmpty(backup.DeltaSnapshotRetentionPeriod),
		DeltaSnapshotMemoryLimit:     memoryLimit.Value(),
		GarbageCollectionPolicy:      string(helper.GarbageCollectionPolicy(etcd)),
		GarbageCollectionPeriod:      durationOrEmpty(backup.GarbageCollectionPeriod),
		MaxBackups:                   helper.MaxBackups(etcd),
		CompressionEnabled:           helper.CompressionEnabled(etcd),
		CompressionPolicy:            string(helper.CompressionPolicy(etcd)),
		SnapshotTimeout:              helper.SnapshotTimeout(etcd).String(),
		DefragmentationSchedule:      defragmentationSchedule(etcd),
		DefragmentationTimeout:       helper.DefragmentationTimeout(etcd).String(),
		HeartbeatDuration:            helper.HeartbeatDuration(etcd).String(),
		TempDir:                      helper.SnapstoreTempDir(etcd),
		EnableProfiling:              ptr.Deref(backup.EnableProfiling, false),
		ElectionConnectionTimeout:    durationOrEmpty(election.EtcdConnectionTimeout),
		ReelectionPeriod:             durationOrEmpty(election.ReelectionPeriod),
	}
}

// neverSchedule is a cron expression that is never due: February has no 30th day. The sidecar has no setting that disables its defragmentations.
const neverSchedule = "0 0 30 2 *"

// defragmentationSchedule is the schedule with which the sidecar of the leader defragments all members, the leader in place. Empty: that of the
// sidecar. It never does so if the operator defragments the members, which it does not for members that it does not manage or observe.
func defragmentationSchedule(etcd *druidv1alpha1.Etcd) string {
	_, isUnobserved := etcd.Annotations[druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation]
	if helper.ManagesPods(etcd) && !isUnobserved {
		return neverSchedule
	}

	return ptr.Deref(etcd.Spec.Etcd.DefragmentationSchedule, "")
}

func durationOrEmpty(duration *metav1.Duration) string {
	if duration == nil {
		return ""
	}

	return duration.Duration.String()
}
