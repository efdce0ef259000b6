// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package helper

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// IsReconcileRequested is true if the operation annotation, with its current or its deprecated key, requests a reconciliation
// of the spec.
func IsReconcileRequested(etcd *druidv1alpha1.Etcd) bool {
	return etcd.Annotations[druidv1alpha1.DruidOperationAnnotation] == druidv1alpha1.DruidOperationReconcile ||
		etcd.Annotations[druidv1alpha1.GardenerOperationAnnotation] == druidv1alpha1.DruidOperationReconcile
}

// RemoveOperationAnnotations removes the operation annotation with both keys from the object in memory, if either requests a
// reconciliation. It returns true if it removed one.
func RemoveOperationAnnotations(etcd *druidv1alpha1.Etcd) bool {
	if !IsReconcileRequested(etcd) {
		return false
	}
	delete(etcd.Annotations, druidv1alpha1.DruidOperationAnnotation)
	delete(etcd.Annotations, druidv1alpha1.GardenerOperationAnnotation)

	return true
}

// IsSuspended is true if an annotation suspends the reconciliation of the spec.
func IsSuspended(etcd *druidv1alpha1.Etcd) bool {
	return metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation)
}

// IsCreating is true until the members of an Etcd were rolled out for the first time. An Etcd that is created with spec.replicas 0 is created with its
// first wake-up. etcd-druid reports no operation of type Create.
func IsCreating(etcd *druidv1alpha1.Etcd) bool {
	last := etcd.Status.LastOperation
	isUnfinished := last != nil && last.Type == druidv1alpha1.LastOperationTypeCreate && last.State != druidv1alpha1.LastOperationStateSucceeded

	return etcd.Status.ObservedGeneration == nil || isUnfinished
}

// IsReconciling is true for a reason of the condition Reconciled while the operator changes the cluster, or waits before it can continue.
func IsReconciling(reason string) bool {
	return reason == druidv1alpha1.ReasonReconciling || reason == druidv1alpha1.ReasonWaiting
}

// ManagesPods is false if the pods of the members are managed externally: spec.externallyManagedMemberAddresses is set, or the
// deprecated annotation disables runtime components.
func ManagesPods(etcd *druidv1alpha1.Etcd) bool {
	return len(etcd.Spec.ExternallyManagedMemberAddresses) == 0 &&
		!metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.DisableEtcdRuntimeComponentCreationAnnotation)
}

// IsHibernated is true when no member is desired.
func IsHibernated(etcd *druidv1alpha1.Etcd) bool { return etcd.Spec.Replicas <= 0 }

// IsStoreConfigured is true if the spec configures a backup store.
func IsStoreConfigured(etcd *druidv1alpha1.Etcd) bool { return etcd.Spec.Backup.Store != nil }

// DeletesClaims is true if the data volumes are deleted with the Etcd. Nil: they are retained.
func DeletesClaims(etcd *druidv1alpha1.Etcd) bool {
	policy := etcd.Spec.PVCRetentionPolicy

	return policy != nil && *policy == druidv1alpha1.PVCRetentionPolicyDeleteAll
}
