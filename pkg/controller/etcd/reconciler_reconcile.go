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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	componentetcd "github.com/gardener/gardener-extension-etcd-druid/pkg/component/etcd"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// rendering is what an accepted generation comes to under a plan.
type rendering struct {
	values      componentetcd.Values
	objects     []client.Object
	statefulSet *appsv1.StatefulSet
	resource    desiredResource
}

// carryOut does the phases 2 to 7 of Reconcile. Its error says why it ended early, nil that the cluster is as the spec
// describes it.
func (r *Reconciler) carryOut(ctx context.Context, p *pass) error {
	err := r.carryOutNewest(ctx, p)
	if err == nil || p.reached || helper.IsSuspended(p.etcd) || engine.IsInterrupted(err) {
		return err
	}
	return r.keep(ctx, p, err)
}

// carryOutNewest carries out the newest generation, if it may be.
func (r *Reconciler) carryOutNewest(ctx context.Context, p *pass) error {
	canonical, errs := helper.Canonical(p.etcd)
	if len(errs) > 0 {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate())
	}
	if err := r.observe(ctx, p, canonical); err != nil {
		return err
	}
	if helper.IsSuspended(canonical) {
		return plan.Skipped(druidv1alpha1.ReasonSuspended, "The annotation %s keeps generation %d from being carried out", druidv1alpha1.SuspendEtcdSpecReconcileAnnotation, canonical.Generation)
	}
	accepted := r.acceptanceFor(canonical, p.observation)
	if accepted == nil {
		return plan.Skipped(druidv1alpha1.ReasonOperationAnnotationMissing, "Generation %d is carried out when the annotation %s=%s asks for it",
			canonical.Generation, druidv1alpha1.DruidOperationAnnotation, druidv1alpha1.DruidOperationReconcile)
	}
	p.accepted = withSpec(*accepted, canonical.Spec)
	if errs := validation.ValidateEtcd(canonical); len(errs) > 0 {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate())
	}
	if err := r.prepare(ctx, p, canonical); err != nil {
		return err
	}
	return r.rollOut(ctx, p)
}

// observe reads the world once.
func (r *Reconciler) observe(ctx context.Context, p *pass, canonical *druidv1alpha1.Etcd) error {
	p.observation, p.observed = r.Observer.Observe(ctx, canonical, observer.RequestFor(canonical)), true
	p.foreignClaims = splitClaims(&p.observation)
	p.canonical = peers.WithPinnedPort(canonical, p.observation, r.Clock.Now())
	p.observation.SnapshotCalls = r.snapshotCalls(canonical)
	r.growths.tell(p.observation.Claims, r.Clock.Now())
	return r.hold(p)
}

// prepare makes an Etcd ours: from here on it is not gone before everything of it is.
func (r *Reconciler) prepare(ctx context.Context, p *pass, canonical *druidv1alpha1.Etcd) error {
	if !controllerutil.ContainsFinalizer(p.etcd, druidv1alpha1.EtcdFinalizerName) {
		if err := controllerutils.AddFinalizers(ctx, r.Client, p.etcd, druidv1alpha1.EtcdFinalizerName); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeStep, fmt.Errorf("adding the finalizer: %w", err))
		}
	}
	if !p.observation.ManagedResource.Exists {
		return plan.Failed(druidv1alpha1.ErrorCodeStep, r.releaseAllSecrets(ctx, canonical))
	}
	return plan.Failed(druidv1alpha1.ErrorCodeStep, r.releaseSecrets(ctx, canonical))
}

// rollOut renders what the plan asks for, writes it, and does the plan's step when there was nothing to write.
func (r *Reconciler) rollOut(ctx context.Context, p *pass) error {
	mr, err := r.currentManagedResource(ctx, p.canonical)
	if err != nil {
		return err
	}
	if err := p.checkObserved(mr); err != nil {
		return err
	}
	if err := r.tellLeases(ctx, p); err != nil {
		return err
	}
	decision := p.plan(r.Clock.Now())
	p.seeFinalSnapshot(decision)
	r.operations.see(client.ObjectKeyFromObject(p.etcd), decision)
	logf.FromContext(ctx).V(1).Info("Planned", "stage", decision.Stage, "reason", decision.Reason, "waitsFor", decision.WaitsFor)
	switch {
	case decision.Refusal != nil:
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, decision.Refusal)
	case !decision.Render && decision.Step != nil:
		p.reached = true
		return r.step(ctx, p, nil, rendering{}, decision)
	case !decision.Render:
		p.reached = decision.Stage != plan.StageWaitForSecrets
		return waitingFor(decision)
	}

	rendered, err := r.provide(ctx, p, decision)
	if err != nil {
		return err
	}
	return r.applyRendering(ctx, p, rendered, decision)
}

