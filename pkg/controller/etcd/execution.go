// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/controllerutils"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/payload"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/orphan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// execution reads and writes for one reconciliation. It implements engine.Observer and engine.Executor.
type execution struct {
	*Reconciler

	// issued are the certificates by the source of the target.
	issued map[target.Source]*issued
	// current is the ManagedResource as Apply has read it last. Nil: there is none, or Apply was not called.
	current *resourcesv1alpha1.ManagedResource
	// granted is the update to newer defaults that may begin. Nil: none.
	granted *state.Rollout
	// began is true once that update may have been written.
	began bool
	// reported is true once the coordinator of rollouts knows the result.
	reported bool
	// requestedSlot is true if this reconciliation has requested a slot to generate certificates.
	requestedSlot bool
}

// Observe implements engine.Observer.
func (r *execution) Observe(ctx context.Context, run *engine.Run) (etcdcluster.Observation, error) {
	etcd := helper.WithUpdateStrategy(run.Target.Canonical, r.Config.UpdateStrategy)
	request := observer.RequestFor(etcd)
	request.NeedsMembers = func(o etcdcluster.Observation) bool {
		o.RolloutGrant = r.granted

		return run.Target.NeedsMembers(o, r.Config) || engine.QueriesOnlyMember(etcd, o, r.Clock.Now())
	}
	request.NeedsClusterVersion = func(o etcdcluster.Observation) bool {
		o.RolloutGrant = r.granted

		return run.Target.RequestsVersionChange(o, r.Config)
	}
	request.NeedsAuth = func(o etcdcluster.Observation) bool { return run.Target.RequestsDowngrade(o, r.Config) }
	o := r.Observer.Observe(ctx, etcd, request)
	o.SnapshotAttempts = etcdcluster.SnapshotAttemptsFor(etcd.Generation, o.State.Snapshot, r.snapshotCall(etcd))

	o.SpaceCall = r.spaceCall(etcd)
	o.RolloutGrant = r.granted

	return o, r.hold(run.Target.Stored, o)
}

// Prepare implements engine.Executor.
func (r *execution) Prepare(ctx context.Context, run *engine.Run) error {
	if !controllerutil.ContainsFinalizer(run.Target.Stored, druidv1alpha1.EtcdFinalizerName) {
		if err := r.onLatest(ctx, run.Target.Stored, func() error {
			return controllerutils.AddFinalizers(ctx, r.Client, run.Target.Stored, druidv1alpha1.EtcdFinalizerName)
		}); err != nil {
			return fmt.Errorf("adding the finalizer: %w", err)
		}
	}

	return nil
}

// Apply implements engine.Executor.
func (r *execution) Apply(ctx context.Context, run *engine.Run) (engine.Applied, error) {
	desired, err := r.desiredFor(run)
	if number := (*payload.NumberError)(nil); errors.As(err, &number) {
		return engine.Applied{}, plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, number)
	} else if err != nil {
		return engine.Applied{}, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	if r.current, err = r.currentManagedResource(ctx, run.Target.Etcd); err != nil {
		return engine.Applied{}, err
	}
	if err := r.checkCaches(ctx, run, desired); err != nil {
		return engine.Applied{}, err
	}
	if err := r.reserveStore(run); err != nil {
		return engine.Applied{}, err
	}
	missing, err := r.limitRecreation(ctx, run, desired)
	if err != nil {
		return engine.Applied{}, err
	}
	written, err := r.write(ctx, run, desired)
	if err != nil || written {
		return engine.Applied{Changed: written}, err
	}
	if err := r.recordRecreation(ctx, run, missing); err != nil {
		return engine.Applied{}, err
	}
	if err := r.followStore(ctx, run); err != nil {
		return engine.Applied{}, plan.Failed(druidv1alpha1.ErrorCodeSyncSnapshotLease, err)
	}
	if err := r.refillSnapshotLease(ctx, run); err != nil {
		return engine.Applied{}, plan.Failed(druidv1alpha1.ErrorCodeSyncSnapshotLease, err)
	}
	isObserved := desired.carries(r.current) && r.current.Status.ObservedGeneration == r.current.Generation

	return engine.Applied{IsObserved: isObserved}, nil
}

// RepairDrift implements engine.Executor.
func (r *execution) RepairDrift(ctx context.Context, run *engine.Run, isApplied bool) (bool, error) {
	if isApplied {
		if repaired, err := r.repairDrift(ctx, run); err != nil || repaired {
			return repaired, err
		}
	}

	return r.limitStep(ctx, run)
}

