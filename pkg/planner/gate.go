// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// Gate compares a plan with its rendering and with what the cluster shows. A step is due only if the StatefulSet shows the rendering. A
// StatefulSet that cannot be updated in place is recreated first. Gate returns a plan that renders nothing, or that frees space, as it is.
func Gate(p plan.Plan, rendering etcdcluster.Rendering, o etcdcluster.Observation) plan.Plan {
	if !p.Render || p.Refusal != nil || p.Stage == plan.StageFreeSpace {
		return p // its steps change only etcd
	}
	managedResource := o.ManagedResource
	switch {
	case managedResource.Deleting:
		return waiting(p, "ManagedResource "+managedResource.Name+" to be deleted, which is then recreated")
	case !managedResource.Exists:
		return waiting(p, "ManagedResource "+managedResource.Name+" to be applied")
	case !o.StatefulSet.Exists:
		return gateWithoutStatefulSet(p, o)
	case o.StatefulSet.Deleting:
		p.Stage = plan.StageRecreateStatefulSet

		return waiting(p, "StatefulSet "+o.StatefulSet.Name+" to be deleted, which is then recreated")
	}
	if resized, is := resizeVolume(p, rendering, o); is {
		return resized
	}
	if p.Blocked == nil {
		p.Blocked = blockedResize(o, rendering)
	}
	if differences := Outstanding(o, rendering); len(differences) > 0 {
		p.Stage, p.WaitsFor, p.Step, p.ScaleUp = plan.StageRecreateStatefulSet, "", nil, nil
		p.Reason = fmt.Sprintf("%s of StatefulSet %s cannot be changed in place; it is recreated, its pods keep running", strings.Join(differences, ", "), o.StatefulSet.Name)
		if !managedResource.GenerationObserved && managedResource.Applied.Status != "False" {
			// gardener-resource-manager may still apply, and could create the old StatefulSet again.
			return waiting(p, applied(managedResource))
		}
		p.Step = plan.RecreateStatefulSet{Meta: plan.Meta{Object: o.StatefulSet.Name, UID: o.StatefulSet.UID}}

		return p
	}

	return gateApplied(p, rendering, o)
}

// gateApplied withholds everything that follows the rendering until all of it is applied. A pod that starts before that runs with a part of
// the previous rendering. The replacement of a lost volume does not wait for a rendering that cannot be applied.
func gateApplied(p plan.Plan, rendering etcdcluster.Rendering, o etcdcluster.Observation) plan.Plan {
	isShown := o.StatefulSet.Rendering.Checksum == rendering.Checksum
	switch {
	case !isShown && isReportedApplied(o.ManagedResource):
		return requesting(applying(p), o.ManagedResource, "; the StatefulSet has another rendering although the latest one was applied")
	case (p.Stage == plan.StageReplaceVolume || p.Stage == plan.StageReplaceLearner) && p.Step != nil && o.ManagedResource.IsRefused():
		return p
	case !isShown, !o.ManagedResource.IsApplied():
		return waiting(applying(p), applied(o.ManagedResource))
	case !o.StatefulSet.GenerationObserved():
		return waiting(applying(p), "the StatefulSet controller to observe StatefulSet "+o.StatefulSet.Name)
	default:
		return p
	}
}

// gateWithoutStatefulSet waits for the StatefulSet. It requests gardener-resource-manager to reconcile if that reports the StatefulSet as
// applied.
func gateWithoutStatefulSet(p plan.Plan, o etcdcluster.Observation) plan.Plan {
	if isReportedApplied(o.ManagedResource) {
		return requesting(p, o.ManagedResource, "; the StatefulSet does not exist although it was applied")
	}

	return waiting(p, applied(o.ManagedResource))
}

// applying returns the plan while gardener-resource-manager applies: stages about pods have not begun yet.
func applying(p plan.Plan) plan.Plan {
	switch p.Stage {
	case plan.StageReplacePod, plan.StageReplaceLearner, plan.StageWaitForMembers, plan.StageScaleUp, plan.StageScaleIn, plan.StageSurge, plan.StageMigrateVolumes, plan.StagePromote, plan.StageResizeVolume, plan.StageDone:
		p.Stage, p.Reason = plan.StageApply, "gardener-resource-manager applies the latest rendered manifests"
	case plan.StageHibernated:
		p.Stage = plan.StageHibernate
	}

	return p
}

func waiting(p plan.Plan, waitsFor string) plan.Plan {
	p.Step, p.ScaleUp, p.WaitsFor = nil, nil, waitsFor

	return p
}

// requesting requests gardener-resource-manager to apply again what it has already applied.
func requesting(p plan.Plan, managedResource etcdcluster.ManagedResource, why string) plan.Plan {
	p.WaitsFor, p.ScaleUp = "", nil
	p.Step = plan.RequestReconcile{Meta: plan.Meta{Object: managedResource.Name, UID: managedResource.UID}}
	p.Reason += why

	return p
}

// isReportedApplied is true if gardener-resource-manager has applied everything and reconciles only after its sync period.
func isReportedApplied(m etcdcluster.ManagedResource) bool {
	return m.IsApplied() && !m.ReconcileRequested
}

func applied(managedResource etcdcluster.ManagedResource) string {
	waitsFor := "ManagedResource " + managedResource.Name + " to be applied"
	if managedResource.IsRefused() {
		waitsFor += ": " + managedResource.Applied.Message
	}

	return waitsFor
}
