// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"context"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// readAdmission records whether the API server admits a pod of the latest template. It does so while such a pod is to replace the pod of a
// healthy member. A dry run creates a pod with the name of the first one. The API server finds that the name exists only after the admission.
func (r *reader) readAdmission(ctx context.Context) {
	outdated, observed := r.observation.HealthyOutdatedPods(), r.observation.StatefulSet
	if r.DryRun == nil || len(outdated) == 0 {
		return
	}
	result, found := r.dryRuns.find(observed.UID, observed.Generation, r.now())
	if !found {
		before := r.pods[slices.IndexFunc(r.pods, func(pod corev1.Pod) bool { return pod.Name == outdated[0].Name })]
		result = admissionOf(r.DryRun.Create(ctx, podOf(r.statefulSet, before.Name), client.DryRunAll), observed.Name, &before)
		r.dryRuns.add(observed.UID, dryRun{version: observed.Generation, result: result, at: r.now()})
	}
	r.observation.Preflights = append(r.observation.Preflights, result)
}

// podOf returns the pod with a name as the StatefulSet controller creates it, as far as an admission may depend on it.
func podOf(set *appsv1.StatefulSet, name string) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.Spec.Hostname, pod.Spec.Subdomain = set.Namespace, name, name, set.Spec.ServiceName
	metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.StatefulSetPodNameLabel, name)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, appsv1.ControllerRevisionHashLabelKey, set.Status.UpdateRevision)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: new(true)}}
	for _, claim := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-" + name},
		}})
	}

	return pod
}

// admissionOf evaluates the error of the dry run. A refusal counts only if it holds after the pod before is deleted. An admission that does not
// respond, and one that the operator may not ask, refuse nothing.
func admissionOf(err error, set string, before *corev1.Pod) etcdcluster.Preflight {
	if err == nil || apierrors.IsAlreadyExists(err) {
		return etcdcluster.Preflight{}
	}
	message := err.Error()
	isRefused := apierrors.IsInvalid(err) || strings.Contains(message, "denied the request") ||
		apierrors.IsForbidden(err) && !strings.Contains(message, "cannot create resource")
	switch {
	case isRefused && isFreedBy(message, before):
		return etcdcluster.Preflight{}
	case isRefused:
		return etcdcluster.Preflight{Refusal: etcdcluster.CreationProblem("StatefulSet", set, message)}
	default:
		return etcdcluster.Preflight{Unknown: "the admission of a pod of the latest template could not be checked: " + message}
	}
}

// exceededQuota matches the message with which the API server refuses an object because of a quota.
var exceededQuota = regexp.MustCompile(`exceeded quota: [^,]+, requested: (\S+), used: (\S+), limited: (\S+)`)

// isFreedBy is true for a refusal because of a quota that has room after the pod is deleted.
func isFreedBy(message string, pod *corev1.Pod) bool {
	match := exceededQuota.FindStringSubmatch(message)
	if match == nil {
		return false
	}
	requested, used, limited := quantitiesIn(match[1]), quantitiesIn(match[2]), quantitiesIn(match[3])
	for name, after := range requested {
		after.Add(used[name])
		after.Sub(usageOf(pod, name))
		if after.Cmp(limited[name]) > 0 {
			return false
		}
	}

	return len(requested) > 0
}

// quantitiesIn parses the resources in the message of a quota, for example pods=1,requests.cpu=500m.
func quantitiesIn(text string) map[string]resource.Quantity {
	quantities := map[string]resource.Quantity{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		if quantity, err := resource.ParseQuantity(value); err == nil {
			quantities[name] = quantity
		}
	}

	return quantities
}

// usageOf returns how much of a resource a quota counts for the pod.
func usageOf(pod *corev1.Pod, name string) resource.Quantity {
	if name == "pods" || name == "count/pods" {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	kind, isLimit := strings.CutPrefix(name, "limits.")
	kind = strings.TrimPrefix(kind, "requests.")
	of := func(container corev1.Container) resource.Quantity {
		if isLimit {
			return container.Resources.Limits[corev1.ResourceName(kind)]
		}

		return container.Resources.Requests[corev1.ResourceName(kind)]
	}
	var usage resource.Quantity
	for _, container := range pod.Spec.Containers {
		usage.Add(of(container))
	}
	for _, container := range pod.Spec.InitContainers {
		if alone := of(container); alone.Cmp(usage) > 0 {
			usage = alone
		}
	}

	return usage
}
