// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/validation"
)

// PlanFor decides what is to be done for a canonical Etcd that is not being deleted, given what was observed. It is total: a
// spec that cannot be carried out gives a plan with a Refusal.
//
// The plan says what to render. Hold it against the rendering (Against) before carrying out its step.
func PlanFor(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	if plan, decided := guard(etcd, o); decided {
		return plan
	}
	switch {
	case !helper.ManagesPods(etcd):
		return Plan{
			Stage: StageExternallyManaged, Render: true, ClusterSize: etcd.Spec.Replicas,
			Reason: "the members are run by somebody else; only their configuration is rendered",
		}
	case helper.IsHibernated(etcd):
		return planHibernation(etcd, o, now)
	}
	if plan, is := planRestore(etcd, o, now); is {
		return plan
	}
	if plan, waits := waitForClaimsLeft(etcd, o); waits {
		return plan.withRestore(etcd, o, now)
	}
	if plan, waits := waitForExisting(etcd, o); waits {
		return plan
	}
	if etcd.Spec.Replicas == 1 {
		return planSingle(etcd, o, now).joining(o).withRestore(etcd, o, now)
	}

	return planSeveral(etcd, o, now).joining(o).withRestore(etcd, o, now)
}

// KeepFor decides what is to be done for a canonical Etcd as it was accepted last, while a later generation waits or is refused:
// the same as PlanFor, but that volumes which cannot become any more what was accepted keep nothing else from being done.
func KeepFor(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	o.Claims = slices.Clone(o.Claims)
	for i := range o.Claims {
		o.Claims[i].Growable = nil
	}

	return PlanFor(etcd, o, now)
}

// RepairFor decides what is to be done for a canonical Etcd whose spec is not carried out now, because it was refused or nobody
// has asked for it yet: what was rendered stays as it is, and nothing but a volume that is lost for good is replaced, since that
// depends on nothing in the spec.
func RepairFor(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	plan, decided := guardFacts(etcd, o)
	count := renderedReplicas(o)
	if decided || count < 2 || !o.StatefulSet.Exists || !helper.ManagesPods(etcd) {
		return plan
	}
	v := viewOf(etcd, o, count, now)
	plan = Plan{Stage: StageDone, ClusterSize: max(o.ManagedResource.Size, count), Lively: v.isLively(), Reason: v.arithmetic()}
	for _, decide := range []func(Plan) (Plan, bool){v.holdStill, v.withoutQuorum, v.repair, v.settle} {
		if decided, is := decide(plan); is {
			plan = decided

			break
		}
	}
	if plan.Stage != StageRepair && plan.Stage != StageSnapshot {
		plan.Step = nil
	}

	return plan
}

// guard stops what must not be planned: facts are missing, the spec is refused, or the ground is not free.
func guard(etcd *druidv1alpha1.Etcd, o Observation) (Plan, bool) {
	if plan, decided := guardFacts(etcd, o); decided {
		return plan, true
	}
	if refusal := refuseSize(etcd, o); refusal != nil {
		return Plan{Stage: StageRefused, Reason: "the spec cannot be carried out", Refusal: refusal}, true
	}
	if refusal := refuseVolumes(etcd, o); refusal != nil {
		return Plan{Stage: StageRefused, Reason: "the spec cannot be carried out", Refusal: refusal}, true
	}
	if missing := MissingSecrets(o); len(missing) > 0 && etcd.Spec.Replicas > 0 {
		return Plan{Stage: StageWaitForSecrets, Reason: "nothing starts before its secrets exist", WaitsFor: strings.Join(missing, "; ")}, true
	}

	return Plan{}, false
}

// guardFacts stops where facts are missing or the ground is not free.
func guardFacts(etcd *druidv1alpha1.Etcd, o Observation) (Plan, bool) {
	for _, section := range []Section{SectionManagedResource, SectionStatefulSet, SectionPods, SectionClaims, SectionStorageClasses, SectionSecrets} {
		if failure := o.Failure(section); failure != "" {
			return Plan{Stage: StageObserve, Reason: "nothing is decided without all facts", WaitsFor: fmt.Sprintf("reading %s: %s", section, failure)}, true
		}
	}
	if owner := o.StatefulSet.OwnerUID; o.StatefulSet.Exists && owner != "" && owner != etcd.UID {
		return Plan{
			Stage: StageWaitForPredecessor, Reason: "the StatefulSet belongs to an earlier Etcd of this name",
			WaitsFor: fmt.Sprintf("StatefulSet %s, owned by an object with UID %s, to be gone", o.StatefulSet.Name, owner),
		}, true
	}

	return Plan{}, false
}

// refuseSize refuses what the API refuses given the size that the cluster had. The API server compares with the spec alone,
// and on seeds, where gardenlet brings an older definition, not even that.
func refuseSize(etcd *druidv1alpha1.Etcd, o Observation) *Refusal {
	if errs := validation.ValidateSize(etcd, lastSize(o)); len(errs) > 0 {
		return &Refusal{Field: errs[0].Field, Message: errs[0].ErrorBody()}
	}

	return nil
}

// lastSize is the size that the cluster had when it last ran: the persisted one or, of a cluster that is adopted, that of its
// StatefulSet. 0: it never ran, or hibernates since before it was adopted.
func lastSize(o Observation) int32 {
	if size := o.ManagedResource.Size; size > 0 {
		return size
	}

	return o.StatefulSet.SpecReplicas
}

