// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Plan is what follows for an Etcd from an Observation.
type Plan struct {
	// Stage names what is being done.
	Stage Stage
	// Render is true when the ManagedResource may be written with Replicas and ClusterSize. False: it stays as it is.
	Render bool
	// Replicas of the StatefulSet in the rendering.
	Replicas int32
	// ClusterSize is the number of members in the rendered initial-cluster.
	ClusterSize int32
	// Step is the one act to be done now. Nil: none. It is done only in a pass in which writing the ManagedResource
	// changed nothing, and it is over when a later Observation shows it, not when it was done.
	Step Step
	// Restore is what has to be remembered with the rendering about a restore from the store. RestoreNone: nothing.
	Restore state.RestorePhase
	// Growth is set when the next member may join as soon as the cluster shows the rendering of this plan: not before Against
	// has left it there. What is rendered then is told by Grown.
	ScaleUp *Size
	// FinalSnapshot is to be remembered with the rendering: how the last full snapshot before the members stopped came out. Nil:
	// the members run, or there is no store.
	FinalSnapshot *state.FinalSnapshot
	// Reason is a sentence that says why, with the arithmetic of the quorum where members are concerned.
	Reason string
	// WaitsFor is what has to happen before the plan goes on, in words. Empty: nothing.
	WaitsFor string
	// RequeueAfter is how long until the plan may change by the passing of time alone, without a new observation. 0: it does not.
	RequeueAfter time.Duration
	// PollMembers is true while members are defragmented, for several members while a pod of theirs is young, and while a claim goes that
	// nobody uses: what no watch tells, such as votes and leaders, changes from one second to the next.
	PollMembers bool
	// Refusal is set when the spec cannot be carried out and its author has to act.
	Refusal *Refusal
	// Blocked is set when a part of the spec cannot be carried out for now, though all else is. It is found by Against.
	Blocked *Refusal
}

// Stage names what is being done to a cluster.
type Stage string

// The stages.
const (
	// StageObserve waits for facts without which nothing is decided.
	StageObserve Stage = "Observe"
	// StageRefused does nothing: the spec cannot be carried out.
	StageRefused Stage = "Refused"
	// StageWaitForSecrets waits for Secrets that pods need.
	StageWaitForSecrets Stage = "WaitForSecrets"
	// StageWaitForPreviousOwner waits for what an earlier Etcd of the same name left to be gone.
	StageWaitForPreviousOwner Stage = "WaitForPredecessor"
	// StageWaitForExisting waits for the cluster that the members are to join.
	StageWaitForExisting Stage = "WaitForExisting"
	// StageCreate makes a cluster that never ran.
	StageCreate Stage = "Create"
	// StageSnapshot has a full snapshot taken and verified before members stop for good or data is discarded.
	StageSnapshot Stage = "Snapshot"
	// StageHibernate stops all members and keeps their data.
	StageHibernate Stage = "Hibernate"
	// StageHibernated is the end of StageHibernate.
	StageHibernated Stage = "Hibernated"
	// StageWakeUp starts the members of a hibernated cluster.
	StageWakeUp Stage = "Wake"
	// StageApply waits for the resource manager to apply the newest rendering to a running cluster.
	StageApply Stage = "Apply"
	// StageRecreateStatefulSet replaces the StatefulSet and keeps its pods, for what cannot be changed in place.
	StageRecreateStatefulSet Stage = "RecreateStatefulSet"
	// StageResizeVolume lets volumes grow in place, and waits for them to have grown.
	StageResizeVolume Stage = "GrowVolume"
	// StageReplacePod replaces pods that were made from an older template.
	StageReplacePod Stage = "ReplacePod"
	// StageScaleUp lets the next member join a running cluster.
	StageScaleUp Stage = "Grow"
	// StagePromote gives a learner that has caught up its vote.
	StagePromote Stage = "Promote"
	// StageReplaceVolume gives a member whose volume is lost for good a new one.
	StageReplaceVolume Stage = "Repair"
	// StageRestore replaces a cluster of which nobody serves by what its store holds, since its owner asked for it.
	StageRestore Stage = "Restore"
	// StageQuorumLost waits for members without which nothing can be read or written. Nothing is attempted.
	StageQuorumLost Stage = "QuorumLost"
	// StageHalted stands still: what was seen must not be acted upon.
	StageHalted Stage = "Hold"
	// StageWaitForMembers waits for members that were started to serve.
	StageWaitForMembers Stage = "Settle"
	// StageExternallyManaged renders for members that somebody else runs.
	StageExternallyManaged Stage = "ExternallyManaged"
	// StageDone means that the observed cluster is the desired one.
	StageDone Stage = "Done"
)

// Size is the rendering with which the next member joins.
type Size struct {
	// Replicas and ClusterSize as in a Plan.
	Replicas, ClusterSize int32
}

// Refusal says what the author of the spec has to change.
type Refusal struct {
	// Field is the path of the field at fault.
	Field string
	// Message says what is wrong and the way out, without repeating the field.
	Message string
}

// Error makes a Refusal an error: the field, then what is wrong.
func (r *Refusal) Error() string { return r.Field + ": " + r.Message }

// Outcome sorts plans by what the one who carries them out has to do next.
type Outcome string

// The outcomes.
const (
	// OutcomeDone means that nothing is left to do.
	OutcomeDone Outcome = "Done"
	// OutcomeStep means that Step is to be done now.
	OutcomeStep Outcome = "Step"
	// OutcomeScaleUp means that the next member joins: the rendering of Grown is to be written now.
	OutcomeScaleUp Outcome = "Grow"
	// OutcomeWaiting means to wait for WaitsFor.
	OutcomeWaiting Outcome = "Waiting"
	// OutcomeBlocked means that nothing is left to do but what cannot be done for now, see Hindered.
	OutcomeBlocked Outcome = "Hindered"
	// OutcomeRefused means that the author of the spec has to act, see Refusal.
	OutcomeRefused Outcome = "Refused"
)

// ScaledUp is the plan with which the next member joins. It is the plan itself where none may.
func (p Plan) ScaledUp() Plan {
	if p.ScaleUp != nil {
		p.Replicas, p.ClusterSize, p.ScaleUp = p.ScaleUp.Replicas, p.ScaleUp.ClusterSize, nil
	}

	return p
}

// Outcome returns what is next. A plan that was not held against its rendering (Against) is at best waiting for it.
func (p Plan) Outcome() Outcome {
	switch {
	case p.Refusal != nil:
		return OutcomeRefused
	case p.Step != nil:
		return OutcomeStep
	case p.ScaleUp != nil:
		return OutcomeScaleUp
	case p.WaitsFor != "":
		return OutcomeWaiting
	case p.Blocked != nil:
		return OutcomeBlocked
	default:
		return OutcomeDone
	}
}
