// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"slices"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// raftTerm is the term of all leaders.
const raftTerm = 2

// logOf returns the log in a volume. Its last index is the revision.
func (c *Cluster) logOf(volume *Volume) *etcdcluster.InspectedLog {
	log := &etcdcluster.InspectedLog{
		ClusterID: etcdcluster.FormatID(c.clusterID), MemberID: etcdcluster.FormatID(volume.Member),
		LastTerm: raftTerm, LastIndex: uint64(volume.Data.Revision), MaxRevision: volume.Data.Revision, // #nosec G115 -- never negative
	}
	for _, member := range c.Members {
		if !member.Learner {
			log.Voters = append(log.Voters, etcdcluster.FormatID(member.ID))
		}
	}
	slices.Sort(log.Voters)

	return log
}

// createRecoveryJob creates the Job that copies the data from which the cluster is recovered into the store.
func (c *Cluster) createRecoveryJob(step plan.RecoverData) error {
	if step.Claim != "" {
		if _, err := c.claimOf(plan.Meta{Object: step.Claim, UID: step.ClaimUID}); err != nil {
			return err
		}
	}
	c.recovering = step
	c.Objects.RecoveryJob = etcdcluster.RecoveryJob{
		Exists: true, Suspended: true, Name: step.Object, UID: c.uid("job"), OwnerUID: c.Etcd.UID, CreationTime: c.now, Token: step.Token,
	}

	return nil
}

// resumeRecoveryJob resumes the Job.
func (c *Cluster) resumeRecoveryJob(meta plan.Meta) error {
	if job := c.Objects.RecoveryJob; !job.Exists || job.UID != meta.UID {
		return fmt.Errorf("job %s: %w", meta.Object, ErrConflict)
	}
	c.Objects.RecoveryJob.Suspended = false

	return nil
}

// endRecoveryJob ends the Job that copies the data from which the cluster is recovered into the store.
func (c *Cluster) endRecoveryJob() bool {
	job := &c.Objects.RecoveryJob
	if !job.Exists || job.Suspended || job.Failed || job.Result != nil {
		return false
	}
	data, err := c.recoveredData()
	switch {
	case err != nil:
		job.Failed, job.CopiedNothing, job.Rejected, job.Message = true, true, true, err.Error()
	case c.Store.Down:
		job.Failed, job.Message = true, history.ErrUnreachable.Error()
	default:
		extracted := data.Revision
		if c.recovering.Bump > 0 && data.Revision < c.recovering.BumpBelow {
			data = data.Bumped(c.recovering.Bump)
		}
		snapshot, _ := c.Store.Add(data, c.now, false) // the store is reachable
		job.Result = &etcdcluster.Extraction{
			Inspection: etcdcluster.Inspection{Revision: data.Revision, Keys: keysIn(data)}, Snapshot: snapshot.Name(), ExtractedRevision: extracted,
		}
	}

	return true
}

// recoveredData returns what is extracted from a volume, or restored from the store.
func (c *Cluster) recoveredData() (history.Position, error) {
	data := history.Position{}
	if claim := c.recovering.Claim; claim != "" {
		data = c.Volumes[claim].Data
	} else {
		newest, err := c.Store.Newest()
		if err != nil {
			return data, err
		}
		data = newest.Position
	}
	if data.Revision < c.recovering.MinRevision {
		return data, fmt.Errorf("the data has revision %d, and %d is the lowest one that was requested", data.Revision, c.recovering.MinRevision)
	}

	return data, nil
}
