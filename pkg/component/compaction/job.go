// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package compaction renders the Job that compacts the snapshots of one Etcd: it restores the newest full snapshot and all
// delta snapshots since then into an etcd of its own, and writes the result to the store as a new full snapshot. Its first half alone,
// which writes nothing, is the Job that rehearses a restore.
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

// safeToEvict is an annotation of cluster-autoscaler. Members carry it so that their node is not drained; for a Job it would
// keep a node that nothing else needs.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// Values are what a Job is rendered from.
type Values struct {
	// Etcd in its canonical form. It is not changed.
	Etcd *druidv1alpha1.Etcd
	// Store is the resolved store.
	Store backupstore.Store
	// Node is the node of which a Local store is a directory: the one on which the leader runs, whose sidecar writes the
	// snapshots. Every other store is reached from everywhere. Empty: any.
	Node string
	// Image is the image of the container where the Etcd names none.
	Image string
	// InitImage is an image with a shell. Only a rehearsal needs it.
	InitImage string
	// Deadline is how long the Job may take.
	Deadline time.Duration
	// MetricsScrapeWait is how long the process waits at its end for its metrics to be read.
	MetricsScrapeWait time.Duration
	// Attempt is the number of the attempt, from 1.
	Attempt int
	// Task is the UID of the EtcdOpsTask that asked for the Job. Empty: none did.
	Task types.UID
	// BaseRevision is the revision of the full snapshot that there is. Empty: there is none.
	BaseRevision string
}

// Job renders the Job. It runs once and is not repeated by Kubernetes: whether it is worth repeating depends on what has
// happened to the store meanwhile.
func Job(v Values) *batchv1.Job {
	seconds := int64(v.Deadline.Seconds())

	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            helper.CompactionJobName(v.Etcd),
			Namespace:       v.Etcd.Namespace,
			Labels:          compactor.labels(v.Etcd),
			Annotations:     annotations(v),
			OwnerReferences: []metav1.OwnerReference{helper.OwnerReference(v.Etcd)},
		},
		Spec: batchv1.JobSpec{
			Completions:           new(int32(1)),
			BackoffLimit:          new(int32(0)),
			ActiveDeadlineSeconds: new(seconds),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: compactor.podLabels(v.Etcd), Annotations: podAnnotations(v.Etcd)},
				Spec:       podSpec(v, seconds),
			},
		},
	}
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

// kind is a kind of Job on the store of an Etcd.
type kind struct {
	name      func(*druidv1alpha1.Etcd) string
	component string
}

var (
	compactor           = kind{helper.CompactionJobName, druidv1alpha1.ComponentNameSnapshotCompactionJob}
	restoreVerification = kind{helper.RestoreVerificationJobName, druidv1alpha1.ComponentNameRehearsalJob}
)

func (k kind) labels(etcd *druidv1alpha1.Etcd) map[string]string {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelAppNameKey] = k.name(etcd)
	labels[druidv1alpha1.LabelComponentKey] = k.component

	return labels
}

// podLabels are, beside those of the Job, the labels by which Gardener's network policies let the pod reach the store and the
// API server. Of the spec's labels only those about networks are taken: others make a pod look like a member to the
// scheduler, to autoscalers and to policies.
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
		// Long enough for the operator to see why a pod is ended before it is gone.
		TerminationGracePeriodSeconds: new(int64(60)),
		Containers:                    []corev1.Container{container(v, root)},
		Volumes:                       volumes(v, root),
	}
}

// affinity takes over the nodes that the spec allows. What it says about other pods, and topology spread constraints, place
// members relative to each other: they would keep the Job away from every node with a member. A Local store, however, is a
// directory of one node.
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

// onNode demands this node beside what is demanded already.
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
