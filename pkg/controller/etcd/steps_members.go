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

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdclient"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

const (
	// memberPeriod is when the members of a cluster are asked again while it changes: no watch tells of votes and leaders.
	memberPeriod = time.Second
	// repairPeriod is the same where no pod was made lately.
	repairPeriod = 10 * time.Second
	// evictionPeriod is when a refused eviction is tried again.
	evictionPeriod = 3 * time.Second
)

// periodFor is when a plan that waits is computed again even if no watch event arrives.
func periodFor(decision plan.Plan) time.Duration {
	period := stagePeriodFor(decision)
	if decision.ReplanAfter > 0 {
		return min(period, decision.ReplanAfter)
	}

	return period
}

// stagePeriodFor is periodFor for a plan that only an observation changes.
func stagePeriodFor(decision plan.Plan) time.Duration {
	switch decision.Stage {
	case plan.StageRestore:
		if decision.Lively {
			return memberPeriod
		}
		return repairPeriod // of pods a watch tells, and a node may be cut off for days
	case plan.StageWaitForExisting, plan.StageSnapshot, plan.StageGrowVolume:
		return repairPeriod
	case plan.StageGrow, plan.StagePromote, plan.StageReplacePod, plan.StageRepair, plan.StageSettle,
		plan.StageQuorumLost, plan.StageHold:
		if decision.Lively {
			return memberPeriod
		}
		if decision.ClusterSize > 1 {
			return repairPeriod
		}
	}

	return engine.FallbackResync
}

// evict asks the API server, which weighs the PodDisruptionBudget and others who evict at the same time. A refusal is no
// failure.
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

func (r *Reconciler) moveLeader(ctx context.Context, p *pass, step plan.MoveLeader, reason string) error {
	etcd, o := p.canonical, p.observation
	for _, pod := range o.Pods {
		if pod.UID != step.UID {
			continue
		}
		member, err := r.Observer.Member(ctx, etcd, pod)
		if err != nil {
			return err
		}
		if err := member.MoveLeader(ctx, step.To); err != nil {
			logf.FromContext(ctx).Info("The leader did not move, trying again", "pod", step.Object, "reason", err.Error())
			return waitForMembers("Waiting for the member in pod %s to hand over: %s (%s)", step.Object, err, reason)
		}
		r.event(etcd, corev1.EventTypeNormal, "MovedLeader", "The member in pod %s handed over to member %s: %s", step.Object, etcdcluster.FormatID(step.To), reason)

		return nil
	}

	return nil // it is another pod by now
}

// promote asks the members that serve, in turn, until one has given the learner its vote.
func (r *Reconciler) promote(ctx context.Context, p *pass, step plan.PromoteMember, reason string) error {
	etcd, o := p.canonical, p.observation
	refusal, err := r.askAny(ctx, etcd, o, func(member etcdclient.Client) error { return member.Promote(ctx, step.Member) })
	switch {
	case err != nil:
		return err
	case refusal != nil:
		logf.FromContext(ctx).Info("The learner did not get its vote, trying again", "pod", step.Object, "reason", refusal.Error())

		return waitForMembers("Waiting for the member in pod %s to get its vote: %s (%s)", step.Object, refusal, reason)
	}
	r.event(etcd, corev1.EventTypeNormal, "PromotedMember", "The member in pod %s got its vote: %s", step.Object, reason)

	return nil
}

// updatePeerURLs asks the members that serve, in turn, until one has had another known by other URLs.
func (r *Reconciler) updatePeerURLs(ctx context.Context, p *pass, step plan.UpdatePeerURLs, reason string) error {
	etcd, o := p.canonical, p.observation
	refusal, err := r.askAny(ctx, etcd, o, func(member etcdclient.Client) error { return member.UpdatePeerURLs(ctx, step.Member, step.URLs) })
	switch {
	case err != nil:
		return err
	case refusal != nil:
		logf.FromContext(ctx).Info("The peer URLs were not updated, trying again", "pod", step.Object, "reason", refusal.Error())

		return waitForMembers("Waiting for the member in pod %s to be known by %s: %s (%s)", step.Object, strings.Join(step.URLs, ", "), refusal, reason)
	}
	r.event(etcd, corev1.EventTypeNormal, "UpdatedPeerURLs", "The member in pod %s is known by %s: %s", step.Object, strings.Join(step.URLs, ", "), reason)

	return nil
}

// askAny asks the members that serve, in turn, until one does not refuse. It returns the last refusal, and an error where nobody
// could be asked.
func (r *Reconciler) askAny(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, ask func(etcdclient.Client) error) (refusal, err error) {
	refusal = errors.New("no member serves")
	for _, pod := range o.Pods {
		answer := o.Etcd.Answer(pod.Ordinal)
		if pod.Deleting || answer == nil || !answer.Serves {
			continue
		}
		member, err := r.Observer.Member(ctx, etcd, pod)
		if err != nil {
			return nil, err
		}
		if refusal = ask(member); refusal == nil {
			return nil, nil
		}
	}

	return refusal, nil
}

// waitForMembers is waitFor for what no watch tells.
func waitForMembers(format string, args ...any) error {
	return plan.Waiting(memberPeriod, format, args...)
}

// isFinal is false while a cluster has fewer members than the spec asks for.
func isFinal(etcd *druidv1alpha1.Etcd, decision plan.Plan) bool {
	return !helper.ManagesPods(etcd) || decision.Replicas == etcd.Spec.Replicas
}

// grow writes the rendering with which the next member joins.
func (r *Reconciler) grow(ctx context.Context, p *pass, mr *resourcesv1alpha1.ManagedResource, decision plan.Plan) error {
	if err := r.checkManagedResource(ctx, p.canonical, p.observation); err != nil {
		return err
	}
	if decision.Replicas == 2 {
		if err := r.checkFirstMember(ctx, p.canonical, p.observation); err != nil {
			return err
		}
	}
	store, _, err := r.resolveStore(ctx, p)
	if err != nil {
		return err
	}
	rendered, err := r.render(p, decision, store)
	if err != nil {
		return err
	}
	if err := r.checkPin(ctx, p, mr, rendered.resource); err != nil {
		return err
	}
	if written, err := r.write(ctx, p, mr, rendered); !written && err != nil {
		return err
	}
	r.event(p.etcd, corev1.EventTypeNormal, "Growing", "Starting member %d of %d: %s", decision.Replicas, p.canonical.Spec.Replicas, decision.Reason)

	return waitForMembers("Waiting for the next member to join: %s", decision.Reason)
}
