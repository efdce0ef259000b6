// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// keeping is what keeping a cluster at what was accepted last came to.
type keeping struct {
	// generation that was accepted last.
	generation int64
	// err is what is left to be done or waited for. Nil: nothing.
	err error
	// store is the condition StoreResolved of that generation. Nil: it was not computed, or that generation has no store.
	store *druidv1alpha1.Condition
}

// keep carries out what was accepted last, since the newest generation is not carried out: a cluster that runs keeps what it has,
// its certificates are renewed, its CAs are rotated, and what was begun is brought to its end. It returns why the newest
// generation is not carried out. Where it is not known what was accepted last, lost volumes alone are replaced.
func (r *Reconciler) keep(ctx context.Context, p *pass, why error) error {
	kept, err := r.passToKeep(ctx, p, why)
	if err != nil {
		return err
	}
	if kept == nil && isForeign(why) {
		return why // nothing that runs under these names is known to be of this Etcd
	}
	if kept == nil {
		return r.repairBeside(ctx, p, why)
	}
	err = r.observe(ctx, kept, kept.canonical)
	if err == nil {
		err = r.rollOut(ctx, kept)
	}
	if engine.IsInterrupted(err) {
		return err
	}
	if err != nil && kept.observed && !kept.reached {
		_ = r.repairBeside(ctx, kept, why)
	}
	p.take(kept, err)

	return why
}

// passToKeep returns the pass that carries out what was accepted last, as if the Etcd had that spec still. Annotations of the
// Etcd that describe it, and have never needed to be accepted, count as they are; those that ask for something are about the
// newest generation. Nil: nothing is known, the Etcd is being given back, or somebody wants another store to be used, which an
// earlier spec says nothing about.
func (r *Reconciler) passToKeep(ctx context.Context, p *pass, why error) (*pass, error) {
	mr, err := r.currentManagedResource(ctx, p.etcd)
	if err != nil || mr == nil || mr.DeletionTimestamp != nil {
		return nil, err
	}
	recorded := state.Decode(mr.Annotations)
	if recorded.HandBack != 0 {
		return nil, nil // its Secrets may be etcd-druid's already, and others would be issued
	}
	accepted := recorded.Accepted
	if accepted == nil || accepted.Spec == nil {
		return nil, nil
	}
	if accepted.Spec.Backup.Store != nil && mr.Annotations[druidv1alpha1.ManagedResourceAnnotationStore] == "" {
		return nil, nil
	}
	etcd := p.etcd.DeepCopy()
	etcd.Generation, etcd.Spec = accepted.Generation, *accepted.Spec.DeepCopy()
	helper.RemoveOperationAnnotations(etcd)
	delete(etcd.Annotations, druidv1alpha1.RestoreAnnotation)
	if !p.observed {
		delete(etcd.Annotations, druidv1alpha1.RotateCAAnnotation) // nobody would take it away
	}
	if !engine.ResultOf(why).KeepOperation { // what comes of the newest generation is all that the status tells of in a moment
		accepted.Completed = accepted.Completed || isOver(etcd)
	}

	return &pass{etcd: etcd, canonical: etcd.DeepCopy(), accepted: accepted, keeps: true, newest: p.issued}, nil
}

// take takes over what the pass that keeps a cluster has learned.
func (p *pass) take(kept *pass, err error) {
	p.kept = &keeping{generation: kept.etcd.Generation, err: err}
	if kept.store != nil {
		p.kept.store = conditions.StoreResolved(kept.canonical, *kept.store)
	}
	p.comeBack, p.repairing = kept.comeBack, kept.repairing
	if kept.issued != nil {
		p.issued = kept.issued
	}
	if kept.finalSnapshotSeen {
		p.finalSnapshot, p.finalSnapshotSeen = kept.finalSnapshot, true
	}
}

// plan asks the planner. What was accepted is not judged again.
func (p *pass) plan(now time.Time) plan.Plan {
	if p.keeps {
		return planner.ForAccepted(p.canonical, p.observation, now)
	}

	return planner.For(p.canonical, p.observation, now)
}
