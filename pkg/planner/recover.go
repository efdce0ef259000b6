// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// planRecovery plans for a cluster whose recovery was chosen. All pods stop, a Job copies the data into the backup store, and another one
// verifies it. Then the restore discards the volumes, see planDiscard. It can be withdrawn until the Job may have copied something.
func planRecovery(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	p := plan.Plan{Stage: plan.StageRestore, Render: true, ClusterSize: o.State.Size, Restore: state.RestoreRecover, Recovery: o.State.Recovery}
	recovery, job := o.State.Recovery, o.RecoveryJob
	switch {
	case !recovery.IsActive():
		return withdraw(p, o, state.Recovery{LostAt: now}, "no option is recorded")
	case unreadForRestore(o) != "":
		p.Reason, p.WaitsFor = "no data is used without all facts", unreadForRestore(o)

		return p
	case isForbidden(etcd, o):
		return forbid(p, o)
	case len(o.Pods) > 0:
		p.Reason = fmt.Sprintf("%s; %d pods are left", recovery, len(o.Pods))
		p.WaitsFor = "pod " + o.Pods[0].Name + " to be gone" + outOfServiceHint(o.Pods[0])

		return p
	case recovery.Stored != nil:
		return verifyRecovery(p, etcd, o, now)
	case !recovery.Stopped && recovery.Source == state.RecoverMembers:
		return recordStop(p, o)
	case job.Exists && job.Deleting:
		p.Reason, p.WaitsFor = recovery.String(), fmt.Sprintf("Job %s, of an earlier recovery, to be gone", job.Name)

		return p
	case job.Exists && isOutdatedJob(job, etcd, *recovery):
		p.Reason = recovery.String() + "; a Job of an earlier recovery is deleted"
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}

		return p
	case !job.Exists:
		return storeRecovery(p, etcd, o, now)
	default:
		return awaitRecoveryJob(p, o, now)
	}
}

// isForbidden is true if the policy forbids a recovery by now, and no Job has copied anything.
func isForbidden(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	recovery := o.State.Recovery

	return helper.RecoveryPolicy(etcd) == druidv1alpha1.RecoveryPolicyNever && recovery.Job == "" && recovery.Stored == nil && (!o.RecoveryJob.Exists || o.RecoveryJob.Suspended)
}

// isOutdatedJob is true for the Job of an earlier recovery, and for one whose snapshot cannot be used any more.
func isOutdatedJob(job etcdcluster.RecoveryJob, etcd *druidv1alpha1.Etcd, recovery state.Recovery) bool {
	return job.OwnerUID != etcd.UID || job.Token != recovery.Token || job.CreationTime.Before(recovery.ChosenAt.Add(-evidence.MaxClockSkew)) || job.UID == recovery.Outdated
}

// forbid withdraws a recovery that the policy forbids by now. A suspended Job is deleted first.
func forbid(p plan.Plan, o etcdcluster.Observation) plan.Plan {
	job := o.RecoveryJob
	p.Reason = fmt.Sprintf("the recovery policy is Never; the suspended Job %s is deleted", job.Name)
	switch {
	case !job.Exists:
		return withdraw(p, o, *o.State.Recovery, "the recovery policy is Never")
	case job.Deleting:
		p.WaitsFor = fmt.Sprintf("Job %s to be gone", job.Name)
	default:
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	}

	return p
}

// recordStop records that all pods are gone, after it has deleted each Job that has inspected a volume before. Their results may lack the last writes.
func recordStop(p plan.Plan, o etcdcluster.Observation) plan.Plan {
	p.Reason = o.State.Recovery.String()
	if len(o.Inspections) == 0 {
		recovery := *o.State.Recovery
		recovery.Stopped = true
		p.Recovery, p.WaitsFor = &recovery, "this to be recorded"
		p.Reason += "; all pods are gone"

		return p
	}
	job := o.Inspections[0]
	p.Reason += fmt.Sprintf("; Job %s, which may have inspected a volume in use, is deleted", job.Name)
	if job.Deleting {
		p.WaitsFor = "Job " + job.Name + " to be gone"
	} else {
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	}

	return p
}

