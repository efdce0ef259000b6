// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

const (
	// evictionPeriod is when a refused eviction is tried again.
	evictionPeriod = 3 * time.Second
)

// evict creates an Eviction. The API server applies the PodDisruptionBudget, also to concurrent evictions. A rejection is no failure.
func (r *Reconciler) evict(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.EvictPod, reason string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: step.Object}}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: etcd.Namespace, Name: step.Object},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &step.UID}},
	}
	err := r.Client.SubResource("eviction").Create(ctx, pod, eviction)
	switch {
	case apierrors.IsTooManyRequests(err):
		return plan.Waiting(evictionPeriod, "Waiting for the eviction of pod %s to be allowed: %s (%s)", step.Object, err, reason)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // it is another pod by now
	case err != nil:
		return fmt.Errorf("evicting pod %s: %w", step.Object, err)
	}
	r.event(etcd, corev1.EventTypeNormal, "ReplacingPod", "Evicted pod %s: %s", step.Object, reason)

	return nil
}

func (r *execution) moveLeader(ctx context.Context, run *engine.Run, step plan.MoveLeader, reason string) error {
	etcd, o := run.Target.Etcd, run.Observation
	for _, pod := range o.Pods {
		if pod.UID != step.UID {
			continue
		}
		member, err := r.Observer.Member(ctx, etcd, pod)
		if err != nil {
			return err
		}
		if err := member.MoveLeader(ctx, step.To); err != nil {
			logf.FromContext(ctx).Info("Leader transfer failed, retrying", "pod", step.Object, "reason", err.Error())
			return waitForMembers("Waiting for the member in pod %s to transfer its leadership: %s (%s)", step.Object, err, reason)
		}
		r.event(etcd, corev1.EventTypeNormal, "MovedLeader", "The member in pod %s transferred its leadership to member %s: %s", step.Object, etcdcluster.FormatID(step.To), reason)

		return nil
	}

	return nil // it is another pod by now
}

// promote requests the promotion of a learner from the healthy members, one after the other, until one succeeds.
func (r *execution) promote(ctx context.Context, run *engine.Run, step plan.PromoteMember, reason string) error {
	etcd, o := run.Target.Etcd, run.Observation
	refusal, err := r.tryEndpoints(ctx, etcd, o, func(member etcdclient.Client) error { return member.Promote(ctx, step.Member) })
	switch {
	case err != nil:
		return err
	case refusal != nil:
		logf.FromContext(ctx).Info("Promotion of the learner failed, retrying", "pod", step.Object, "reason", refusal.Error())

		return waitForMembers("Waiting for the promotion of the member in pod %s: %s (%s)", step.Object, refusal, reason)
	}
	r.event(etcd, corev1.EventTypeNormal, "PromotedMember", "Promoted the member in pod %s to a voting member: %s", step.Object, reason)

	return nil
}

// updatePeerURLs requests the new peer URLs of a member from the healthy members, one after the other, until one registers them.
func (r *execution) updatePeerURLs(ctx context.Context, run *engine.Run, step plan.UpdatePeerURLs, reason string) error {
	etcd, o := run.Target.Etcd, run.Observation
	refusal, err := r.tryEndpoints(ctx, etcd, o, func(member etcdclient.Client) error { return member.UpdatePeerURLs(ctx, step.Member, step.URLs) })
	switch {
	case err != nil:
		return err
	case refusal != nil:
		logf.FromContext(ctx).Info("Update of the peer URLs failed, retrying", "pod", step.Object, "reason", refusal.Error())

		return waitForMembers("Waiting for the member in pod %s to be registered with %s: %s (%s)", step.Object, strings.Join(step.URLs, ", "), refusal, reason)
	}
	r.event(etcd, corev1.EventTypeNormal, "UpdatedPeerURLs", "Registered the member in pod %s with %s: %s", step.Object, strings.Join(step.URLs, ", "), reason)

	return nil
}

// tryEndpoints calls the healthy members, one after the other, until one accepts. It returns the last refusal, and an error if no call was possible.
func (r *Reconciler) tryEndpoints(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, request func(etcdclient.Client) error) (refusal, err error) {
	refusal = errors.New("no member is healthy")
	for _, pod := range o.Pods {
		response := o.Etcd.Endpoint(pod.Ordinal)
		if pod.Deleting || response == nil || !response.Healthy {
			continue
		}
		member, err := r.Observer.Member(ctx, etcd, pod)
		if err != nil {
			return nil, err
		}
		if refusal = request(member); refusal == nil {
			return nil, nil
		}
	}

	return refusal, nil
}

// waitForMembers returns a problem that waits for a change of the members, which no watch reports.
func waitForMembers(format string, args ...any) error {
	return plan.Waiting(engine.MemberPeriod, format, args...)
}
