// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/rollout"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// advanceRollout computes the record of the update to newer defaults that belongs to the latest rendering. Without limits there is none.
func (r *Run) advanceRollout(limits *rollout.Limits, now time.Time) {
	p, o, t := r.Rendered.Plan, r.Observation, r.Target
	if limits == nil {
		return
	}
	record := o.State.Rollout
	if t.Begins != nil {
		begins := *t.Begins
		begins.StartedAt = now.UTC().Truncate(time.Second)
		record = &begins
	}
	var after time.Duration
	r.rollout, after = rollout.Next(record, rollout.Progress{
		Defaults: t.Fingerprint(), Hibernated: p.Replicas == 0,
		RolledOut:  isApplied(r.Rendered.Rendering, o) && etcdcluster.AreAllPodsUpdated(o) && p.NextEtcdVersion == "",
		ReadySince: readySince(o),
	}, limits.CanaryPeriod, now)
	r.RequeueWithin(after)
}

// readySince is since when all pods have been ready. Zero: they are not.
func readySince(o etcdcluster.Observation) (since time.Time) {
	for _, pod := range o.Pods {
		if !pod.Ready || pod.Deleting {
			return time.Time{}
		}
		since = etcdcluster.Later(since, pod.ReadinessSince())
	}

	return since
}

// Waits returns the change of the operator's defaults for which the Etcd waits. A granted update belongs to it until it is written. Nil: for none.
func (r *Result) Waits() *state.Change {
	run := r.Current()
	switch {
	case run == nil || run.Target.Accepted == nil:
		return nil
	case run.Target.Begins != nil:
		return &run.Target.Begins.Change
	default:
		return run.Target.Waits
	}
}

// PreparesUpdate is true while a granted update to another version of etcd waits for a full snapshot, and is therefore not written yet.
func (r *Result) PreparesUpdate() bool {
	run := r.Current()

	return run != nil && run.Target.Begins != nil && run.Planned.NextEtcdVersion != "" && !run.Planned.Render
}

// IsUpdating is true from the begin of an update to newer defaults until it has passed.
func (r *Result) IsUpdating() bool {
	run := r.Current()

	return run != nil && (run.rollout.IsUnfinished() || run.Rendered.StatefulSet == nil && run.Observation.State.Rollout.IsUnfinished())
}
