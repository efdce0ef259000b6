// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/etcdversion"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// This file decides about the only member while no surge is in progress: whether one begins, and what is left of the last one.

// QueriesOnlyMember is true if the plan of a cluster of one member depends on the responses of the members. This is the case while a surge is in
// progress, and if one may begin. It is also the case while the database is full.
func QueriesOnlyMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) bool {
	pod := o.PodFor(0)

	return o.State.Surge.IsActive() || isSpaceExhausted(etcd, o) || helper.UsesSurge(etcd) && etcd.Spec.Replicas == 1 && pod != nil && surgeCause(etcd, o, *pod, now) != ""
}

// surgeCause returns why the only member has to be replaced, as a part of a sentence. Empty: it does not have to.
func surgeCause(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) string {
	volume := ""
	if claim := o.ClaimFor(pod.Ordinal); claim != nil {
		volume = volumeCause("its volume", etcd, o, *claim)
	}
	switch {
	case volume != "":
		return volume
	case pod.IsOutdated(o.StatefulSet):
		return "its pod template has changed"
	case pod.IsEvictionPending(now):
		return "its eviction is requested"
	default:
		return ""
	}
}

// volumeCause returns why the volume of a claim has to be replaced, as a part of a sentence with the subject. Empty: it does not have to. A claim that
// a user made larger than the spec requests stays as it is.
func volumeCause(subject string, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, claim etcdcluster.Claim) string {
	wanted, class, template := new(helper.StorageCapacity(etcd)).Value(), etcd.Spec.StorageClass, o.StatefulSet.Rendering
	isOtherClass := class != nil && *class != claim.StorageClass && (etcd.Spec.Replicas == 1 || requestsClass(template, *class) || o.State.ReplacesVolumes())
	isSmaller := wanted < claim.Requested && (wanted < template.VolumeSize() || o.State.ReplacesVolumes())
	isLarger := wanted > claim.Requested && isFixed(claim) && (etcd.Spec.Replicas == 1 || o.State.ReplacesVolumes())
	switch {
	case !claim.Exists || !claim.Bound || claim.Deleting:
		return ""
	case isOtherClass:
		return fmt.Sprintf("%s is of StorageClass %q, and %q is requested", subject, claim.StorageClass, *class)
	case isSmaller:
		return fmt.Sprintf("%s has %s, and %s are requested", subject, formatBytes(claim.Requested), formatBytes(wanted))
	case isLarger:
		return fmt.Sprintf("%s has %s and cannot be expanded to %s", subject, formatBytes(claim.Requested), formatBytes(wanted))
	default:
		return ""
	}
}

// requestsClass is true if the class differs from that of the claim template. If it does not, users have chosen the class of a claim.
func requestsClass(template etcdcluster.Rendering, class string) bool {
	templates := template.Fixed.ClaimTemplates

	return len(templates) > 0 && (templates[0].StorageClass == nil || *templates[0].StorageClass != class)
}

// beginSurge decides whether the pod of the only member is replaced by a surge. False: the member is restarted, because a surge is not requested, or
// because it cannot help.
func beginSurge(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) (plan.Plan, bool) {
	pod := o.PodFor(0)
	if !helper.UsesSurge(etcd) || pod == nil || pod.Deleting {
		return p, false
	}
	cause := surgeCause(etcd, o, *pod, now)
	v := viewOf(etcd, o, 1, now)
	only := v.members[0]
	isDown := !only.IsHealthy() && !pod.IsNodeUnreachable() && !pod.Ready && isUnavailable(*pod, now)
	if cause == "" || isDown || refuseSurge(v) != "" {
		return p, false
	}
	p.Stage = stageBeforeSurge(o, *pod, now)
	p.Reason = fmt.Sprintf("%s; %s is replaced through a temporary second member, because %s", v.quorumStatus(), only.Name, cause)
	if waits := holdSurge(v, p, *pod); waits != nil {
		return *waits, true
	}
	p.NextSurge = &state.Surge{Phase: state.SurgeJoin, Since: now, Cause: cause, Pod: pod.UID, Restarts: pod.Restarts(etcdcluster.ContainerEtcd)}
	if claim := o.ClaimFor(0); claim != nil {
		p.NextSurge.Claim, p.NextSurge.ReplacesVolume = claim.UID, volumeCause("", etcd, o, *claim) != ""
	}
	p.ScaleUp = &plan.Size{Replicas: etcdcluster.SurgeSize, ClusterSize: etcdcluster.SurgeSize}

	return p, true
}

