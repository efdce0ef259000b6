// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/orphan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// delete takes an Etcd apart, one kind of object after the other, each waited for:
//
//  0. the Jobs that work on its store or its volumes. On a node that is dead, they may take long to go, and members write meanwhile
//  1. nothing else before the data is saved, where its volumes go (finalsnapshot.go). The volumes with the data before a restore are released then
//     (retain.go)
//  2. the ManagedResource; gardener-resource-manager leaves its objects alone. Before that, the operator restores the owner reference of a StatefulSet that has lost it
//  3. its objects, and those that etcd-druid created without one, as far as they belong to the Etcd (ownership.go)
//  4. the Jobs that have inspected volumes for the decision of step 1, and the pods (deletion_pods.go)
//  5. the volume claims, where spec.pvcRetentionPolicy is DeleteAll
//  6. the leases, the payloads of the ManagedResource, and the Secrets that were issued
//  7. the finalizers of the Secrets that nothing else uses
//  8. the finalizers of the Etcd
//
// It creates nothing but the Jobs that inspect volumes. It creates none in a namespace that is being deleted: the API server refuses new objects
// there. It takes what does not exist any more as deleted. It reads from the API server: with a cache that lags it would continue too early.
func (r *Reconciler) delete(ctx context.Context, etcd *druidv1alpha1.Etcd) (reconcile.Result, error) {
	if !slices.ContainsFunc(ownFinalizers, func(finalizer string) bool { return controllerutil.ContainsFinalizer(etcd, finalizer) }) {
		return reconcile.Result{}, nil
	}
	if err := r.checkCurrent(ctx, etcd); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}

	for _, step := range []func(context.Context, *druidv1alpha1.Etcd) error{
		r.deleteJobs,
		r.saveData,
		r.releaseRetained,
		r.deleteManagedResource,
		r.deleteLeftovers,
		r.deleteInspections,
		r.deletePods,
		r.deleteClaims,
		r.deleteLeases,
		r.deletePayloads,
		r.deleteIssued,
		r.releaseSecrets,
	} {
		err := step(ctx, etcd)
		if engine.IsInterrupted(err) {
			return reconcile.Result{}, err
		}
		if err != nil {
			return r.reportDeletion(ctx, etcd, err)
		}
	}

	logf.FromContext(ctx).Info("Everything is deleted, removing the finalizer")
	if err := r.onLatest(ctx, etcd, func() error {
		next := etcd.DeepCopy()
		for _, finalizer := range ownFinalizers {
			controllerutil.RemoveFinalizer(next, finalizer)
		}

		return r.Client.Patch(ctx, next, client.MergeFromWithOptions(etcd.DeepCopy(), client.MergeFromWithOptimisticLock{}))
	}); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	r.Snapshots.Discard(etcd.UID)
	r.Space.Discard(etcd.UID)
	if r.Renderings != nil {
		r.Renderings.Discard(etcd)
	}
	return reconcile.Result{}, nil
}

// ownFinalizers are released at the end: the operator's, and the one that older manifests carry.
var ownFinalizers = []string{druidv1alpha1.EtcdFinalizerName, druidv1alpha1.OlderEtcdFinalizerName}

// reportDeletion writes down what the deletion waits for or failed with.
func (r *Reconciler) reportDeletion(ctx context.Context, etcd *druidv1alpha1.Etcd, err error) (reconcile.Result, error) {
	o := engine.ResultOf(err)
	if o.State == druidv1alpha1.LastOperationStateRequeue {
		o.State = druidv1alpha1.LastOperationStateProcessing
	}
	if patchErr := r.onLatest(ctx, etcd, func() error {
		next := etcd.DeepCopy()
		r.setOperation(ctx, next, druidv1alpha1.LastOperationTypeDelete, o)
		r.setConditions(&next.Status, o,
			conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeAllMembersUpdated),
			conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeStoreResolved),
			conditions.Find(next.Status.Conditions, druidv1alpha1.ConditionTypeFinalSnapshotTaken))

		return r.patchStatus(ctx, etcd, next)
	}); client.IgnoreNotFound(patchErr) != nil {
		return reconcile.Result{}, patchErr
	}
	return reconcile.Result{RequeueAfter: o.RequeueAfter}, o.Err
}