// applyRendering writes a rendering, and executes the step of the plan when there was nothing to write.
func (r *Reconciler) applyRendering(ctx context.Context, p *pass, rendered rendering, decision plan.Plan) error {
	current, err := r.currentManagedResource(ctx, p.canonical)
	if err != nil {
		return err
	}
	if err := r.checkPin(ctx, p, current, rendered.resource); err != nil {
		return err
	}
	if !rendered.resource.equals(current) {
		if err := r.checkManagedResource(ctx, p.canonical, p.observation); err != nil {
			return err
		}
	}
	missing, err := r.limitRecreation(ctx, p, current, rendered)
	if err != nil {
		return err
	}
	written, err := r.write(ctx, p, current, rendered)
	if written {
		p.reached = true
		r.announceStop(p, decision)
		r.announceSizeOne(p, decision)
	}
	if err != nil || written {
		return err
	}
	if err := r.recordRecreation(ctx, p, current, rendered, missing); err != nil {
		return err
	}
	if err := r.followStore(ctx, p, rendered); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncSnapshotLease, err)
	}
	if err := r.refillSnapshotLease(ctx, p, rendered); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncSnapshotLease, err)
	}
	p.reached = true
	return r.goOn(ctx, p, current, rendered, decision)
}

// goOn does what a plan comes to when everything is written that it renders. What the API server refuses of it, though the
// planner could not know, keeps nothing else from being done.
func (r *Reconciler) goOn(ctx context.Context, p *pass, current *resourcesv1alpha1.ManagedResource, rendered rendering, planned plan.Plan) error {
	decision := planner.Gate(planned, etcdcluster.RenderingFor(rendered.statefulSet), p.observation)
	r.operations.see(client.ObjectKeyFromObject(p.etcd), decision)
	err := r.doDue(ctx, p, current, rendered, decision)
	if errors.Is(err, errGrowthRefused) {
		return r.goOn(ctx, p, current, rendered, planned) // the refusal is a fact now
	}
	return p.withholding(r.Clock.Now(), p.hinder(decision, err))
}

// doDue does what is due of a plan that was held against its rendering.
func (r *Reconciler) doDue(ctx context.Context, p *pass, current *resourcesv1alpha1.ManagedResource, rendered rendering, decision plan.Plan) error {
	if decision.Outcome() == plan.OutcomeGrow {
		return r.grow(ctx, p, current, decision.Grown())
	}
	if isApplied(decision, rendered, current, p.observation) {
		p.applied = isFinal(p.canonical, decision) && decision.Hindered == nil
		if drifted, err := r.repairDrift(ctx, p, current, rendered); err != nil || drifted {
			return err
		}
	}
	if blocked, err := r.limitStep(ctx, p, current, rendered, decision); err != nil || blocked {
		return err
	}
	if err := r.step(ctx, p, current, rendered, decision); err != nil {
		return err
	}
	return r.settleSecrets(ctx, p, current)
}

// provide finds the store, has certificates issued, and renders with both.
func (r *Reconciler) provide(ctx context.Context, p *pass, decision plan.Plan) (rendering, error) {
	store, answer, err := r.resolveStore(ctx, p)
	p.store = &answer
	if err != nil {
		return rendering{}, err
	}
	if err := r.issue(ctx, p); err != nil {
		return rendering{}, err
	}
	return r.render(p, decision, store)
}

// render is the pure part: the plan and the accepted defaults in, objects and payload out.
func (r *Reconciler) render(p *pass, decision plan.Plan, store *backupstore.Store) (rendering, error) {
	values, err := componentetcd.ValuesFor(componentetcd.Input{
		Etcd:        p.canonical,
		Replicas:    decision.Replicas,
		ClusterSize: decision.ClusterSize,
		Defaults:    p.accepted.Defaults,
		Store:       store,
		CADataKeys:  p.accepted.CADataKeys,

		InitialClusterToken: p.observation.State.InitialClusterToken,
	})
	if err != nil {
		return rendering{}, plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, err)
	}
	objects, err := componentetcd.Objects(values)
	if err != nil {
		return rendering{}, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("rendering: %w", err))
	}

	out := rendering{values: values, objects: objects}
	for _, obj := range objects {
		if statefulSet, ok := obj.(*appsv1.StatefulSet); ok {
			out.statefulSet = statefulSet
		}
	}
	if out.statefulSet == nil {
		return rendering{}, plan.Failed(druidv1alpha1.ErrorCodeSyncStatefulSet, fmt.Errorf("rendering: there is no StatefulSet among the objects"))
	}

	annotations, err := annotationsFor(p, decision, store)
	if err != nil {
		return rendering{}, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	out.resource, err = r.serialize(p.canonical, out.statefulSet.Annotations[etcdcluster.RenderingAnnotation], objects, annotations)
	return out, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
}

