// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Plan is the decision of the planner for an Etcd and an Observation.
type Plan struct {
	// Stage names what is being done.
	Stage Stage
	// Render is true when the ManagedResource may be written with Replicas and ClusterSize. False: it stays as it is.
	Render bool
	// Replicas of the StatefulSet in the rendering.
	Replicas int32
	// ClusterSize is the number of members in the rendered initial-cluster.
	ClusterSize int32
	// EtcdVersion is the minor version of etcd in the rendering. It is recorded with the rendering. Empty: it is not known.
	EtcdVersion string
	// NextEtcdVersion is the minor version of etcd that the spec requests, and to which the members do not change yet. Empty: there is none. The
	// generation is not rolled out before.
	NextEtcdVersion string
	// Step is the one action that is due now. Nil: none. It is executed only in a reconciliation that has not written new manifests
	// to the ManagedResource. It is complete when a later Observation shows its effect, and not when it was executed.
	Step Step
	// Restore is the phase of a restore from the backup store. It is recorded with the rendering. RestoreNone: no restore.
	Restore state.RestorePhase
	// Verified are the facts with which the restore begins. They are recorded with Restore. Nil: the recorded ones stay, or the restore is not
	// verified.
	Verified *state.VerifiedRestore
	// Recovery is the recovery from a quorum that is lost forever. It is recorded with the rendering. Nil: the quorum is not lost.
	Recovery *state.Recovery
	// Retained are the volumes whose reclaim policy the operator changes. They are recorded with the rendering. Nil: the record stays as it is.
	Retained []state.RetainedVolume
	// ScaleUp is the size with which the next member joins. The next member joins as soon as the cluster shows the rendering of this plan
	// and Gate has left ScaleUp set. ScaledUp returns the plan with that size. Nil: no member joins.
	ScaleUp *Size
	// ScaleIn is the removal of members that is under way. It is recorded with the rendering. The configuration then lacks the advertised URLs of
	// the members that leave, and the client Service selects only the others. Nil: none is under way.
	ScaleIn *state.ScaleIn
	// IsScaleInPaused is true while too few members are healthy for a removal. The configuration and the Service are then rendered as without
	// ScaleIn: a member that is not removed yet starts again only with its advertised URLs.
	IsScaleInPaused bool
	// Surge is the replacement of the only member through a temporary one. It is recorded with the rendering. Its phase decides which member has
	// no advertised URLs, and which one the client Service selects. Nil: none is in progress, and none was aborted.
	Surge *state.Surge
	// NextSurge is the surge that begins with ScaleUp. Nil: ScaleUp begins none.
	NextSurge *state.Surge
	// Migration is the replacement of the volumes of a multi-member cluster. It is recorded with the rendering of a plan with members. Nil: none is under way.
	Migration *state.Migration
	// ExcludesPods is true if the client Service selects pods by the label of ExcludePod too.
	ExcludesPods bool
	// Restarts is true if the step replaces a pod that cannot start without that. It does not wait for the next operation.
	Restarts bool
	// PodSize is the size for which the pod template of the only member is rendered, if that is not ClusterSize. It is recorded with the
	// rendering. 0: ClusterSize.
	PodSize int32
	// Space is how the operator frees space in full databases. It is recorded with the rendering. Nil: the record stays as it is.
	Space *state.Space
	// Existing is the progress of the removal of members of the joined cluster. It is recorded with the rendering. Nil: the record stays as it is.
	Existing *state.Existing
	// FinalSnapshot is the result of the last full snapshot before the members stopped. It is recorded with the rendering. Nil: the members
	// run, or there is no backup store.
	FinalSnapshot *state.FinalSnapshot
	// Reason is a sentence with the cause. If the plan is about members, it begins with the number of healthy members.
	Reason string
	// WaitsFor describes what must happen before the operator can continue. Empty: nothing.
	WaitsFor string
	// RequeueAfter is the time after which the plan may change without a new observation. 0: it does not change.
	RequeueAfter time.Duration
	// PollMembers is true if the operator must poll the members, because no watch reports changes such as promotions and new leaders. It is
	// true while members are defragmented, and while a pod of a multi-member cluster is new. It is also true while a claim that no pod uses
	// is being deleted.
	PollMembers bool
	// Refusal is set if the spec cannot be rolled out and its author has to change it.
	Refusal *Refusal
	// Blocked is set if a part of the spec cannot be rolled out for now, for example a volume size. All other parts are rolled out.
	Blocked *Refusal
}

