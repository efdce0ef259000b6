// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"strings"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// maxSize is the largest supported cluster size, with the extra member of a volume migration. A deletion covers the volume claims up to its ordinals.
const maxSize = 7 + 1

// liveStatefulSet reads the StatefulSet with the name of the Etcd's from the API server. Nil: there is none.
func (r *Reconciler) liveStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd) (*metav1.PartialObjectMetadata, error) {
	set := metadataOf(statefulSetKind)
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.StatefulSetName(etcd)}, set)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", helper.StatefulSetName(etcd), err)
	}
	return set, nil
}

// reclaimStatefulSet makes the Etcd the controller of a StatefulSet that has lost its owner reference. It is the Etcd's if the
// ManagedResource lists it and it has the labels of the Etcd. Without the ManagedResource nothing would show that any more, and the
// StatefulSet would create each pod again that the deletion deletes.
func (r *Reconciler) reclaimStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd, mr *resourcesv1alpha1.ManagedResource) error {
	set, err := r.liveStatefulSet(ctx, etcd)
	if err != nil || set == nil {
		return err
	}
	if metav1.GetControllerOf(set) != nil || !lists(mr, statefulSetKind, set.Name) || !helper.HasLabelsOf(set, etcd) {
		return nil
	}
	before := set.DeepCopy()
	set.OwnerReferences = append(set.OwnerReferences, *metav1.NewControllerRef(etcd, druidv1alpha1.SchemeGroupVersion.WithKind("Etcd")))
	if err := r.Client.Patch(ctx, set, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("restoring the owner reference of StatefulSet %s: %w", set.Name, err)
	}
	r.event(etcd, corev1.EventTypeNormal, "Deleting", "Restored the owner reference of StatefulSet %s, which is to be deleted with the Etcd", set.Name)
	return nil
}

// deletePods deletes the pods that the StatefulSet of the Etcd has left. It spares those of a StatefulSet of others.
func (r *Reconciler) deletePods(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	labels := helper.DefaultLabels(etcd)
	labels[druidv1alpha1.LabelComponentKey] = druidv1alpha1.ComponentNameStatefulSet
	pods := &corev1.PodList{}
	if err := r.Reader.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels(labels)); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("listing pods: %w", err))
	}
	foreign, err := r.foreignStatefulSet(ctx, etcd)
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
	}
	var names, keptPods []string
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case !isMemberPod(pod, etcd):
		case foreign != nil && metav1.IsControlledBy(pod, foreign):
			keptPods = append(keptPods, pod.Name)
		default:
			names = append(names, pod.Name)
			// Only pods that were orphaned are not on their way already.
			if err := r.deleteObject(ctx, pod); err != nil {
				return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
			}
		}
	}
	if len(names) == 0 && len(keptPods) > 0 {
		r.event(etcd, corev1.EventTypeWarning, "PodsKept", "Pods %s are kept, because StatefulSet %s controls them and does not belong to this Etcd: delete it if nothing needs it", strings.Join(keptPods, ", "), foreign.Name)
	}
	return gone("pods", names)
}

// foreignStatefulSet returns the StatefulSet that has the name of the Etcd's and belongs to others. Nil: there is none.
func (r *Reconciler) foreignStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd) (*metav1.PartialObjectMetadata, error) {
	set, err := r.liveStatefulSet(ctx, etcd)
	if err != nil || set == nil || helper.IsManagedFor(set, etcd) {
		return nil, err
	}
	return set, nil
}

// isMemberPod is true for a pod of the Etcd's StatefulSet, and for one that was orphaned when the StatefulSet was recreated. Its labels
// alone prove nothing: any user can set them.
func isMemberPod(pod *corev1.Pod, etcd *druidv1alpha1.Etcd) bool {
	owner := metav1.GetControllerOf(pod)
	return strings.HasPrefix(pod.Name, helper.StatefulSetName(etcd)+"-") &&
		(owner == nil || owner.Kind == statefulSetKind.Kind && owner.Name == helper.StatefulSetName(etcd))
}

// deleteClaims deletes the volume claims that have both the exact names of the members' claims and the labels of this Etcd. It
// considers all members up to the largest size, since the cluster may have been larger before. It deletes none if a StatefulSet of
// another owner has the name of the Etcd's, because that StatefulSet uses claims of the same names.
func (r *Reconciler) deleteClaims(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	if !helper.DeletesClaims(etcd) {
		return nil
	}
	foreign, err := r.foreignStatefulSet(ctx, etcd)
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeletePersistentVolumeClaim, err)
	}
	if foreign != nil {
		r.event(etcd, corev1.EventTypeWarning, "VolumesKept", "PersistentVolumeClaims are kept, because StatefulSet %s does not belong to this Etcd and uses claims of the same names: delete them if nothing needs them", foreign.Name)
		return nil
	}
	var names, keptClaims []string
	for ordinal := range min(max(maxSize, int(etcd.Spec.Replicas)), helper.MaxMembers) {
		claim, err := r.liveClaim(ctx, etcd, ordinal)
		switch {
		case err != nil:
			return plan.Failed(druidv1alpha1.ErrorCodeDeletePersistentVolumeClaim, err)
		case claim == nil:
		case !helper.IsClaimOf(claim, etcd):
			keptClaims = append(keptClaims, claim.Name)
		default:
			names = append(names, claim.Name)
			if claim.DeletionTimestamp == nil {
				r.event(etcd, corev1.EventTypeNormal, "Deleting", "Deleting PersistentVolumeClaim %s because of spec.pvcRetentionPolicy", claim.Name)
			}
			if err := r.deleteObject(ctx, claim); err != nil {
				return plan.Failed(druidv1alpha1.ErrorCodeDeletePersistentVolumeClaim, err)
			}
		}
	}
	if len(names) == 0 && len(keptClaims) > 0 {
		r.event(etcd, corev1.EventTypeWarning, "VolumesKept", "PersistentVolumeClaims %s are kept, because they do not have the labels of this Etcd: delete them if nothing needs them", strings.Join(keptClaims, ", "))
	}
	return gone("volume claims", names)
}

// liveClaim reads the volume claim of a member from the API server. Nil: there is none.
func (r *Reconciler) liveClaim(ctx context.Context, etcd *druidv1alpha1.Etcd, ordinal int) (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ClaimName(etcd, ordinal)}, claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return claim, nil
}
