// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Period is the shortest time between two records of a higher revision. A changed list of voting members is recorded at once.
const Period = 5 * time.Minute

// MaxClockSkew is how much the clocks of the operator and of a sidecar may differ.
const MaxClockSkew = 10 * time.Second

// Change is what an observation changes in the record.
type Change struct {
	// Evidence is the next evidence. Nil: it stays as it is.
	Evidence *state.Evidence
	// Incident is the next incident if ChangesIncident is true. Nil: there is none any more.
	Incident *state.Incident
	// ChangesIncident is false if the recorded incident stays as it is.
	ChangesIncident bool
}

// ChangeAfter returns what to record after an observation.
func ChangeAfter(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) Change {
	change := Change{Evidence: Next(o.State.Evidence, o, now)}
	change.Incident, change.ChangesIncident = NextIncident(etcd, o, now)

	return change
}

// ChangeBefore returns what to record before an act that deletes data or stops members. The incident contains a lost volume before its claim is
// deleted, even if the etcd of its member has not ended. Afterwards, no observation shows that the member has lost its data.
func ChangeBefore(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) Change {
	change, recorded := Change{Evidence: Confirm(o.State.Evidence, o, now)}, o.State.Incident
	incident, _ := nextIncident(etcd, o, now, true)
	if incident != nil && (recorded == nil || !slices.Equal(recorded.Lost, incident.Lost)) {
		change.Incident, change.ChangesIncident = incident, true
	}

	return change
}

// IsEmpty is true if the record stays as it is.
func (c Change) IsEmpty() bool { return c.Evidence == nil && !c.ChangesIncident }

// Apply changes the record, which must not be nil. What the change does not contain stays as it is.
func (c Change) Apply(s *state.State) {
	if c.Evidence != nil {
		s.Evidence = c.Evidence
	}
	if c.ChangesIncident {
		s.Incident = c.Incident
	}
}

// Next returns the evidence to record after an observation. Nil: the record stays as it is. A lower revision than the recorded one, and the
// revision of another cluster, are recorded at once. The recorded revision and voting members then stay. Recorded is nil if nothing was
// recorded.
func Next(recorded *state.Evidence, o etcdcluster.Observation, now time.Time) *state.Evidence {
	return next(recorded, o, now, Period)
}

// Confirm returns the evidence to record before an act that deletes data or stops members. It is Next, but a higher revision is recorded
// at once, whenever the last record was made.
func Confirm(recorded *state.Evidence, o etcdcluster.Observation, now time.Time) *state.Evidence {
	return next(recorded, o, now, 0)
}

func next(recorded *state.Evidence, o etcdcluster.Observation, now time.Time, period time.Duration) *state.Evidence {
	read := quorumRead(o)
	if read == nil {
		return nil
	}
	before := state.Evidence{}
	if recorded != nil {
		before = *recorded
	}
	next := before
	if voters := votersOf(o); len(voters) > 0 && !isOtherCluster(before, read) {
		next.Voters = voters
	}
	next.RolledBack, next.LostRevision = rolledBackBy(before, o, read, now), lostRevision(before, o)
	haveVotersChanged := !slices.Equal(before.Voters, next.Voters)
	if next.RolledBack == nil {
		next.ClusterID = cmp.Or(clusterOf(read), next.ClusterID)
		isDue := haveVotersChanged || now.Sub(before.At) >= period || now.Before(before.At)
		if read.QuorumRevision > before.HighestRevision && isDue {
			next.HighestRevision, next.Term, next.At = read.QuorumRevision, read.RaftTerm, now
		}
	}
	if !haveVotersChanged && before.RolledBack == next.RolledBack && before.HighestRevision == next.HighestRevision && before.ClusterID == next.ClusterID && before.LostRevision == next.LostRevision {
		return nil
	}

	return &next
}

// rolledBackBy is the rollback to record after a read. Nil: the cluster has lost nothing, or its members respond again after those of another
// cluster. A higher revision does not end a rollback: new writes use the revisions of the lost ones again.
func rolledBackBy(recorded state.Evidence, o etcdcluster.Observation, read *etcdcluster.EndpointStatus, now time.Time) *state.RolledBack {
	before, isLower := recorded.RolledBack, read.QuorumRevision < recorded.HighestRevision
	// The recorded cluster responds again, after another one. It may have lost writes too.
	isAgain := before != nil && before.ClusterID != "" && before.ClusterID != recorded.ClusterID && recorded.ClusterID != "" && clusterOf(read) == recorded.ClusterID
	switch {
	case isAgain && !isLower:
		return nil
	case before == nil && (isLower || isOtherCluster(recorded, read)):
		return &state.RolledBack{Revision: read.QuorumRevision, ClusterID: clusterOf(read), At: now, Snapshots: snapshotsAbove(recorded.HighestRevision, o)}
	case before != nil && (isAgain || read.QuorumRevision < before.Revision):
		return &state.RolledBack{Revision: read.QuorumRevision, ClusterID: clusterOf(read), At: now, Snapshots: before.Snapshots}
	default:
		return before
	}
}