func planHibernation(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	plan := Plan{Stage: StageHibernate, Render: true, ClusterSize: o.ManagedResource.Size, Restore: RestorePhase(o.ManagedResource.Restore)}
	if untold := o.untoldMember(etcd, now); untold != "" && !o.isStopped() {
		plan.Stage, plan.Render, plan.Lively = StageSettle, false, true
		plan.Reason = "spec.replicas is 0; the members stop when their leases tell who has to be started again"
		plan.WaitsFor = "the first heartbeat of member " + untold

		return plan
	}
	snapshot, before := hibernationSnapshot(etcd, o, now)
	if before != nil {
		return *before
	}
	plan.FinalSnapshot = snapshot
	switch {
	case len(o.Pods) > 0:
		plan.Reason = fmt.Sprintf("spec.replicas is 0; %d pods still run", len(o.Pods))
		plan.WaitsFor = "pod " + o.Pods[0].Name + " to be gone"
	default:
		plan.Stage = StageHibernated
		plan.Reason = "spec.replicas is 0 and no pod runs; the data is kept"
	}
	if snapshot != nil {
		plan.Reason += "; " + snapshot.String()
	}

	return plan
}

// untoldMember is a member that has started a moment ago, of which its lease does not tell yet: those that know that it has a vote would
// wait for it in vain after they were started again. The first is started in any case. Empty: none; one that does not come to it within
// startTime is not waited for.
func (o Observation) untoldMember(etcd *druidv1alpha1.Etcd, now time.Time) string {
	for _, pod := range o.Pods {
		name := helper.MemberName(etcd, pod.Ordinal)
		isTold := slices.ContainsFunc(o.MemberLeases, func(l Lease) bool { return l.Name == name && l.Holder != "" })
		if pod.Ordinal > 0 && !isTold && !pod.Deleting && hasStarted(pod) && now.Sub(pod.CreationTime) < startTime {
			return name
		}
	}

	return ""
}

// planSingle plans a cluster of one member.
func planSingle(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) Plan {
	plan := Plan{Render: true, Replicas: 1, ClusterSize: 1}
	pod := o.PodFor(0)
	switch {
	case !o.StatefulSet.Exists && pod != nil:
		plan.Stage = StageRecreateStatefulSet
		plan.Reason = "the StatefulSet was taken from under its pod and has to come back"
	case !o.StatefulSet.Exists && !o.anyClaim():
		plan.Stage = StageCreate
		plan.Reason = "0 of 1 members exist; the first is created"
	case !o.StatefulSet.Exists || o.StatefulSet.SpecReplicas == 0:
		plan.Stage = StageWake
		plan.Reason = "0 of 1 members run; the member is started on the data that it has"
	default:
		return planSinglePod(etcd, o, plan, now)
	}
	plan.WaitsFor = podToServe(etcd, pod)

	return plan
}

func (o Observation) anyClaim() bool {
	for _, claim := range o.Claims {
		if claim.Exists {
			return true
		}
	}

	return false
}

// planSinglePod plans for the pod of a single member whose StatefulSet wants it to run.
func planSinglePod(etcd *druidv1alpha1.Etcd, o Observation, plan Plan, now time.Time) Plan {
	pod := o.PodFor(0)
	healthy := HealthyVoters(MembersFor(etcd, o))
	switch {
	case pod == nil || pod.Deleting:
		plan.Stage = StageSettle
		plan.Reason = fmt.Sprintf("%d of 1 healthy; the StatefulSet starts the member", healthy)
		plan.WaitsFor = podToServe(etcd, pod)
	case pod.IsOutdated(o.StatefulSet):
		return replaceSinglePod(etcd, o, plan, now)
	case !pod.Ready:
		plan.Stage = StageSettle
		plan.Reason = fmt.Sprintf("%d of 1 healthy; the member runs the newest rendering", healthy)
		plan.WaitsFor = podToServe(etcd, pod)
	default:
		plan.Stage = StageDone
		plan.Reason = fmt.Sprintf("%d of 1 healthy, and the member runs the newest rendering", healthy)

		return growSingleVolume(etcd, o, plan, now)
	}

	return plan
}

// replaceSinglePod replaces the outdated pod of a single member. The pod stays while its node is unreachable, and while the store is.
func replaceSinglePod(etcd *druidv1alpha1.Etcd, o Observation, plan Plan, now time.Time) Plan {
	pod := o.PodFor(0)
	plan.Stage = StageReplacePod
	healthy := HealthyVoters(MembersFor(etcd, o))
	plan.Reason = replacing(pod.Name, healthy, 0, 1)
	if waits := plan.heldByNode(*pod); waits != nil {
		return *waits
	}
	if waits := plan.heldByStore(etcd, o, *pod, now); waits != nil {
		return *waits
	}
	if !pod.Ready && healthy == 0 {
		plan.Reason = replacing(pod.Name, 0, 0, 1) + ": it does not serve, so that nothing is lost"
	} else if defragmented := o.notWhileDefragmenting(plan); defragmented != nil {
		return *defragmented
	}
	plan.Step = pod.toBeDeleted()

	return plan
}

func podToServe(etcd *druidv1alpha1.Etcd, pod *Pod) string {
	if pod == nil {
		return "pod " + helper.PodName(etcd, 0) + " to be created and to serve"
	}
	if pod.Deleting {
		return "pod " + pod.Name + ", which is being deleted, to be gone and made anew"
	}
	if trouble := pod.Trouble(); trouble != "" {
		return "pod " + pod.Name + " to serve: " + trouble + prefixHint(etcd, pod)
	}

	return "pod " + pod.Name + " to serve" + prefixHint(etcd, pod)
}
