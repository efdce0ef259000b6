// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const (
	volumeSnapshots = "snapshots"
	// pathSnapshots is where etcd-helper reads the copied snapshots. pathReplayed is the database that it creates from them.
	pathSnapshots = "/var/etcd/snapshots"
	pathReplayed  = pathWorkspace + "/replayed.db"
	// drillSets is the number of full snapshots that are copied, with their delta snapshots. etcd-helper needs the second one if a compaction of
	// the store created the newest one.
	drillSets = 2
	// drillTTL is the time for which the result is kept, in seconds.
	drillTTL = 600
)

// LiveHash is what HashKV of a member returned.
type LiveHash struct {
	// Revision is that of the hash. CompactRevision is the revision to which the member was compacted then. 0: it never was.
	Revision, CompactRevision int64
	// Hash of the key-value pairs.
	Hash uint32
}

// DrillErrors returns why the snapshots of a store cannot be copied for a restore drill. The field is that of the store.
func DrillErrors(store backupstore.Store, fieldPath *field.Path) field.ErrorList {
	return backupstore.Copy{Source: store, Target: drillStore(store)}.Validate(fieldPath, fieldPath)
}

// RestoreDrillJob renders the Job of a restore drill. Its containers run one after another:
//
//   - fetch copies the newest snapshots into a directory of the pod. The next containers read only this directory, since the store changes.
//   - replay replays the snapshots without an etcd, and compares the hash with that of the live cluster. It runs before the restore, which does
//     not distinguish its errors.
//   - restore restores the snapshots as a member does.
//   - inspect compares the restored database with the replayed one.
//
// The Job changes neither the store nor the cluster.
func RestoreDrillJob(v Values, live LiveHash) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64(v.Deadline.Seconds())
	transfer := backupstore.Copy{Source: v.Store, Target: drillStore(v.Store), Home: podspec.Home(root)}
	spec := podSpec(v, seconds)
	spec.Volumes = drillVolumes(v, transfer)
	spec.InitContainers = []corev1.Container{fetchContainer(v, transfer, root, drillSets), replayContainer(v, live), drillRestoreContainer(v, transfer, root)}
	spec.Containers = []corev1.Container{compareContainer(v)}
	spec.ImagePullSecrets = v.HelperPullSecrets

	return restoreDrill.job(v.Etcd, storeAnnotations(v), withoutAPIServer(restoreDrill.podLabels(v.Etcd)), batchv1.JobSpec{
		BackoffLimit: new(int32(verificationRetries)), TTLSecondsAfterFinished: new(int32(drillTTL)), PodFailurePolicy: drillFailurePolicy(),
	}, spec)
}

// withoutAPIServer returns the labels of a pod without the one with which network policies allow access to the API server.
func withoutAPIServer(labels map[string]string) map[string]string {
	delete(labels, "networking.gardener.cloud/to-runtime-apiserver")

	return labels
}

// drillStore is the directory of the pod to which the snapshots are copied. Its name differs from that of a Local store.
func drillStore(store backupstore.Store) backupstore.Store {
	return backupstore.Store{Provider: backupstore.ProviderLocal, Container: store.Container + "-drill", Prefix: store.Prefix}
}

// drillFailurePolicy makes the Job fail at once if another pod would find the same. Snapshots can be deleted while they are copied. Missing
// snapshots are therefore no reason. A store never returns a part of a snapshot, so that a damaged one is.
func drillFailurePolicy() *batchv1.PodFailurePolicy {
	policy := ignoreDisruptions()
	policy.Rules = append(policy.Rules,
		failJob(etcdcluster.ReplayContainer, etcdcluster.ExitCorrupt, etcdcluster.ExitDamaged, etcdcluster.ExitOverlap, etcdcluster.ExitHistory, etcdcluster.ExitHashDiffers),
		failJob(etcdcluster.InspectionContainer, etcdcluster.ExitRestoreDiffers),
	)

	return policy
}