// snapshotsAbove is the revision of the newest snapshot in the store, if it is higher than the revision. 0: it is not.
func snapshotsAbove(revision int64, o etcdcluster.Observation) int64 {
	newest := int64(0)
	for _, lease := range []etcdcluster.Lease{o.FullSnapshotLease, o.DeltaSnapshotLease} {
		if !o.IsElsewhere(lease) {
			newest = max(newest, lease.Revision())
		}
	}
	if newest <= revision {
		return 0
	}

	return newest
}

// lostRevision is the LostRevision to record. It is 0 if a full snapshot has a higher revision than all writes that users have given up. A
// restore no longer uses an earlier snapshot then.
func lostRevision(recorded state.Evidence, o etcdcluster.Observation) int64 {
	if recorded.RolledBack == nil && storedSince(recorded, o, o.FullSnapshotLease) > recorded.LostRevision {
		return 0
	}

	return recorded.LostRevision
}

// storedSince is the revision of a snapshot that was stored after the rollback that a user has accepted. 0: there is none.
func storedSince(recorded state.Evidence, o etcdcluster.Observation, lease etcdcluster.Lease) int64 {
	if o.IsElsewhere(lease) || !lease.RenewTime.After(recorded.AcceptedRollbackAt) {
		return 0
	}

	return lease.Revision()
}

// isOtherCluster is true if the read is of another cluster than the recorded revision. A single member that is restored from its store
// may have another cluster ID, and its revision decides.
func isOtherCluster(recorded state.Evidence, read *etcdcluster.EndpointStatus) bool {
	return len(recorded.Voters) > 1 && recorded.ClusterID != "" && read.ClusterID != 0 && recorded.ClusterID != clusterOf(read)
}

// clusterOf is the ID of the member's cluster in hexadecimal digits. Empty: it is not known.
func clusterOf(status *etcdcluster.EndpointStatus) string {
	if status.ClusterID == 0 {
		return ""
	}

	return etcdcluster.FormatID(status.ClusterID)
}

// IsRolledBack is true if the cluster has lost acknowledged writes, and no user has accepted that. A deletion begins no restore.
func IsRolledBack(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	recorded := o.State.Evidence
	if recorded == nil || recorded.RolledBack == nil {
		return false
	}
	if _, isRequested := etcd.Annotations[druidv1alpha1.RestoreAnnotation]; isRequested && etcd.DeletionTimestamp == nil {
		return true // a revision that is accepted then is about the restore
	}
	accepted, _ := Accept(recorded, etcd.Annotations[druidv1alpha1.AcceptRevisionAnnotation])

	return accepted == nil
}

// Effective returns the recorded evidence, or the evidence after a user has accepted the revision to which the cluster was rolled back. Nil:
// nothing was recorded.
func Effective(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *state.Evidence {
	if accepted, _ := Accept(o.State.Evidence, etcd.Annotations[druidv1alpha1.AcceptRevisionAnnotation]); accepted != nil {
		return accepted
	}

	return o.State.Evidence
}

// IsFromBeforeRollback is true for a Lease of snapshots that was created before the rollback that a user has accepted last. A later Lease has
// revisions that the store still has. False: no user has accepted a rollback.
func IsFromBeforeRollback(recorded *state.Evidence, lease etcdcluster.Lease) bool {
	if recorded == nil || recorded.AcceptedRevision == 0 {
		return false
	}

	return lease.CreationTime.Before(recorded.AcceptedRollbackAt)
}

// HighestRevision is the highest revision that a quorum has confirmed, or the lower one that a user has accepted after a rollback. 0: none was
// recorded.
func HighestRevision(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) int64 {
	if effective := Effective(etcd, o); effective != nil {
		return effective.HighestRevision
	}

	return 0
}

// Accept returns the evidence after a user has accepted the revision to which the cluster was rolled back. Nil: the record stays. The second
// result is why the value of the annotation has no effect. Empty: it has, or the record shows that it had.
func Accept(recorded *state.Evidence, value string) (*state.Evidence, string) {
	revision, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil || revision <= 0:
		return nil, "the value is the revision that the condition " + string(druidv1alpha1.ConditionTypeRevisionConfirmed) + " names"
	case recorded != nil && recorded.RolledBack != nil && recorded.RolledBack.Revision == revision:
		next := *recorded
		next.HighestRevision, next.At, next.AcceptedRevision, next.RolledBack = revision, recorded.RolledBack.At, revision, nil
		next.AcceptedRollbackAt = recorded.RolledBack.At
		next.LostRevision = max(recorded.LostRevision, recorded.HighestRevision, recorded.RolledBack.Snapshots)
		next.ClusterID = cmp.Or(recorded.RolledBack.ClusterID, next.ClusterID)

		return &next, ""
	case recorded != nil && recorded.RolledBack != nil:
		return nil, fmt.Sprintf("the cluster was rolled back to revision %d", recorded.RolledBack.Revision)
	case recorded != nil && recorded.AcceptedRevision == revision:
		return nil, ""
	default:
		return nil, "the cluster was not rolled back"
	}
}