// deleteJobs deletes all Jobs except those that inspect volumes for this deletion.
func (r *Reconciler) deleteJobs(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	return r.deleteJobsIf(ctx, etcd, func(job *batchv1.Job) bool {
		isInspection := job.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameInspectionJob

		return !isInspection || job.CreationTimestamp.Before(etcd.DeletionTimestamp)
	})
}

// deleteInspections deletes the Jobs that have inspected volumes for this deletion. Their pods use the claims.
func (r *Reconciler) deleteInspections(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	return r.deleteJobsIf(ctx, etcd, func(*batchv1.Job) bool { return true })
}

// deleteJobsIf deletes the Jobs of the Etcd that match.
func (r *Reconciler) deleteJobsIf(ctx context.Context, etcd *druidv1alpha1.Etcd, matches func(*batchv1.Job) bool) error {
	jobs := &batchv1.JobList{}
	if err := r.Reader.List(ctx, jobs, client.InNamespace(etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(etcd))); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("listing Jobs: %w", err))
	}
	var names []string
	for i := range jobs.Items {
		// A task of the same name labels its Job alike.
		if !metav1.IsControlledBy(&jobs.Items[i], etcd) || !matches(&jobs.Items[i]) {
			continue
		}
		names = append(names, jobs.Items[i].Name)
		if err := r.deleteObject(ctx, &jobs.Items[i], client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, err)
		}
	}
	return gone("Jobs", names)
}

func (r *Reconciler) deleteManagedResource(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, client.IgnoreNotFound(err))
	}
	if mr.Labels[managedresources.LabelKeyOrigin] != druidv1alpha1.ManagedResourceOrigin {
		return nil
	}
	if mr.DeletionTimestamp == nil {
		r.event(etcd, corev1.EventTypeNormal, "Deleting", "Deleting ManagedResource %s", mr.Name)
		if recorded, err := state.Decode(mr.Annotations); err == nil {
			r.reportRetained(etcd, recorded)
		}
	}
	if err := r.reclaimStatefulSet(ctx, etcd, mr); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, err)
	}
	if err := r.keepObjects(ctx, mr); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, err)
	}
	if err := r.deleteObject(ctx, mr); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, err)
	}
	return stillWaiting("Waiting for gardener-resource-manager to release ManagedResource %s", mr.Name)
}

// keepObjects makes gardener-resource-manager leave the objects to this operator. It would delete them by name alone: again and
// again what something else creates under the name, such as the ServiceAccount default.
func (r *Reconciler) keepObjects(ctx context.Context, mr *resourcesv1alpha1.ManagedResource) error {
	if ptr.Deref(mr.Spec.KeepObjects, false) {
		return nil
	}
	before := mr.DeepCopy()
	mr.Spec.KeepObjects = new(true)
	if err := r.Client.Patch(ctx, mr, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("keeping the objects of ManagedResource %s: %w", mr.Name, err)
	}
	return nil
}

// leftovers are the objects that a ManagedResource may leave or etcd-druid has created, with the code of a failure to delete one.
func leftovers(etcd *druidv1alpha1.Etcd) []leftover {
	return []leftover{
		{statefulSetKind, helper.StatefulSetName(etcd), druidv1alpha1.ErrorCodeDeleteStatefulSet},
		{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), helper.PodDisruptionBudgetName(etcd), druidv1alpha1.ErrorCodeDeletePodDisruptionBudget},
		{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), helper.MemberNetworkPolicyName(etcd), druidv1alpha1.ErrorCodeDeleteNetworkPolicy},
		{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), helper.JobNetworkPolicyName(etcd), druidv1alpha1.ErrorCodeDeleteNetworkPolicy},
		{corev1.SchemeGroupVersion.WithKind("Service"), helper.ClientServiceName(etcd), druidv1alpha1.ErrorCodeDeleteClientService},
		{corev1.SchemeGroupVersion.WithKind("Service"), helper.PeerServiceName(etcd), druidv1alpha1.ErrorCodeDeletePeerService},
		{corev1.SchemeGroupVersion.WithKind("ConfigMap"), helper.ConfigMapName(etcd), druidv1alpha1.ErrorCodeDeleteConfigMap},
		{rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), helper.RoleName(etcd), druidv1alpha1.ErrorCodeDeleteRoleBinding},
		{rbacv1.SchemeGroupVersion.WithKind("Role"), helper.RoleName(etcd), druidv1alpha1.ErrorCodeDeleteRole},
		{corev1.SchemeGroupVersion.WithKind("ServiceAccount"), helper.ServiceAccountName(etcd), druidv1alpha1.ErrorCodeDeleteServiceAccount},
	}
}

