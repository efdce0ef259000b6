// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package compaction renders the Job that compacts the snapshots of one Etcd. The Job restores the newest full snapshot and
// all later delta snapshots into an embedded etcd. It writes the result to the store as a new full snapshot. The Job that
// verifies a restore runs only the first half, inspects the result, and writes nothing. Another Job inspects the volume of a
// member. The Job of a recovery copies its data into the store. The Job of a restore drill compares the snapshots with the live cluster, and with
// what the sidecar restores from them. The Job of a backup inspection makes the data of the snapshots readable for a limited time.
//
// What may not live here: clients, clocks, and the decision when a Job runs.
package compaction

import (
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/podspec"
)

// safeToEvict is an annotation of cluster-autoscaler. Members have it to protect their node from a scale-down. On a Job it
// would keep a node that is not needed otherwise.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// Values are the input of the rendering of a Job.
type Values struct {
	// Etcd is in its canonical form. It is not changed.
	Etcd *druidv1alpha1.Etcd
	// Store is the resolved store.
	Store backupstore.Store
	// Node is the node whose directory contains a Local store: the node of the leader, whose sidecar writes the snapshots.
	// Other stores are reachable from every node. A Job that inspects a volume runs on this node. Empty: any node.
	Node string
	// Image is the image of the container if the Etcd names none.
	Image string
	// HelperImage is the image with etcd-helper. HelperPullSecrets name the Secrets with which it is pulled. Only Jobs that inspect
	// a database need them.
	HelperImage       string
	HelperPullSecrets []corev1.LocalObjectReference
	// Deadline is the maximum duration of the Job.
	Deadline time.Duration
	// MetricsScrapeWait is the time for which the process waits at its end, so that its metrics can be scraped.
	MetricsScrapeWait time.Duration
	// Attempt is the number of the attempt, from 1.
	Attempt int
	// Task is the UID of the EtcdOpsTask that requested the Job. Empty: no task did.
	Task types.UID
	// BaseRevision is the revision of the newest full snapshot. Empty: there is none.
	BaseRevision string
}

// Job renders the compaction Job. Kubernetes does not retry it: whether a retry is useful depends on the changes in the store
// meanwhile.
func Job(v Values) *batchv1.Job {
	return compactor.job(v.Etcd, annotations(v), compactor.podLabels(v.Etcd), batchv1.JobSpec{Completions: new(int32(1)), BackoffLimit: new(int32(0))},
		podSpec(v, int64(v.Deadline.Seconds())))
}

func annotations(v Values) map[string]string {
	annotations := map[string]string{druidv1alpha1.CompactionAttemptAnnotation: strconv.Itoa(v.Attempt)}
	if v.Task != "" {
		annotations[druidv1alpha1.CompactionTaskAnnotation] = string(v.Task)
	}
	if v.BaseRevision != "" {
		annotations[druidv1alpha1.CompactionBaseAnnotation] = v.BaseRevision
	}

	return annotations
}

// kind is a kind of Job for the store of an Etcd.
type kind struct {
	name      func(*druidv1alpha1.Etcd) string
	component string
}

// The admission policies of the chart recognize the pods by the names of the Jobs: see inspection.yaml.
var (
	compactor           = kind{helper.CompactionJobName, druidv1alpha1.ComponentNameSnapshotCompactionJob}
	restoreVerification = kind{helper.RestoreVerificationJobName, druidv1alpha1.ComponentNameRestoreVerificationJob}
	recovery            = kind{helper.RecoveryJobName, druidv1alpha1.ComponentNameRecoveryJob}
	restoreDrill        = kind{helper.RestoreDrillJobName, druidv1alpha1.ComponentNameRestoreDrillJob}
	backupInspection    = kind{helper.BackupInspectionJobName, druidv1alpha1.ComponentNameBackupInspectionJob}
)

// inspection is the kind of the Job that inspects the volume of the member with the ordinal.
func inspection(ordinal int) kind {
	return kind{func(etcd *druidv1alpha1.Etcd) string { return helper.InspectionJobName(etcd, ordinal) }, druidv1alpha1.ComponentNameInspectionJob}
}

