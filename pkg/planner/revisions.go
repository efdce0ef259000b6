// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// A restore is verified by its revision: a Job restores the newest snapshots into a temporary directory and reports the revision of the
// result. The restore begins only if that is not lower than every revision of which the operator knows, or if a user accepts it.

// emptyRevision is the revision of an etcd in which nothing was ever written.
const emptyRevision = 1

// knownRevision is a revision that the data of a cluster had.
type knownRevision struct {
	revision int64
	// source is a sentence that names it.
	source string
	// at is when the data had the revision. Zero: not known.
	at time.Time
}

// recordedRevisions are the revisions that survive the volumes: those of the snapshots in the current store, and that of the last quorum.
func recordedRevisions(o etcdcluster.Observation) []knownRevision {
	var known []knownRevision
	for _, lease := range []etcdcluster.Lease{o.FullSnapshotLease, o.DeltaSnapshotLease} {
		if revision := lease.Revision(); revision > 0 && !o.IsElsewhere(lease) {
			known = append(known, knownRevision{revision: revision, source: fmt.Sprintf("Lease %s records revision %d", lease.Name, revision), at: lease.RenewTime})
		}
	}
	if recorded := o.State.Evidence; recorded != nil && recorded.HighestRevision > 0 {
		known = append(known, knownRevision{revision: recorded.HighestRevision, source: fmt.Sprintf("a quorum returned revision %d", recorded.HighestRevision), at: recorded.At})
	}

	return known
}

// highestOf returns the highest revision. 0: there is none.
func highestOf(known []knownRevision) int64 {
	highest := int64(0)
	for _, one := range known {
		highest = max(highest, one.revision)
	}

	return highest
}

// volumeRevisions are the revisions of the volumes that are not lost.
type volumeRevisions struct {
	known []knownRevision
	// unknown are sentences about the volumes whose revision cannot be read.
	unknown []string
	// step creates or deletes the Job that inspects the next volume. Nil: none is due.
	step plan.Step
	// waitsFor describes the Jobs that have not ended. Empty: none.
	waitsFor string
}

// readVolumes returns the revisions of the volumes that are not lost. A member that responds reports it. A Job inspects each other volume.
func readVolumes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) volumeRevisions {
	var volumes volumeRevisions
	for _, claim := range o.Claims {
		if !claim.MayHaveData() || claim.Volume == "" || o.VolumeLostReason(claim.Ordinal) != "" {
			continue
		}
		status := o.Etcd.Endpoint(claim.Ordinal)
		switch {
		case status != nil && status.Reachable && status.Revision > 0:
			volumes.known = append(volumes.known, knownRevision{revision: status.Revision, source: fmt.Sprintf("member %s returns revision %d", helper.MemberName(etcd, claim.Ordinal), status.Revision)})
		case claim.Deleting:
			volumes.unknown = append(volumes.unknown, fmt.Sprintf("the revision of claim %s is unknown: it is being deleted", claim.Name))
		default:
			volumes.inspect(etcd, o, claim)
		}
	}

	return volumes
}

// inspect adds the result of the Job that inspects the volume of a claim, or the step or the wait that leads to it.
func (v *volumeRevisions) inspect(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, claim etcdcluster.Claim) {
	switch job := inspectionOf(o, claim); {
	case job == nil:
		v.addStep(plan.InspectClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}})
	case job.Deleting:
		v.addWait(fmt.Sprintf("Job %s, of an earlier restore, to be gone", job.Name))
	case job.ClaimUID != claim.UID || job.OwnerUID != etcd.UID || isOutdatedByPods(o, job.CreationTime) || isOutdatedByDeletion(etcd, job.CreationTime):
		v.addStep(plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}})
	case job.Result != nil:
		v.known = append(v.known, knownRevision{
			revision: job.Result.Revision, source: fmt.Sprintf("the volume of claim %s has revision %d", claim.Name, job.Result.Revision), at: heartbeatOf(etcd, o, claim.Ordinal),
		})
	case job.Empty && !hadVote(etcd, o, claim): // a new volume, for example of a member that could no longer join
	case job.Empty:
		v.unknown = append(v.unknown, fmt.Sprintf("the volume of claim %s is empty, although etcd ran on it as member %s", claim.Name, helper.MemberName(etcd, claim.Ordinal)))
	case job.Failed:
		v.unknown = append(v.unknown, fmt.Sprintf("the revision of claim %s is unknown: %s", claim.Name, job.Message))
	default:
		v.addWait(strings.TrimSuffix(fmt.Sprintf("Job %s to inspect the volume of claim %s: %s", job.Name, claim.Name, job.Message), ": "))
	}
}