// Stage names what is being done to a cluster.
type Stage string

// The stages.
const (
	// StageObserve waits for facts. The operator decides nothing without them.
	StageObserve Stage = "Observe"
	// StageRefused does nothing: the spec cannot be rolled out.
	StageRefused Stage = "Refused"
	// StageWaitForSecrets waits for Secrets that pods need.
	StageWaitForSecrets Stage = "WaitForSecrets"
	// StageWaitForCertificates waits for certificates that verify, in Secrets that no pod mounts yet.
	StageWaitForCertificates Stage = "WaitForCertificates"
	// StageWaitForSurge waits for the end of a surge. The generation that was accepted last is reconciled until then.
	StageWaitForSurge Stage = "WaitForSurge"
	// StageWaitForPreviousOwner waits for the deletion of objects of a previous Etcd of the same name.
	StageWaitForPreviousOwner Stage = "WaitForPreviousOwner"
	// StageWaitForExisting waits for the cluster that the members are to join.
	StageWaitForExisting Stage = "WaitForExisting"
	// StageCreate creates a cluster that has never run.
	StageCreate Stage = "Create"
	// StageSnapshot takes and verifies a full snapshot before members stop for good or data is deleted.
	StageSnapshot Stage = "Snapshot"
	// StageHibernate stops all members and keeps their data.
	StageHibernate Stage = "Hibernate"
	// StageHibernated is the end of StageHibernate.
	StageHibernated Stage = "Hibernated"
	// StageWakeUp starts the members of a hibernated cluster.
	StageWakeUp Stage = "WakeUp"
	// StageApply waits for gardener-resource-manager to apply the latest rendered manifests to a running cluster.
	StageApply Stage = "Apply"
	// StageRecreateStatefulSet replaces the StatefulSet and keeps its pods, for what cannot be changed in place.
	StageRecreateStatefulSet Stage = "RecreateStatefulSet"
	// StageResizeVolume expands volumes in use, and waits for their new size.
	StageResizeVolume Stage = "ResizeVolume"
	// StageReplacePod replaces pods that were created from an older template.
	StageReplacePod Stage = "ReplacePod"
	// StageScaleUp adds the next member to a running cluster.
	StageScaleUp Stage = "ScaleUp"
	// StageSurge replaces the only member through a temporary second member.
	StageSurge Stage = "Surge"
	// StageMigrateVolumes replaces the volumes of a multi-member cluster, one after the other.
	StageMigrateVolumes Stage = "MigrateVolumes"
	// StageScaleIn removes members from a running cluster.
	StageScaleIn Stage = "ScaleIn"
	// StagePromote promotes a learner that has caught up to a voting member.
	StagePromote Stage = "Promote"
	// StageReplaceLearner replaces the pod of a member that cannot join, because its etcd may have formed a separate cluster.
	StageReplaceLearner Stage = "ReplaceLearner"
	// StageReplaceVolume replaces the volume of a member that has lost its volume.
	StageReplaceVolume Stage = "ReplaceVolume"
	// StageFreeSpace frees space in databases that have reached their quota, and disarms the alarms of etcd.
	StageFreeSpace Stage = "FreeSpace"
	// StageRestore restores a cluster without a healthy member from its backup store, because its owner requested it.
	StageRestore Stage = "Restore"
	// StageQuorumLost waits for members without which nothing can be read or written. The operator changes nothing.
	StageQuorumLost Stage = "QuorumLost"
	// StageWaitForClaims starts nothing: claims of a previous Etcd of the same name may have data of more members than the spec requests.
	StageWaitForClaims Stage = "WaitForClaims"
	// StageHalted changes nothing: the operator must not act on the observed state.
	StageHalted Stage = "Halted"
	// StageWaitForMembers waits for members that were started to become healthy.
	StageWaitForMembers Stage = "WaitForMembers"
	// StageExternallyManaged renders the configuration of externally managed members.
	StageExternallyManaged Stage = "ExternallyManaged"
	// StageDone means that the observed cluster is the desired one.
	StageDone Stage = "Done"
)