// annotationsFor returns the annotations that record the state with which a plan is rendered.
func annotationsFor(p *pass, decision plan.Plan, store *backupstore.Store) (map[string]string, error) {
	observed := p.observation.State
	next := observed
	next.HandBack, observed.HandBack = 0, 0 // only the hand-back to etcd-druid writes it
	next.Accepted, next.Replicas = p.accepted, &decision.Replicas
	next.TLS, next.FinalSnapshot, next.Restore = p.issued.modes, decision.FinalSnapshot, decision.Restore
	if p.issued.modes.AnyManaged() {
		next.Rotation = &p.issued.rotation
	}
	if decision.Replicas > 0 {
		next.Size = planner.SizeToPersist(decision, p.observation)
	}
	next.Store, observed.Store = nil, nil // the location stays recorded when the spec has no store any more
	if store != nil {
		record := backupstore.RecordFor(*store)
		next.Store = &record
	}
	return next.Encode(observed)
}

// currentManagedResource returns the ManagedResource as the cache has it. Nil: there is none.
func (r *Reconciler) currentManagedResource(ctx context.Context, etcd *druidv1alpha1.Etcd) (*resourcesv1alpha1.ManagedResource, error) {
	mr := &resourcesv1alpha1.ManagedResource{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, mr); err != nil {
		return nil, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, client.IgnoreNotFound(err))
	}
	return mr, nil
}

// write writes leases and ManagedResource. If there is a new payload it was tried first, and has to be applied by
// gardener-resource-manager before anything else is done: then it returns true and what is waited for.
func (r *Reconciler) write(ctx context.Context, p *pass, current *resourcesv1alpha1.ManagedResource, rendered rendering) (bool, error) {
	etcd := p.canonical
	if current != nil && current.DeletionTimestamp != nil {
		return false, nil // the plan waits for it to be gone
	}
	isNew := !rendered.resource.carries(current)
	if isNew {
		if err := r.checkOwnership(ctx, etcd, current, rendered.objects); err != nil {
			return false, err
		}
		if err := r.tryRendering(ctx, rendered.objects); err != nil {
			return false, err
		}
	}
	if err := r.writeLeases(ctx, p, rendered.values); err != nil {
		return false, err
	}
	written, err := r.ensureManagedResource(ctx, p, current, rendered.resource)
	if err != nil {
		return false, plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	if !isNew || !written {
		return false, nil
	}
	r.event(etcd, corev1.EventTypeNormal, "Rendered", "Generation %d is written to ManagedResource %s", etcd.Generation, helper.ManagedResourceName(etcd))
	return true, plan.Waiting(engine.FallbackResync, "Waiting for ManagedResource %s to be applied", helper.ManagedResourceName(etcd))
}

func (r *Reconciler) writeLeases(ctx context.Context, p *pass, values componentetcd.Values) error {
	etcd := p.canonical
	if err := r.ensureLeases(ctx, etcd, p.notWithheld(componentetcd.MemberLeases(values))); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncMemberLease, err)
	}
	leases := componentetcd.SnapshotLeases(values)
	if len(leases) == 0 {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSnapshotLease, r.deleteSnapshotLeases(ctx, etcd))
	}
	return plan.Failed(druidv1alpha1.ErrorCodeSyncSnapshotLease, r.ensureLeases(ctx, etcd, p.notWithheld(leases)))
}

// isApplied says whether the StatefulSet shows the final rendering of the spec. Its pods may still be older. The
// observation is older than the ManagedResource at hand: both have to say so, or an earlier generation's application
// would acknowledge this one.
func isApplied(decision plan.Plan, rendered rendering, current *resourcesv1alpha1.ManagedResource, o etcdcluster.Observation) bool {
	shown := etcdcluster.RenderingFor(rendered.statefulSet)
	return decision.Render && rendered.resource.carries(current) && current.Status.ObservedGeneration == current.Generation &&
		o.ManagedResource.IsApplied() && o.StatefulSet.Exists && !o.StatefulSet.Deleting &&
		o.StatefulSet.Rendering.Checksum == shown.Checksum &&
		len(planner.Outstanding(o, shown)) == 0
}
