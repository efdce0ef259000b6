// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"fmt"
	"maps"
	"path"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// AnnotationGeneration is the key of an annotation on the Job. Its value is the generation of the task for which the Job was
// created. etcd-druid creates Jobs without it.
const AnnotationGeneration = "etcd-druid.extensions.gardener.cloud/generation"

const (
	// retries is the number of retries of a copy that failed.
	retries       = 6
	containerName = "copy-backups"
	volumeScratch = "scratch"
)

// Values are the input of the rendering of the Job.
type Values struct {
	// Task is the task. It is not changed.
	Task *druidv1alpha1.EtcdCopyBackupsTask
	// Source and Target are the stores of the task.
	Source, Target backupstore.Store
	// Image is the image of etcd-backup-restore. InitImage is the image of the init container for a Local store.
	Image, InitImage string
}

// JobName is the name of the Job of a task.
func JobName(task *druidv1alpha1.EtcdCopyBackupsTask) string { return task.Name + "-worker" }

// Labels select the Job of a task and its pods.
func Labels(task *druidv1alpha1.EtcdCopyBackupsTask) map[string]string {
	return map[string]string{
		druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameCopyBackupsJob,
		druidv1alpha1.LabelPartOfKey:    task.Name,
		druidv1alpha1.LabelManagedByKey: druidv1alpha1.LabelManagedByValue,
		druidv1alpha1.LabelAppNameKey:   JobName(task),
	}
}

// copyOf returns how the container copies the snapshots.
func (v Values) copyOf() backupstore.Copy {
	return backupstore.Copy{Source: v.Source, Target: v.Target, Home: podspec.Home(false)}
}

// Job renders the Job of the task. A pod that failed stays, with its log, and the Job starts another one. A disruption of the
// pod does not count as a failure.
func Job(v Values) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        JobName(v.Task),
			Namespace:   v.Task.Namespace,
			Labels:      Labels(v.Task),
			Annotations: map[string]string{AnnotationGeneration: strconv.FormatInt(v.Task.Generation, 10)},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(v.Task, druidv1alpha1.SchemeGroupVersion.WithKind("EtcdCopyBackupsTask")),
			},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(retries)),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: podTemplate(v),
		},
	}
}

func podTemplate(v Values) corev1.PodTemplateSpec {
	labels := map[string]string{}
	maps.Copy(labels, v.Task.Spec.PodLabels)
	maps.Copy(labels, Labels(v.Task)) // the operator and network policies select these labels

	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: podspec.Literal(corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: new(false),
			SecurityContext:              podspec.SecurityContext(false),
			InitContainers:               initContainers(v),
			Containers:                   []corev1.Container{container(v)},
			Volumes:                      volumes(v),
		}),
	}
}

// temporaryDirectory is the directory for snapshots during the copy. A snapshot can be as large as the database.
func temporaryDirectory() string { return path.Join(podspec.Home(false), "data", "tmp") }

func container(v Values) corev1.Container {
	mounts := []corev1.VolumeMount{{Name: volumeScratch, MountPath: temporaryDirectory()}}
	for _, mount := range v.copyOf().Mounts() {
		mounts = append(mounts, mount.VolumeMount)
	}

	return corev1.Container{
		Name:            containerName,
		Image:           v.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            args(v),
		Env:             append(v.copyOf().Environment(), corev1.EnvVar{Name: "HOME", Value: podspec.Home(false)}),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("20m"),
			corev1.ResourceMemory: resource.MustParse("128Mi"),
		}},
		SecurityContext: podspec.ContainerSecurityContext(false),
		VolumeMounts:    mounts,
		// The status of the pod then contains the end of the log, which shows why it failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func args(v Values) []string {
	args := append([]string{"copy", "--snapstore-temp-directory=" + temporaryDirectory()}, v.copyOf().Flags()...)
	if age := v.Task.Spec.MaxBackupAge; age != nil {
		args = append(args, fmt.Sprintf("--max-backup-age=%d", *age))
	}
	if count := v.Task.Spec.MaxBackups; count != nil {
		args = append(args, fmt.Sprintf("--max-backups-to-copy=%d", *count))
	}
	if wait := v.Task.Spec.WaitForFinalSnapshot; wait != nil && wait.Enabled {
		args = append(args, "--wait-for-final-snapshot=true")
		if wait.Timeout != nil && wait.Timeout.Duration > 0 {
			args = append(args, "--wait-for-final-snapshot-timeout="+wait.Timeout.Duration.String())
		}
	}

	return args
}

func volumes(v Values) []corev1.Volume {
	volumes := []corev1.Volume{{Name: volumeScratch, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for _, mount := range v.copyOf().Mounts() {
		volumes = append(volumes, mount.Volume)
	}

	return volumes
}

// initContainers prepare the folders of Local stores, since Kubernetes does not change the owner of a folder on the node. The
// source is only read and keeps its owner.
func initContainers(v Values) []corev1.Container {
	var folders []podspec.LocalFolder
	for _, mount := range v.copyOf().Mounts() {
		if source := mount.Volume.HostPath; source != nil {
			isTarget := mount.VolumeMount.MountPath == v.copyOf().TargetDirectory()
			folders = append(folders, podspec.LocalFolder{Mount: mount.VolumeMount, Name: path.Base(source.Path), ChangeOwner: isTarget})
		}
	}
	if len(folders) == 0 {
		return nil
	}

	return []corev1.Container{podspec.LocalStoreContainer(v.InitImage, corev1.PullIfNotPresent, folders...)}
}
