// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// ClusterIDMismatch is True if the members have different cluster IDs. A member without a known or recent cluster ID is
// ignored.
func ClusterIDMismatch(in Input) *druidv1alpha1.Condition {
	const conditionType = druidv1alpha1.ConditionTypeClusterIDMismatch
	clusters, unreadable := in.clusters()
	failure := in.Observation.Failure(etcdcluster.SectionLeases)
	switch {
	case len(clusters) > 1:
		return condition(conditionType, druidv1alpha1.ConditionTrue, druidv1alpha1.ReasonMultipleClusterIDsDetected, describe(clusters))
	case len(unreadable) > 0:
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToParseLeaseHolderIdentity, strings.Join(unreadable, "; "))
	case len(clusters) == 1:
		return condition(conditionType, druidv1alpha1.ConditionFalse, druidv1alpha1.ReasonNoClusterIDMismatchDetected,
			"All members with a known cluster ID belong to the same cluster")
	case failure != "":
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonUnableToFetchLease, failure)
	default:
		return condition(conditionType, druidv1alpha1.ConditionUnknown, druidv1alpha1.ReasonNoClusterIDDetected, "No member has reported its cluster ID yet")
	}
}

// clusters returns the names of the members by cluster ID, and a message for each Lease that cannot be parsed.
func (in Input) clusters() (map[uint64][]string, []string) {
	clusters := map[uint64][]string{}
	var unreadable []string
	for _, member := range etcdcluster.VotingMembers(in.Etcd, in.Observation) {
		fresh := member.Lease != nil && in.Now.Sub(member.Lease.RenewTime) <= in.Thresholds.Unknown
		switch {
		case member.Endpoint != nil && member.Endpoint.Reachable:
			clusters[member.Endpoint.ClusterID] = append(clusters[member.Endpoint.ClusterID], member.Name)
		case member.HeartbeatError != "":
			unreadable = append(unreadable, "Lease "+member.Name+": "+member.HeartbeatError)
		case fresh && member.Heartbeat != nil && member.Heartbeat.ClusterID != 0:
			clusters[member.Heartbeat.ClusterID] = append(clusters[member.Heartbeat.ClusterID], member.Name)
		}
	}

	return clusters, unreadable
}

func describe(clusters map[uint64][]string) string {
	var sentences []string
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		sentences = append(sentences, fmt.Sprintf("Cluster %s has %s", etcdcluster.FormatID(id), strings.Join(clusters[id], ", ")))
	}

	return strings.Join(sentences, "; ")
}
