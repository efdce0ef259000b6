// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// For decides what is done for a canonical Etcd that is not being deleted. It is total: a spec that cannot be rolled out results in a plan
// with a Refusal.
//
// The plan contains what to render. Call Gate with the rendering before the step is executed.
func For(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	o.State = o.State.BeforeNow(now)
	p := keepRecovery(etcd, o, recordReplacement(etcd, o, holdDiscard(etcd, o, decide(etcd, o, now)), now), now)
	if p.EtcdVersion == "" {
		p.EtcdVersion = renderedVersion(etcd, o)
	}

	return p
}

func decide(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	if p, decided := guard(etcd, o, now); decided {
		return p
	}
	etcd = withLastSize(etcd, o)
	switch {
	case !helper.ManagesPods(etcd):
		// The operator does not start these members. The user who starts them decides when their version changes.
		return plan.Plan{
			Stage: plan.StageExternallyManaged, Render: true, ClusterSize: etcd.Spec.Replicas, EtcdVersion: helper.EtcdVersion(etcd),
			Reason: "the members are managed externally; only their configuration is rendered",
		}
	case helper.IsHibernated(etcd) && !o.State.Surge.IsActive():
		return planHibernation(etcd, o, now)
	}
	if p, is := planRestore(etcd, o, now); is {
		return p
	}
	if o.State.Surge.IsActive() {
		return withRestore(planSurge(etcd, o, now), etcd, o, now)
	}
	if p, waits := waitForOrphanedClaims(etcd, o); waits {
		return withRestore(p, etcd, o, now)
	}
	if p, waits := waitForExisting(etcd, o); waits {
		return p
	}
	if p, verifies := verifyEmptyStart(etcd, o, now); verifies && startsFirstAlone(etcd, o) {
		return p
	}
	p := planMultiMember(etcd, o, now)
	if isSingle(etcd, o) {
		p = planSingle(etcd, o, now)
	}

	p = withRestore(resetLostSnapshots(releaseVolumes(joining(p, o), etcd, o), etcd, o, now), etcd, o, now)

	return changeVersion(etcd, o, p, now)
}

// ForAccepted decides for a canonical Etcd as it was accepted last, while a later generation is blocked or is refused. It is the same as
// For, but volumes that cannot have the accepted size any more do not block other changes.
func ForAccepted(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	if o.State.Surge.IsActive() || o.State.ReplacesVolumes() {
		return For(etcd, o, now) // its cause may be that a volume cannot be expanded
	}
	o.Claims = slices.Clone(o.Claims)
	for i := range o.Claims {
		o.Claims[i].Expandable = nil
	}

	return For(etcd, o, now)
}

// ForRepair decides for a canonical Etcd whose spec is not rolled out now, because it is refused or no annotation requests it yet. The
// rendering stays as it is. Only a lost volume and the pod of a member that cannot join are replaced: both have the same cause and result with each spec.
func ForRepair(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	p, decided := guardFacts(etcd, o)
	count := etcdcluster.RenderedReplicas(o)
	if decided || count < 2 || !o.StatefulSet.Exists || !helper.ManagesPods(etcd) {
		return p
	}
	v, _ := viewOf(etcd, o, count, now).withoutLeaving()
	p = plan.Plan{Stage: plan.StageDone, ClusterSize: max(o.State.Size, count), PollMembers: v.hasNewPod(), Reason: v.quorumStatus()}
	if decided, is := firstDecision(v, p, haltOnClusterIDMismatch, withoutQuorum, deleteInspection, replaceLostVolumes, replaceLearner, waitForMembers); is {
		p = decided
	}
	if !slices.Contains([]plan.Stage{plan.StageReplaceVolume, plan.StageReplaceLearner, plan.StageSnapshot, plan.StageQuorumLost}, p.Stage) {
		p.Step = nil
	}

	return holdDiscard(etcd, o, p)
}