// restartHint is the remedy for a surge that does not begin. A CustomResourceDefinition may prune the field.
const restartHint = "To restart the member instead, set spec.etcd.updateStrategy to Restart. If the spec has no update strategy, the annotation " +
	druidv1alpha1.UpdateStrategyAnnotation + "=Restart does the same"

// recordReplacement records with the first rendering of another claim template that a surge replaces the volume. Afterwards, the StatefulSet has the new
// claim template. Only the record then distinguishes a volume that is to be smaller from one that a user has expanded. It stays until the volume is
// as requested. The member may restart, hibernate or get another update strategy before, and a surge may end without it. A migration replaces the volume if
// members are added. The record of a surge in progress is about the claim that it names: it has replaced every other one.
func recordReplacement(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) plan.Plan {
	last, claim := o.State.Surge, o.ClaimFor(0)
	isRecorded := last != nil && last.ReplacesVolume && etcd.Spec.Replicas <= 1
	isReplacing := p.Surge != nil && p.Surge.Phase == state.SurgeDiscard // the claim in the record is deleted now
	if !p.Render || isReplacing || claim == nil || !isRecorded && !replacesVolumes(etcd, o) && !last.IsActive() {
		return p
	}
	if last.IsActive() && claim.UID != last.Claim {
		replaced := *last
		replaced.ReplacesVolume = false
		o.State.Surge = &replaced
	}
	cause := volumeCause("its volume", etcd, o, *claim)
	if cause == "" {
		return p
	}
	next := state.Surge{Phase: state.SurgeRequested, Since: now, Cause: cause}
	switch {
	case p.Surge != nil:
		next = *p.Surge
	case last != nil && !last.IsActive():
		next = *last
	}
	next.ReplacesVolume, next.Claim = true, claim.UID
	p.Surge = &next

	return p
}

// holdSurge returns the plan that waits before a surge begins. Nil: it begins.
func holdSurge(v view, p plan.Plan, pod etcdcluster.Pod) *plan.Plan {
	for _, waits := range []*plan.Plan{heldByNode(p, pod), heldByStore(p, v.etcd, v.o, pod, v.now), notWhileDefragmenting(v.o, p)} {
		if waits != nil {
			return waits
		}
	}
	if p.WaitsFor = awaitedBeforeSurge(v); p.WaitsFor != "" {
		p.PollMembers, p.RequeueAfter = true, unreadyTime
		p.WaitsFor += ". " + restartHint

		return &p
	}
	if only := v.members[0]; awaitedURLs(v.etcd, only) != "" {
		p.Reason += ", after its peer URLs are registered"
		p.Step = registerPeerURLs(only, peers.OwnURLs(v.etcd, only))

		return &p
	}
	last := v.o.State.Surge
	if last == nil || last.Error == "" || last.Revision != v.o.StatefulSet.UpdateRevision {
		return nil
	}
	next := last.Since.Add(surgeRetryPeriod)
	if !v.now.Before(next) {
		return nil
	}
	p.RequeueAfter = next.Sub(v.now)
	p.WaitsFor = fmt.Sprintf("the next attempt at %s, because the last one was aborted: %s. The member keeps running. %s",
		next.UTC().Format(time.RFC3339), last.Error, restartHint)

	return &p
}

// withoutSurge adds to the plan that restarts the only member why it is not replaced by a surge, if that was requested.
func withoutSurge(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	if !helper.UsesSurge(etcd) {
		return p
	}
	if refused := refuseSurge(viewOf(etcd, o, 1, now)); refused != "" {
		p.Reason += "; it is restarted and not replaced by a surge, because " + refused
	}

	return p
}

// stageBeforeSurge is the stage in which a surge begins. A completed generation keeps outdated pods, so that a surge does not begin with the stage
// of their replacement. The eviction of such a pod does not wait for another generation.
func stageBeforeSurge(o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) plan.Stage {
	if pod.IsOutdated(o.StatefulSet) && !pod.IsEvictionPending(now) {
		return plan.StageReplacePod
	}

	return plan.StageSurge
}

