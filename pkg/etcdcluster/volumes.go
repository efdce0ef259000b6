// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// refuseVolumes refuses what the volumes of a cluster cannot become. A claim that somebody made larger than the spec asks for
// stays as it is, and a class that the spec does not name says nothing about volumes that exist.
func refuseVolumes(etcd *druidv1alpha1.Etcd, o Observation) *Refusal {
	templates := o.StatefulSet.Rendering.Fixed.ClaimTemplates
	if !helper.ManagesPods(etcd) || len(templates) == 0 {
		return nil
	}
	template, wanted := templates[0], helper.VolumeClaimTemplateName(etcd)
	if template.Name != wanted {
		return &Refusal{Field: "spec.volumeClaimTemplate", Message: fmt.Sprintf("the data is in volumes of claims named %s, which %s would leave behind; set it to %s", template.Name, wanted, template.Name)}
	}
	for _, claim := range o.Claims {
		if refusal := claim.refuse(etcd, template); refusal != nil {
			return refusal
		}
	}

	return nil
}

// refuse refuses what the volume of a claim cannot become. The template is that of the StatefulSet as it is.
func (c Claim) refuse(etcd *druidv1alpha1.Etcd, template ClaimTemplate) *Refusal {
	wanted, class := new(helper.StorageCapacity(etcd)).Value(), etcd.Spec.StorageClass
	isSameClass := class == nil || template.StorageClass != nil && *class == *template.StorageClass
	switch {
	case !c.Exists || !c.Bound:
		return nil // it has no volume, and no data
	case !isSameClass && *class != c.StorageClass:
		return &Refusal{Field: "spec.storageClass", Message: fmt.Sprintf("the volume of claim %s is of StorageClass %q, and no volume changes its class; set it to that", c.Name, c.StorageClass)}
	case wanted < template.Request:
		return &Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("the volumes were made with %s, and no volume shrinks; set it to that or more", formatBytes(template.Request))}
	case wanted > template.Request && c.Requested < wanted && c.Growable != nil && !*c.Growable:
		return &Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("the volume of claim %s cannot grow from %s to %s: its StorageClass %q does not exist or does not allow it (allowVolumeExpansion); set it to %s, or allow it",
			c.Name, formatBytes(c.Requested), formatBytes(wanted), c.StorageClass, formatBytes(template.Request))}
	default:
		return nil
	}
}

// volumeSize is the number of bytes that volumes are rendered with. 0: there are none.
func (r Rendering) volumeSize() int64 {
	if len(r.Fixed.ClaimTemplates) == 0 {
		return 0
	}

	return r.Fixed.ClaimTemplates[0].Request
}

// isToGrow is true when a claim has a volume that is smaller than rendered.
func (c Claim) isToGrow(size int64) bool {
	return c.Exists && c.Bound && !c.Deleting && c.Requested < size
}

// mayGrow is true when the claim may be asked for a volume of that size now.
func (c Claim) mayGrow(size int64) bool {
	return c.Growable != nil && *c.Growable && c.RefusedSize != size
}

// hindersGrowth says which volume cannot be as large as rendered for now, since the API server refuses to ask for it, as where
// a quota has no room. Nil: none.
func (o Observation) hindersGrowth(rendering Rendering) *Refusal {
	size := rendering.volumeSize()
	for _, claim := range o.Claims {
		if claim.isToGrow(size) && claim.RefusedSize == size {
			return &Refusal{Field: "spec.storageCapacity", Message: fmt.Sprintf("the API server refuses to let the volume of claim %s grow from %s to %s, and is asked again each minute: %s",
				claim.Name, formatBytes(claim.Requested), formatBytes(size), claim.RefusedWhy)}
		}
	}

	return nil
}

// Outstanding names, as paths in its spec, the fields in which the StatefulSet has to become another one to be as rendered. Its
// claim templates have time while there is a volume that cannot grow: they say how large its volumes are.
func (o Observation) Outstanding(rendering Rendering) []string {
	live, wanted := o.StatefulSet.Rendering.Fixed, rendering.Fixed
	size := rendering.volumeSize()
	isHeld := slices.ContainsFunc(o.Claims, func(c Claim) bool {
		return c.isToGrow(size) && (c.RefusedSize == size || c.Growable != nil && !*c.Growable)
	})
	if isHeld && len(live.ClaimTemplates) == len(wanted.ClaimTemplates) {
		wanted.ClaimTemplates = slices.Clone(wanted.ClaimTemplates)
		for i := range wanted.ClaimTemplates {
			wanted.ClaimTemplates[i].Request = live.ClaimTemplates[i].Request
		}
	}

	return live.Differences(wanted)
}

