// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

// QuorumOf is the number of voters that must serve in a cluster of size voters; 0 for an empty one.
func QuorumOf(size int) int {
	if size <= 0 {
		return 0
	}

	return size/2 + 1
}

// IsQuorate is true when healthy voters of a cluster of size voters are a quorum. An empty cluster has none.
func IsQuorate(healthy, size int) bool { return size > 0 && healthy >= QuorumOf(size) }

// ToleranceOf is how many of the healthy voters may be lost before the quorum is; 0 when it is lost already.
func ToleranceOf(healthy, size int) int { return max(healthy-QuorumOf(size), 0) }

// HealthyVoters counts the members that serve and have a vote.
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
