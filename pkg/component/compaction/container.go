// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// Names of the volumes.
const (
	volumeWorkspace = "etcd-workspace-dir"
	volumeLocal     = "host-storage"
	volumeToken     = "api-access"
	volumeHome      = "home"
	volumeTmp       = "tmp"
)

// pathWorkspace is the directory into which the database is restored.
const pathWorkspace = "/var/etcd/data"

// workspaceQuotas is the number of databases of maximum size for which the workspace has room if the spec sets no limit.
// They are the restored database, the copy of the defragmentation, the snapshots, and the new snapshot.
const workspaceQuotas = 4

func container(v Values, root bool) corev1.Container {
	return corev1.Container{
		Name:            "compact-backup",
		Image:           ptr.Deref(v.Etcd.Spec.Backup.Image, v.Image),
		ImagePullPolicy: helper.ImagePullPolicy(v.Etcd),
		Args:            args(v),
		Env:             environment(v, root),
		Resources:       resources(v.Etcd),
		SecurityContext: podspec.ContainerSecurityContext(root),
		// The end of the log shows why a Job failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             mounts(v, root),
	}
}

func args(v Values) []string {
	quota := helper.Quota(v.Etcd)
	args := []string{
		"compact",
		"--data-dir=" + pathWorkspace + "/compaction.etcd",
		"--restoration-temp-snapshots-dir=" + pathWorkspace + "/compaction.restoration.temp",
		"--snapstore-temp-directory=" + pathWorkspace + "/tmp",
		"--metrics-scrape-wait-duration=" + v.MetricsScrapeWait.String(),
		"--enable-snapshot-lease-renewal=true",
		"--full-snapshot-lease-name=" + helper.FullSnapshotLeaseName(v.Etcd),
		"--delta-snapshot-lease-name=" + helper.DeltaSnapshotLeaseName(v.Etcd),
		fmt.Sprintf("--embedded-etcd-quota-bytes=%d", quota.Value()),
		"--etcd-defrag-timeout=" + helper.DefragmentationTimeout(v.Etcd).String(),
	}
	// Unset, it is 30 minutes, and not 15 as with members: what is compacted has been restored before.
	if timeout := v.Etcd.Spec.Backup.EtcdSnapshotTimeout; timeout != nil {
		args = append(args, "--etcd-snapshot-timeout="+timeout.Duration.String())
	}
	args = append(args, v.Store.Flags(backupstore.Primary)...)

	return append(args, v.Store.ContainerFlag(backupstore.Primary))
}

func environment(v Values, root bool) []corev1.EnvVar {
	environment := []corev1.EnvVar{
		podspec.FieldVariable("POD_NAME", "metadata.name"),
		podspec.FieldVariable("POD_NAMESPACE", "metadata.namespace"),
	}
	environment = append(environment, v.Store.Environment(backupstore.Primary)...)

	return append(environment, corev1.EnvVar{Name: "HOME", Value: podspec.Home(root)})
}

// resources returns the resources in the spec. Default: requests of 600m CPU and 3Gi memory.
func resources(etcd *druidv1alpha1.Etcd) corev1.ResourceRequirements {
	if spec := etcd.Spec.Backup.SnapshotCompaction; spec != nil && spec.Resources != nil {
		return *spec.Resources
	}

	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("600m"),
		corev1.ResourceMemory: resource.MustParse("3Gi"),
	}}
}

// workspaceLimit is the limit of ephemeral storage in the spec. Default: workspaceQuotas databases of maximum size.
func workspaceLimit(etcd *druidv1alpha1.Etcd) resource.Quantity {
	if limit, found := resources(etcd).Limits[corev1.ResourceEphemeralStorage]; found {
		return limit
	}
	quota := helper.Quota(etcd)

	return *resource.NewQuantity(workspaceQuotas*quota.Value(), resource.BinarySI)
}

func volumes(v Values, root bool) []corev1.Volume {
	volumes := []corev1.Volume{
		{Name: volumeWorkspace, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(workspaceLimit(v.Etcd))}}},
	}
	if mount := storeMount(v, root); mount != nil {
		volumes = append(volumes, mount.Volume)
	}

	return append(volumes, podspec.TokenVolume(volumeToken), podspec.ScratchVolume(volumeHome, "16Mi"), podspec.ScratchVolume(volumeTmp, "64Mi"))
}

func mounts(v Values, root bool) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: volumeWorkspace, MountPath: pathWorkspace},
		{Name: volumeHome, MountPath: podspec.Home(root)},
	}
	if mount := storeMount(v, root); mount != nil {
		mounts = append(mounts, mount.VolumeMount)
	}

	return append(mounts,
		corev1.VolumeMount{Name: volumeToken, MountPath: podspec.TokenPath, ReadOnly: true},
		corev1.VolumeMount{Name: volumeTmp, MountPath: "/tmp"},
	)
}

func storeMount(v Values, root bool) *backupstore.Mount {
	names := backupstore.VolumeNames{Credentials: backupstore.VolumeNameCredentials, Local: volumeLocal}

	return v.Store.Mount(backupstore.Primary, names, podspec.Home(root))
}
