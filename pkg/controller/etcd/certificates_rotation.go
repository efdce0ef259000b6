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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/observer"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

const (
	// handshakePeriod is when the operator repeats a failed handshake with a member: no watch reports when it would succeed.
	handshakePeriod = 5 * time.Second
	// stagePeriod is the time between the end of a stage of a rotation and the next stage.
	stagePeriod = time.Second
)

// Complete implements engine.Executor. It runs once every member runs the rendering.
func (r *execution) Complete(ctx context.Context, run *engine.Run) error {
	if err := r.deleteBundles(ctx, r.cached(), run.Target.Stored, run.Observation.MountedSecrets()); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, err)
	}
	rotation := run.Target.Rotation
	if r.issuedFor(run).manager == nil {
		return nil
	}
	if secrets.NeedsHandshake(rotation.Stage) {
		if missing := r.verifyHandshakes(ctx, run); missing != "" {
			return plan.Waiting(handshakePeriod, "Waiting for %s (%s)", missing, secrets.DescribeRotation(rotation))
		}
	}
	if err := r.cleanupSecrets(ctx, run); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeDeleteSecrets, err)
	}
	if next := secrets.AdvanceRotation(rotation, r.Clock.Now()); next != rotation {
		return r.advance(ctx, run, r.current, next)
	}
	return nil
}

// verifyHandshakes makes a handshake with every member, with the credentials that the next stage relies on, and returns what is missing;
// empty: nothing.
func (r *execution) verifyHandshakes(ctx context.Context, run *engine.Run) string {
	if helper.IsHibernated(run.Target.Etcd) {
		return ""
	}
	request := observer.Request{QueryEtcd: true}
	if t := run.Target; t.TLS.Client == state.ModeManaged {
		request.ClientTLS = &etcdcluster.ClientSecrets{CA: t.Secrets.ClientCA, Client: t.Secrets.Client}
		if t.Rotation.Stage == state.StageCompleteLeaves {
			// The old CA goes next: what members present has to be valid without it.
			request.ClientTLS.CA = r.issuedFor(run).nameOf(secrets.ConfigNamesFor(run.Target.Etcd.Name).ClientCA)
		}
	}
	o := r.Observer.Observe(ctx, run.Target.Etcd, request)
	// Members that a scale-in removes vote until then.
	for ordinal := range int(max(run.Target.Etcd.Spec.Replicas, etcdcluster.RenderedReplicas(run.Observation))) {
		name := helper.MemberName(run.Target.Etcd, ordinal)
		before, now := run.Observation.PodFor(ordinal), o.PodFor(ordinal)
		response := o.Etcd.Endpoint(ordinal)
		switch {
		case helper.ManagesPods(run.Target.Etcd) && (before == nil || now == nil || before.UID != now.UID):
			return "the pod of member " + name
		case response == nil:
			return "a handshake with member " + name
		case !response.Healthy:
			return fmt.Sprintf("a handshake with member %s: %s", name, response.Error)
		}
	}
	return ""
}

// advance records the next stage, unless the ManagedResource has changed meanwhile. The next reconciliation renders it.
func (r *execution) advance(ctx context.Context, run *engine.Run, mr *resourcesv1alpha1.ManagedResource, next state.Rotation) error {
	before := mr.DeepCopy()
	annotations, err := state.Update(mr.Annotations, func(s *state.State) { s.Rotation = &next })
	if err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, err)
	}
	mr.Annotations = annotations
	if err := r.Client.Patch(ctx, mr, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncManagedResource, fmt.Errorf("recording the rotation of the CAs: %w", err))
	}
	if description := secrets.DescribeRotation(next); description != "" {
		r.event(run.Target.Stored, corev1.EventTypeNormal, "RotatingCA", "Stage %s: %s", next.Stage, description)
	} else {
		r.event(run.Target.Stored, corev1.EventTypeNormal, "RotatedCA", "The rotation of the CAs is complete")
	}
	return plan.Waiting(stagePeriod, "Waiting for the next stage of the rotation of the CAs")
}

// cleanupSecrets deletes issued Secrets that are mounted no more. It deletes also the connection Secret of a cluster that does not use issued
// certificates any more.
func (r *execution) cleanupSecrets(ctx context.Context, run *engine.Run) error {
	i, t := r.issuedFor(run), run.Target
	if t.TLS.Client == state.ModeManaged {
		if err := r.ensureIssuedConnection(ctx, run); err != nil {
			return err
		}
	} else if err := r.deleteConnection(ctx, run.Target.Stored); err != nil {
		return err
	}
	if newest := run.Newest(); newest != nil && t.Rotation.Stage != state.StageCompleteBundle && r.issuedFor(newest).isPartial {
		return nil // it is not known what the newest generation needs
	}
	current := i.current(t.Etcd.Name)
	if newest := run.Newest(); newest != nil && t.Rotation.Stage != state.StageCompleteBundle &&
		slices.ContainsFunc(r.issuedFor(newest).current(t.Etcd.Name), func(name string) bool { return name != "" && !slices.Contains(current, name) }) {
		return nil // the next reconciliation would issue them again
	}
	if t.Rotation.Stage != state.StageCompleteBundle && !slices.ContainsFunc(run.Observation.Issued, func(secret etcdcluster.IssuedSecret) bool { return !slices.Contains(current, secret.Name) }) {
		return nil
	}
	if err := i.manager.Cleanup(ctx); err != nil {
		return fmt.Errorf("deleting Secrets that no pod mounts: %w", err)
	}
	return nil
}

// current are the names of all Secrets that are in use.
func (i *issued) current(etcdName string) []string {
	configs := secrets.ConfigNamesFor(etcdName)
	mounted := i.mounted(etcdName)
	names := []string{mounted.ClientCA, mounted.PeerCA, i.nameOf(configs.ClientCA), i.nameOf(configs.PeerCA)}
	for _, secret := range i.secrets {
		names = append(names, secret.Name)
	}
	return names
}
