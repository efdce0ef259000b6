// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// inspectStoppedMembers adds to a plan without a quorum the next Job that inspects the volume of a member whose etcd does not run. The member
// may have corrupt data: its sidecar then waits for a quorum to remove the member and to add it again. The operator does not poll the
// initialization endpoint of the sidecar, which changes its state. A Job does not read a database that etcd has opened.
func inspectStoppedMembers(v view, p plan.Plan) plan.Plan {
	if !v.o.CanInspect || v.neverFormed() || len(v.members) == 1 {
		return p
	}
	var waitsFor []string
	for _, member := range v.members {
		if !needsInspection(v, member) {
			continue
		}
		step, awaited := inspectMember(v, member, *v.o.ClaimFor(member.Ordinal))
		if step != nil {
			p.Step, p.WaitsFor = step, ""

			return p
		}
		if awaited != "" {
			waitsFor = append(waitsFor, awaited)
		}
	}
	p.WaitsFor = strings.Join(append(waitsFor, p.WaitsFor), "; ")

	return p
}

// needsInspection is true if the etcd of a member has not run for a while, and its volume may have data.
func needsInspection(v view, m etcdcluster.Member) bool {
	claim := v.o.ClaimFor(m.Ordinal)
	mayHaveData := claim != nil && !claim.Deleting && claim.Volume != "" && v.o.VolumeLostReason(m.Ordinal) == ""

	return mayHaveData && isEtcdStopped(m) && v.now.Sub(m.Pod.ReadinessSince()) >= etcdcluster.MemberStartTimeout
}

// inspectMember returns the step that creates or deletes the Job for the volume of a member, or what the Job waits for. Neither: it has a result.
// A failure is repeated after a while, because the errors of a volume can be temporary.
func inspectMember(v view, m etcdcluster.Member, claim etcdcluster.Claim) (step plan.Step, waitsFor string) {
	job := inspectionOf(v.o, claim)
	switch {
	case job == nil:
		return plan.InspectClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}, ""
	case job.Deleting:
		return nil, fmt.Sprintf("Job %s to be gone", job.Name)
	case !isInspectionOf(v, m, claim, *job), job.Failed && !job.Empty && v.now.Sub(job.CreationTime) >= repeatInspection:
		return plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}, ""
	case !job.Failed && job.Result == nil:
		return nil, strings.TrimSuffix(fmt.Sprintf("Job %s to inspect the volume of claim %s: %s", job.Name, claim.Name, job.Message), ": ")
	default:
		return nil, ""
	}
}

// repeatInspection is how long the failure of a Job counts in a cluster without a quorum, and for a deletion.
const repeatInspection = 2 * etcdcluster.InspectionDeadline

// isEtcdStopped is true if the containers of a member have run on a node that is reachable, and its etcd does not respond.
func isEtcdStopped(m etcdcluster.Member) bool {
	return m.Pod != nil && !m.Pod.Deleting && !m.Pod.Ready && m.Pod.HasStarted() && !m.Pod.IsNodeUnreachable() && (m.Endpoint == nil || !m.Endpoint.Reachable)
}

// endUnfinishedInspection deletes a Job that inspects a volume of a cluster with a quorum. It is no longer needed, and its pod would keep the
// volume attached to its node. The Jobs of a requested restore end first, see planRestore.
func endUnfinishedInspection(v view, p plan.Plan) (plan.Plan, bool) {
	for _, job := range v.o.Inspections {
		if !v.isQuorate() || job.Deleting || job.Failed || job.Result != nil || job.OwnerUID != v.etcd.UID {
			continue
		}
		p.Stage = plan.StageWaitForMembers
		p.Reason = fmt.Sprintf("%s; Job %s is no longer needed", v.quorumStatus(), job.Name)
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}

		return p, true
	}

	return p, false
}

// deleteInspection deletes the Job that has inspected the volume of a claim, if the claim is being deleted. Kubernetes keeps a claim for as long as a
// pod uses it, also if the pod has ended.
func deleteInspection(v view, p plan.Plan) (plan.Plan, bool) {
	for _, job := range v.o.Inspections {
		isDeleted := slices.ContainsFunc(v.o.Claims, func(c etcdcluster.Claim) bool { return c.Exists && c.Deleting && c.UID == job.ClaimUID })
		if !isDeleted || job.Deleting || job.OwnerUID != v.etcd.UID {
			continue
		}
		if p.Stage != plan.StageSurge {
			p.Stage = plan.StageReplaceVolume
		}
		p.Reason = fmt.Sprintf("%s; claim %s is being deleted, and Job %s has inspected its volume", v.quorumStatus(), job.Claim, job.Name)
		p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}

		return p, true
	}

	return p, false
}

// isInspectionOf is true if the result of the Job is about the volume of the member as it is now. The pod of the member must be older than the
// Job, and must not have been ready since the Job was created. Otherwise etcd may have written to the volume.
func isInspectionOf(v view, m etcdcluster.Member, claim etcdcluster.Claim, job etcdcluster.ClaimInspection) bool {
	return job.ClaimUID == claim.UID && job.OwnerUID == v.etcd.UID && m.Pod != nil && m.Pod.ReadinessSince().Before(job.CreationTime)
}

// dataLostReason returns why the data of a member is lost: its volume is lost, or etcd-helper found that etcd cannot use what the volume
// contains. Empty: it is not lost, or that is not certain.
func dataLostReason(v view, m etcdcluster.Member) string {
	if loss := v.o.VolumeLostReason(m.Ordinal); loss != "" {
		return loss
	}
	claim := v.o.ClaimFor(m.Ordinal)
	if claim != nil && isReplacementEmpty(v.o, m, *claim) {
		return fmt.Sprintf("the volume of member %s was lost, and its new claim %s has no volume", m.Name, claim.Name)
	}
	if claim == nil || !isEtcdStopped(m) {
		return ""
	}
	job := inspectionOf(v.o, *claim)
	switch {
	case job == nil || job.Deleting || !isInspectionOf(v, m, *claim, *job):
		return ""
	case job.Corrupt:
		return fmt.Sprintf("etcd cannot use the data in the volume of claim %s (%s)", claim.Name, job.Message)
	case job.Empty:
		return fmt.Sprintf("the volume of claim %s contains no data", claim.Name)
	default:
		return ""
	}
}