// desiredFor returns the ManagedResource with the rendering of a run.
func (r *execution) desiredFor(run *engine.Run) (desiredResource, error) {
	annotations, err := run.NextState().Encode()
	if err != nil {
		return desiredResource{}, err
	}

	return r.serialize(run.Target.Etcd, run.Rendered.Rendering.Checksum, run.Rendered.Objects, annotations)
}

// checkCaches makes sure that a rendering is not written over a newer state, which the caches do not show yet.
func (r *execution) checkCaches(ctx context.Context, run *engine.Run, desired desiredResource) error {
	if err := checkRecord(r.current, run.Observation); err != nil {
		return err
	}
	if err := r.checkPin(ctx, run, desired); err != nil {
		return err
	}
	if !desired.equals(r.current) {
		if err := r.checkManagedResource(ctx, run.Target.Etcd, run.Observation); err != nil {
			return err
		}
	}
	if run.IsAddingMember() && run.Rendered.Plan.Replicas == 2 {
		return r.checkFirstMember(ctx, run.Target.Etcd, run.Observation)
	}

	return nil
}

// currentManagedResource returns the ManagedResource as the cache has it. Nil: there is none.
func (r *Reconciler) currentManagedResource(ctx context.Context, etcd *druidv1alpha1.Etcd) (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return nil, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, client.IgnoreNotFound(err))
	}
	return mr, nil
}

// write writes Leases, combined CA bundles and ManagedResource. It tries a new payload by a dry run before. gardener-resource-manager must apply a new payload
// before the reconciliation continues: write then returns true, and an error that states what is awaited.
func (r *execution) write(ctx context.Context, run *engine.Run, desired desiredResource) (bool, error) {
	etcd := run.Target.Etcd
	if r.current != nil && r.current.DeletionTimestamp != nil {
		return false, nil // the plan waits until it is gone
	}
	isNew := !desired.carries(r.current)
	if err := r.tryPayload(ctx, run, isNew); err != nil {
		return false, err
	}
	if err := r.removeScaleUpAnnotation(ctx, run); err != nil {
		return false, plan.Failed(druidv1alpha1.ErrorCodeSyncStatefulSet, err)
	}
	if err := r.releasePods(ctx, run); err != nil {
		return false, plan.Failed(druidv1alpha1.ErrorCodeSyncStatefulSet, err)
	}
	if err := r.writeDirectly(ctx, run); err != nil {
		return false, err
	}
	written, err := r.ensureManagedResource(ctx, run, desired)
	if err != nil {
		return false, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	if written {
		r.announceWithdrawal(run)
		r.announceRecovery(run)
	}
	if !isNew || !written {
		return false, nil
	}
	r.event(etcd, corev1.EventTypeNormal, "ManagedResourceUpdated", "Generation %d is written to ManagedResource %s", etcd.Generation, helper.ManagedResourceName(etcd))
	if warnings := run.Target.Warnings; len(warnings) > 0 {
		r.event(etcd, corev1.EventTypeWarning, "SpecOutOfBounds", "The cluster continues with values that the spec of a new Etcd must not have: %s", warnings.ToAggregate())
	}
	if run.Target.IsUnrestricted {
		r.event(etcd, corev1.EventTypeWarning, "NoNetworkPolicies", "Each pod can connect to the members and to their sidecars, because this cluster has run without NetworkPolicies: set networkPolicies.enabled of the chart to true, and request a reconciliation")
	}
	if run.IsAddingMember() && run.Plan.NextSurge != nil {
		r.event(run.Target.Stored, corev1.EventTypeNormal, "StartingSurge", "Starting a temporary second member: %s", run.Plan.Reason)
	} else if run.IsAddingMember() {
		r.event(run.Target.Stored, corev1.EventTypeNormal, "AddingMember", "Starting member %d of %d: %s", run.Rendered.Plan.Replicas, etcd.Spec.Replicas, run.Plan.Reason)
	}
	r.announceStop(run)
	r.announceSizeOne(run)
	r.announceRestore(run)
	return true, plan.Waiting(engine.FallbackResync, "Waiting for ManagedResource %s to be applied", helper.ManagedResourceName(etcd))
}

// tryPayload returns why a new payload cannot be applied: an invalid object, a refusal of the API server, or an object of another owner. It also returns why
// the Job of the compaction cannot be created, whose settings are not part of the payload.
func (r *execution) tryPayload(ctx context.Context, run *engine.Run, isNew bool) error {
	if !isNew {
		return r.dryRunJob(ctx, run)
	}
	if err := run.CheckObjects(); err != nil {
		return err
	}
	mayExist, err := r.dryRun(ctx, run.Rendered.Objects)
	if err != nil {
		return err
	}
	if err := r.checkOwnership(ctx, run.Target.Etcd, r.current, mayExist); err != nil {
		return err
	}
	return r.dryRunJob(ctx, run)
}

// removeScaleUpAnnotation removes ScaleUpAnnotation from an adopted StatefulSet. gardener-resource-manager keeps annotations that it did not
// write.
func (r *execution) removeScaleUpAnnotation(ctx context.Context, run *engine.Run) error {
	observed, etcd := run.Observation.StatefulSet, run.Target.Etcd
	if !observed.HasScaleUpAnnotation || observed.OwnerUID != etcd.UID {
		return nil
	}
	set := metadataOf(statefulSetKind)
	set.Namespace, set.Name, set.UID = etcd.Namespace, observed.Name, observed.UID
	// The API server rejects a patch with the UID of another object.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:null}}}`, observed.UID, etcdcluster.ScaleUpAnnotation)
	if err := r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(patch))); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing annotation %s of StatefulSet %s: %w", etcdcluster.ScaleUpAnnotation, observed.Name, err)
	}
	return nil
}

