// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"fmt"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// The operator of a scenario is the engine. It renders a stand-in for the manifests.

// newOperator returns an operator that adds what it does to the trace, and whose writes and steps are checked.
func (s *scenario) newOperator() *simulator.Operator {
	operator := simulator.NewOperator(s.Cluster, target.Config{AutoReconcile: true, StoreTimeout: target.DefaultStoreTimeout, EtcdHelper: target.EtcdHelper{Image: "etcd-helper"}})
	operator.Render = func(t target.Target, p plan.Plan, o etcdcluster.Observation) (engine.Rendered, error) {
		return engine.Rendered{Rendering: manifestFor(t.Etcd, t.Accepted, p, etcdcluster.ExistingCluster(t.Etcd, o.State)).Rendering}, nil
	}
	operator.Manifest = func(t *target.Target, rendered engine.Rendered) simulator.Manifest {
		return manifestFor(t.Etcd, t.Accepted, rendered.Plan, etcdcluster.ExistingCluster(t.Etcd, s.Objects.State))
	}
	operator.OnApply = func(run *engine.Run, manifest simulator.Manifest) {
		s.acted = true
		switch generation := run.Target.Stored.Generation; {
		case !run.Observation.ManagedResource.Exists:
			s.requested = generation // the first generation of an Etcd needs no request
		case generation > s.requested:
			s.violated("generation %d is rolled out, and only generation %d is requested", generation, s.requested)
		}
		s.noteWrite(run)
		s.note("> ManagedResource written: image %s, replicas %d, size %d", manifest.Image, manifest.Replicas, manifest.ClusterSize)
		s.checkApply(manifest, run.Rendered.Plan)
	}
	operator.OnStep = func(run *engine.Run, step plan.Step, reason string) func(error) {
		s.acted = true
		s.steps[kindOf(step)]++
		if run.Planned.Stage == "" || run.Planned.Refusal != nil { // no plan of this run is executed, see engine.Engine.Reconcile
			s.repairs++
			s.note("repairs the cluster | %s | step: %s", reason, plan.Trace(step))
			s.checkRepair(step)
		} else {
			s.noteOf(run.Plan)
		}

		return s.onExecuted(step)
	}

	return operator
}

// onExecuted returns what is called with the result of a step. The operator tries again what the API server refuses for now.
func (s *scenario) onExecuted(step plan.Step) func(err error) {
	check := s.checkStep(step)

	return func(err error) {
		switch {
		case errors.Is(err, simulator.ErrEvictionRefused):
			s.note("> the eviction is refused")
		case errors.Is(err, simulator.ErrQuotaExceeded):
			s.note("> the quota refuses the expansion of claim %s", plan.MetaOf(step).Object)
		case err != nil:
			s.violated("%s: %s", kindOf(step), err)
		}
		check()
	}
}

// reconcile reconciles the Etcd. True: the operator wrote manifests or executed a step.
func (s *scenario) reconcile() bool {
	s.acted = false
	s.operator.Config.Defaults.ImageSets = map[string]state.Images{"3.4": {EtcdWrapper: s.image}, "3.5": {EtcdWrapper: s.image}}
	if s.operator.Config.AutoReconcile {
		s.requested = s.Etcd.Generation
	}
	if value, isRequested := s.Etcd.Annotations[druidv1alpha1.RestoreAnnotation]; isRequested {
		s.invariants.isUnverified = value == druidv1alpha1.RestoreFromStoreUnverified
		s.noteKnown()
	}
	s.result, s.reconciledAt = s.operator.Reconcile(), s.Now()
	s.checkComplete()
	if !s.acted {
		s.noteResult()
	}
	s.noteRequests()

	return s.acted
}

// noteRequests notes the removal of the annotation that requests a restore.
func (s *scenario) noteRequests() {
	for _, request := range s.result.Requests {
		if request.Annotation == druidv1alpha1.RestoreAnnotation {
			s.note("> the annotation is taken%s", strings.TrimSuffix("; it is ignored: "+request.Ignored, "; it is ignored: "))
		}
	}
}

// noteResult notes the plan of a reconciliation that did nothing, or why there is none. If the newest generation is refused, that is noted.
func (s *scenario) noteResult() {
	run := s.result.Newest
	if run.Plan.Stage != plan.StageRefused {
		run = s.result.Current()
	}
	if run.Plan.Stage != "" {
		s.noteOf(run.Plan)
	} else {
		s.note("%s", s.result.Description)
	}
}

// noteWrite notes the plan with which manifests are written. The plan waits until they are applied.
func (s *scenario) noteWrite(run *engine.Run) {
	p, o := run.Plan, run.Observation
	if !run.IsAddingMember() {
		o.ManagedResource.GenerationObserved = false
		p = planner.Gate(p, run.Rendered.Rendering, o)
	}
	s.noteOf(p)
}

func (s *scenario) noteOf(p plan.Plan) {
	line := fmt.Sprintf("%-20s render=%-5t replicas=%d size=%d | %s", p.Stage, p.Render, p.Replicas, p.ClusterSize, p.Reason)
	switch p.Outcome() {
	case plan.OutcomeRefused:
		line += " | refused: " + p.Refusal.Error()
	case plan.OutcomeStep:
		line += " | step: " + plan.Trace(p.Step)
	case plan.OutcomeScaleUp:
		line += fmt.Sprintf(" | scales up to replicas=%d size=%d", p.ScaleUp.Replicas, p.ScaleUp.ClusterSize)
	case plan.OutcomeWaiting:
		line += " | waits for " + p.WaitsFor
	case plan.OutcomeBlocked:
		line += " | done except for what is blocked"
	case plan.OutcomeDone:
		line += " | done"
	}
	if p.Blocked != nil {
		line += " | blocked: " + p.Blocked.Error()
	}
	s.note("%s", line)
}

// kindOf returns the name of a step.
func kindOf(step plan.Step) string { return plan.TraitsOf(step).Kind }
