// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

const (
	// pathMemberData is the data directory of etcd in the volume of a member, with the mount path of the member.
	pathMemberData = pathWorkspace + "/new.etcd"
	// helperLockTimeout is how long etcd-helper waits while another process has opened the database.
	helperLockTimeout = "30s"
)

// InspectedClaim is the PersistentVolumeClaim whose volume a Job inspects.
type InspectedClaim struct {
	// Name and UID of the claim.
	Name string
	UID  types.UID
	// Ordinal of the member that uses it.
	Ordinal int
}

// InspectionJob renders the Job that inspects the database in the volume of a member. It mounts the volume read-only, as the user of the
// member. It needs neither the network nor the API server. The pod of the member may exist: the Job fails if etcd has opened the database.
func InspectionJob(v Values, claim InspectedClaim) *batchv1.Job {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)
	seconds := int64(etcdcluster.InspectionDeadline.Seconds())
	kind := inspection(claim.Ordinal)

	return kind.job(v.Etcd, map[string]string{druidv1alpha1.InspectionClaimUIDAnnotation: string(claim.UID)}, inspectionPodLabels(kind, v.Etcd), batchv1.JobSpec{
		BackoffLimit: new(int32(verificationRetries)), TTLSecondsAfterFinished: new(int32(inspectionTTL)), PodFailurePolicy: inspectionFailurePolicy(),
	}, corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		ActiveDeadlineSeconds:         new(seconds),
		ServiceAccountName:            helper.ServiceAccountName(v.Etcd),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		SecurityContext:               podspec.SecurityContext(root),
		ImagePullSecrets:              v.HelperPullSecrets,
		PriorityClassName:             ptr.Deref(v.Etcd.Spec.PriorityClassName, ""),
		Affinity:                      inspectionAffinity(v),
		Tolerations:                   v.Etcd.Spec.SchedulingConstraints.Tolerations,
		TerminationGracePeriodSeconds: new(int64(0)), // it writes nothing
		Containers: []corev1.Container{
			inspectContainer(v, pathMemberData, corev1.VolumeMount{Name: helper.VolumeClaimTemplateName(v.Etcd), MountPath: pathWorkspace, ReadOnly: true}),
		},
		Volumes: []corev1.Volume{{
			Name:         helper.VolumeClaimTemplateName(v.Etcd),
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}},
		}},
	})
}

// inspectionFailurePolicy makes the Job fail at once if the volume contains no database or no files, or a corrupt database: another pod finds
// the same.
func inspectionFailurePolicy() *batchv1.PodFailurePolicy {
	policy := ignoreDisruptions()
	policy.Rules = append(policy.Rules, failJob(etcdcluster.InspectionContainer, etcdcluster.ExitNoDatabase, etcdcluster.ExitCorrupt, etcdcluster.ExitNoFiles))

	return policy
}

// failJob makes the Job fail at once if a container exits with one of the codes.
func failJob(container string, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{
		Action: batchv1.PodFailurePolicyActionFailJob,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			ContainerName: new(container),
			Operator:      batchv1.PodFailurePolicyOnExitCodesOpIn,
			Values:        codes,
		},
	}
}

// inspectionPodLabels are the labels of the Job without those with which network policies allow access: the pod needs none.
func inspectionPodLabels(kind kind, etcd *druidv1alpha1.Etcd) map[string]string {
	labels := kind.labels(etcd)
	for key := range labels {
		if strings.HasPrefix(key, "networking.") {
			delete(labels, key)
		}
	}

	return labels
}

// inspectionAffinity returns the node affinity of the spec, and the node. A volume that is attached to the node of the member's pod cannot
// be used on another one.
func inspectionAffinity(v Values) *corev1.Affinity {
	v.Store.Provider = ""
	affinity := affinity(v)
	if v.Node == "" {
		return affinity
	}

	return &corev1.Affinity{NodeAffinity: onNode(ptr.Deref(affinity, corev1.Affinity{}).NodeAffinity, v.Node)}
}

// helperCommand is a command of etcd-helper that writes its result to the termination message.
func helperCommand(name string, flags ...string) []string {
	return slices.Concat([]string{etcdcluster.HelperPath, name}, flags, []string{"--timeout=" + helperLockTimeout, "--termination-message-path=" + corev1.TerminationMessagePathDefault})
}

// inspectContainer is the container that inspects the database in a data directory of etcd.
func inspectContainer(v Values, dataDir string, mount corev1.VolumeMount) corev1.Container {
	return helperContainer(v, etcdcluster.InspectionContainer, helperCommand("inspect", "--data-dir="+dataDir), mount)
}

// helperContainer is a container that runs etcd-helper.
func helperContainer(v Values, name string, command []string, mounts ...corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name:                     name,
		Image:                    v.HelperImage,
		ImagePullPolicy:          helper.ImagePullPolicy(v.Etcd),
		Command:                  command,
		Resources:                helperResources(),
		SecurityContext:          podspec.ContainerSecurityContext(ptr.Deref(v.Etcd.Spec.RunAsRoot, false)),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             mounts,
	}
}

// helperResources are the requests of etcd-helper. The index of the keys is in memory, as in etcd.
func helperResources() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("100m"),
		corev1.ResourceMemory: resource.MustParse("128Mi"),
	}}
}
