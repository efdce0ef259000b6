// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
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
	leader, name, err := r.leaderOf(ctx, run, step)
	if leader == nil || err != nil {
		return err
	}
	if err := leader.MoveLeader(ctx, step.To); err != nil {
		logf.FromContext(ctx).Info("Leader transfer failed, retrying", "leader", name, "reason", err.Error())
		return waitForMembers("Waiting for the %s to transfer its leadership: %s (%s)", name, err, reason)
	}
	r.event(run.Target.Etcd, corev1.EventTypeNormal, "MovedLeader", "The %s transferred its leadership to member %s: %s", name, etcdcluster.FormatID(step.To), reason)

	return nil
}

// leaderOf returns a client of the leader, and its name for messages. Nil: its pod is another one by now.
func (r *execution) leaderOf(ctx context.Context, run *engine.Run, step plan.MoveLeader) (etcdclient.Client, string, error) {
	etcd, o := run.Target.Etcd, run.Observation
	if step.Endpoint != "" {
		leader, err := r.Observer.ExistingMember(ctx, etcd, o, step.Endpoint)

		return leader, "member of the joined cluster at " + step.Endpoint, err
	}
	for _, pod := range o.Pods {
		if pod.UID == step.UID {
			leader, err := r.Observer.Member(ctx, etcd, pod)

			return leader, "member in pod " + step.Object, err
		}
	}

	return nil, "", nil
}

// changeMembership promotes or removes a member.
func (r *execution) changeMembership(ctx context.Context, run *engine.Run, step plan.Step, reason string) error {
	if removal, is := step.(plan.RemoveMember); is {
		return r.removeMember(ctx, run, removal, reason)
	}

	return r.promote(ctx, run, step.(plan.PromoteMember), reason)
}

// promote requests the promotion of a learner from the healthy members, one after the other, until one succeeds.
func (r *execution) promote(ctx context.Context, run *engine.Run, step plan.PromoteMember, reason string) error {
	etcd, o := run.Target.Etcd, run.Observation
	if err := r.checkLag(ctx, etcd, o, step); err != nil {
		return waitForMembers("Waiting for the promotion of the member in pod %s: %s (%s)", step.Object, err, reason)
	}
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

// checkLag returns an error if the learner lacks more entries of the log than the step allows. It reads the log of the leader first.
func (r *Reconciler) checkLag(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, step plan.PromoteMember) error {
	if step.MaxLag == 0 {
		return nil
	}
	leader, learner := o.Leader(), podWithUID(o, step.UID)
	if leader == nil || learner == nil {
		return errors.New("there is no leader, or the pod has changed")
	}
	var statuses [2]etcdcluster.EndpointStatus
	for i, pod := range []etcdcluster.Pod{*leader, *learner} {
		member, err := r.Observer.Member(ctx, etcd, pod)
		if err != nil {
			return err
		}
		if statuses[i], _, err = member.Status(ctx); err != nil {
			return fmt.Errorf("the status of the member in pod %s: %w", pod.Name, err)
		}
	}
	last, applied := statuses[0].RaftIndex, statuses[1].RaftAppliedIndex
	if lag := last - min(last, applied); lag > step.MaxLag {
		return fmt.Errorf("the learner lacks %d entries of the log, and may lack %d", lag, step.MaxLag)
	}

	return nil
}

// podWithUID returns the observed pod with the UID. Nil: there is none.
func podWithUID(o etcdcluster.Observation, uid types.UID) *etcdcluster.Pod {
	for i := range o.Pods {
		if o.Pods[i].UID == uid {
			return &o.Pods[i]
		}
	}

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

// removeMember requests the removal of a member from the healthy members, one after the other, until one succeeds. Before, the status must
// report the removal in the condition ScaleOperationComplete: another controller may depend on it.
func (r *execution) removeMember(ctx context.Context, run *engine.Run, step plan.RemoveMember, reason string) error {
	etcd, o := run.Target.Etcd, run.Observation
	condition := conditions.Find(run.Target.Stored.Status.Conditions, druidv1alpha1.ConditionTypeScaleOperationComplete)
	isReported := condition != nil && (condition.Reason == druidv1alpha1.ReasonScalingIn || condition.Reason == druidv1alpha1.ReasonBootstrapMembersRemoval)
	isScaleOperation := !run.Plan.Surge.IsActive() && (!run.Plan.Migration.IsActive() || run.Observation.State.ScaleIn != nil && !conditions.ChangesOnlyExtraMember(etcd, o))
	if !isReported && isScaleOperation {
		return waitForMembers("Waiting for the condition %s to report the removal of member %s (%s)", druidv1alpha1.ConditionTypeScaleOperationComplete, step.Name, reason)
	}
	if err := r.compareData(ctx, etcd, o, step.Compare); err != nil {
		return waitForMembers("Waiting to remove member %s: %s (%s)", step.Name, err, reason)
	}
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(pod etcdcluster.Pod) bool {
		endpoint := o.Etcd.Endpoint(pod.Ordinal)

		return endpoint != nil && endpoint.MemberID == step.Member // it stops before it responds
	})
	var unsafe error // another member may not respond, which explains less
	refusal, err := r.tryEndpoints(ctx, etcd, o, func(member etcdclient.Client) error {
		err := member.RemoveMember(ctx, step.Member)
		if errors.Is(err, etcdclient.ErrQuorumUnsafe) {
			unsafe = err
		}

		return err
	})
	switch {
	case err != nil:
		return err
	case refusal != nil:
		logf.FromContext(ctx).Info("Removal of the member failed, retrying", "member", step.Name, "reason", refusal.Error())
		if unsafe != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeQuorumUnsafeMemberRemoval, fmt.Errorf("removal of member %s: %w (%s)", step.Name, unsafe, reason))
		}

		return waitForMembers("Waiting for the removal of member %s: %s (%s)", step.Name, refusal, reason)
	}
	r.event(etcd, corev1.EventTypeNormal, "RemovedMember", "Removed member %s: %s", step.Name, reason)

	return nil
}