// awaitRecoveryJob resumes the Job that copies the data, waits for it, and records its result.
func awaitRecoveryJob(p plan.Plan, o etcdcluster.Observation, now time.Time) plan.Plan {
	recovery, job := *o.State.Recovery, o.RecoveryJob
	p.Reason = recovery.String()
	isFirst := recovery.Job == job.UID
	switch {
	case job.Rejected && (isFirst || recovery.Job == ""):
		return withdraw(p, o, recovery, fmt.Sprintf("Job %s has copied nothing: %s", job.Name, job.Message))
	case job.CopiedNothing && isFirst:
		recovery.Job = ""
		p.Recovery, p.WaitsFor = &recovery, "this to be recorded"
	case !job.CopiedNothing && recovery.Job == "":
		if tooMany := tooManyWithoutQuorum(o); job.Suspended && recovery.ByPolicy && tooMany != "" {
			p.WaitsFor = tooMany

			return p
		}
		recovery.Job = job.UID
		p.Recovery, p.WaitsFor = &recovery, "this to be recorded"
		p.Reason += fmt.Sprintf("; Job %s may copy the data from now on, so that the members do not start again", job.Name)
	case job.Suspended:
		p.Step = plan.ResumeJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	case job.Failed && now.Sub(job.CreationTime) < recoveryRetry:
		p.WaitsFor, p.RequeueAfter = fmt.Sprintf("the next attempt at %s; Job %s failed: %s", stamp(job.CreationTime.Add(recoveryRetry)), job.Name, job.Message), recoveryRetry-now.Sub(job.CreationTime)
	case job.Failed:
		p.Reason += fmt.Sprintf("; Job %s failed and is deleted before the next attempt: %s", job.Name, job.Message)
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	case job.Result == nil:
		p.WaitsFor = strings.TrimSuffix(fmt.Sprintf("Job %s to copy the data into the backup store: %s", job.Name, job.Message), ": ")
	default:
		recovery.Stored = &state.StoredRecovery{
			Name: job.Result.Snapshot, Store: job.Store, Revision: job.Result.Revision, Keys: job.Result.Keys, Hash: job.Result.Hash, Extracted: job.Result.ExtractedRevision, At: now,
		}
		p.Recovery, p.Reason = &recovery, fmt.Sprintf("%s; Job %s has copied %s into the backup store", &recovery, job.Name, job.Result.Snapshot)
		p.WaitsFor = "this to be recorded"
	}

	return p
}

// recoveryRetry is the shortest time between two Jobs that copy the data.
const recoveryRetry = 2 * time.Minute

// withdrawOrWait withdraws a recovery, or waits for a user if a Job may have copied something.
func withdrawOrWait(p plan.Plan, o etcdcluster.Observation, recovery state.Recovery, why string) plan.Plan {
	if recovery.Job == "" {
		return withdraw(p, o, recovery, why)
	}
	p.Reason = fmt.Sprintf("%s; a Job may have copied the data into the store, so that the members do not start again", &recovery)
	p.WaitsFor = fmt.Sprintf("the data of the members (%s), or a restore, requested by the annotation %s=%s", why, druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStore)

	return p
}

// withdraw ends a recovery before anything was copied. The members start again.
func withdraw(p plan.Plan, o etcdcluster.Observation, recovery state.Recovery, why string) plan.Plan {
	p.Restore, p.PollMembers = state.RestoreNone, true
	if o.State.Verified != nil {
		p.Restore = state.RestoreJoin // the recovery began before all members had joined
	}
	p.Recovery = &state.Recovery{LostAt: recovery.LostAt, Token: recovery.Token, Withdrawn: why}
	p.Reason = "the recovery is withdrawn, and the members start again with their volumes: " + why
	p.WaitsFor = "this to be recorded"

	return p
}

// storeRecovery creates the Job that copies the data. The data of members is that of the one with the newest log.
func storeRecovery(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	recovery := *o.State.Recovery
	step := plan.RecoverData{Meta: plan.Meta{Object: helper.RecoveryJobName(etcd), UID: etcd.UID}, MinRevision: recovery.Revision, Token: recovery.Token}
	if !recovery.Proven {
		step.Bump, step.BumpBelow = etcdcluster.RevisionBump, recovery.Known+etcdcluster.RevisionBump/2
	}
	p.Reason = recovery.String()
	if recovery.Source == state.RecoverStore {
		p.Step = step

		return p
	}
	best, next, waitsFor, why := bestMember(etcd, o, now)
	switch {
	case why != "":
		return withdrawOrWait(p, o, recovery, why)
	case next != nil:
		p.Step = next

		return p
	case waitsFor != "":
		p.WaitsFor, p.RequeueAfter = waitsFor, recoveryRetry

		return p
	}
	unproven := evidence.UnprovenLoss(o.State, *best.Result, claimWithUID(o, best.ClaimUID).CreationTime)
	if recovery.ProofRequired && unproven != "" {
		return withdrawOrWait(p, o, recovery, "it is not proven that nothing is lost: "+unproven)
	}
	if recovery.Claim != best.Claim || recovery.ClaimUID != best.ClaimUID || recovery.Proven != (unproven == "") {
		recovery.Claim, recovery.ClaimUID, recovery.Proven = best.Claim, best.ClaimUID, unproven == ""
		p.Recovery, p.WaitsFor = &recovery, "this to be recorded"
		p.Reason = fmt.Sprintf("%s; claim %s has the newest log, with last term %d and last index %d", &recovery, best.Claim, best.Result.Log.LastTerm, best.Result.Log.LastIndex)
		if unproven != "" {
			p.Reason += "; it is not proven that nothing is lost: " + unproven
		}

		return p
	}
	step.Claim, step.ClaimUID = best.Claim, best.ClaimUID
	p.Step = step

	return p
}

