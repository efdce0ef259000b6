// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
)

// requestAnnotations are the annotations of an Etcd that request an operation by their value.
var requestAnnotations = []string{druidv1alpha1.RotateCAAnnotation, druidv1alpha1.RestoreAnnotation, druidv1alpha1.AcceptRevisionAnnotation, druidv1alpha1.RecoverAnnotation}

// etcdChanged passes the events of an Etcd that can change what has to be done. Gardener's own predicates are of no use
// here: they know only one of the two operation annotations. They also read the last operation through an interface that an
// Etcd does not have, and therefore miss creations and deletions.
//
// It drops updates of the status alone, which the operator writes itself. It passes a changed state of a member, a changed status of the conditions Ready
// and AllMembersReady, and a database that has become full. It also passes another result of the comparisons of the data. No other event reports these.
func etcdChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			oldEtcd, ok := e.ObjectOld.(*druidv1alpha1.Etcd)
			if !ok {
				return false
			}
			newEtcd, ok := e.ObjectNew.(*druidv1alpha1.Etcd)
			if !ok {
				return false
			}
			isSet := func(key string) bool {
				return newEtcd.Annotations[key] != "" && newEtcd.Annotations[key] != oldEtcd.Annotations[key]
			}
			return newEtcd.Generation != oldEtcd.Generation ||
				helper.IsReconcileRequested(newEtcd) && !helper.IsReconcileRequested(oldEtcd) ||
				slices.ContainsFunc(requestAnnotations, isSet) ||
				helper.IsSuspended(newEtcd) != helper.IsSuspended(oldEtcd) ||
				skipsFinalSnapshot(newEtcd) && !skipsFinalSnapshot(oldEtcd) ||
				newEtcd.DeletionTimestamp != nil && oldEtcd.DeletionTimestamp == nil ||
				reportsChange(oldEtcd, newEtcd)
		},
	}
}

// reportsChange is true if a new status reports what no other event does.
func reportsChange(before, after *druidv1alpha1.Etcd) bool {
	return !slices.EqualFunc(after.Status.Members, before.Status.Members, isSameState) ||
		healthOf(after) != healthOf(before) ||
		isSpaceExhausted(after) && !isSpaceExhausted(before) ||
		comparisonResult(after) != comparisonResult(before)
}

func isSameState(a, b druidv1alpha1.EtcdMemberStatus) bool {
	return a.Name == b.Name && a.Status == b.Status
}

// healthOf is the status of the conditions with which an operation ends, see engine.Run. Empty: there is no condition.
func healthOf(etcd *druidv1alpha1.Etcd) (health [2]druidv1alpha1.ConditionStatus) {
	for i, conditionType := range []druidv1alpha1.ConditionType{druidv1alpha1.ConditionTypeReady, druidv1alpha1.ConditionTypeAllMembersReady} {
		if condition := conditions.Find(etcd.Status.Conditions, conditionType); condition != nil {
			health[i] = condition.Status
		}
	}

	return health
}

// isSpaceExhausted is true if the status reports a full database.
func isSpaceExhausted(etcd *druidv1alpha1.Etcd) bool {
	condition := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeDatabaseSpaceAvailable)

	return condition != nil && (condition.Reason == druidv1alpha1.ReasonNoSpace || condition.Reason == druidv1alpha1.ReasonFreeingSpaceBlocked)
}

// comparisonResult is the reason of the condition DataConsistent. The planner waits for a confirmed difference, and for its end. Empty: there is none.
func comparisonResult(etcd *druidv1alpha1.Etcd) string {
	condition := conditions.Find(etcd.Status.Conditions, druidv1alpha1.ConditionTypeDataConsistent)
	if condition == nil {
		return ""
	}

	return condition.Reason
}

func skipsFinalSnapshot(etcd *druidv1alpha1.Etcd) bool {
	return metav1.HasAnnotation(etcd.ObjectMeta, druidv1alpha1.SkipFinalSnapshotAnnotation)
}

// storeAnnotationRemoved passes updates that remove the store from a ManagedResource: a user wants another store to be used.
func storeAnnotationRemoved() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[druidv1alpha1.ManagedResourceAnnotationStore] != "" && e.ObjectNew.GetAnnotations()[druidv1alpha1.ManagedResourceAnnotationStore] == ""
		},
	}
}

// leaseChanged passes creations and deletions of Leases, and the first full snapshot: with it the Etcd owns its store.
func leaseChanged() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isLease := e.ObjectOld.(*coordinationv1.Lease)
			lease, _ := e.ObjectNew.(*coordinationv1.Lease)
			return isLease && lease != nil && lease.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameSnapshotLease &&
				before.Spec.RenewTime == nil && lease.Spec.RenewTime != nil
		},
	}
}

// restoreJobEnded passes the end and the deletion of Jobs that verify a restore, inspect a volume, or store the data of a recovery.
func restoreJobEnded() predicate.Predicate {
	isOfRestore := predicate.NewPredicateFuncs(func(job client.Object) bool {
		component := job.GetLabels()[druidv1alpha1.LabelComponentKey]
		return component == druidv1alpha1.ComponentNameRestoreVerificationJob || component == druidv1alpha1.ComponentNameInspectionJob ||
			component == druidv1alpha1.ComponentNameRecoveryJob
	})
	ended := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, isJob := e.ObjectOld.(*batchv1.Job)
			job, _ := e.ObjectNew.(*batchv1.Job)
			return isJob && job != nil && len(job.Status.Conditions) != len(before.Status.Conditions)
		},
	}
	return predicate.And(isOfRestore, ended)
}

// renderedPartChanged passes creations and deletions, and updates of more than the status.
func renderedPartChanged() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return version(e.ObjectOld) != version(e.ObjectNew)
		},
	}
}

// contentChanged passes arrivals, changes and removals of objects of which only the metadata is known.
func contentChanged() predicate.Predicate {
	return predicate.Funcs{
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return resourceVersion(e.ObjectOld) != resourceVersion(e.ObjectNew)
		},
	}
}

func resourceVersion(obj client.Object) string {
	if obj == nil {
		return ""
	}
	return obj.GetResourceVersion()
}