// drillVolumes are those of the pod without the token: no container calls the API server.
func drillVolumes(v Values, transfer backupstore.Copy) []corev1.Volume {
	return transferVolumes(v, sourceMounts(transfer))
}

// transferVolumes are the volumes of a pod that copies snapshots from or to a directory of its own, with those of the mounts.
func transferVolumes(v Values, mounts []backupstore.Mount) []corev1.Volume {
	volumes := []corev1.Volume{
		{Name: volumeWorkspace, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(workspaceLimit(v.Etcd))}}},
		{Name: volumeSnapshots, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(workspaceLimit(v.Etcd))}}},
	}
	for _, mount := range mounts {
		volumes = append(volumes, mount.Volume)
	}

	return append(volumes, podspec.ScratchVolume(volumeHome, "16Mi"), podspec.ScratchVolume(volumeTmp, "64Mi"))
}

// sourceMounts are the mounts of a transfer without its target, which is a directory of the pod.
func sourceMounts(transfer backupstore.Copy) []backupstore.Mount {
	return slices.DeleteFunc(transfer.Mounts(), func(mount backupstore.Mount) bool { return mount.VolumeMount.MountPath == transfer.TargetDirectory() })
}

// sidecarMounts are the mounts of both containers of the sidecar.
func sidecarMounts(transfer backupstore.Copy) []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: volumeWorkspace, MountPath: pathWorkspace},
		{Name: volumeHome, MountPath: transfer.Home},
		{Name: volumeSnapshots, MountPath: transfer.TargetDirectory()},
		{Name: volumeTmp, MountPath: "/tmp"},
	}
}

// fetchContainer copies the newest sets of snapshots. -1: all.
func fetchContainer(v Values, transfer backupstore.Copy, root bool, sets int) corev1.Container {
	fetching := container(v, root)
	fetching.Name = "fetch"
	fetching.Args = append([]string{
		"copy",
		fmt.Sprintf("--max-backups-to-copy=%d", sets),
		"--snapstore-temp-directory=" + pathWorkspace + "/tmp",
	}, transfer.Flags()...)
	fetching.Env = append(transfer.Environment(), corev1.EnvVar{Name: "HOME", Value: transfer.Home})
	fetching.VolumeMounts = sidecarMounts(transfer)
	for _, mount := range sourceMounts(transfer) {
		fetching.VolumeMounts = append(fetching.VolumeMounts, mount.VolumeMount)
	}

	return fetching
}

// drillRestoreContainer restores the copied snapshots.
func drillRestoreContainer(v Values, transfer backupstore.Copy, root bool) corev1.Container {
	restoring := restoreContainer(v, transfer.Target, root)
	restoring.Env = append(transfer.Target.Environment(backupstore.Primary), corev1.EnvVar{Name: "HOME", Value: transfer.Home})
	restoring.VolumeMounts = sidecarMounts(transfer)

	return restoring
}

// replayContainer replays the copied snapshots, and compares the hash.
func replayContainer(v Values, live LiveHash) corev1.Container {
	return helperContainer(v, etcdcluster.ReplayContainer,
		helperCommand("replay",
			"--snapshots="+pathSnapshots,
			"--output="+pathReplayed,
			fmt.Sprintf("--live-revision=%d", live.Revision),
			fmt.Sprintf("--live-compact-revision=%d", live.CompactRevision),
			fmt.Sprintf("--live-hash=%d", live.Hash),
		),
		corev1.VolumeMount{Name: volumeWorkspace, MountPath: pathWorkspace},
		corev1.VolumeMount{Name: volumeSnapshots, MountPath: pathSnapshots, ReadOnly: true},
	)
}

// compareContainer compares the restored database with the replayed one.
func compareContainer(v Values) corev1.Container {
	return helperContainer(v, etcdcluster.InspectionContainer, helperCommand("compare", "--database="+pathReplayed, "--restored="+pathVerified),
		corev1.VolumeMount{Name: volumeWorkspace, MountPath: pathWorkspace, ReadOnly: true})
}