// isOutdatedByDeletion is true if the Etcd is being deleted, and a Job was created before. The members may have run between an earlier restore and
// a hibernation.
func isOutdatedByDeletion(etcd *druidv1alpha1.Etcd, created time.Time) bool {
	return etcd.DeletionTimestamp != nil && created.Before(etcd.DeletionTimestamp.Time)
}

// hadVote is true if the member was a voting member when a quorum responded last, and its claim existed then. Its volume had data. If it is empty
// now, for example because it is not mounted on its node, it is not known what is lost. If no voting members are recorded, each member counts
// whose sidecar has sent a heartbeat since the claim was created.
func hadVote(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, claim etcdcluster.Claim) bool {
	recorded := o.State.Evidence
	if recorded == nil || len(recorded.Voters) == 0 {
		return claim.CreationTime.Before(heartbeatOf(etcd, o, claim.Ordinal))
	}

	return claim.CreationTime.Before(recorded.At) && slices.ContainsFunc(recorded.Voters, func(voter state.Voter) bool {
		return voter.Name == "" || voter.Name == helper.MemberName(etcd, claim.Ordinal)
	})
}

// addStep sets the step if none is set yet.
func (v *volumeRevisions) addStep(step plan.Step) {
	if v.step == nil {
		v.step = step
	}
}

func (v *volumeRevisions) addWait(waitsFor string) {
	if v.waitsFor != "" {
		v.waitsFor += ", and "
	}
	v.waitsFor += waitsFor
}

// inspectionOf returns the Job that inspects the volume of a claim of that name. Nil: there is none.
func inspectionOf(o etcdcluster.Observation, claim etcdcluster.Claim) *etcdcluster.ClaimInspection {
	index := slices.IndexFunc(o.Inspections, func(job etcdcluster.ClaimInspection) bool { return job.Claim == claim.Name })
	if index < 0 {
		return nil
	}

	return &o.Inspections[index]
}

// heartbeatOf is the last heartbeat of a member. Zero: its Lease records none.
func heartbeatOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, ordinal int) time.Time {
	for _, lease := range o.MemberLeases {
		if lease.Name == helper.MemberName(etcd, ordinal) {
			return lease.RenewTime
		}
	}

	return time.Time{}
}

// consent returns the revision that the user accepts with a restore. 0: none. The second result is why the annotation has no effect.
func consent(etcd *druidv1alpha1.Etcd) (int64, string) {
	value, found := etcd.Annotations[druidv1alpha1.AcceptRevisionAnnotation]
	if !found {
		return 0, ""
	}
	revision, err := strconv.ParseInt(value, 10, 64)
	if err != nil || revision <= 0 {
		return 0, fmt.Sprintf("the value of the annotation %s=%s is no revision", druidv1alpha1.AcceptRevisionAnnotation, value)
	}

	return revision, ""
}

// comparison is the result for the revision that the store restores.
type comparison struct {
	// verified is set if the restore may begin.
	verified *state.VerifiedRestore
	// refused is why it may not, with the remedy. Empty if verified is set.
	refused string
}

