// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// hibernationAttempts is how often a full snapshot is tried before a cluster hibernates without one: its volumes stay.
const hibernationAttempts = 3

func planHibernation(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) plan.Plan {
	p := plan.Plan{Stage: plan.StageHibernate, Render: true, ClusterSize: o.State.Size, Restore: o.State.Restore}
	if awaited := memberWithoutLeaseHolder(o, etcd, now); awaited != "" && !isStopped(o) {
		p.Stage, p.Render, p.PollMembers = plan.StageWaitForMembers, false, true
		p.Reason = "spec.replicas is 0; the members stop when their Leases record which members to start again"
		p.WaitsFor = "the first heartbeat of member " + awaited

		return p
	}
	snapshot, before := hibernationSnapshot(etcd, o, now)
	if before != nil {
		return *before
	}
	p.FinalSnapshot = snapshot
	switch {
	case len(o.Pods) > 0:
		p.Reason = fmt.Sprintf("spec.replicas is 0; %d pods still run", len(o.Pods))
		p.WaitsFor = "pod " + o.Pods[0].Name + " to be gone" + deletionHint(o.Pods[0], now)
	default:
		p.Stage = plan.StageHibernated
		p.Reason = "spec.replicas is 0 and no pod runs; the data is kept"
	}
	if snapshot != nil {
		p.Reason += "; " + snapshot.String()
	}

	return p
}

// memberWithoutLeaseHolder is a member that has started recently, and whose Lease has no holder yet. If it is a voting member, the others
// would wait for it without success after the wake-up, because it would not be started. The first member is always started. Empty: none. A
// member that gets no holder within MemberStartTimeout is ignored.
func memberWithoutLeaseHolder(o etcdcluster.Observation, etcd *druidv1alpha1.Etcd, now time.Time) string {
	for _, pod := range o.Pods {
		name := helper.MemberName(etcd, pod.Ordinal)
		hasHolder := slices.ContainsFunc(o.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == name && l.Holder != "" })
		if pod.Ordinal > 0 && !hasHolder && !pod.Deleting && pod.HasStarted() && now.Sub(pod.CreationTime) < etcdcluster.MemberStartTimeout {
			return name
		}
	}

	return ""
}

// hibernationSnapshot decides about the snapshot before a cluster hibernates. Nil and no plan: none is to be taken.
func hibernationSnapshot(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) (*state.FinalSnapshot, *plan.Plan) {
	switch {
	case isStopped(o):
		return o.State.FinalSnapshot, nil
	case !helper.IsStoreConfigured(etcd):
		return nil, nil
	}
	if WaitsForAcceptance(etcd, o) {
		return &state.FinalSnapshot{Generation: etcd.Generation, Missing: state.SnapshotRolledBack, Message: "the cluster was rolled back to " + acceptHint(o) + "; the volumes are kept"}, nil
	}
	attempts := o.SnapshotAttempts
	p := plan.Plan{ClusterSize: o.State.Size, Reason: "spec.replicas is 0; a full snapshot comes before the members stop"}
	result, p := finalSnapshot(etcd, o, now, p)
	switch {
	case result != nil:
		return result, nil
	case attempts.Unsuccessful() >= hibernationAttempts && !attempts.Running && attempts.Verified != nil:
		// It is older than it should be, but better than none. A deletion does not count it if its store is not known.
		location, _ := storeOfSnapshot(o, *attempts.Verified)

		return &state.FinalSnapshot{Generation: etcd.Generation, Snapshot: attempts.Verified, Store: location}, nil
	case attempts.Unsuccessful() >= hibernationAttempts && !attempts.Running:
		failed := fmt.Sprintf("%d attempts failed", attempts.Failures)
		if attempts.Expired > 0 {
			failed += fmt.Sprintf(" after %d snapshots became too old before they could be used", attempts.Expired)
		}

		return &state.FinalSnapshot{Generation: etcd.Generation, Missing: state.SnapshotFailed, Message: failed + ", and the volumes are kept: " + attempts.Error}, nil
	default:
		p.Reason = fmt.Sprintf("%s (attempt %d of %d)", p.Reason, min(attempts.Unsuccessful()+1, hibernationAttempts), hibernationAttempts)

		return nil, &p
	}
}