// Confirmed returns the ordinals of the voting members whose linearizable reads returned at least the recorded revision. It also returns the
// lowest of these revisions. Each of these members has every write up to it. None: nothing was recorded, or no member completes such a read.
func Confirmed(o etcdcluster.Observation) (ordinals []int, revision int64) {
	recorded, read := o.State.Evidence, quorumRead(o)
	if recorded == nil || recorded.HighestRevision == 0 || read == nil || isOtherCluster(*recorded, read) {
		return nil, 0
	}
	for _, status := range o.Etcd.Members {
		if !status.Healthy || status.Learner || status.QuorumRevision < recorded.HighestRevision {
			continue
		}
		if ordinals = append(ordinals, status.Ordinal); revision == 0 || status.QuorumRevision < revision {
			revision = status.QuorumRevision
		}
	}

	return ordinals, revision
}

// Restored returns the evidence of a cluster of which nothing is left, and which is restored from its backup store. Nil: the restore is not
// verified, so that nothing is known. The store then has no snapshot with a higher revision than the restored one.
func Restored(verified *state.VerifiedRestore) *state.Evidence {
	if verified == nil {
		return nil
	}

	restored := &state.Evidence{HighestRevision: verified.Revision, At: verified.At, AcceptedRevision: verified.AcceptedRevision}
	if restored.AcceptedRevision > 0 {
		restored.AcceptedRollbackAt = verified.At
	}

	return restored
}

// MayRestoreLost returns why a store that restores the revision may restore writes that users have given up. Empty: it does not. The revision is
// not higher than the accepted one, or a full snapshot has it that was stored since the rollback. A delta snapshot is no proof. The sidecar renews
// its Lease also for an earlier one, and new delta snapshots may follow a full snapshot of the lost writes.
func MayRestoreLost(o etcdcluster.Observation, revision int64) string {
	recorded := o.State.Evidence
	if recorded == nil || revision <= recorded.AcceptedRevision || lostRevision(*recorded, o) == 0 || revision == storedSince(*recorded, o, o.FullSnapshotLease) {
		return ""
	}

	return fmt.Sprintf("a user accepted revision %d, and the lost writes had revisions up to %d", recorded.AcceptedRevision, recorded.LostRevision)
}

// quorumRead returns the endpoint status of the linearizable read with the highest revision. Nil: there is none, or
// members of different clusters completed one.
func quorumRead(o etcdcluster.Observation) *etcdcluster.EndpointStatus {
	var highest *etcdcluster.EndpointStatus
	for i := range o.Etcd.Members {
		status := &o.Etcd.Members[i]
		switch {
		case !status.Healthy || status.Learner:
		case highest != nil && highest.ClusterID != status.ClusterID:
			return nil
		case highest == nil || status.QuorumRevision > highest.QuorumRevision:
			highest = status
		}
	}

	return highest
}

// votersOf returns the voting members in the member list, sorted by their IDs. Empty: the list was not read.
func votersOf(o etcdcluster.Observation) []state.Voter {
	list := slices.Clone(o.Etcd.MemberList)
	slices.SortFunc(list, func(a, b etcdcluster.ListedMember) int { return cmp.Compare(a.ID, b.ID) })
	var voters []state.Voter
	for _, member := range list {
		if !member.Learner {
			voters = append(voters, state.Voter{Name: member.Name, ID: etcdcluster.FormatID(member.ID)})
		}
	}

	return voters
}
