// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
)

const (
	// verificationRetries is the number of retries, since errors of a store can be temporary.
	verificationRetries = 2
	// verificationTTL is the time for which the result is valid, in seconds.
	verificationTTL = 600
	// inspectionTTL is the time for which the result of an inspection is kept, in seconds. As long as the quorum is lost, the operator would
	// repeat an inspection whose Job is gone.
	inspectionTTL = 24 * 3600
	// pathVerified is the directory of the restored database.
	pathVerified = pathWorkspace + "/restored.etcd"
)

// RestoreVerificationJob renders the Job that restores the newest snapshots of the store into a temporary directory. A second
// container inspects the restored database. The Job fails if this restores no data, on which etcd-backup-restore succeeds.
func RestoreVerificationJob(v Values) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64(v.Deadline.Seconds())
	spec := podSpec(v, seconds)
	// It does not call the API server.
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == volumeToken })
	spec.InitContainers = []corev1.Container{restoreContainer(v, v.Store, root)}
	spec.Containers = []corev1.Container{inspectContainer(v, pathVerified, corev1.VolumeMount{Name: volumeWorkspace, MountPath: pathWorkspace, ReadOnly: true})}
	spec.ImagePullSecrets = v.HelperPullSecrets

	return restoreVerification.job(v.Etcd, storeAnnotations(v), restoreVerification.podLabels(v.Etcd), batchv1.JobSpec{
		BackoffLimit: new(int32(verificationRetries)), TTLSecondsAfterFinished: new(int32(verificationTTL)), PodFailurePolicy: ignoreDisruptions(),
	}, spec)
}

// ignoreDisruptions does not count pods that were ended from outside, for example with their node, as failures.
func ignoreDisruptions() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
		Action:          batchv1.PodFailurePolicyActionIgnore,
		OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
	}}}
}

// restoreContainer is the compaction container with the command for the restore only. It restores the store.
func restoreContainer(v Values, store backupstore.Store, root bool) corev1.Container {
	restoring := container(v, root)
	quota := helper.Quota(v.Etcd)
	restoring.Name = "restore"
	restoring.VolumeMounts = slices.DeleteFunc(restoring.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == volumeToken })
	restoring.Args = append([]string{
		"restore",
		"--data-dir=" + pathVerified,
		"--restoration-temp-snapshots-dir=" + pathWorkspace + "/restoration.temp",
		"--snapstore-temp-directory=" + pathWorkspace + "/tmp",
		fmt.Sprintf("--embedded-etcd-quota-bytes=%d", quota.Value()),
	}, append(store.Flags(backupstore.Primary), store.ContainerFlag(backupstore.Primary))...)

	return restoring
}
