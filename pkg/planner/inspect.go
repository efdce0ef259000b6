// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
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
		claim := v.o.ClaimFor(member.Ordinal)
		if claim == nil || claim.Deleting || claim.Volume == "" || v.o.VolumeLostReason(member.Ordinal) != "" ||
			!isEtcdStopped(member) || v.now.Sub(member.Pod.ReadinessSince()) < etcdcluster.MemberStartTimeout {
			continue
		}
		job := inspectionOf(v.o, *claim)
		switch {
		case job == nil:
			p.Step = plan.InspectClaim{Meta: plan.Meta{Object: claim.Name, UID: claim.UID}}
		case job.Deleting:
			waitsFor = append(waitsFor, fmt.Sprintf("Job %s to be gone", job.Name))
		case !isInspectionOf(v, member, *claim, *job), job.Failed && !job.Corrupt && !job.Empty && v.now.Sub(job.CreationTime) >= etcdcluster.InspectionDeadline:
			p.Step = plan.DeleteRestoreJob{Meta: plan.Meta{Object: job.Name, UID: job.UID}}
		case !job.Failed && job.Result == nil:
			waitsFor = append(waitsFor, strings.TrimSuffix(fmt.Sprintf("Job %s to inspect the volume of claim %s: %s", job.Name, claim.Name, job.Message), ": "))
		}
		if p.Step != nil {
			p.WaitsFor = ""

			return p
		}
	}
	p.WaitsFor = strings.Join(append(waitsFor, p.WaitsFor), "; ")

	return p
}

// isEtcdStopped is true if the pod of a member runs, and its etcd does not respond.
func isEtcdStopped(m etcdcluster.Member) bool {
	return m.Pod != nil && !m.Pod.Deleting && !m.Pod.Ready && m.Pod.Node != "" && (m.Endpoint == nil || !m.Endpoint.Reachable)
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
