// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

const (
	// managedByLabel is the label that gardener-resource-manager adds to objects, and to the volumeClaimTemplates of a StatefulSet.
	managedByLabel = "resources.gardener.cloud/managed-by"
	// orphanTimeout limits the time in which the garbage collector releases the pods of a StatefulSet.
	orphanTimeout = 10 * time.Second
	// maxReplacements limits the attempts to replace a StatefulSet in one round.
	maxReplacements = 3
)

// errCreatedAgain means that gardener-resource-manager was faster than this operator.
var errCreatedAgain = errors.New("gardener-resource-manager has created it again")

// ensureClaimTemplates removes the label of gardener-resource-manager from the volumeClaimTemplates of the StatefulSet. They are immutable, and
// etcd-druid renders them without the label. The API server would reject each update by etcd-druid. Therefore it replaces the StatefulSet
// without its pods. The StatefulSet of an adopted Etcd has no such label and stays.
//
// The ManagedResource must still exist. If this process stops before it creates the StatefulSet, gardener-resource-manager does so. It may also
// do so while it applies the ManagedResource for another reason.
func (g *HandBack) ensureClaimTemplates(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	for attempt := 1; ; attempt++ {
		if err := g.replaceLabeledStatefulSet(ctx, etcd); attempt == maxReplacements || !errors.Is(err, errCreatedAgain) {
			return err
		}
	}
}

// replaceLabeledStatefulSet replaces the StatefulSet without its pods if its volumeClaimTemplates have the label.
func (g *HandBack) replaceLabeledStatefulSet(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	live := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: helper.StatefulSetName(etcd)}}
	if err := g.Client.Get(ctx, client.ObjectKeyFromObject(live), live); apierrors.IsNotFound(err) {
		return fmt.Errorf("waiting for StatefulSet %s to be created", live.Name)
	} else if err != nil {
		return fmt.Errorf("reading StatefulSet %s: %w", live.Name, err)
	}
	replacement := withoutManagedByLabel(live)
	if replacement == nil {
		return nil
	}
	if err := g.Client.Create(ctx, replacement.DeepCopy(), client.DryRunAll); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("StatefulSet %s could not be created again: %w", live.Name, err)
	}
	g.Recorder.Eventf(etcd, nil, corev1.EventTypeNormal, "RecreatingStatefulSet", "HandBack", "Replacing StatefulSet %s without its pods: etcd-druid could not update it, because gardener-resource-manager has labeled its volumeClaimTemplates", live.Name)
	preconditions := client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion}
	if err := g.Client.Delete(ctx, live, preconditions, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return fmt.Errorf("deleting StatefulSet %s without its pods: %w", live.Name, err)
	}
	isGone := func(ctx context.Context) (bool, error) {
		current := &appsv1.StatefulSet{}
		err := g.Client.Get(ctx, client.ObjectKeyFromObject(live), current)
		if err == nil && current.UID != live.UID {
			return false, errCreatedAgain
		}

		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	if err := wait.PollUntilContextTimeout(ctx, orphanTimeout/50, orphanTimeout, true, isGone); err != nil {
		return fmt.Errorf("waiting for StatefulSet %s to release its pods: %w", live.Name, err)
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
