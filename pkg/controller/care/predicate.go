// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package care

import (
	"context"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/queue"
)

// isManaged passes objects that are managed for an Etcd.
func isManaged() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetLabels()[druidv1alpha1.LabelManagedByKey] == druidv1alpha1.LabelManagedByValue
	})
}

// isMemberPod passes pods of members. It does not pass pods of Jobs.
func isMemberPod() predicate.Predicate {
	return predicate.And(isManaged(), queue.IsComponent(druidv1alpha1.ComponentNameStatefulSet))
}

// LeaseContentChanged passes an update of a Lease if the holder or an annotation changed, or if the Lease was renewed for the
// first time. It ignores other renewals, which happen every few seconds for each member.
func LeaseContentChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, is := e.ObjectOld.(*coordinationv1.Lease)
		after, isToo := e.ObjectNew.(*coordinationv1.Lease)
		if !is || !isToo {
			return false
		}

		return ptr.Deref(before.Spec.HolderIdentity, "") != ptr.Deref(after.Spec.HolderIdentity, "") ||
			(before.Spec.RenewTime == nil) != (after.Spec.RenewTime == nil) ||
			!maps.Equal(before.Annotations, after.Annotations)
	}}
}

// RestoreDrillRecorded passes an update of a ManagedResource if the record of restore drills has changed. The condition RestoreProven is computed
// from it.
func RestoreDrillRecorded() predicate.Predicate {
	const annotation = druidv1alpha1.ManagedResourceAnnotationRestoreDrill

	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetAnnotations()[annotation] != e.ObjectNew.GetAnnotations()[annotation]
		},
	}
}

// etcdsBySecret returns the requests for the Etcds of the namespace whose spec references the Secret.
func (r *Reconciler) etcdsBySecret(ctx context.Context, secret client.Object) []reconcile.Request {
	list := &druidv1alpha1.EtcdList{}
	if err := r.Client.List(ctx, list, client.InNamespace(secret.GetNamespace())); err != nil {
		return nil // the next observation finds it
	}
	var requests []reconcile.Request
	for i := range list.Items {
		etcd, errs := helper.Canonical(&list.Items[i])
		if len(errs) > 0 {
			continue
		}
		if slices.Contains(helper.ReferencedSecrets(etcd), secret.GetName()) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(etcd)})
		}
	}

	return requests
}
