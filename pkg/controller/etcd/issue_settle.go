// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	// proofPeriod is when a member that did not take a handshake is tried again: no event tells when it would.
	proofPeriod = 5 * time.Second
	// stagePeriod is when the next stage of a rotation begins after the one before is over.
	stagePeriod = time.Second
)

// settleSecrets does what has to wait until every member was seen to run the rendering: it takes the rotation of CAs one
// stage further, and deletes Secrets that nobody mounts any more.
func (r *Reconciler) settleSecrets(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource) error {
	i := p.issued
	if i.manager == nil {
		return nil
	}
	if secrets.NeedsHandshake(i.rotation.Stage) {
		if missing := r.prove(ctx, p); missing != "" {
			return plan.Waiting(proofPeriod, "Waiting for %s (%s)", missing, secrets.DescribeRotation(i.rotation))
		}
	}
	if err := r.tidy(ctx, p); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, err)
	}
	if next := secrets.AdvanceRotation(i.rotation, r.Clock.Now()); next != i.rotation {
		return r.advance(ctx, p, mr, next)
	}
	return nil
}

// prove makes a handshake with every member, with the credentials that the next stage relies on, and returns what is missing;
// empty: nothing.
func (r *Reconciler) prove(ctx context.Context, p *pass) string {
	if helper.IsHibernated(p.canonical) {
		return ""
	}
	request := observer.Request{AskEtcd: true}
	if i := p.issued; i.modes.Client == state.ModeManaged {
		request.ClientTLS = &etcdcluster.ClientSecrets{CA: i.names.ClientCA, Client: i.names.Client}
		if i.rotation.Stage == state.StageCompleteLeaves {
			// The old CA goes next: what members present has to be valid without it.
			request.ClientTLS.CA = i.nameOf(secrets.ConfigNamesFor(p.canonical.Name).ClientCA)
		}
	}
	o := r.Observer.Observe(ctx, p.canonical, request)
	for ordinal := range int(p.canonical.Spec.Replicas) {
		name := helper.MemberName(p.canonical, ordinal)
		before, now := p.observation.PodFor(ordinal), o.PodFor(ordinal)
		answer := o.Etcd.Answer(ordinal)
		switch {
		case helper.ManagesPods(p.canonical) && (before == nil || now == nil || before.UID != now.UID):
			return "the pod of member " + name
		case answer == nil:
			return "a handshake with member " + name
		case !answer.Serves:
			return fmt.Sprintf("a handshake with member %s: %s", name, answer.Error)
		}
	}
	return ""
}

// advance remembers the next stage, unless the ManagedResource has changed meanwhile. The next pass renders it.
func (r *Reconciler) advance(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource, next state.Rotation) error {
	before := mr.DeepCopy()
	annotations, err := state.Update(mr.Annotations, func(s *state.State) { s.Rotation = &next })
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	mr.Annotations = annotations
	if err := r.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("remembering the rotation of CAs: %w", err))
	}
	if description := secrets.DescribeRotation(next); description != "" {
		r.event(p.etcd, corev1.EventTypeNormal, "RotatingCA", "Stage %s: %s", next.Stage, description)
	} else {
		r.event(p.etcd, corev1.EventTypeNormal, "RotatedCA", "The rotation of the CAs is complete")
	}
	return plan.Waiting(stagePeriod, "Waiting for the next stage of the rotation of the CAs")
}

// tidy deletes what was issued earlier and is mounted no more, and the connection of a cluster that is not ours to
// describe any more.
func (r *Reconciler) tidy(ctx context.Context, p *pass) error {
	i := p.issued
	if i.modes.Client == state.ModeManaged {
		if err := r.ensureConnection(ctx, p); err != nil {
			return err
		}
	} else if err := r.deleteConnection(ctx, p.etcd); err != nil {
		return err
	}
	current := i.current(p.canonical.Name)
	if p.newest != nil && i.rotation.Stage != state.StageCompleteBundle && slices.ContainsFunc(p.newest.current(p.canonical.Name), func(name string) bool { return !slices.Contains(current, name) }) {
		return nil // the next pass would issue them again
	}
	if i.rotation.Stage != state.StageCompleteBundle && !slices.ContainsFunc(p.observation.Issued, func(secret etcdcluster.IssuedSecret) bool { return !slices.Contains(current, secret.Name) }) {
		return nil
	}
	if err := i.manager.Cleanup(ctx); err != nil {
		return fmt.Errorf("deleting Secrets that nobody mounts: %w", err)
	}
	return nil
}

// current are the names of all Secrets that are in use.
func (i *issued) current(etcdName string) []string {
	configs := secrets.ConfigNamesFor(etcdName)
	names := []string{i.names.ClientCA, i.names.PeerCA, i.nameOf(configs.ClientCA), i.nameOf(configs.PeerCA)}
	for _, secret := range i.secrets {
		names = append(names, secret.Name)
	}
	return names
}

// takeRotationAnnotation removes the annotation that asks for a rotation of the CAs from the Etcd in memory, once it was taken up
// or cannot be. It returns whether anything was removed.
func (r *Reconciler) takeRotationAnnotation(p *pass, etcd *druidv1alpha1.Etcd) bool {
	value, found := etcd.Annotations[druidv1alpha1.RotateCAAnnotation]
	if !found || p.issued == nil {
		return false
	}
	recorded := ptr.Deref(p.observation.State.Rotation, state.Rotation{})
	err := secrets.CheckAnnotation(value)
	switch gardener := p.observation.Gardener; {
	case err != nil:
	case !p.issued.modes.AnyManaged():
		err = fmt.Errorf("the CAs are not issued by the operator: rotate them where the Secrets of the spec come from")
	case gardener.Cluster != nil || gardener.Garden != nil:
		err = fmt.Errorf("the CAs follow the rotation of the shoot or garden")
	case !secrets.HasConsumed(recorded, value):
		return false
	}
	if err != nil {
		r.event(p.etcd, corev1.EventTypeWarning, "RotationIgnored", "The annotation %s=%s has no effect: %s", druidv1alpha1.RotateCAAnnotation, value, err)
	}
	delete(etcd.Annotations, druidv1alpha1.RotateCAAnnotation)
	return true
}
