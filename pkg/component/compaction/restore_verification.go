// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

const (
	// rehearsalRetries is how often a rehearsal that failed is tried again: stores fail for a moment.
	rehearsalRetries = 2
	// rehearsalTTL is how long the outcome of a rehearsal says something about the store, in seconds.
	rehearsalTTL = 600
	// pathRehearsed is the restored database.
	pathRehearsed = pathWorkspace + "/rehearsal.etcd"
)

// RestoreVerificationJob renders the Job that restores the newest snapshots of the store into a scratch directory, and fails where that comes to
// nothing. etcd-backup-restore ends well where the store holds no snapshot: a second container looks for the database.
func RestoreVerificationJob(v Values) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64(v.Deadline.Seconds())
	spec := podSpec(v, seconds)
	// It has nothing to say to the API server.
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == volumeToken })
	spec.InitContainers, spec.Containers = []corev1.Container{restoreContainer(v, root)}, []corev1.Container{checkContainer(v, root)}

	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            helper.RestoreVerificationJobName(v.Etcd),
			Namespace:       v.Etcd.Namespace,
			Labels:          restoreVerification.labels(v.Etcd),
			Annotations:     map[string]string{druidv1alpha1.LeaseAnnotationStore: backupstore.RecordFor(v.Store).String()},
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(v.Etcd)},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(rehearsalRetries)),
			ActiveDeadlineSeconds:   new(seconds),
			TTLSecondsAfterFinished: new(int32(rehearsalTTL)),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: restoreVerification.podLabels(v.Etcd), Annotations: podAnnotations(v.Etcd)},
				Spec:       spec,
			},
		},
	}
}

// restoreContainer is that of a compaction, with the command of its first half.
func restoreContainer(v Values, root bool) corev1.Container {
	restoring := container(v, root)
	quota := helper.Quota(v.Etcd)
	restoring.Name = "restore"
	restoring.VolumeMounts = slices.DeleteFunc(restoring.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == volumeToken })
	restoring.Args = append([]string{
		"restore",
		"--data-dir=" + pathRehearsed,
		"--restoration-temp-snapshots-dir=" + pathWorkspace + "/rehearsal.restoration.temp",
		"--snapstore-temp-directory=" + pathWorkspace + "/tmp",
		fmt.Sprintf("--embedded-etcd-quota-bytes=%d", quota.Value()),
	}, append(v.Store.Flags(backupstore.Primary), v.Store.ContainerFlag(backupstore.Primary))...)

	return restoring
}

func checkContainer(v Values, root bool) corev1.Container {
	return corev1.Container{
		Name:            "look",
		Image:           v.InitImage,
		ImagePullPolicy: helper.ImagePullPolicy(v.Etcd),
		Command: []string{"sh", "-c", fmt.Sprintf(
			`test -s %s/member/snap/db || { echo "nothing was restored: the store holds no full snapshot, or the log of container restore of this pod says why it could not be read"; exit 1; }`, pathRehearsed)},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("16Mi"),
		}},
		SecurityContext:          podspec.ContainerSecurityContext(root),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             []corev1.VolumeMount{{Name: volumeWorkspace, MountPath: pathWorkspace, ReadOnly: true}},
	}
}
