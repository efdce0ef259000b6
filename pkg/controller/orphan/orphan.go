// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package orphan deletes a StatefulSet and keeps its pods. It may not decide whether a StatefulSet is to be deleted.
//
// The propagation policy Orphan alone is not enough. The garbage collector orphans only the pods that its watch has shown to be controlled by
// the StatefulSet. It deletes a pod that the StatefulSet adopted just before, because the owner of that pod does not exist any more. A finalizer
// therefore keeps the StatefulSet until this package has removed the owner references of all its pods. The StatefulSet controller adopts no
// pod while the StatefulSet is being deleted.
package orphan

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Delete deletes the StatefulSet as the caller has read it. It exists until Release. The caller waits until AwaitsRelease before that. Delete can be called again after an interruption. It
// returns a conflict if the StatefulSet has changed since the caller has read it.
func Delete(ctx context.Context, c client.Client, statefulSet *appsv1.StatefulSet) error {
	if statefulSet.DeletionTimestamp == nil && !controllerutil.ContainsFinalizer(statefulSet, druidv1alpha1.ReleasePodsFinalizerName) {
		before := statefulSet.DeepCopy()
		controllerutil.AddFinalizer(statefulSet, druidv1alpha1.ReleasePodsFinalizerName)
		if err := c.Patch(ctx, statefulSet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("adding finalizer %s to StatefulSet %s: %w", druidv1alpha1.ReleasePodsFinalizerName, statefulSet.Name, err)
		}
	}
	preconditions := client.Preconditions{UID: &statefulSet.UID, ResourceVersion: &statefulSet.ResourceVersion}
	if err := c.Delete(ctx, statefulSet, preconditions, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return fmt.Errorf("deleting StatefulSet %s without its pods: %w", statefulSet.Name, err)
	}

	return nil
}

// AwaitsRelease is true if the StatefulSet is being deleted, the garbage collector has orphaned the pods that it knows, and Release is due.
func AwaitsRelease(statefulSet metav1.Object) bool {
	finalizers := statefulSet.GetFinalizers()

	return statefulSet.GetDeletionTimestamp() != nil && slices.Contains(finalizers, druidv1alpha1.ReleasePodsFinalizerName) && !slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
}

// Release removes the owner references of the pods of the StatefulSet, and then the finalizer. The reader must not have a cache. It returns no
// error if the StatefulSet with this UID does not exist any more.
func Release(ctx context.Context, c client.Client, reader client.Reader, statefulSet *appsv1.StatefulSet) error {
	selector, err := metav1.LabelSelectorAsSelector(statefulSet.Spec.Selector)
	if err != nil {
		return fmt.Errorf("selecting the pods of StatefulSet %s: %w", statefulSet.Name, err)
	}
	// The StatefulSet controller checks whether the StatefulSet is being deleted before it adopts a pod. An adoption that began before the deletion
	// can end after the first list.
	for isReleased := false; !isReleased; {
		pods := &corev1.PodList{}
		if err := reader.List(ctx, pods, client.InNamespace(statefulSet.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("listing the pods of StatefulSet %s: %w", statefulSet.Name, err)
		}
		isReleased = true
		for i := range pods.Items {
			released, err := releasePod(ctx, c, &pods.Items[i], statefulSet)
			if err != nil {
				return err
			}
			isReleased = isReleased && !released
		}
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := &appsv1.StatefulSet{}
		if err := reader.Get(ctx, client.ObjectKeyFromObject(statefulSet), live); err != nil || live.UID != statefulSet.UID {
			return client.IgnoreNotFound(err)
		}

		return RemoveFinalizer(ctx, c, live)
	})
	if err != nil {
		return fmt.Errorf("removing finalizer %s from StatefulSet %s: %w", druidv1alpha1.ReleasePodsFinalizerName, statefulSet.Name, err)
	}

	return nil
}

// RemoveFinalizer removes the finalizer from a StatefulSet whose pods need not stay. It returns no error if the StatefulSet does not have it.
func RemoveFinalizer(ctx context.Context, c client.Client, statefulSet client.Object) error {
	before := statefulSet.DeepCopyObject().(client.Object)
	if !controllerutil.RemoveFinalizer(statefulSet, druidv1alpha1.ReleasePodsFinalizerName) {
		return nil
	}

	return client.IgnoreNotFound(c.Patch(ctx, statefulSet, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// releasePod removes the owner reference to the StatefulSet from the pod, and returns whether there was one.
func releasePod(ctx context.Context, c client.Client, pod *corev1.Pod, statefulSet *appsv1.StatefulSet) (bool, error) {
	before := pod.DeepCopy()
	pod.OwnerReferences = slices.DeleteFunc(pod.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == statefulSet.UID })
	if len(pod.OwnerReferences) == len(before.OwnerReferences) {
		return false, nil
	}
	if err := c.Patch(ctx, pod, client.MergeFrom(before)); err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("removing the owner reference of pod %s to StatefulSet %s: %w", pod.Name, statefulSet.Name, err)
	}

	return true, nil
}