// job returns the Job with a pod. Its deadline is that of the pod. The settings lack the deadline and the template.
func (k kind) job(etcd *druidv1alpha1.Etcd, annotations, podLabels map[string]string, settings batchv1.JobSpec, pod corev1.PodSpec) *batchv1.Job {
	settings.ActiveDeadlineSeconds = pod.ActiveDeadlineSeconds
	settings.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: podLabels, Annotations: podAnnotations(etcd)}, Spec: podspec.Literal(pod)}

	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            k.name(etcd),
			Namespace:       etcd.Namespace,
			Labels:          k.labels(etcd),
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(etcd)},
		},
		Spec: settings,
	}
}

// storeAnnotations record from which store a Job restores, or into which it copies.
func storeAnnotations(v Values) map[string]string {
	return map[string]string{druidv1alpha1.LeaseAnnotationStore: backupstore.RecordFor(v.Store).String()}
}

func (k kind) labels(etcd *druidv1alpha1.Etcd) map[string]string {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelAppNameKey] = helper.LabelValue(k.name(etcd))
	labels[druidv1alpha1.LabelComponentKey] = k.component

	return labels
}

// podLabels are the labels of the pod in addition to those of the Job. With them the network policies of Gardener allow access
// to the store and the API server. Only the network labels of the spec are included: with others the scheduler, autoscalers
// and policies would treat the pod as a member.
func (k kind) podLabels(etcd *druidv1alpha1.Etcd) map[string]string {
	all := map[string]string{
		"networking.gardener.cloud/to-dns":               "allowed",
		"networking.gardener.cloud/to-private-networks":  "allowed",
		"networking.gardener.cloud/to-public-networks":   "allowed",
		"networking.gardener.cloud/to-runtime-apiserver": "allowed",
	}
	for key, value := range etcd.Spec.Labels {
		if strings.HasPrefix(key, "networking.") {
			all[key] = value
		}
	}
	for key, value := range k.labels(etcd) {
		all[key] = value
	}

	return all
}

func podAnnotations(etcd *druidv1alpha1.Etcd) map[string]string {
	var annotations map[string]string
	for key, value := range etcd.Spec.Annotations {
		if key == safeToEvict && value == "false" {
			continue
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}

	return annotations
}

func podSpec(v Values, deadlineSeconds int64) corev1.PodSpec {
	root := ptr.Deref(v.Etcd.Spec.RunAsRoot, false)

	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		ActiveDeadlineSeconds:        new(deadlineSeconds),
		ServiceAccountName:           helper.ServiceAccountName(v.Etcd),
		AutomountServiceAccountToken: new(false),
		SecurityContext:              podspec.SecurityContext(root),
		PriorityClassName:            ptr.Deref(v.Etcd.Spec.PriorityClassName, ""),
		Affinity:                     affinity(v),
		Tolerations:                  v.Etcd.Spec.SchedulingConstraints.Tolerations,
		// The operator needs this time to observe why a pod is terminated.
		TerminationGracePeriodSeconds: new(int64(60)),
		Containers:                    []corev1.Container{container(v, root)},
		Volumes:                       volumes(v, root),
	}
}

// affinity returns the node affinity of the spec. Pod affinity and topology spread constraints are omitted. They place members
// relative to each other, and would keep the Job away from every node with a member. For a Local store the affinity also
// requires its node.
func affinity(v Values) *corev1.Affinity {
	var nodes *corev1.NodeAffinity
	if spec := v.Etcd.Spec.SchedulingConstraints.Affinity; spec != nil {
		nodes = spec.NodeAffinity.DeepCopy()
	}
	if v.Store.Provider == backupstore.ProviderLocal && v.Node != "" {
		nodes = onNode(nodes, v.Node)
	}
	if nodes == nil {
		return nil
	}

	return &corev1.Affinity{NodeAffinity: nodes}
}

// onNode adds the requirement of this node to the existing ones.
func onNode(nodes *corev1.NodeAffinity, name string) *corev1.NodeAffinity {
	nodes = new(ptr.Deref(nodes, corev1.NodeAffinity{}))
	required := ptr.Deref(nodes.RequiredDuringSchedulingIgnoredDuringExecution, corev1.NodeSelector{})
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = []corev1.NodeSelectorTerm{{}}
	}
	for i := range required.NodeSelectorTerms {
		required.NodeSelectorTerms[i].MatchFields = append(required.NodeSelectorTerms[i].MatchFields,
			corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}})
	}
	nodes.RequiredDuringSchedulingIgnoredDuringExecution = &required

	return nodes
}
