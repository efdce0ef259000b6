// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

// This plays the etcd controller.

// reconcileSingle reconciles a cluster of one member. True: it changed something.
func (s *scenario) reconcileSingle() bool {
	o := s.Observe()
	p := planner.For(s.Etcd, o, s.Now())
	manifest := s.manifestFor(p)
	isNew := p.Render && s.isNew(manifest)
	o.ManagedResource.GenerationObserved = o.ManagedResource.GenerationObserved && !isNew
	p = planner.Gate(p, manifest.Rendering, o)
	s.noteOf(p)
	switch {
	case isNew:
		s.apply(manifest, p)
	case p.Step != nil:
		s.execute(p.Step)
	}

	return isNew || p.Step != nil
}

// reconcileMembers reconciles a cluster of any number of members. True: it changed something.
func (s *scenario) reconcileMembers() bool {
	s.CreateMemberLeases()
	for _, member := range planner.VotersWithoutLeaseHolder(s.Etcd, s.Observe()) {
		s.SetLeaseHolder(member.Name, member.Listed.ID)
	}
	s.Objects.PeerChangePending = s.peerTLS() != (helper.PeerTLS(s.Etcd) != nil) || s.effective() != s.Etcd
	o := s.Observe()
	p := planner.For(s.effective(), o, s.Now())
	if s.suspended || p.Refusal != nil {
		return s.repair(p)
	}
	p = planner.Gate(p, s.manifestFor(p).Rendering, o)
	s.noteOf(p)
	p = p.ScaledUp()
	manifest := s.manifestFor(p)
	switch {
	case p.Render && s.isNew(manifest):
		s.checkApply(manifest, p)
		s.apply(manifest, p)
	case p.Render && s.Objects.State.Restore != p.Restore:
		s.Objects.State.Restore = p.Restore
	case p.Step != nil:
		s.execute(p.Step)
	default:
		return false
	}

	return true
}

// repair reconciles while the spec is not rolled out. True: it executed a step.
func (s *scenario) repair(p plan.Plan) bool {
	repair := planner.ForRepair(s.Etcd, s.Objects, s.Now())
	if p.Refusal != nil && repair.Step == nil {
		repair = p
	}
	s.noteOf(repair)
	if repair.Step == nil {
		return false
	}
	s.checkRepair(repair.Step)
	s.execute(repair.Step)

	return true
}

func (s *scenario) isNew(manifest simulator.Manifest) bool {
	written := s.Written()

	return written == nil || written.Rendering.Checksum != manifest.Rendering.Checksum || len(written.Rendering.Fixed.Differences(manifest.Rendering.Fixed)) > 0
}

// apply writes the ManagedResource.
func (s *scenario) apply(manifest simulator.Manifest, p plan.Plan) {
	s.note("> ManagedResource written: image %s, replicas %d, size %d", manifest.Image, manifest.Replicas, manifest.ClusterSize)
	record := s.Objects.State
	record.Replicas, record.Restore, record.FinalSnapshot = new(manifest.Replicas), p.Restore, p.FinalSnapshot
	if manifest.Replicas > 0 {
		record.Size = planner.SizeToPersist(p, s.Objects)
	}
	s.Apply(manifest, record)
}

// execute executes a step. The operator tries again what the API server refuses for now.
func (s *scenario) execute(step plan.Step) {
	s.steps[kindOf(step)]++
	check := s.checkStep(step)
	switch err := s.Execute(step); {
	case errors.Is(err, simulator.ErrEvictionRefused):
		s.note("> the eviction is refused")
	case errors.Is(err, simulator.ErrQuotaExceeded):
		s.note("> the quota refuses the expansion of claim %s", plan.MetaOf(step).Object)
	case err != nil:
		s.violated("%s: %s", kindOf(step), err)
	}
	check()
}

// consumeAnnotation removes the annotation that requests a restore, once the phase of the restore is persisted.
func (s *scenario) consumeAnnotation() {
	_, ignored := planner.EvaluateRestore(s.Etcd, s.Objects, s.Now())
	value, isRequested := s.Etcd.Annotations[druidv1alpha1.RestoreAnnotation]
	if !isRequested || s.Objects.State.Restore != "discard" && ignored == "" {
		return
	}
	s.note("> the annotation is taken%s", strings.TrimSuffix("; it is ignored: "+ignored, "; it is ignored: "))
	s.Objects.RestoreVerification.Recorded = s.Objects.RestoreVerification.Failed
	s.invariants.isUnverified = value == druidv1alpha1.RestoreFromStoreUnverified
	delete(s.Etcd.Annotations, druidv1alpha1.RestoreAnnotation)
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