// releasePods releases the pods of a StatefulSet that recreateStatefulSet has deleted, and the StatefulSet is gone. The garbage collector
// orphans the pods that it knows before that.
//
// It removes the finalizer from a StatefulSet that is not being deleted. An interruption prevented its deletion, and the reason may not exist any
// more.
func (r *execution) releasePods(ctx context.Context, run *engine.Run) error {
	observed, etcd := run.Observation.StatefulSet, run.Target.Etcd
	if !observed.HasReleaseFinalizer || observed.Deleting && !observed.AwaitsRelease || observed.OwnerUID != etcd.UID {
		return nil
	}
	live := &appsv1.StatefulSet{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: observed.Name}, live); err != nil || live.UID != observed.UID {
		return client.IgnoreNotFound(err)
	}
	if orphan.AwaitsRelease(live) {
		return orphan.Release(ctx, r.Client, r.Reader, live)
	}
	if live.DeletionTimestamp != nil {
		return nil
	}
	if err := orphan.RemoveFinalizer(ctx, r.Client, live); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the finalizer of StatefulSet %s: %w", observed.Name, err)
	}
	return nil
}

// writeDirectly writes the objects that gardener-resource-manager does not apply.
func (r *execution) writeDirectly(ctx context.Context, run *engine.Run) error {
	if err := r.writeLeases(ctx, run); err != nil {
		return err
	}
	return plan.Failed(druidv1alpha1.ErrorCodeSyncSecrets, r.ensureBundles(ctx, run))
}

func (r *execution) writeLeases(ctx context.Context, run *engine.Run) error {
	etcd, values := run.Target.Etcd, run.Rendered.Values
	if err := r.ensureLeases(ctx, etcd, notWithheld(run, componentetcd.MemberLeases(values))); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncMemberLease, err)
	}
	leases := componentetcd.SnapshotLeases(values)
	if len(leases) == 0 {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSnapshotLease, r.deleteSnapshotLeases(ctx, etcd))
	}
	return plan.Failed(druidv1alpha1.ErrorCodeSyncSnapshotLease, r.ensureLeases(ctx, etcd, notWithheld(run, leases)))
}

// recordOf reads the record on a ManagedResource. Nil has none.
func recordOf(mr *resourcesv1alpha1.ManagedResource) (state.State, error) {
	if mr == nil {
		return state.State{}, nil
	}
	recorded, err := state.Decode(mr.Annotations)
	if err != nil {
		return state.State{}, plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("ManagedResource %s: %w", mr.Name, err))
	}

	return recorded, nil
}

// checkRecord returns a conflict if the ManagedResource, or the record on it, is another than the observed one: the next reconciliation observes
// it again.
func checkRecord(mr *resourcesv1alpha1.ManagedResource, o etcdcluster.Observation) error {
	conflict := apierrors.NewConflict(resourcesv1alpha1.Resource("managedresources"), o.ManagedResource.Name, errors.New("the record of the operator has changed"))
	if (mr != nil) != o.ManagedResource.Exists || mr != nil && mr.UID != o.ManagedResource.UID {
		return conflict
	}
	recorded, err := recordOf(mr)
	if err != nil {
		return err
	}
	if mr != nil && !recorded.IsSame(o.State) {
		return conflict
	}

	return nil
}