// refuseSurge returns why the only member cannot be replaced by a surge. Empty: it can.
func refuseSurge(v view) string {
	pod, statefulSet := v.members[0].Pod, v.o.StatefulSet
	switch {
	case joinsExisting(v.etcd, v.o):
		return "it has joined an existing cluster"
	case pod.PeerTLS != (statefulSet.TLS.PeerCA != ""), isOtherPort(pod.PeerPort, statefulSet.PeerPort):
		return "the peer URLs change"
	case (pod.TLS.ClientCA != "") != (statefulSet.TLS.ClientCA != ""), isOtherPort(pod.ClientPort, statefulSet.ClientPort):
		return "the client URLs change"
	case isDowngrade(v.etcd, v.o):
		return "etcd is downgraded"
	default:
		return ""
	}
}

// isOtherPort is true for two known ports that differ.
func isOtherPort(a, b int32) bool { return a != 0 && b != 0 && a != b }

// isDowngrade is true while the only member runs a newer minor version of etcd than the rendered one. An older member cannot join a newer cluster.
func isDowngrade(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	endpoint := o.Etcd.Endpoint(0)

	return endpoint != nil && endpoint.Version != "" && etcdversion.Compare(renderedVersion(etcd, o), etcdversion.MinorOf(endpoint.Version)) < 0
}

// awaitedBeforeSurge is what has to be true before a surge begins. Empty: all of it is.
func awaitedBeforeSurge(v view) string {
	only := v.members[0]
	switch {
	case !only.IsHealthy():
		return "member " + only.Name + " to be healthy"
	case WaitsForAcceptance(v.etcd, v.o):
		return acceptHint(v.o)
	case !v.isMemberListKnown():
		return awaitedMemberList(v.o)
	case only.Listed == nil || len(v.o.Etcd.MemberList) > 1:
		return "the member list to contain only " + only.Name
	}
	for _, claim := range v.o.Claims {
		if claim.Ordinal == 1 && claim.Exists {
			return fmt.Sprintf("claim %s of an earlier member to be deleted", claim.Name)
		}
	}
	for _, claim := range v.o.ForeignClaims {
		if claim.Ordinal == 1 {
			return fmt.Sprintf("claim %s, which does not belong to this Etcd, to be deleted", claim.Name)
		}
	}

	return ""
}

// keptSurge is the record that stays while the only member needs no replacement: that of a surge that has created its pod. Nil: there is none.
func keptSurge(o etcdcluster.Observation) *state.Surge {
	last, pod := o.State.Surge, o.PodFor(0)
	if last == nil || last.Phase != state.SurgeComplete || pod == nil || pod.UID != last.Pod {
		return nil
	}
	surge := *last
	surge.ReplacesVolume = false // see recordReplacement

	return &surge
}

// restartAfterSurge restarts the only member if it cannot start, and a surge has created its pod. Its sidecar was started in a cluster of two
// members. It does not restore the store if the data is corrupt. The sidecar of the next pod does.
func restartAfterSurge(o etcdcluster.Observation, p plan.Plan, now time.Time) (plan.Plan, bool) {
	pod := o.PodFor(0)
	if keptSurge(o) == nil || !cannotStart(*pod, now) {
		return p, false
	}
	p.Stage, p.Restarts = plan.StageReplacePod, true
	p.Reason = fmt.Sprintf("0 of 1 healthy; %s has not been ready for %s, and its sidecar was started in a cluster of two members", pod.Name, unreadyHoldTime)
	p.Step = deletePod(*pod)

	return p, true
}

// cannotStart is true for a pod that has not been ready for a while, and whose etcd has ended or restarted since then. It is false if only the sidecar is
// not ready.
func cannotStart(pod etcdcluster.Pod, now time.Time) bool {
	isEtcdReady := slices.ContainsFunc(pod.Containers, func(c etcdcluster.Container) bool { return c.Name == etcdcluster.ContainerEtcd && c.Ready })
	runsSince, unreadySince := pod.RunsSince(etcdcluster.ContainerEtcd), pod.ReadinessSince()
	hasRestarted := pod.Restarts(etcdcluster.ContainerEtcd) > 0 && (runsSince.IsZero() || !runsSince.Before(unreadySince))

	return !pod.Ready && !isEtcdReady && !pod.IsNodeUnreachable() && hasRestarted && now.Sub(unreadySince) >= unreadyHoldTime
}