// statefulSetKind is the kind of the object that runs the members.
var statefulSetKind = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

type leftover struct {
	kind schema.GroupVersionKind
	name string
	code druidv1alpha1.ErrorCode
}

func (r *Reconciler) deleteLeftovers(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	var names []string
	for _, l := range leftovers(etcd) {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(l.kind)
		if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: l.name}, obj); err != nil {
			if apierrors.IsNotFound(err) {
				continue
			}
			return plan.Failed(l.code, fmt.Errorf("reading %s %s: %w", l.kind.Kind, l.name, err))
		}
		if !helper.IsManagedFor(obj, etcd) {
			continue
		}
		names = append(names, l.kind.Kind+" "+l.name)
		if err := r.deleteObject(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return plan.Failed(l.code, err)
		}
		// A StatefulSet has it if the operator was interrupted while it recreated the StatefulSet.
		if err := orphan.RemoveFinalizer(ctx, r.Client, obj); err != nil && !apierrors.IsConflict(err) {
			return plan.Failed(l.code, fmt.Errorf("removing the finalizer of %s %s: %w", l.kind.Kind, l.name, err))
		}
	}
	return gone("", names)
}

func (r *Reconciler) deleteLeases(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	leases := &coordinationv1.LeaseList{}
	if err := r.Reader.List(ctx, leases, client.InNamespace(etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(etcd))); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeListMemberLease, fmt.Errorf("listing leases: %w", err))
	}
	var names []string
	for i := range leases.Items {
		if !helper.IsManagedFor(&leases.Items[i], etcd) {
			continue
		}
		names = append(names, leases.Items[i].Name)
		code := druidv1alpha1.ErrorCodeDeleteMemberLease
		if leases.Items[i].Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameSnapshotLease {
			code = druidv1alpha1.ErrorCodeDeleteSnapshotLease
		}
		if err := r.deleteObject(ctx, &leases.Items[i]); err != nil {
			return plan.Failed(code, err)
		}
	}
	return gone("leases", names)
}

// payloadChecksum is the end of the name of a payload.
var payloadChecksum = regexp.MustCompile("^[0-9a-f]{8}$")

// deletePayloads deletes the Secrets of the ManagedResource, which gardener-resource-manager would collect hours later. They have no owner:
// both their labels and their names say what they are.
func (r *Reconciler) deletePayloads(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Reader.List(ctx, secrets, client.InNamespace(etcd.Namespace), client.MatchingLabels{managedresources.LabelKeyOrigin: druidv1alpha1.ManagedResourceOrigin, druidv1alpha1.LabelPartOfKey: etcd.Name}); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, fmt.Errorf("listing payloads: %w", err))
	}
	for i := range secrets.Items {
		checksum, isPayload := strings.CutPrefix(secrets.Items[i].Name, managedresources.SecretPrefix+helper.ManagedResourceName(etcd)+"-")
		if !isPayload || !payloadChecksum.MatchString(checksum) {
			continue
		}
		if err := r.deleteObject(ctx, &secrets.Items[i]); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeDeleteManagedResource, err)
		}
	}
	return nil
}

// deleteObject deletes an object as it was read, not one that took its name meanwhile. It returns no error if the object is
// being deleted or does not exist. It returns no error either if a precondition among the options does not hold any more:
// the next reconciliation tries it again.
func (r *Reconciler) deleteObject(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	err := r.Client.Delete(ctx, obj, append([]client.DeleteOption{client.Preconditions{UID: new(obj.GetUID())}}, options...)...)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %s: %w", obj.GetName(), err)
	}
	return nil
}

// gone waits while there are names.
func gone(what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return stillWaiting("Waiting for %s to be gone", strings.TrimSpace(what+" "+strings.Join(names, ", ")))
}

// deletionPeriod is when a deletion is reconciled again: not every kind of the objects that it waits for is watched.
const deletionPeriod = 5 * time.Second

// stillWaiting returns a problem that says what a deletion waits for.
func stillWaiting(format string, args ...any) error {
	return plan.Waiting(deletionPeriod, format, args...)
}