// Size is the size of a rendering.
type Size struct {
	// Replicas and ClusterSize as in a Plan.
	Replicas, ClusterSize int32
}

// Refusal describes what the author of the spec has to change.
type Refusal struct {
	// Field is the path of the invalid field.
	Field string
	// Message states the problem and the remedy, without the field.
	Message string
}

// Error makes a Refusal an error: the field, then what is wrong.
func (r *Refusal) Error() string { return r.Field + ": " + r.Message }

// Outcome classifies plans by what follows from them.
type Outcome string

// The outcomes.
const (
	// OutcomeDone means that nothing is left to do.
	OutcomeDone Outcome = "Done"
	// OutcomeStep means that Step is due now.
	OutcomeStep Outcome = "Step"
	// OutcomeScaleUp means that the next member joins: the rendering of ScaledUp is written now.
	OutcomeScaleUp Outcome = "ScaleUp"
	// OutcomeWaiting means to wait for WaitsFor.
	OutcomeWaiting Outcome = "Waiting"
	// OutcomeBlocked means that nothing is left to do except what is blocked for now, see Blocked.
	OutcomeBlocked Outcome = "Blocked"
	// OutcomeRefused means that the author of the spec has to change it, see Refusal.
	OutcomeRefused Outcome = "Refused"
)

// ScaledUp returns the plan with which the next member joins. It returns the plan itself if no member may join.
func (p Plan) ScaledUp() Plan {
	if p.ScaleUp != nil {
		p.Replicas, p.ClusterSize, p.ScaleUp = p.ScaleUp.Replicas, p.ScaleUp.ClusterSize, nil
	}
	if p.NextSurge != nil {
		p.Surge, p.NextSurge, p.PodSize = p.NextSurge, nil, 1
	}

	return p
}

// Remaining returns the number of members that stay while others are removed. 0: none is removed.
func (p Plan) Remaining() int32 {
	if p.ScaleIn == nil || p.IsScaleInPaused {
		return 0
	}

	return p.ScaleIn.To
}

// WithdrawnMember returns the ordinal of the member without advertised URLs in a surge. Its sidecar cannot add it again. Nil: there is none.
func (p Plan) WithdrawnMember() *int32 {
	if p.Surge == nil || p.Surge.Paused {
		return nil
	}
	switch p.Surge.Phase {
	case state.SurgeReplace, state.SurgeDiscard:
		return new(int32(0))
	case state.SurgeEnd, state.SurgeCleanUp:
		return new(int32(1))
	default:
		return nil
	}
}

// ServiceMember returns the ordinal of the only member that the client Service selects in a surge. Nil: it selects all.
func (p Plan) ServiceMember() *int32 {
	if p.Surge == nil {
		return nil
	}
	switch p.Surge.Phase {
	case state.SurgeReplace, state.SurgeDiscard, state.SurgeReturn:
		return new(int32(1))
	case state.SurgeEnd, state.SurgeCleanUp:
		return new(int32(0))
	default:
		return nil
	}
}

// Outcome returns what follows from the plan. The outcome of a plan that Gate has not compared with its rendering is at most
// OutcomeWaiting.
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
