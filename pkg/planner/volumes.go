// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// refuseVolumes refuses changes that the volumes of a cluster do not support. A claim that a user made larger than the spec requests stays
// as it is. If the spec names no StorageClass, volumes of any class stay.
func refuseVolumes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *plan.Refusal {
	templates := o.StatefulSet.Rendering.Fixed.ClaimTemplates
	if !helper.ManagesPods(etcd) || len(templates) == 0 {
		return nil
	}
	template, wanted := templates[0], helper.VolumeClaimTemplateName(etcd)
	if template.Name != wanted {
		return &plan.Refusal{Field: "spec.volumeClaimTemplate", Message: fmt.Sprintf("the data is in volumes of claims named %s, which %s would leave behind; set it to %s", template.Name, wanted, template.Name)}
	}
	for _, claim := range o.Claims {
		if refusal := refuseVolume(claim, etcd, o, template); refusal != nil {
			return refusal
		}
	}

	return nil
}

// refuseVolume refuses a change that neither an expansion nor a new volume provides. A surge replaces the volume of the only member. A migration
// replaces those of a multi-member cluster. A volume whose StorageClass stays and does not allow the expansion causes no migration.
func refuseVolume(c etcdcluster.Claim, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, template etcdcluster.ClaimTemplate) *plan.Refusal {
	switch {
	case etcd.Spec.Replicas > 1 && volumeCause("", etcd, o, c) == "":
		return refuseExpansion(c, etcd, template)
	case etcd.Spec.Replicas > 1, replacesVolumes(etcd, o):
		return refuseSmaller(c, etcd, o, template)
	default:
		return refuse(c, etcd, template)
	}
}

// replacesVolumes is true if a surge replaces the volume of the only member, so that it can have another class or a smaller size. A member that has joined
// an existing cluster is not replaced by a surge. A hibernated member gets the volume after the wake-up.
func replacesVolumes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return helper.UsesSurge(etcd) && !joinsExisting(etcd, o) && (etcd.Spec.Replicas == 1 || helper.IsHibernated(etcd) && etcdcluster.LastSize(o) == 1)
}

// walBytes is the space for the write-ahead log: etcd keeps five files of 64 MiB, and allocates the next one.
const walBytes = 6 * 64 << 20

// refuseSmaller refuses a volume that has no room for the quota, the write-ahead log, and two databases of the current size. etcd writes a second
// database when it defragments, and when it receives a snapshot.
func refuseSmaller(c etcdcluster.Claim, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, template etcdcluster.ClaimTemplate) *plan.Refusal {
	wanted := new(helper.StorageCapacity(etcd)).Value()
	if !c.Exists || !c.Bound || wanted >= c.Requested || wanted >= template.Request && !o.State.ReplacesVolumes() {
		return nil
	}
	required := new(helper.Quota(etcd)).Value() + walBytes
	if endpoint := o.Etcd.Endpoint(c.Ordinal); endpoint != nil {
		required += 2 * endpoint.DBSize
	}
	if wanted >= required {
		return nil
	}

	return &plan.Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("%s are too small for the quota of %s, the write-ahead log, and two databases of the current size, which are %s; set it to that or more, or set spec.etcd.quota to less",
		formatBytes(wanted), formatBytes(new(helper.Quota(etcd)).Value()), formatBytes(required))}
}

// refuse refuses changes that the volume of a claim does not support. The template is that of the StatefulSet in the cluster.
func refuse(c etcdcluster.Claim, etcd *druidv1alpha1.Etcd, template etcdcluster.ClaimTemplate) *plan.Refusal {
	wanted, class := new(helper.StorageCapacity(etcd)).Value(), etcd.Spec.StorageClass
	isSameClass := class == nil || template.StorageClass != nil && *class == *template.StorageClass
	switch {
	case !c.Exists || !c.Bound:
		return nil // it has no volume, and no data
	case !isSameClass && *class != c.StorageClass:
		return &plan.Refusal{Field: "spec.storageClass", Message: fmt.Sprintf("the volume of claim %s is of StorageClass %q, and no volume changes its class; set it to that", c.Name, c.StorageClass)}
	case wanted < template.Request:
		return &plan.Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("the volumes have %s, and no volume shrinks; set it to that or more", formatBytes(template.Request))}
	default:
		return refuseExpansion(c, etcd, template)
	}
}

