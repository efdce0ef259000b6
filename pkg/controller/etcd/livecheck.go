// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// checkManagedResource reads the ManagedResource from the API server before another rendering or another state is written to it. Caches
// may be older, as those of a new leader: a rendering with an older size would stop members. It returns a waiting error if they are. It
// refuses a ManagedResource that another controller created.
func (r *Reconciler) checkManagedResource(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	live := &resourcesv1alpha1.ManagedResource{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, live)
	if client.IgnoreNotFound(err) != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
	}
	if err == nil {
		if err := refuseOrigin(live); err != nil {
			return err
		}
	}
	recorded, err := recordOf(live)
	if err != nil {
		return err
	}
	if live.UID != o.ManagedResource.UID || recorded.Size != o.State.Size || ptr.Deref(recorded.Replicas, 0) != ptr.Deref(o.State.Replicas, 0) || recorded.Restore != o.State.Restore {
		return waitForMembers("Waiting for the caches to show ManagedResource %s as it is", helper.ManagedResourceName(etcd))
	}

	return nil
}

// checkFirstMember reads the StatefulSet and the pod of the first member from the API server before a second member is started. The
// sidecar in the pod must have been started with the size of the cluster.
func (r *Reconciler) checkFirstMember(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	observed := o.PodFor(0)
	pod, statefulSet := &corev1.Pod{}, &appsv1.StatefulSet{}
	for name, object := range map[string]client.Object{helper.PodName(etcd, 0): pod, helper.StatefulSetName(etcd): statefulSet} {
		if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, object); client.IgnoreNotFound(err) != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
		}
	}
	revision := pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	if observed == nil || pod.UID != observed.UID || pod.DeletionTimestamp != nil || revision != observed.RevisionHash ||
		statefulSet.UID != o.StatefulSet.UID || statefulSet.Generation != o.StatefulSet.Generation || statefulSet.Status.UpdateRevision != o.StatefulSet.UpdateRevision {
		return waitForMembers("Waiting for the caches to show pod %s and StatefulSet %s as they are", helper.PodName(etcd, 0), helper.StatefulSetName(etcd))
	}

	return nil
}

// checkDeletion reads the record and the pods from the API server before volumes are deleted. It also reads the Leases or the claims if the decision
// depends on them. Caches may be older, for example those of a new leader. Caches from a hibernation show neither the members that run again nor
// their writes. It returns a waiting error if the caches are older. It does nothing if the deletion needs no facts.
func (r *Reconciler) checkDeletion(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, snapshot state.FinalSnapshot) error {
	if snapshot.Missing == state.SnapshotTerminating || snapshot.Missing == state.SnapshotSkipped {
		return nil
	}
	live := &resourcesv1alpha1.ManagedResource{}
	switch err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, live); {
	case apierrors.IsNotFound(err), err == nil && refuseOrigin(live) != nil: // the caches do not have that of another controller
		live = nil
	case err != nil:
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err))
	}
	switch err := checkRecord(live, o); {
	case apierrors.IsConflict(err):
		return stillWaiting("Waiting for the caches to show ManagedResource %s as it is", helper.ManagedResourceName(etcd))
	case err != nil:
		return err
	}
	if err := r.checkPods(ctx, etcd, o); err != nil {
		return err
	}
	switch {
	case snapshot.Missing == state.SnapshotNoData:
		return r.checkLeases(ctx, etcd)
	case snapshot.Snapshot != nil && snapshot.Snapshot.LastRevision == 0:
		return r.checkClaims(ctx, etcd, o)
	default:
		return nil
	}
}

// checkStopped is checkDeletion before a Job reads the volume of a hibernated cluster. It also reads the StatefulSet, which must create no more pods.
func (r *Reconciler) checkStopped(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	if err := r.checkDeletion(ctx, etcd, o, *o.State.FinalSnapshot); err != nil {
		return err
	}
	set, err := r.liveStatefulSet(ctx, etcd)
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, err)
	}
	if (set != nil) != o.StatefulSet.Exists || set != nil && (set.UID != o.StatefulSet.UID || set.Generation != o.StatefulSet.Generation) {
		return stillWaiting("Waiting for the caches to show StatefulSet %s as it is", helper.StatefulSetName(etcd))
	}

	return nil
}

// checkClaims reads the claims of the members from the API server before their volumes are deleted because of their revisions. It returns a waiting
// error if their volumes are not the observed ones.
func (r *Reconciler) checkClaims(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	for _, observed := range o.Claims {
		claim, err := r.liveClaim(ctx, etcd, observed.Ordinal)
		if err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading claim %s: %w", observed.Name, err))
		}
		if (claim != nil) != observed.Exists || claim != nil && (claim.UID != observed.UID || claim.Spec.VolumeName != observed.Volume) {
			return stillWaiting("Waiting for the caches to show claim %s as it is", observed.Name)
		}
	}

	return nil
}

// checkPods reads the pods of the members from the API server. It returns a waiting error if they are not the observed ones.
func (r *Reconciler) checkPods(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) error {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := r.Reader.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(etcd))); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("listing pods: %w", err))
	}
	live := map[string]string{} // the versions of the pods by name
	for _, pod := range pods.Items {
		live[pod.Name] = pod.ResourceVersion
	}
	for ordinal := range helper.MaxMembers {
		name, observed := helper.PodName(etcd, ordinal), ""
		if pod := o.PodFor(ordinal); pod != nil {
			observed = pod.ResourceVersion
		}
		if live[name] != observed {
			return stillWaiting("Waiting for the caches to show pod %s as it is", name)
		}
	}

	return nil
}

// checkLeases reads the Leases from the API server before volumes are deleted because no member was ever healthy. It returns a waiting error if
// a Lease has a holder.
func (r *Reconciler) checkLeases(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	leases := &coordinationv1.LeaseList{}
	if err := r.Reader.List(ctx, leases, client.InNamespace(etcd.Namespace), client.MatchingLabels(helper.DefaultLabels(etcd))); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeListMemberLease, fmt.Errorf("listing leases: %w", err))
	}
	for _, lease := range leases.Items {
		isOfMember := lease.Labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameMemberLease
		if (isOfMember || lease.Name == helper.FullSnapshotLeaseName(etcd)) && ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			return stillWaiting("Waiting for the caches to show Lease %s as it is", lease.Name)
		}
	}

	return nil
}

// versionedClient reads a ManagedResource as it was when the operator decided what to write. An update of any other version ends in a
// conflict.
type versionedClient struct {
	client.Client
	// current is that ManagedResource. Nil: it did not exist.
	current *resourcesv1alpha1.ManagedResource
}

// Get implements client.Reader.
func (c versionedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	mr, is := obj.(*resourcesv1alpha1.ManagedResource)
	switch {
	case !is:
		return c.Client.Get(ctx, key, obj, opts...)
	case c.current == nil:
		return apierrors.NewNotFound(resourcesv1alpha1.Resource("managedresources"), key.Name)
	default:
		c.current.DeepCopyInto(mr)
		return nil
	}
}
