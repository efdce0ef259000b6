// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Recovering returns the recovery from a lost quorum that is in progress. Nil: there is none.
func (r *Result) Recovering() *state.Recovery {
	recorded := r.Current().Observation.State
	if recorded.Restore == state.RestoreNone || !recorded.Recovery.IsActive() {
		return nil
	}

	return recorded.Recovery
}

// QuorumLoss returns what is known about a quorum that is lost forever, and why the operator does not choose an option now. Nil: the quorum is not
// lost forever. Empty: a user has to choose.
func (r *Result) QuorumLoss(now time.Time) (loss *planner.QuorumLoss, waits string) {
	run := r.Current()
	if loss = planner.QuorumLossOf(run.Target.Etcd, run.Observation, now); loss == nil {
		return nil, ""
	}

	if waits = r.unrecoverable(); waits != "" {
		return loss, waits
	}

	return loss, loss.WaitsForChoice(run.Observation, now)
}

// unrecoverable returns why no recovery can begin now, whatever the data is. Empty: one can.
func (r *Result) unrecoverable() string {
	run := r.Current()
	switch {
	case helper.IsSuspended(run.stored()):
		return "the Etcd is suspended: resume it first"
	case run.Planned.Stage == "" && r.Accepted == nil && run.Observation.State.Accepted == nil && !helper.IsReconciling(r.Reason):
		return "no generation of the Etcd is accepted: " + r.Description
	default:
		return ""
	}
}