// refuseExpansion refuses a larger volume whose StorageClass does not allow the expansion.
func refuseExpansion(c etcdcluster.Claim, etcd *druidv1alpha1.Etcd, template etcdcluster.ClaimTemplate) *plan.Refusal {
	wanted := new(helper.StorageCapacity(etcd)).Value()
	if c.Exists && c.Bound && wanted > template.Request && c.Requested < wanted && isFixed(c) {
		return &plan.Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("the volume of claim %s cannot be expanded from %s to %s: its StorageClass %q does not exist or does not allow it (allowVolumeExpansion); set it to %s, or allow it",
			c.Name, formatBytes(c.Requested), formatBytes(wanted), c.StorageClass, formatBytes(template.Request))}
	}

	return nil
}

// isFixed is true for a claim whose StorageClass does not allow the expansion of its volume.
func isFixed(c etcdcluster.Claim) bool { return c.Expandable != nil && !*c.Expandable }

// isTooSmall is true if a claim has a volume that is smaller than rendered.
func isTooSmall(c etcdcluster.Claim, size int64) bool {
	return c.Exists && c.Bound && !c.Deleting && c.Requested < size
}

// isResizable is true if the operator may request a volume of that size for the claim now.
func isResizable(c etcdcluster.Claim, size int64) bool {
	return c.Expandable != nil && *c.Expandable && c.RefusedSize != size
}

// blockedResize returns which volume cannot have the rendered size for now, because the API server refuses the request, for example because
// of a quota. Nil: none.
func blockedResize(o etcdcluster.Observation, rendering etcdcluster.Rendering) *plan.Refusal {
	size := rendering.VolumeSize()
	for _, claim := range o.Claims {
		if isTooSmall(claim, size) && claim.RefusedSize == size {
			return &plan.Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("the API server refuses to expand the volume of claim %s from %s to %s, and the operator tries again each minute: %s",
				claim.Name, formatBytes(claim.Requested), formatBytes(size), claim.RefusedWhy)}
		}
	}

	return nil
}

// Outstanding returns the fields, as paths in its spec, for which the StatefulSet must be recreated to be as rendered. Its claim templates
// wait while a volume cannot be expanded: they show the size of its volumes.
func Outstanding(o etcdcluster.Observation, rendering etcdcluster.Rendering) []string {
	live, wanted := o.StatefulSet.Rendering.Fixed, rendering.Fixed
	size := rendering.VolumeSize()
	isReplaced := o.State.ReplacesVolumes()
	isHeld := !isReplaced && slices.ContainsFunc(o.Claims, func(c etcdcluster.Claim) bool {
		return isTooSmall(c, size) && (c.RefusedSize == size || isFixed(c))
	})
	if isHeld && len(live.ClaimTemplates) == len(wanted.ClaimTemplates) {
		wanted.ClaimTemplates = slices.Clone(wanted.ClaimTemplates)
		for i := range wanted.ClaimTemplates {
			wanted.ClaimTemplates[i].Request = live.ClaimTemplates[i].Request
		}
	}

	return live.Differences(wanted)
}

// resizeVolume returns the plan that expands the next volume that is smaller than rendered and may be expanded. No member is disturbed, so
// it comes before everything else: a member whose volume is full may be the cause why everything else waits. A resize that the API server
// refuses is skipped, and everything else continues.
func resizeVolume(p plan.Plan, rendering etcdcluster.Rendering, o etcdcluster.Observation) (plan.Plan, bool) {
	size := rendering.VolumeSize()
	isLeaving := func(c etcdcluster.Claim) bool { return p.ScaleIn != nil && c.Ordinal >= int(p.ScaleIn.To) }
	i := slices.IndexFunc(o.Claims, func(c etcdcluster.Claim) bool { return isTooSmall(c, size) && isResizable(c, size) && !isLeaving(c) })
	if i < 0 {
		return p, false
	}
	claim := o.Claims[i]
	p.Stage, p.WaitsFor, p.ScaleUp = plan.StageResizeVolume, "", nil
	p.Reason = fmt.Sprintf("the volume of claim %s is expanded from %s to %s in use, its pod keeps running", claim.Name, formatBytes(claim.Requested), formatBytes(size))
	p.Step = plan.ResizeClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}, Size: size}

	return p, true
}