// guard stops if no plan is possible: facts are missing, the spec is refused, or objects of a previous owner exist.
func guard(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (plan.Plan, bool) {
	if p, decided := guardFacts(etcd, o); decided {
		return p, true
	}
	if refusal := refuseSize(etcd, o); refusal != nil {
		return plan.Plan{Stage: plan.StageRefused, Reason: "the spec cannot be rolled out", Refusal: refusal}, true
	}
	if refusal := refuseVolumes(etcd, o); refusal != nil && !o.State.Surge.IsActive() && !o.State.Migration.IsActive() { // both end, whatever the database needs by now
		return plan.Plan{Stage: plan.StageRefused, Reason: "the spec cannot be rolled out", Refusal: refusal}, true
	}
	if missing := etcdcluster.MissingSecrets(o); len(missing) > 0 && etcd.Spec.Replicas > 0 && !isOfSurge(etcd, o) {
		return plan.Plan{Stage: plan.StageWaitForSecrets, Reason: "nothing starts before its secrets exist", WaitsFor: strings.Join(missing, "; ")}, true
	}
	if problem := etcdcluster.NewCertificatesProblem(etcd, o, now); problem != "" && etcd.Spec.Replicas > 0 && helper.ManagesPods(etcd) && !isOfSurge(etcd, o) {
		return plan.Plan{Stage: plan.StageWaitForCertificates, Reason: "no pod starts with certificates that do not verify", WaitsFor: problem}, true
	}

	return plan.Plan{}, false
}

// guardFacts stops if facts are missing or objects of a previous owner exist.
func guardFacts(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (plan.Plan, bool) {
	for _, section := range []etcdcluster.Section{etcdcluster.SectionManagedResource, etcdcluster.SectionStatefulSet, etcdcluster.SectionPods, etcdcluster.SectionClaims, etcdcluster.SectionStorageClasses, etcdcluster.SectionSecrets, etcdcluster.SectionTasks} {
		if failure := o.Failure(section); failure != "" {
			return plan.Plan{Stage: plan.StageObserve, Reason: "nothing is decided without all facts", WaitsFor: fmt.Sprintf("reading %s: %s", section, failure)}, true
		}
	}
	if owner := o.StatefulSet.OwnerUID; o.StatefulSet.Exists && owner != "" && owner != etcd.UID {
		return plan.Plan{
			Stage: plan.StageWaitForPreviousOwner, Reason: "the StatefulSet belongs to a previous Etcd of this name",
			WaitsFor: fmt.Sprintf("StatefulSet %s, owned by an object with UID %s, to be gone", o.StatefulSet.Name, owner),
		}, true
	}

	return plan.Plan{}, false
}

// refuseSize refuses what the API refuses, compared with the last size of the cluster. The API server compares with the spec only. On seeds
// on which gardenlet applies an older CustomResourceDefinition, it does not compare at all.
func refuseSize(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *plan.Refusal {
	if errs := validation.ValidateSize(etcd, etcdcluster.LastSize(o)); len(errs) > 0 {
		return &plan.Refusal{Field: errs[0].Field, Message: errs[0].ErrorBody()}
	}

	return nil
}

// planSingle plans for a cluster of one member.
func planSingle(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	p := plan.Plan{Render: true, Replicas: 1, ClusterSize: 1, PodSize: podSizeOf(etcd, o, now), Surge: o.State.Surge, Space: spaceToRecord(etcd, o, now)}
	pod := o.PodFor(0)
	switch {
	case !o.StatefulSet.Exists && pod != nil:
		p.Stage = plan.StageRecreateStatefulSet
		p.Reason = "the StatefulSet was deleted without its pod and is created again"
	case !o.StatefulSet.Exists && !anyClaim(o):
		p.Stage = plan.StageCreate
		p.Reason = "0 of 1 members exist; the first is created"
	case !o.StatefulSet.Exists || o.StatefulSet.SpecReplicas == 0:
		p.Stage = plan.StageWakeUp
		p.Reason = "0 of 1 members run; the member is started with its existing data"
	default:
		return planSinglePod(etcd, o, p, now)
	}
	p.WaitsFor = awaitedSinglePod(etcd, o, now)

	return p
}

func anyClaim(o etcdcluster.Observation) bool {
	for _, claim := range o.Claims {
		if claim.Exists {
			return true
		}
	}

	return false
}

// planSinglePod plans for the pod of a single member with a StatefulSet of one replica.
func planSinglePod(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) plan.Plan {
	pod := o.PodFor(0)
	healthy := etcdcluster.HealthyVoters(etcdcluster.MembersFor(etcd, o))
	if freed, is := freeSpace(viewOf(etcd, o, 1, now), p); is {
		return freed
	}
	if surge, begins := beginSurge(etcd, o, p, now); begins {
		return surge
	}
	switch {
	case pod == nil || pod.Deleting:
		p.Stage = plan.StageWaitForMembers
		p.Reason = fmt.Sprintf("%d of 1 healthy; the StatefulSet starts the member", healthy)
		p.WaitsFor = awaitedSinglePod(etcd, o, now)
	case pod.IsOutdated(o.StatefulSet):
		p.Surge = keptSurge(o)
		p.Restarts = (o.State.PodSize > 0 || p.Surge != nil) && cannotStart(*pod, now)

		return withoutSurge(replaceSinglePod(etcd, o, p, now), etcd, o, now)
	case !pod.Ready:
		if restarted, is := restartAfterSurge(o, p, now); is {
			return restarted
		}
		p.Stage = plan.StageWaitForMembers
		p.Reason = fmt.Sprintf("%d of 1 healthy; the member runs the latest rendered manifests", healthy)
		p.WaitsFor = awaitedSinglePod(etcd, o, now)
		if hold := pod.ReadinessSince().Add(unreadyHoldTime); now.Before(hold) && (o.State.PodSize > 0 || keptSurge(o) != nil) {
			p.RequeueAfter = hold.Sub(now) // it may be restarted then
		}
	default:
		p.Surge = keptSurge(o)
		p.Stage = plan.StageDone
		p.Reason = fmt.Sprintf("%d of 1 healthy, and the member runs the latest rendered manifests", healthy)

		return resizeSingleVolume(etcd, o, p, now)
	}

	return p
}

// replaceSinglePod replaces the outdated pod of a single member. The pod stays while its node is unreachable, and while the store is.
func replaceSinglePod(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) plan.Plan {
	pod := o.PodFor(0)
	p.Stage = plan.StageReplacePod
	healthy := etcdcluster.HealthyVoters(etcdcluster.MembersFor(etcd, o))
	p.Reason = replacing(pod.Name, healthy, 0, 1)
	if waits := heldByNode(p, *pod); waits != nil {
		return *waits
	}
	if waits := heldByStore(p, etcd, o, *pod, now); waits != nil {
		return *waits
	}
	if !pod.Ready && healthy == 0 {
		p.Reason = replacing(pod.Name, 0, 0, 1) + ": it is not healthy, so nothing is lost"
	} else if defragmented := notWhileDefragmenting(o, p); defragmented != nil {
		return *defragmented
	}
	p.Step = deletePod(*pod)

	return p
}

func awaitedSinglePod(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) string {
	pod, problem := o.PodFor(0), o.StartProblem(0)
	if problem != "" {
		problem = ": " + problem
	}
	if pod == nil {
		return "pod " + helper.PodName(etcd, 0) + " to be created and to be ready" + problem
	}
	if pod.Deleting {
		return "pod " + pod.Name + ", which is being deleted, to be recreated" + overdueHint(etcd, o, *pod, now)
	}

	return "pod " + pod.Name + " to be ready" + problem + overdueHint(etcd, o, *pod, now) + prefixHint(etcd, pod)
}

// planMultiMember plans for an Etcd of multiple members. It plans for as many members as were rendered last. Members are added and removed
// one at a time.
func planMultiMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	count := etcdcluster.RenderedReplicas(o)
	if count == 0 || !o.StatefulSet.Exists && len(o.Pods) == 0 {
		p := planStart(etcd, o)
		p.Migration = migrationToKeep(viewOf(etcd, o, etcd.Spec.Replicas, now))

		return p
	}
	v, isPaused := viewOf(etcd, o, count, now).withoutLeaving()
	if o.State.Migration.IsActive() {
		v = v.withoutRemoved()
	}
	p := plan.Plan{
		Render: true, Replicas: count, ClusterSize: renderedSize(v), PollMembers: v.hasNewPod(),
		ScaleIn: scaleInToRecord(o, isPaused, now), IsScaleInPaused: isPaused, PodSize: podSizeOf(etcd, o, now),
		Migration: migrationToRecord(v), Space: spaceToRecord(etcd, o, now), ExcludesPods: excludesPods(v),
	}
	if p.PodSize > 0 {
		p.ClusterSize = 1
	}
	if !o.StatefulSet.Exists {
		p.Stage = plan.StageRecreateStatefulSet
		p.Reason = fmt.Sprintf("the StatefulSet was deleted without its %d pods and is created again", len(o.Pods))
		p.WaitsFor = "the StatefulSet to be created"

		return p
	}
	held, isHeld := holdPeers(v, p)
	if decided, is := firstDecision(v, p, haltOnClusterIDMismatch, selectRemaining, withoutQuorum, selectAgain, replaceDiffering, endUnfinishedInspection, deleteInspection, migrateVolume, replaceLostVolumes, replaceUnprovisioned, replaceRenderedAlone, unblockSnapshot, promoteLearner, replaceLearner, moveLeaderOfLearner); is {
		decided.Render = decided.Render && !isHeld

		return decided
	}
	if isHeld {
		return held
	}
	if decided, is := firstDecision(v, p, freeSpace, correctURLs, startListed, takeScaleInBack, completeScaleIn, completeExistingRemoval, abandonLeaving, replaceOutdated, waitForMembers, removeExisting, scaleIn, scaleUp, migrateVolumes); is {
		return decided
	}
	p.Stage = plan.StageDone
	p.Reason = v.quorumStatus() + ", and all members run the latest rendered manifests"

	return resizeVolumes(v, p)
}

// rule decides the plan of a multi-member cluster, or leaves the decision to the rules after it. The second result is true if it decides.
type rule func(view, plan.Plan) (plan.Plan, bool)

// firstDecision returns the plan of the first rule that decides. Each rule gets the same plan p: a rule that does not decide changes
// nothing.
func firstDecision(v view, p plan.Plan, rules ...rule) (plan.Plan, bool) {
	for _, decide := range rules {
		if decided, is := decide(v, p); is {
			return decided, true
		}
	}

	return p, false
}