// compare compares what the Job has restored with everything that is known. The Job must have a result. The volumes have what is known of
// other sources too. remedy is what a user sets together with the accepted revision.
func compare(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, volumes volumeRevisions, remedy string, now time.Time) comparison {
	known, unknown, restored := volumes.known, volumes.unknown, *o.RestoreVerification.Result
	verified := &state.VerifiedRestore{Revision: restored.Revision, Keys: restored.Keys, Known: highestOf(known), Store: o.RestoreVerification.Store, At: now}
	accepted, invalid := consent(etcd)
	lost := evidence.MayRestoreLost(o, restored.Revision)
	if restored.Revision >= verified.Known && len(unknown) == 0 && lost == "" {
		return comparison{verified: verified}
	}
	message := fmt.Sprintf("the store restores revision %d with %d keys, ", restored.Revision, restored.Keys)
	switch {
	case restored.Revision < verified.Known:
		message += fmt.Sprintf("and the highest known revision is %d", verified.Known)
	case lost != "":
		message += "and may restore lost writes in place of newer ones: " + lost
	default:
		message += "and the revision of a volume is unknown"
	}
	switch {
	case accepted > restored.Revision:
		message += fmt.Sprintf("; that is lower than the accepted revision %d", accepted)
	case invalid != "":
		message += "; " + invalid
	case accepted > 0:
		verified.AcceptedRevision = accepted

		return comparison{verified: verified}
	}
	purpose := "give up what the store does not have"
	if restored.Revision >= verified.Known && len(unknown) == 0 {
		purpose = "restore this revision, and give up newer writes that it replaces"
	}
	// The remedy comes before the details: the API server limits the size of events.
	message += fmt.Sprintf(". To %s, set %s=%d%s. ", purpose, druidv1alpha1.AcceptRevisionAnnotation, restored.Revision, remedy)

	return comparison{refused: strings.TrimSuffix(message+lostWrites(restored.Revision, known, unknown), ". ")}
}

// lostWrites describes what a restore of the revision gives up, with the sources of all higher revisions.
func lostWrites(restored int64, known []knownRevision, unknown []string) string {
	higher := slices.DeleteFunc(slices.Clone(known), func(one knownRevision) bool { return one.revision <= restored })
	var sentences []string
	if len(higher) > 0 {
		sentences = append(sentences, lostRange(restored, known), sourcesOf(higher))
	}

	return strings.Join(append(sentences, unknown...), "; ")
}

// lostRange says when the writes were done that a restore of the revision gives up, as far as that is known.
func lostRange(restored int64, known []knownRevision) string {
	var from, to time.Time
	for _, one := range known {
		switch {
		case one.revision <= restored && one.at.After(from):
			from = one.at
		case one.revision > restored && one.at.After(to):
			to = one.at
		}
	}
	text := fmt.Sprintf("The writes after revision %d would be lost", restored)
	if !from.IsZero() && !to.IsZero() && from.Before(to) {
		return text + fmt.Sprintf(": those between %s and %s, as far as known", stamp(from), stamp(to))
	}

	return text + inTime(": those until ", to, ", as far as known")
}

// inTime returns a time between two texts. Empty: the time is zero.
func inTime(before string, t time.Time, after string) string {
	if t.IsZero() {
		return ""
	}

	return before + stamp(t) + after
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// endedInspection returns a Job that has inspected a volume. Nil: there is none.
func endedInspection(o etcdcluster.Observation) *etcdcluster.ClaimInspection {
	index := slices.IndexFunc(o.Inspections, func(job etcdcluster.ClaimInspection) bool {
		return !job.Deleting && (job.Failed || job.Result != nil)
	})
	if index < 0 {
		return nil
	}

	return &o.Inspections[index]
}

// sourcesOf names the sources of revisions.
func sourcesOf(known []knownRevision) string {
	var sources []string
	for _, one := range known {
		sources = append(sources, one.source+inTime(" (", one.at, ")"))
	}

	return strings.Join(sources, ", ")
}