// resizeTime is how long the expansion of a file system in use may take. If it takes longer, the driver does not support it, and the next
// mount expands the file system.
const resizeTime = 5 * time.Minute

// isResizing is true while a volume is smaller than the spec requests although its claim requests that size.
func isResizing(c etcdcluster.Claim, wanted int64) bool {
	return c.Exists && c.Bound && !c.Deleting && c.Capacity > 0 && c.Capacity < wanted && c.Requested >= wanted
}

// awaitsMount is true if the volume of a pod has been larger than its file system for so long that it needs a new pod.
func awaitsMount(c etcdcluster.Claim, pod *etcdcluster.Pod, now time.Time) bool {
	return pod != nil && !pod.Deleting && !c.RemountSince.IsZero() && now.Sub(c.RemountSince) > resizeTime && pod.CreationTime.Before(c.RemountSince)
}

// resizingClaims are the claims of running members whose volumes are being expanded. Everything else comes before: an expansion may never
// end.
func resizingClaims(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (plan.Plan, []etcdcluster.Claim) {
	if p.Stage != plan.StageDone {
		return p, nil
	}
	wanted := new(helper.StorageCapacity(etcd)).Value()
	var claims []etcdcluster.Claim
	for _, claim := range o.Claims {
		if claim.Ordinal < int(p.Replicas) && isResizing(claim, wanted) {
			claims = append(claims, claim)
		}
	}
	if len(claims) == 0 {
		return p, nil
	}
	claim := claims[0]
	p.Stage = plan.StageResizeVolume
	p.Reason += "; volumes are expanded in use"
	p.WaitsFor = fmt.Sprintf("the volume of claim %s to be expanded from %s to %s", claim.Name, formatBytes(claim.Capacity), formatBytes(wanted))
	if claim.ResizeProblem != "" {
		p.WaitsFor += ": " + claim.ResizeProblem
	}

	return p, claims
}

// resizeVolumes waits until the volumes of a multi-member cluster have the size that the spec requests. It recreates pods, one after the
// other, if their file systems are expanded only by a mount.
func resizeVolumes(v view, p plan.Plan) plan.Plan {
	p, claims := resizingClaims(p, v.etcd, v.o)
	var candidate *etcdcluster.Member
	for _, claim := range claims {
		i := slices.IndexFunc(v.members, func(m etcdcluster.Member) bool { return m.Ordinal == claim.Ordinal })
		if i < 0 || !awaitsMount(claim, v.members[i].Pod, v.now) {
			continue
		}
		if member := &v.members[i]; candidate == nil || candidate.Endpoint != nil && candidate.Endpoint.IsLeader() {
			candidate = member
		}
	}
	if candidate == nil {
		return p
	}
	p.WaitsFor = ""
	p = replaceHealthy(v, p, *candidate)
	p.Reason += "; its file system is expanded at the next mount"

	return p
}

// resizeSingleVolume is resizeVolumes for a single member.
func resizeSingleVolume(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, p plan.Plan, now time.Time) plan.Plan {
	p, claims := resizingClaims(p, etcd, o)
	if len(claims) == 0 || !awaitsMount(claims[0], o.PodFor(0), now) {
		return p
	}
	p.WaitsFor = ""
	p = replaceSinglePod(etcd, o, p, now)
	p.Stage = plan.StageResizeVolume
	p.Reason += "; its file system is expanded at the next mount"

	return p
}

// formatBytes formats a size as a quantity, for example 16Gi.
func formatBytes(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }

// replaceLostVolumes replaces the volume of a member that has lost it: its claim first, then its pod. The member joins again as a learner. A member
// whose volume is kept until a rollback is accepted does not delay the others.
func replaceLostVolumes(v view, p plan.Plan) (plan.Plan, bool) {
	held, isHeld := p, false
	for _, member := range v.members {
		if member.IsHealthy() || member.Pod != nil && member.Pod.Ready && v.o.NodeLostReason(member.Ordinal) == "" {
			continue // no kubelet reports any more that the pods of a lost node are not ready
		}
		decided, is := replaceLostVolume(v, p, member)
		kept := holdDiscard(v.etcd, v.o, decided)
		switch {
		case !is:
		case decided.Step == nil || kept.Step != nil:
			return decided, true
		case !isHeld:
			held, isHeld = kept, true
		}
	}

	return held, isHeld
}

// replaceLostVolume decides the next step for one member. It deletes the claim before the pod, because a pod that is recreated would use the
// same claim again. It does so only after a quorum read, and after a full snapshot if the volume may have data.
func replaceLostVolume(v view, p plan.Plan, m etcdcluster.Member) (plan.Plan, bool) {
	claim, loss := v.o.ClaimFor(m.Ordinal), v.o.VolumeLostReason(m.Ordinal)
	if claim == nil || v.o.Failure(etcdcluster.SectionClaims) != "" {
		return p, false
	}
	p.Stage = plan.StageReplaceVolume
	canBeMade := m.Pod != nil && !m.Pod.Deleting
	switch {
	case claim.Deleting && canBeMade:
		p.Reason = fmt.Sprintf("%s; claim %s is being replaced, and pod %s still names it", v.quorumStatus(), claim.Name, m.Pod.Name)
		p.Step = deletePod(*m.Pod)
	case claim.Deleting:
		p.Reason = fmt.Sprintf("%s; claim %s is being replaced", v.quorumStatus(), claim.Name)
		p.WaitsFor = "claim " + claim.Name + " to be recreated"
		if m.Pod != nil {
			p.WaitsFor += deletionHint(*m.Pod, v.now)
		}
	case !claim.Exists && canBeMade && m.Pod.Unschedulable != "":
		p.Reason = fmt.Sprintf("%s; pod %s has no claim, and gets one when it is recreated", v.quorumStatus(), m.Pod.Name)
		p.Step = deletePod(*m.Pod)
	case loss == "":
		return p, false
	case !v.isMemberListKnown():
		p.Reason = fmt.Sprintf("%s; %s, but nothing is replaced without a quorum read", v.quorumStatus(), loss)
		p.WaitsFor = awaitedMemberList(v.o)
	case !claim.Lost && helper.IsStoreConfigured(v.etcd):
		return replaceUnusableVolume(v, p, m, *claim, loss), true
	default:
		return replaceClaim(v, p, m, *claim, loss), true
	}

	return p, true
}

// replaceUnprovisioned replaces a claim for which no volume was provisioned, if the spec requests another StorageClass or a smaller volume by now.
// A StatefulSet does not change its claims. Such a claim has no data. The pod gets the next one when it is recreated.
func replaceUnprovisioned(v view, p plan.Plan) (plan.Plan, bool) {
	wanted, class := new(helper.StorageCapacity(v.etcd)).Value(), v.etcd.Spec.StorageClass
	for _, member := range v.members {
		claim, pod := v.o.ClaimFor(member.Ordinal), member.Pod
		isVoter := member.Listed != nil && !member.Listed.Learner
		if claim == nil || !claim.Exists || claim.Bound || claim.Lost || claim.Deleting || claim.Volume != "" || isVoter || pod != nil && pod.Node != "" {
			continue
		}
		isOther := class != nil && *class != claim.StorageClass || wanted < claim.Requested
		if !isOther || v.now.Sub(claim.CreationTime) < etcdcluster.MemberStartTimeout {
			continue
		}
		p.Stage = plan.StageReplaceVolume
		p.Reason = fmt.Sprintf("%s; no volume of StorageClass %q and %s was provisioned for claim %s, and the spec requests another one", v.quorumStatus(), claim.StorageClass, formatBytes(claim.Requested), claim.Name)
		p.Step = plan.DeleteClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}, IsRemoved: true}

		return p, true
	}

	return p, false
}

// replaceClaim deletes the claim of a member that is not healthy, so that the number of healthy members stays the same.
func replaceClaim(v view, p plan.Plan, m etcdcluster.Member, claim etcdcluster.Claim, loss string) plan.Plan {
	p.Reason = fmt.Sprintf("%s by a quorum read; %s; with a new one %s joins again as a learner, which leaves %s: allowed", v.quorumStatus(), loss, m.Name, v.quorumStatus())
	p.Step = plan.ReplaceClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}

	return p
}
