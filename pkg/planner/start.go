// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"strings"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
)

// waitForOrphanedClaims waits if the Etcd has never run, and claims of a previous Etcd of its name exist for more members than requested.
// Any of them may have data that the first does not have: that member may have been behind when all were stopped. A single member would
// continue from its own data, without the others. A restore from the store would not bring back what they have.
func waitForOrphanedClaims(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (plan.Plan, bool) {
	if etcdcluster.LastSize(o) > 0 || o.StatefulSet.Exists || len(o.Pods) > 0 {
		return plan.Plan{}, false
	}
	left, size := []string{}, 0
	for _, claim := range o.Claims {
		if claim.MayHaveData() && claim.Ordinal >= int(etcd.Spec.Replicas) {
			left, size = append(left, claim.Name), max(size, claim.Ordinal+1)
		}
	}
	if len(left) == 0 {
		return plan.Plan{}, false
	}
	size += (size + 1) % 2 // clusters have odd sizes
	waitsFor := fmt.Sprintf("spec.replicas to be %d, or %s to be deleted if their data is not needed", size, strings.Join(left, " and "))
	if helper.IsStoreConfigured(etcd) {
		waitsFor += fmt.Sprintf(", or a restore, requested by %s=%s, if the data in the store is enough", druidv1alpha1.RestoreAnnotation, druidv1alpha1.RestoreFromStoreUnverified)
	}
	waitsFor += ". Members that voted together may have no quorum after one of their volumes is deleted"

	return plan.Plan{
		Stage:    plan.StageWaitForClaims,
		Reason:   fmt.Sprintf("a previous cluster has left volumes of more than the %d members of spec.replicas, and they may have data that the others do not have", etcd.Spec.Replicas),
		WaitsFor: waitsFor,
	}, true
}

// waitForExisting waits for the cluster to be joined: without its response the first member would form its own cluster.
func waitForExisting(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (plan.Plan, bool) {
	bootstrap := etcd.Spec.Etcd.BootstrapWithExistingCluster
	if bootstrap == nil || etcd.Status.BootstrapWithExistingCluster != nil || etcdcluster.LastSize(o) > 0 {
		return plan.Plan{}, false
	}
	why := "no endpoint was queried"
	for _, endpoint := range o.Etcd.Existing {
		if endpoint.Healthy {
			return plan.Plan{}, false
		}
		why = endpoint.Endpoint + ": " + endpoint.Error
	}

	return plan.Plan{
		Stage:    plan.StageWaitForExisting,
		Reason:   "the members are to join an existing cluster, and would form one of their own without it",
		WaitsFor: fmt.Sprintf("the existing cluster to be healthy at %s (%s)", strings.Join(bootstrap.ClientEndpoints, ", "), why),
	}, true
}

// planStart starts all members that have data together, because they find each other that way. Without data it starts only the first
// member. Multiple members that start without data would each assume that they were removed from a cluster with snapshots.
func planStart(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	known, fromLeases := knownMembers(etcd, o)
	size := max(o.State.Size, int32(known), 1) // #nosec G115 -- a handful of members
	data := 0
	for _, claim := range o.Claims {
		if claim.MayHaveData() && claim.Ordinal < known {
			data++
		}
	}
	switch {
	case known == 0 && o.State.Size <= 1:
		return plan.Plan{
			Stage: plan.StageCreate, Render: true, Replicas: 1, ClusterSize: 1,
			Reason:   fmt.Sprintf("0 of %d members exist; the first %s, and the others join it one at a time", etcd.Spec.Replicas, startOf(etcd, o)),
			WaitsFor: "member " + helper.MemberName(etcd, 0) + " to be healthy",
		}
	case data == 0:
		return plan.Plan{
			Stage:    plan.StageQuorumLost,
			Reason:   fmt.Sprintf("no volume is left of a cluster of %d members; nothing is started, since none could join another", size),
			WaitsFor: recovery(etcd, o),
		}
	case !fromLeases && !etcdcluster.IsQuorate(data, known):
		// The members without data would be enough to form their own cluster. The sidecars of the others would delete their data for it.
		return plan.Plan{
			Stage:    plan.StageQuorumLost,
			Reason:   fmt.Sprintf("%d claims with data are left of a cluster of %d members, fewer than the quorum of %d, and no Lease names its members; nothing is started", data, size, etcdcluster.QuorumOf(known)),
			WaitsFor: fmt.Sprintf("the claims of the others, or those of all members to be deleted if the data of %s is not needed", strings.Join(claimsWithData(o), " and ")),
		}
	default:
		return plan.Plan{
			Stage: plan.StageWakeUp, Render: true, Replicas: int32(known), ClusterSize: size, // #nosec G115 -- a handful of members
			Reason:   fmt.Sprintf("0 of %d members run; all that have data are started together", known),
			WaitsFor: "a quorum of healthy members",
		}
	}
}

// startsFirstAlone is true if the first member would be started alone: it is the only one, or no other member ever ran.
func startsFirstAlone(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	known, _ := knownMembers(etcd, o)

	return etcd.Spec.Replicas == 1 || known == 0 && o.State.Size <= 1
}

func startOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) string {
	if joinsExisting(etcd, o) {
		return "joins the existing cluster alone"
	}

	return "is created alone"
}

// joinsExisting is true where initial-cluster lists the members of an existing cluster too: no sidecar is rendered with size 1 then.
func joinsExisting(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	return etcdcluster.ExistingCluster(etcd, o.State) != nil
}

// knownMembers is how many members of the cluster have ever run, according to the record and their Leases, or else to their claims. Any of
// them may have been lost, also the first. A member that was started and has data may have been promoted before its sidecar wrote its Lease.
// Without it the others may have no quorum. The second result is false if the number comes from claims alone.
func knownMembers(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) (int, bool) {
	known := 0
	for ordinal := range int(etcd.Spec.Replicas) {
		for _, lease := range o.MemberLeases {
			isOwned := lease.OwnerUID == "" || lease.OwnerUID == etcd.UID
			if lease.Name == helper.MemberName(etcd, ordinal) && lease.Holder != "" && isOwned {
				known = ordinal + 1
			}
		}
	}
	for _, claim := range o.Claims {
		if claim.MayHaveData() && known > 0 && claim.Ordinal < int(min(o.State.Started, etcd.Spec.Replicas)) {
			known = max(known, claim.Ordinal+1)
		}
	}
	if known > 0 {
		return known, true
	}
	for _, claim := range o.Claims {
		if claim.Exists {
			known = max(known, claim.Ordinal+1)
		}
	}

	return known, false
}

// claimsWithData are the names of the claims whose volumes are not lost.
func claimsWithData(o etcdcluster.Observation) []string {
	var names []string
	for _, claim := range o.Claims {
		if claim.MayHaveData() {
			names = append(names, claim.Name)
		}
	}

	return names
}