// bestMember returns the inspection of the member whose log is the newest, as raft elects. Otherwise it returns the next step, what the
// inspections wait for, or why no data of a member can be used.
func bestMember(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (best *etcdcluster.ClaimInspection, step plan.Step, waitsFor, why string) {
	var left []string
	for _, member := range etcdcluster.MembersOf(etcd, o, max(etcd.Spec.Replicas, o.State.Started)) {
		claim := o.ClaimFor(member.Ordinal)
		if claim == nil || !claim.MayHaveData() || claim.Volume == "" || o.VolumeLostReason(member.Ordinal) != "" {
			continue
		}
		job, step, waitsFor, why := inspectSurvivor(etcd, o, *claim, now)
		if step != nil || waitsFor != "" || why != "" {
			return nil, step, waitsFor, why
		}
		if job == nil {
			continue
		}
		log := job.Result.Log
		left = append(left, log.MemberID)
		isVoter := slices.Contains(log.Voters, log.MemberID) // the data of a learner may be incomplete
		if isVoter && (best == nil || isNewerLog(*log, *best.Result.Log)) {
			best = job
		}
	}

	return best, nil, "", unusableLog(o, best, left)
}

// claimWithUID returns the claim with the UID. The zero value: there is none.
func claimWithUID(o etcdcluster.Observation, uid types.UID) etcdcluster.Claim {
	index := slices.IndexFunc(o.Claims, func(claim etcdcluster.Claim) bool { return claim.Exists && claim.UID == uid })
	if index < 0 {
		return etcdcluster.Claim{}
	}

	return o.Claims[index]
}

// inspectSurvivor returns the inspection of the volume of a stopped member after the choice. Nil: the volume has no data. Otherwise it returns the
// next step, what the inspection waits for, or why the recovery cannot continue.
func inspectSurvivor(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, claim etcdcluster.Claim, now time.Time) (found *etcdcluster.ClaimInspection, step plan.Step, waitsFor, why string) {
	job := inspectionOf(o, claim)
	switch {
	case job == nil:
		return nil, plan.InspectClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}, "", ""
	case job.Deleting:
		return nil, nil, fmt.Sprintf("Job %s to be gone", job.Name), ""
	case job.ClaimUID != claim.UID || job.OwnerUID != etcd.UID:
		return nil, plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}, "", ""
	case job.Empty || job.Corrupt:
		return nil, nil, "", ""
	case job.Failed && !isRepeated(*o.State.Recovery, now):
		return nil, nil, "", fmt.Sprintf("the data of claim %s is unknown: %s", claim.Name, job.Message)
	case job.Failed && now.Sub(job.CreationTime) >= recoveryRetry:
		return nil, plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}, "", ""
	case job.Failed:
		return nil, nil, fmt.Sprintf("the next attempt at %s; Job %s failed: %s", stamp(job.CreationTime.Add(recoveryRetry)), job.Name, job.Message), ""
	case job.Result == nil:
		return nil, nil, strings.TrimSuffix(fmt.Sprintf("Job %s to inspect the volume of claim %s: %s", job.Name, claim.Name, job.Message), ": "), ""
	case job.Result.Log == nil:
		return nil, nil, "", fmt.Sprintf("the log in claim %s cannot be read: %s", claim.Name, job.Result.LogProblem)
	default:
		return job, nil, "", ""
	}
}

// inspectionTime is for how long after a choice a failed inspection is repeated before the recovery is withdrawn.
const inspectionTime = 20 * time.Minute

// isRepeated is true if a failed inspection is repeated. After a Job may have copied something, nothing else ends the wait.
func isRepeated(recovery state.Recovery, now time.Time) bool {
	return recovery.Job != "" || now.Sub(recovery.ChosenAt) < inspectionTime
}

// isNewerLog compares two logs as raft does in an election.
func isNewerLog(a, b etcdcluster.InspectedLog) bool {
	return cmp.Or(cmp.Compare(a.LastTerm, b.LastTerm), cmp.Compare(a.LastIndex, b.LastIndex)) > 0
}

// isRecordedVoter is true for the ID of a recorded voting member. The removal of another one is committed. Without a record, all count.
func isRecordedVoter(recorded *state.Evidence, id string) bool {
	return recorded == nil || len(recorded.Voters) == 0 || slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool { return voter.ID == id })
}

