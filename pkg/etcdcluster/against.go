// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"strings"
)

// Against holds a plan against what was rendered for it and what the cluster shows: a step is due only when the
// StatefulSet shows the rendering, and a StatefulSet that cannot take it in place is recreated first. A plan that renders
// nothing comes back as it is.
func (p Plan) Against(rendering Rendering, o Observation) Plan {
	if !p.Render || p.Refusal != nil {
		return p
	}
	managedResource := o.ManagedResource
	switch {
	case managedResource.Deleting:
		return p.waiting("ManagedResource " + managedResource.Name + " to be gone, so that it can be made anew")
	case !managedResource.Exists:
		return p.waiting("ManagedResource " + managedResource.Name + " to be applied")
	case !o.StatefulSet.Exists:
		return p.againstNoStatefulSet(o)
	case o.StatefulSet.Deleting:
		p.Stage = StageRecreateStatefulSet

		return p.waiting("StatefulSet " + o.StatefulSet.Name + " to be gone, so that it can be made anew")
	}
	if grows, is := p.growVolume(rendering, o); is {
		return grows
	}
	p.Hindered = o.hindersGrowth(rendering)
	if differences := o.Outstanding(rendering); len(differences) > 0 {
		p.Stage, p.WaitsFor, p.Step, p.Growth = StageRecreateStatefulSet, "", nil, nil
		p.Reason = fmt.Sprintf("%s of StatefulSet %s cannot be changed in place; it is recreated, its pods keep running", strings.Join(differences, ", "), o.StatefulSet.Name)
		if !managedResource.GenerationObserved && managedResource.Applied.Status != "False" {
			// Not under the hands of the resource manager: it could bring the old one back.
			return p.waiting(applied(managedResource))
		}
		p.Step = &Step{Kind: StepRecreateStatefulSet, Object: o.StatefulSet.Name, UID: o.StatefulSet.UID}

		return p
	}

	return p.againstApplied(rendering, o)
}

// againstApplied holds back what comes after the rendering until all of it was applied: a pod that starts before that runs
// with what is left of the one before. A volume that is lost does not wait for what cannot be applied.
func (p Plan) againstApplied(rendering Rendering, o Observation) Plan {
	isShown := o.StatefulSet.Rendering.Checksum == rendering.Checksum
	switch {
	case !isShown && o.ManagedResource.isBelievedDone():
		return p.applying().requesting(o.ManagedResource, "; the StatefulSet shows another one although the newest was applied")
	case p.Stage == StageRepair && p.Step != nil && o.ManagedResource.IsRefused():
		return p
	case !isShown, !o.ManagedResource.IsApplied():
		return p.applying().waiting(applied(o.ManagedResource))
	case !o.StatefulSet.GenerationObserved():
		return p.applying().waiting("the StatefulSet controller to see StatefulSet " + o.StatefulSet.Name)
	default:
		return p
	}
}

// againstNoStatefulSet waits for the StatefulSet, and asks for it where the resource manager believes to be done.
func (p Plan) againstNoStatefulSet(o Observation) Plan {
	if o.ManagedResource.isBelievedDone() {
		return p.requesting(o.ManagedResource, "; the StatefulSet is gone although it was applied")
	}

	return p.waiting(applied(o.ManagedResource))
}

// applying is the plan while the resource manager applies: stages that are about pods have not begun yet.
func (p Plan) applying() Plan {
	switch p.Stage {
	case StageReplacePod, StageSettle, StageGrow, StagePromote, StageGrowVolume, StageDone:
		p.Stage, p.Reason = StageApply, "the newest rendering is on its way into the cluster"
	case StageHibernated:
		p.Stage = StageHibernate
	}

	return p
}

func (p Plan) waiting(waitsFor string) Plan {
	p.Step, p.Growth, p.WaitsFor = nil, nil, waitsFor

	return p
}

// requesting asks the resource manager to apply again what it has applied already.
func (p Plan) requesting(managedResource ManagedResource, why string) Plan {
	p.WaitsFor, p.Growth = "", nil
	p.Step = &Step{Kind: StepRequestReconcile, Object: managedResource.Name, UID: managedResource.UID}
	p.Reason += why

	return p
}

// isBelievedDone is true when the resource manager has applied everything and would not look again for long.
func (m ManagedResource) isBelievedDone() bool { return m.IsApplied() && !m.ReconcileRequested }

func applied(managedResource ManagedResource) string {
	waitsFor := "ManagedResource " + managedResource.Name + " to be applied"
	if managedResource.IsRefused() {
		waitsFor += ": " + managedResource.Applied.Message
	}

	return waitsFor
}
