// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Node is what was seen of a node to which a volume is bound.
type Node struct {
	// Name of the node.
	Name string
	// Exists is false when there is no such node.
	Exists bool
	// OutOfService is true when somebody has said, by the taint node.kubernetes.io/out-of-service, that it does not come back.
	OutOfService bool
}

// ClaimFor returns the claim of the member with the ordinal; nil when nobody looked for it.
func (o Observation) ClaimFor(ordinal int) *Claim {
	for i := range o.Claims {
		if o.Claims[i].Ordinal == ordinal {
			return &o.Claims[i]
		}
	}

	return nil
}

// lossOf says why the volume of a member is lost for good; empty when it is not, or when that is not certain. A node that is
// only out of reach has lost nothing.
func (o Observation) lossOf(ordinal int) string {
	if claim := o.ClaimFor(ordinal); claim != nil && claim.Exists && claim.Lost {
		return fmt.Sprintf("the volume of claim %s does not exist any more", claim.Name)
	}

	return o.nodeLossOf(ordinal)
}

// nodeLossOf is lossOf for a volume that is lost with its node.
func (o Observation) nodeLossOf(ordinal int) string {
	claim := o.ClaimFor(ordinal)
	if claim == nil || !claim.Exists || len(claim.Nodes) == 0 {
		return ""
	}
	for _, name := range claim.Nodes {
		if !o.isNodeLost(name) {
			return ""
		}
	}

	return fmt.Sprintf("the volume of claim %s can be used on node %s alone, which is gone or out of service", claim.Name, strings.Join(claim.Nodes, ", "))
}

func (o Observation) isNodeLost(name string) bool {
	for _, node := range o.Nodes {
		if node.Name == name {
			return !node.Exists || node.OutOfService
		}
	}

	return false // nobody looked
}

// repair gives a member whose volume is lost for good a new one: its claim first, then its pod. It joins again as a learner.
func (v view) repair(plan Plan) (Plan, bool) {
	for _, member := range v.members {
		if member.Serves() || member.Pod != nil && member.Pod.Ready && v.o.nodeLossOf(member.Ordinal) == "" {
			continue // of a node that is gone nobody says any more that its pods are not ready
		}
		if decided, is := v.repairMember(plan, member); is {
			return decided, true
		}
	}

	return plan, false
}

func (v view) repairMember(plan Plan, m Member) (Plan, bool) {
	claim, loss := v.o.ClaimFor(m.Ordinal), v.o.lossOf(m.Ordinal)
	if claim == nil || v.o.Failure(SectionClaims) != "" {
		return plan, false
	}
	plan.Stage = StageRepair
	canBeMade := m.Pod != nil && !m.Pod.Deleting
	switch {
	case claim.Deleting && canBeMade:
		plan.Reason = fmt.Sprintf("%s; claim %s is being replaced, and pod %s still names it", v.arithmetic(), claim.Name, m.Pod.Name)
		plan.Step = m.Pod.toBeDeleted()
	case claim.Deleting:
		plan.Reason = fmt.Sprintf("%s; claim %s is being replaced", v.arithmetic(), claim.Name)
		plan.WaitsFor = "claim " + claim.Name + " to be gone, and made anew"
	case !claim.Exists && canBeMade && m.Pod.Unschedulable != "":
		plan.Reason = fmt.Sprintf("%s; pod %s has no claim, and gets one when it is made anew", v.arithmetic(), m.Pod.Name)
		plan.Step = m.Pod.toBeDeleted()
	case loss == "":
		return plan, false
	case !v.isSeen():
		plan.Reason = fmt.Sprintf("%s; %s, but nothing is replaced without a quorum read", v.arithmetic(), loss)
		plan.WaitsFor = "the list of members: " + v.o.Etcd.MemberListError
	case !claim.Lost && helper.IsStoreConfigured(v.etcd):
		// The volume may still hold data, out of reach for ever as that seems.
		answer, gate := finalSnapshot(v.etcd, v.o, v.now, plan)
		if answer == nil {
			gate.Reason = fmt.Sprintf("%s by a quorum read; %s; a full snapshot comes before it is given up (the annotation %s goes on without)", v.arithmetic(), loss, druidv1alpha1.SkipFinalSnapshotAnnotation)

			return gate, true
		}

		return v.replaceClaim(plan, m, *claim, loss+"; "+answer.String()), true
	default:
		return v.replaceClaim(plan, m, *claim, loss), true
	}

	return plan, true
}

func (v view) replaceClaim(plan Plan, m Member, claim Claim, loss string) Plan {
	plan.Reason = fmt.Sprintf("%s by a quorum read; %s; with a new one %s joins again as a learner, which leaves %s: allowed", v.arithmetic(), loss, m.Name, v.arithmetic())
	plan.Step = &Step{Kind: StepReplaceClaim, Object: claim.Name, UID: claim.UID}

	return plan
}