// growVolume is the plan that lets the next volume grow that is smaller than rendered and may grow. It disturbs nobody, so that
// it comes before everything else: a member whose volume is full may be what everything else waits for. What was refused
// lately is left for later, and everything else goes on.
func (p Plan) growVolume(rendering Rendering, o Observation) (Plan, bool) {
	size := rendering.volumeSize()
	i := slices.IndexFunc(o.Claims, func(c Claim) bool { return c.isToGrow(size) && c.mayGrow(size) })
	if i < 0 {
		return p, false
	}
	claim := o.Claims[i]
	p.Stage, p.WaitsFor, p.Growth = StageGrowVolume, "", nil
	p.Reason = fmt.Sprintf("the volume of claim %s grows from %s to %s in place, its pod keeps running", claim.Name, formatBytes(claim.Requested), formatBytes(size))
	p.Step = &Step{Kind: StepGrowClaim, Object: claim.Name, UID: claim.UID, Size: size}

	return p, true
}

// resizeTime is how long a file system may take to be made larger while it is in use. Where it takes longer the driver cannot do
// it, and the next mount does.
const resizeTime = 5 * time.Minute

// isGrowing is true while a volume is smaller than the spec asks for although that was asked of it.
func (c Claim) isGrowing(wanted int64) bool {
	return c.Exists && c.Bound && !c.Deleting && c.Capacity > 0 && c.Capacity < wanted && c.Requested >= wanted
}

// awaitsMount is true when the volume of a pod is larger than its file system, and has been for so long that it takes a new pod.
func (c Claim) awaitsMount(pod *Pod, now time.Time) bool {
	return pod != nil && !pod.Deleting && !c.RemountSince.IsZero() && now.Sub(c.RemountSince) > resizeTime && pod.CreationTime.Before(c.RemountSince)
}

// growing are the claims of members that run whose volumes grow. All else comes before: growing may take for ever.
func (p Plan) growing(etcd *druidv1alpha1.Etcd, o Observation) (Plan, []Claim) {
	if p.Stage != StageDone {
		return p, nil
	}
	wanted := new(helper.StorageCapacity(etcd)).Value()
	var claims []Claim
	for _, claim := range o.Claims {
		if claim.Ordinal < int(p.Replicas) && claim.isGrowing(wanted) {
			claims = append(claims, claim)
		}
	}
	if len(claims) == 0 {
		return p, nil
	}
	claim := claims[0]
	p.Stage = StageGrowVolume
	p.Reason += "; volumes grow in place"
	p.WaitsFor = fmt.Sprintf("the volume of claim %s to grow from %s to %s", claim.Name, formatBytes(claim.Capacity), formatBytes(wanted))
	if claim.ResizeTrouble != "" {
		p.WaitsFor += ": " + claim.ResizeTrouble
	}

	return p, claims
}

// growVolumes waits for the volumes of several members to be as large as the spec asks for, and has pods made anew, one after the
// other, whose file systems grow no sooner.
func (v view) growVolumes(plan Plan) Plan {
	plan, growing := plan.growing(v.etcd, v.o)
	var candidate *Member
	for _, claim := range growing {
		i := slices.IndexFunc(v.members, func(m Member) bool { return m.Ordinal == claim.Ordinal })
		if i < 0 || !claim.awaitsMount(v.members[i].Pod, v.now) {
			continue
		}
		if member := &v.members[i]; candidate == nil || candidate.Answer != nil && candidate.Answer.Leads() {
			candidate = member
		}
	}
	if candidate == nil {
		return plan
	}
	plan.WaitsFor = ""
	plan = v.replaceServing(plan, *candidate)
	plan.Reason += "; its file system grows when it is mounted anew"

	return plan
}

// growSingleVolume is growVolumes for a single member.
func growSingleVolume(etcd *druidv1alpha1.Etcd, o Observation, plan Plan, now time.Time) Plan {
	plan, growing := plan.growing(etcd, o)
	if len(growing) == 0 || !growing[0].awaitsMount(o.PodFor(0), now) {
		return plan
	}
	plan.WaitsFor = ""
	plan = replaceSinglePod(etcd, o, plan, now)
	plan.Stage = StageGrowVolume
	plan.Reason += "; its file system grows when it is mounted anew"

	return plan
}

// formatBytes is a size as people write it, e.g. 16Gi.
func formatBytes(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
