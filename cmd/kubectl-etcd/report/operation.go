// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"time"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
)

// Operation is a change of members that is in progress. The operator has recorded it.
type Operation struct {
	// Name is Surge, VolumeMigration or ScaleIn.
	Name string `json:"name"`
	// Phase of the operation.
	Phase string `json:"phase"`
	// Since is when the phase began. Zero: the operation is paused.
	Since time.Time `json:"since,omitzero"`
	// Message describes the operation.
	Message string `json:"message"`
	// Quorum is the quorum calculation with the voting members of the member list. Empty: no member has returned the list.
	Quorum string `json:"quorum,omitempty"`
}

// operationOf returns the change of members that is in progress. Nil: there is none.
func operationOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) *Operation {
	switch surge, migration, scaleIn := o.State.Surge, o.State.Migration, o.State.ScaleIn; {
	case surge.IsActive():
		return &Operation{
			Name: "Surge", Phase: string(surge.Phase), Since: surge.Since, Quorum: quorumOf(o.Etcd),
			Message: "the only member is replaced through a temporary second member, because " + surge.Cause,
		}
	case migration != nil:
		return &Operation{Name: "VolumeMigration", Phase: string(migration.Phase), Since: migration.Since, Quorum: quorumOf(o.Etcd), Message: conditions.MigrationProgress(etcd, o)}
	case scaleIn != nil:
		operation := &Operation{Name: "ScaleIn", Phase: "Prepare", Since: scaleIn.Since, Message: fmt.Sprintf("the cluster is scaled in to %d members", scaleIn.To), Quorum: quorumOf(o.Etcd)}
		if scaleIn.To == 1 {
			operation.Message = "the cluster is scaled in to 1 member"
		}
		if scaleIn.Removing {
			operation.Phase = "Remove"
		}

		return operation
	default:
		return nil
	}
}

// quorumOf returns the quorum calculation. Empty: no member has returned the member list.
func quorumOf(etcd etcdcluster.EtcdResponses) string {
	votes := simulator.Votes{}
	for _, listed := range etcd.MemberList {
		if listed.Learner {
			continue
		}
		votes.Voting++
		for _, endpoint := range etcd.Members {
			if endpoint.MemberID == listed.ID && endpoint.Healthy {
				votes.Healthy++
			}
		}
	}
	if votes.Voting == 0 {
		return ""
	}

	return votes.String()
}