// compareData returns an error if the members in the pods do not have the same keys at the same revision. No pods: nothing is compared.
func (r *Reconciler) compareData(ctx context.Context, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, uids []types.UID) error {
	if len(uids) == 0 {
		return nil
	}
	var members []consistency.Member
	for _, pod := range o.Pods {
		if slices.Contains(uids, pod.UID) {
			members = append(members, consistency.Member{Name: pod.Name, Ordinal: pod.Ordinal})
		}
	}
	if len(members) != len(uids) {
		return fmt.Errorf("only %d of the %d pods whose data is compared exist", len(members), len(uids))
	}
	first, err := r.Observer.Member(ctx, etcd, *o.PodFor(members[0].Ordinal))
	if err != nil {
		return err
	}
	revision, err := first.Revision(ctx)
	if err != nil {
		return err
	}
	result, err := consistency.Compare(ctx, members, revision, func(m consistency.Member) (consistency.Hasher, error) {
		return r.Observer.Member(ctx, etcd, *o.PodFor(m.Ordinal))
	})
	if err == nil && !result.IsEqual() {
		err = fmt.Errorf("the members have different data %s: %s", result, consistency.Remedy(o.State.Surge.IsActive()))
	}

	return err
}

// patchPod sets a label for the client Service or the annotation for the kubelet. The containers of the pod keep running.
func (r *Reconciler) patchPod(ctx context.Context, etcd *druidv1alpha1.Etcd, step plan.Step, reason string) error {
	pod := &corev1.Pod{ObjectMeta: objectMeta(etcd, step)}
	pod.UID = plan.MetaOf(step).UID // the API server rejects the patch of a pod with another UID
	patch := client.MergeFrom(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
	if refresh, is := step.(plan.RefreshPod); is {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, druidv1alpha1.PodAnnotationRefreshed, refresh.Rendering)
	}
	if selection, is := step.(plan.SelectPod); is {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, druidv1alpha1.PodLabelAcceptsClients, strconv.Itoa(int(selection.Remaining)))
	}
	exclusion, isExclusion := step.(plan.ExcludePod)
	if isExclusion {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, druidv1alpha1.LabelAppNameKey, nameLabelOf(etcd, exclusion.Excluded))
	}
	err := r.Client.Patch(ctx, pod, patch)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it is another pod by now
	}
	if err == nil && isExclusion {
		r.announceExclusion(etcd, exclusion, reason)
	}

	return err
}

// nameLabelOf is the value of the label app.kubernetes.io/name of a pod. The client Service selects only pods with the name of their Etcd while pods are
// excluded.
func nameLabelOf(etcd *druidv1alpha1.Etcd, isExcluded bool) string {
	if isExcluded {
		return druidv1alpha1.PodNameExcluded
	}

	return etcd.Name
}

// announceExclusion reports that clients do not reach a member through the client Service any more, or that they do again.
func (r *Reconciler) announceExclusion(etcd *druidv1alpha1.Etcd, step plan.ExcludePod, reason string) {
	if step.Excluded {
		eventType := corev1.EventTypeNormal
		if step.OtherData {
			eventType = corev1.EventTypeWarning
		}
		r.event(etcd, eventType, "ExcludedMember", "Service %s does not select pod %s any more: %s", helper.ClientServiceName(etcd), step.Object, reason)
	} else {
		r.event(etcd, corev1.EventTypeNormal, "SelectedMember", "Service %s selects pod %s again: %s", helper.ClientServiceName(etcd), step.Object, reason)
	}
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
