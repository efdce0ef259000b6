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
	// verificationRetries is the number of retries, since errors of a store can be temporary.
	verificationRetries = 2
	// verificationTTL is the time for which the result is valid, in seconds.
	verificationTTL = 600
	// pathVerified is the directory of the restored database.
	pathVerified = pathWorkspace + "/restored.etcd"
)

// RestoreVerificationJob renders the Job that restores the newest snapshots of the store into a temporary directory. The Job
// fails if this restores no data. etcd-backup-restore succeeds on a store without snapshots, so that a second container checks
// the database.
func RestoreVerificationJob(v Values) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64(v.Deadline.Seconds())
	spec := podSpec(v, seconds)
	// It does not call the API server.
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
			BackoffLimit:            new(int32(verificationRetries)),
			ActiveDeadlineSeconds:   new(seconds),
			TTLSecondsAfterFinished: new(int32(verificationTTL)),
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

// restoreContainer is the compaction container with the command for the restore only.
func restoreContainer(v Values, root bool) corev1.Container {
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
	}, append(v.Store.Flags(backupstore.Primary), v.Store.ContainerFlag(backupstore.Primary))...)

	return restoring
}

func checkContainer(v Values, root bool) corev1.Container {
	return corev1.Container{
		Name:            "check",
		Image:           v.InitImage,
		ImagePullPolicy: helper.ImagePullPolicy(v.Etcd),
		Command: []string{"sh", "-c", fmt.Sprintf(
			`test -s %s/member/snap/db || { echo "nothing was restored: the store holds no full snapshot, or the log of container restore of this pod says why it could not be read"; exit 1; }`, pathVerified)},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("10m"),
			corev1.ResourceMemory: resource.MustParse("16Mi"),
		}},
		SecurityContext:          podspec.ContainerSecurityContext(root),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             []corev1.VolumeMount{{Name: volumeWorkspace, MountPath: pathWorkspace, ReadOnly: true}},
	}
}
