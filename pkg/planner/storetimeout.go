// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// The volume of a member on a lost node may have data, although no node can use it. Therefore a full snapshot comes before its replacement.
// Without a reachable store the member is replaced after a while, because one more failure could cost the quorum. This file decides when.

// replaceUnusableVolume replaces the volume of a member on a lost node after a full snapshot, or without the store after StoreTimeout. A cluster
// that has lost acknowledged writes keeps the volume, which may have these writes.
func replaceUnusableVolume(v view, p plan.Plan, m etcdcluster.Member, claim etcdcluster.Claim, loss string) plan.Plan {
	if WaitsForAcceptance(v.etcd, v.o) {
		return replaceClaim(v, p, m, claim, loss) // held by holdDiscard, and no snapshot is taken meanwhile
	}
	result, gate := finalSnapshot(v.etcd, v.o, v.now, p)
	if result != nil {
		return replaceClaim(v, p, m, claim, loss+"; "+result.String())
	}
	gate.Reason = fmt.Sprintf("%s by a quorum read; %s; the operator takes a full snapshot before it replaces the volume (the annotation %s skips it)", v.quorumStatus(), loss, druidv1alpha1.SkipFinalSnapshotAnnotation)
	attempts, missing := v.o.SnapshotAttempts, ""
	switch {
	case v.o.StoreTimeout <= 0 || gate.Step != nil || attempts.Running:
		return gate
	case !v.o.LeaderStoreUse(v.o.State.Store).IsKnown:
		missing = "the sidecar of the leader does not use the changed endpoint of the store"
	case attempts.Failures > 0:
		missing = fmt.Sprintf("%d attempts failed: %s", attempts.Failures, attempts.Error)
	default:
		return gate
	}
	isAllowed, why := mayReplaceWithoutStore(v, m, missing)
	if !isAllowed {
		gate.WaitsFor += "; " + why

		return gate
	}

	return replaceClaim(v, p, m, claim, loss+"; "+why)
}

// mayReplaceWithoutStore is true if the member has been lost for StoreTimeout, and a quorum of the voting members has the recorded revision. missing
// is why there is no full snapshot. The text is why the member is replaced, or else what is missing.
func mayReplaceWithoutStore(v view, m etcdcluster.Member, missing string) (bool, string) {
	recorded, heartbeat := v.o.State.Evidence, lastHeartbeat(m)
	confirmed, revision := evidence.Confirmed(v.o)
	const without = "the member is not replaced without the store, because "
	switch until := heartbeat.Add(v.o.StoreTimeout); {
	case recorded == nil || recorded.HighestRevision == 0:
		return false, without + "the operator has recorded no revision of this cluster"
	case heartbeat.IsZero():
		return false, without + "it has no Lease with its last heartbeat"
	case v.now.Before(until):
		return false, fmt.Sprintf("or until %s, when the member is replaced without the store if a quorum has revision %d", until.UTC().Format(time.RFC3339), recorded.HighestRevision)
	case len(confirmed) == 0:
		return false, fmt.Sprintf("%sno voting member has the recorded revision %d", without, recorded.HighestRevision)
	case !etcdcluster.IsQuorate(len(confirmed), v.size):
		return false, fmt.Sprintf("%sonly %s of %d voting members has the recorded revision %d", without, namesOf(v, confirmed), v.size, recorded.HighestRevision)
	}
	if other := replacedBefore(v, m); other != "" {
		return false, without + "member " + other + " is not healthy yet"
	}
	newest := "it has no recorded snapshot"
	if stored := max(v.o.FullSnapshotLease.Revision(), v.o.DeltaSnapshotLease.Revision()); stored > 0 {
		newest = fmt.Sprintf("its newest recorded snapshot has revision %d", stored)
	}

	return true, fmt.Sprintf("no full snapshot could be taken within %s after the last heartbeat of %s at %s (%s), so the store may not have the newest writes: %s, %s have revision %d, and revision %d was recorded",
		v.o.StoreTimeout, m.Name, heartbeat.UTC().Format(time.RFC3339), missing, newest, namesOf(v, confirmed), revision, recorded.HighestRevision)
}

// lastHeartbeat is when the sidecar of a member was last seen. A member without a heartbeat counts from the creation of its Lease. Zero: it has
// no Lease.
func lastHeartbeat(m etcdcluster.Member) time.Time {
	if m.Lease == nil {
		return time.Time{}
	}
	if m.Lease.RenewTime.IsZero() {
		return m.Lease.CreationTime
	}

	return m.Lease.RenewTime
}

// replacedBefore is another member that is being replaced, or may have been replaced before: it is not healthy, and its volume is not lost. A
// member that has not become healthy within MemberStartTimeout and is no learner is ignored. Empty: there is none.
func replacedBefore(v view, m etcdcluster.Member) string {
	for _, other := range v.members {
		if other.Ordinal == m.Ordinal || other.IsHealthy() {
			continue
		}
		claim := v.o.ClaimFor(other.Ordinal)
		if claim != nil && (claim.Deleting || !claim.Exists) {
			return other.Name
		}
		if v.o.VolumeLostReason(other.Ordinal) != "" {
			continue
		}
		isLearner := other.Listed != nil && other.Listed.Learner
		if isLearner || other.Pod == nil || v.now.Sub(other.Pod.CreationTime) < etcdcluster.MemberStartTimeout {
			return other.Name
		}
	}

	return ""
}

func namesOf(v view, ordinals []int) string {
	var names []string
	for _, ordinal := range ordinals {
		names = append(names, helper.MemberName(v.etcd, ordinal))
	}

	return strings.Join(names, ", ")
}
