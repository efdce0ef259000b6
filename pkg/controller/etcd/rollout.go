// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/rollouts"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
)

// beginRollout reads the update to newer defaults that the Etcd may begin.
func (r *execution) beginRollout(etcd client.ObjectKey) {
	if r.Rollouts != nil {
		r.granted = r.Rollouts.Begin(etcd)
	}
}

// endRollout reports what the reconciliation did with the grant. It returns why newer defaults wait, or why the update has failed. Nil: neither.
func (r *execution) endRollout(etcd client.ObjectKey, result engine.Result) *rollout.Delay {
	if r.Rollouts == nil {
		return nil
	}
	report := rollouts.Report{Outcome: rollout.Declined, Waits: result.Waits(), Updating: result.IsUpdating()}
	switch {
	case r.began:
		report = rollouts.Report{Outcome: rollout.Written, Updating: true}
	case engine.IsInterrupted(result.Err):
		report.Outcome = rollout.Interrupted
	case result.PreparesUpdate():
		report = rollouts.Report{Outcome: rollout.Preparing, Updating: true}
	}

	r.reported = true

	return r.Rollouts.End(etcd, report)
}

// releaseRollout ends the use of the grant after a panic. The grant could not expire otherwise.
func (r *execution) releaseRollout(etcd client.ObjectKey) {
	if r.Rollouts != nil && !r.reported {
		r.Rollouts.End(etcd, rollouts.Report{Outcome: rollout.Interrupted})
	}
}

// discardRollout discards the state of an Etcd that does not exist any more.
func (r *Reconciler) discardRollout(etcd client.ObjectKey) {
	if r.Rollouts != nil {
		r.Rollouts.Discard(etcd)
	}
}

// defaultsUpdatedFor returns the condition DefaultsUpdated. Nil: the Etcd has the defaults that were accepted.
func defaultsUpdatedFor(delay *rollout.Delay) *druidv1alpha1.Condition {
	if delay == nil {
		return nil
	}

	return conditions.DefaultsUpdated(string(delay.Reason), delay.Message())
}
