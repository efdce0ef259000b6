// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

// QuorumOf is the number of voting members that must be healthy in a cluster of size voting members. 0 for an empty cluster.
func QuorumOf(size int) int {
	if size <= 0 {
		return 0
	}

	return size/2 + 1
}

// IsQuorate is true if the healthy voting members of a cluster of size voting members are a quorum. An empty cluster has none.
func IsQuorate(healthy, size int) bool { return size > 0 && healthy >= QuorumOf(size) }

// ToleranceOf is how many healthy voting members the cluster can lose without losing the quorum. 0: the quorum is lost already.
func ToleranceOf(healthy, size int) int { return max(healthy-QuorumOf(size), 0) }

// HealthyVoters counts the healthy voting members.
func HealthyVoters(members []Member) int {
	healthy := 0
	for _, member := range members {
		if member.IsHealthy() {
			healthy++
		}
	}

	return healthy
}

// IsQuorumReady is true while a quorum of the pods that were rendered is ready.
func IsQuorumReady(o Observation) bool {
	size := int(LastSize(o))
	if rendered := o.State.Replicas; rendered != nil && *rendered > 0 {
		size = int(*rendered)
	}
	ready := 0
	for _, pod := range o.Pods {
		if pod.Ready && !pod.Deleting {
			ready++
		}
	}

	return IsQuorate(ready, size)
}
