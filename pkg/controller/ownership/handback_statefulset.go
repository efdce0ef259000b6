// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/orphan"
)

const (
	// managedByLabel is the label that gardener-resource-manager adds to objects, and to the volumeClaimTemplates of a StatefulSet.
	managedByLabel = "resources.gardener.cloud/managed-by"
	// orphanTimeout limits the time in which the garbage collector releases the pods of a StatefulSet.
	orphanTimeout = time.Minute
	// maxReplacements limits the attempts to replace a StatefulSet in one round.
	maxReplacements = 3
)

// errCreatedAgain means that gardener-resource-manager was faster than this operator.
var errCreatedAgain = errors.New("gardener-resource-manager has created it again")

// ensureClaimTemplates removes the label of gardener-resource-manager from the volumeClaimTemplates of the StatefulSet. They are immutable, and
// etcd-druid renders them without the label. The API server would reject each update by etcd-druid. Therefore it replaces the StatefulSet
// without its pods. The StatefulSet of an adopted Etcd has no such label and stays.
//
// The ManagedResource must still exist. If this process stops before it creates the StatefulSet, awaitStatefulSet requests
// gardener-resource-manager to create it. gardener-resource-manager may also do so by itself: it applies a ManagedResource that becomes
// unhealthy.
func (g *HandBack) ensureClaimTemplates(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	for attempt := 1; ; attempt++ {
		if err := g.replaceLabeledStatefulSet(ctx, etcd); attempt == maxReplacements || !errors.Is(err, errCreatedAgain) {
			return err
		}
	}
}

// awaitStatefulSet returns an error while the StatefulSet is missing, and requests gardener-resource-manager to create it. By itself,
// gardener-resource-manager applies a ManagedResource that stays unhealthy only after its sync period of an hour. Meanwhile no controller would
// replace a lost pod.
func (g *HandBack) awaitStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	key := client.ObjectKey{Namespace: etcd.Namespace, Name: helper.StatefulSetName(etcd)}
	if err := g.Client.Get(ctx, key, &appsv1.StatefulSet{}); err == nil {
		return nil
	} else if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading StatefulSet %s: %w", key.Name, err)
	}
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := g.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}
	if mr.Annotations[v1beta1constants.GardenerOperation] != v1beta1constants.GardenerOperationReconcile {
		before := mr.DeepCopy()
		metav1.SetMetaDataAnnotation(&mr.ObjectMeta, v1beta1constants.GardenerOperation, v1beta1constants.GardenerOperationReconcile)
		if err := g.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("requesting ManagedResource %s to be applied: %w", mr.Name, err)
		}
	}

	return fmt.Errorf("waiting for StatefulSet %s to be created", key.Name)
}

// replaceLabeledStatefulSet replaces the StatefulSet without its pods if its volumeClaimTemplates have the label.
func (g *HandBack) replaceLabeledStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	live := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: helper.StatefulSetName(etcd)}}
	if err := g.Client.Get(ctx, client.ObjectKeyFromObject(live), live); apierrors.IsNotFound(err) {
		return g.awaitStatefulSet(ctx, etcd)
	} else if err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", live.Name, err)
	}
	replacement := withoutManagedByLabel(live)
	if replacement == nil {
		return orphan.RemoveFinalizer(ctx, g.Client, live)
	}
	if err := g.Client.Create(ctx, replacement.DeepCopy(), client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("StatefulSet %s could not be created again: %w", live.Name, err)
	}
	if err := orphan.Delete(ctx, g.Client, live); err != nil {
		return err
	}
	g.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "RecreatingStatefulSet", "HandBack", "Replacing StatefulSet %s without its pods: etcd-druid could not update it, because gardener-resource-manager has labeled its volumeClaimTemplates", live.Name)
	// The garbage collector removes its finalizer first. The StatefulSet is then gone as soon as its pods are released, and
	// gardener-resource-manager has hardly any time to create it.
	isOrphaned := func(ctx context.Context) (bool, error) {
		current := &appsv1.StatefulSet{}
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(live), current)
		if err == nil && current.UID != live.UID {
			return false, errCreatedAgain
		}

		return !slices.Contains(current.Finalizers, metav1.FinalizerOrphanDependents), client.IgnoreNotFound(err)
	}
	if err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, orphanTimeout, true, isOrphaned); err != nil {
		return fmt.Errorf("waiting for StatefulSet %s to release its pods: %w", live.Name, err)
	}
	if err := orphan.Release(ctx, g.Client, g.Client, live); err != nil {
		return err
	}
	if err := g.Client.Create(ctx, replacement); apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating StatefulSet %s: %w", live.Name, errCreatedAgain)
	} else if err != nil {
		return fmt.Errorf("creating StatefulSet %s: %w", live.Name, err)
	}

	return nil
}

// withoutManagedByLabel returns the StatefulSet to create without the label in its volumeClaimTemplates. Nil: it has no such label.
func withoutManagedByLabel(live *appsv1.StatefulSet) *appsv1.StatefulSet {
	replacement := &appsv1.StatefulSet{Spec: *live.Spec.DeepCopy()}
	replacement.Namespace, replacement.Name = live.Namespace, live.Name
	replacement.Labels, replacement.Annotations, replacement.OwnerReferences = live.Labels, live.Annotations, live.OwnerReferences
	isLabeled := false
	for i := range replacement.Spec.VolumeClaimTemplates {
		if labels := replacement.Spec.VolumeClaimTemplates[i].Labels; labels[managedByLabel] != "" {
			isLabeled = true
			delete(labels, managedByLabel)
		}
	}
	if !isLabeled {
		return nil
	}

	return replacement
}