// unusableLog returns why the newest log cannot be used. left are the IDs of the members whose data is not lost. Empty: it can.
func unusableLog(o etcdcluster.Observation, best *etcdcluster.ClaimInspection, left []string) string {
	recovery, recorded, votes := o.State.Recovery, o.State.Evidence, 0
	if best != nil {
		for _, id := range left {
			if slices.Contains(best.Result.Log.Voters, id) || slices.Contains(best.Result.Log.FormerVoters, id) && isRecordedVoter(recorded, id) {
				votes++
			}
		}
	}
	switch {
	case best == nil:
		return "no volume has the data of a voting member"
	case etcdcluster.IsQuorate(votes, len(best.Result.Log.Voters)):
		return fmt.Sprintf("%d of %d voting members have their data, and can be a quorum again", votes, len(best.Result.Log.Voters))
	case recorded != nil && best.Result.Log.LastTerm < recorded.Term:
		return fmt.Sprintf("the newest log is that of claim %s and ends with term %d, and a quorum had term %d: it lacks confirmed writes", best.Claim, best.Result.Log.LastTerm, recorded.Term)
	case best.Result.Log.MaxRevision < recovery.Revision:
		return fmt.Sprintf("the newest log is that of claim %s and ends with revision %d at most, and revision %d was stated", best.Claim, best.Result.Log.MaxRevision, recovery.Revision)
	default:
		return ""
	}
}

// verifyRecovery waits until a Job has restored exactly the copied data from the store. Then the restore begins.
func verifyRecovery(p plan.Plan, etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	recovery, job := o.State.Recovery, o.RestoreVerification
	stored := recovery.Stored
	p.Reason = fmt.Sprintf("%s; %s is in the backup store, and no data is deleted before a Job has restored it", recovery, stored.Name)
	switch {
	case o.TargetStore != "" && stored.Store != "" && o.TargetStore != stored.Store:
		return copyAgain(p, o, fmt.Sprintf("%s is in %s, and the first member would restore from %s", stored.Name, stored.Store, o.TargetStore))
	case !job.Exists || o.TargetStore == "" && !job.Deleting: // without a store, the step reports why
		p.Step = plan.VerifyRestore{Meta: plan.Meta{Object: helper.RestoreVerificationJobName(etcd), UID: etcd.UID}}
	case job.Deleting:
		p.WaitsFor = fmt.Sprintf("Job %s to be gone", job.Name)
	case !isFor(job, etcd, o) || job.CreationTime.Before(stored.At.Add(-time.Second)):
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
	case job.Failed:
		p.WaitsFor = fmt.Sprintf("a store that can be restored from; Job %s failed: %s. The operator tries again when the Job is deleted, at the latest ten minutes after its end", job.Name, job.Message)
	case job.Result == nil:
		p.WaitsFor = strings.TrimSuffix(fmt.Sprintf("Job %s to restore from the store: %s", job.Name, job.Message), ": ")
	case job.Result.Revision < stored.Revision:
		return copyAgain(p, o, fmt.Sprintf("Job %s restored revision %d, and %s has revision %d", job.Name, job.Result.Revision, stored.Name, stored.Revision))
	case !isStored(*stored, *job.Result):
		p.WaitsFor = fmt.Sprintf("a store that restores %s: Job %s restored revision %d with %d keys and hash %d, and the snapshot has revision %d with %d keys and hash %d. No data is deleted. "+
			"Check the store for newer snapshots, and request a restore with %s=%s", stored.Name, job.Name, job.Result.Revision, job.Result.Keys, job.Result.Hash, stored.Revision, stored.Keys, stored.Hash,
			druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStore)
	default:
		p.Restore = state.RestoreDiscard
		p.Verified = &state.VerifiedRestore{Revision: stored.Revision, Keys: stored.Keys, Known: max(recovery.Known, stored.Extracted), Store: job.Store, At: now}
		if !recovery.Proven {
			p.Verified.AcceptedRevision, p.Verified.AcceptedBy = stored.Revision, recovery.By
		}
		p.Reason = fmt.Sprintf("%s; a Job has restored exactly %s from the backup store", recovery, stored.Name)
		p.WaitsFor = "the claims of all members to be deleted"
	}

	return p
}

// isStored is true if a restore contains exactly the stored snapshot.
func isStored(stored state.StoredRecovery, found etcdcluster.Inspection) bool {
	return found.Revision == stored.Revision && found.Keys == stored.Keys && found.Hash == stored.Hash
}

// copyAgain repeats the Job that copies the data, because its snapshot cannot be used any more. The Job of the lost snapshot is deleted first.
func copyAgain(p plan.Plan, o etcdcluster.Observation, why string) plan.Plan {
	recovery := *o.State.Recovery
	recovery.Stored, recovery.Outdated = nil, o.RecoveryJob.UID
	p.Restore, p.Recovery = state.RestoreRecover, &recovery
	p.Reason, p.WaitsFor = fmt.Sprintf("%s; the data is copied again: %s", &recovery, why), "this to be recorded"

	return p
}
