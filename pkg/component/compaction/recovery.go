// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"
	"path"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const (
	// pathWork is where etcd-helper copies the database.
	pathWork = "/var/etcd/work"
	// recoveryTTL is the time for which the result is kept, in seconds. The operator deletes the Job before. If it does not run meanwhile, it must still
	// find out whether something was copied.
	recoveryTTL = 7 * 24 * 3600
)

// RecoveryData is the data that a Job copies into the store.
type RecoveryData struct {
	// Claim is the PersistentVolumeClaim of the member. Nil: what the sidecar restores from the store.
	Claim *InspectedClaim
	// MinRevision is the lowest revision with which anything is copied.
	MinRevision int64
	// Bump is by how much the revision is increased, unless it is BumpBelow or higher. 0: it stays.
	Bump, BumpBelow int64
	// Token of the chosen option.
	Token string
}

// RecoveryErrors returns why a snapshot cannot be copied into a store.
func RecoveryErrors(store backupstore.Store) error {
	return backupstore.Copy{Source: recoveryStore(store), Target: store}.Validate(nil, nil).ToAggregate()
}

// RecoveryJob renders the Job of a recovery. Its containers run one after another:
//
//   - restore, without a claim, restores the newest snapshots of the store.
//   - extract creates a full snapshot from the restored database, or from the volume of a stopped member with all entries of its log. It removes
//     alarms, since etcd would reject writes.
//   - upload copies the snapshot into the store.
//
// The Job mounts the volume read-only.
func RecoveryJob(v Values, data RecoveryData) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64(v.Deadline.Seconds())
	transfer := backupstore.Copy{Source: recoveryStore(v.Store), Target: v.Store, Home: podspec.Home(root)}
	spec := podSpec(v, seconds)
	spec.Volumes = recoveryVolumes(v, data, transfer)
	spec.InitContainers = []corev1.Container{extractContainer(v, data)}
	if data.Claim == nil {
		spec.InitContainers = []corev1.Container{recoveryRestoreContainer(v, transfer, root), extractContainer(v, data)}
	}
	spec.Containers = []corev1.Container{uploadContainer(v, transfer, root)}
	spec.ImagePullSecrets = v.HelperPullSecrets
	annotations := storeAnnotations(v)
	annotations[druidv1alpha1.RecoveryTokenAnnotation] = data.Token
	if data.Claim != nil {
		annotations[druidv1alpha1.InspectionClaimUIDAnnotation] = string(data.Claim.UID)
	}

	return recovery.job(v.Etcd, annotations, withoutAPIServer(recovery.podLabels(v.Etcd)), batchv1.JobSpec{
		Suspend: new(true), // the operator resumes it after it has recorded that the Job may copy something
		// The operator repeats the Job. With one pod, it knows whether something may have been copied.
		BackoffLimit:            new(int32(0)),
		TTLSecondsAfterFinished: new(int32(recoveryTTL)),
	}, spec)
}

// recoveryStore is the directory of the pod that contains the snapshot. Its name differs from that of a Local store.
func recoveryStore(store backupstore.Store) backupstore.Store {
	return backupstore.Store{Provider: backupstore.ProviderLocal, Container: store.Container + "-recovery", Prefix: store.Prefix}
}

// recoveryVolumes are those of the pod without the token: no container calls the API server.
func recoveryVolumes(v Values, data RecoveryData, transfer backupstore.Copy) []corev1.Volume {
	mounts := targetMounts(transfer)
	if data.Claim != nil {
		mounts = append([]backupstore.Mount{{Volume: corev1.Volume{
			Name:         helper.VolumeClaimTemplateName(v.Etcd),
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: data.Claim.Name}},
		}}}, mounts...)
	}

	return transferVolumes(v, mounts)
}

// sourceDirectory is where the sidecar reads the snapshot.
func sourceDirectory(transfer backupstore.Copy) string {
	return path.Join(transfer.Home, transfer.Source.Container)
}

// targetMounts are the mounts of a transfer without its source, which is a directory of the pod.
func targetMounts(transfer backupstore.Copy) []backupstore.Mount {
	return slices.DeleteFunc(transfer.Mounts(), func(mount backupstore.Mount) bool { return mount.VolumeMount.MountPath == sourceDirectory(transfer) })
}

// uploadContainer copies the snapshot into the store.
func uploadContainer(v Values, transfer backupstore.Copy, root bool) corev1.Container {
	uploading := container(v, root)
	uploading.Name = "upload"
	uploading.Args = append([]string{"copy", "--max-backups-to-copy=1", "--snapstore-temp-directory=" + pathWorkspace + "/tmp"}, transfer.Flags()...)
	uploading.Env = append(transfer.Environment(), corev1.EnvVar{Name: "HOME", Value: transfer.Home})
	uploading.VolumeMounts = append(recoveryMounts(transfer), corev1.VolumeMount{Name: volumeSnapshots, MountPath: sourceDirectory(transfer)})

	return uploading
}

// recoveryRestoreContainer restores the newest snapshots of the store.
func recoveryRestoreContainer(v Values, transfer backupstore.Copy, root bool) corev1.Container {
	restoring := restoreContainer(v, transfer.Target, root)
	restoring.Env = append(transfer.Target.Environment(backupstore.Primary), corev1.EnvVar{Name: "HOME", Value: transfer.Home})
	restoring.VolumeMounts = recoveryMounts(transfer)

	return restoring
}

// recoveryMounts are the mounts of both containers of the sidecar.
func recoveryMounts(transfer backupstore.Copy) []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: volumeWorkspace, MountPath: pathWorkspace},
		{Name: volumeHome, MountPath: transfer.Home},
		{Name: volumeTmp, MountPath: "/tmp"},
	}
	for _, mount := range targetMounts(transfer) {
		mounts = append(mounts, mount.VolumeMount)
	}

	return mounts
}

// extractContainer creates the full snapshot.
func extractContainer(v Values, data RecoveryData) corev1.Container {
	source, mount := "--database="+pathVerified+"/member/snap/db", corev1.VolumeMount{Name: volumeWorkspace, MountPath: pathWorkspace}
	work := pathWorkspace
	mounts := []corev1.VolumeMount{mount}
	if data.Claim != nil {
		source, work = "--data-dir="+pathMemberData, pathWork
		mounts = []corev1.VolumeMount{
			{Name: helper.VolumeClaimTemplateName(v.Etcd), MountPath: pathWorkspace, ReadOnly: true},
			{Name: volumeWorkspace, MountPath: pathWork},
		}
	}
	flags := []string{
		source,
		"--store-dir=" + path.Join(pathSnapshots, v.Store.Prefix, "v2"),
		"--work-dir=" + work,
		"--clear-alarms",
		fmt.Sprintf("--min-revision=%d", data.MinRevision),
	}
	if data.Bump > 0 {
		flags = append(flags, fmt.Sprintf("--bump=%d", data.Bump), fmt.Sprintf("--bump-below=%d", data.BumpBelow))
	}

	return helperContainer(v, etcdcluster.ExtractContainer, helperCommand("extract", flags...),
		append(mounts, corev1.VolumeMount{Name: volumeSnapshots, MountPath: pathSnapshots})...)
}
