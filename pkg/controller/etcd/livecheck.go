// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Update implements client.Writer. A ManagedResource loses the annotations of operators whose record had no version.
func (c versionedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	state.RemoveUnversioned(obj.GetAnnotations())
	return c.Client.Update(ctx, obj, opts...)
}
