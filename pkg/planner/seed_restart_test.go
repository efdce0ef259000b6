// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// This models what a sidecar does when etcd restarts, which depends on the cluster size with which its pod was rendered.

// restartEtcd kills the etcd process of a pod while its database file is older than the newest delta snapshot. A sidecar that was
// rendered with size 1 compares the two, tries to start etcd alone, and restores the store if that fails: next to another voter it
// always fails, since one of two voters has no quorum. The sidecar of a larger cluster does not compare.
func (s *seed) restartEtcd(ordinal int) {
	pod, member := s.seen.PodFor(ordinal), s.alive(ordinal)
	if pod == nil || member == nil {
		return
	}
	pod.Ready, pod.ContainersReady, pod.ReadyChangedAt = false, false, s.now
	pod.Containers[0].State, pod.Containers[0].Reason = etcdcluster.ContainerTerminated, "OOMKilled"
	if _, voters := s.voters(); s.renderedSizes[pod.UID] == 1 && s.renderedStores[pod.UID] && voters > 1 {
		s.broken("the sidecar of %s was rendered with size 1, and restores a second cluster next to %d voters", pod.Name, voters-1)
		s.volumes[helper.ClaimName(s.etcd, ordinal)].member = 0
		s.strange = map[int]bool{ordinal: true}
	}
	s.see()
}

// checkSizes checks that no pod that was rendered with size 1 and a store runs next to another member, a learner included: it gets its
// vote soon. Without a store there is nothing that the sidecar could restore.
func (s *seed) checkSizes() {
	for _, pod := range s.seen.Pods {
		if s.renderedSizes[pod.UID] != 1 || !s.renderedStores[pod.UID] || pod.Deleting || len(s.members) < 2 {
			continue
		}
		s.renderedSizes[pod.UID] = -1 // it is reported once
		s.broken("pod %s was rendered with size 1, and runs in a cluster of %d members", pod.Name, len(s.members))
	}
}

// startsAlone is true where the sidecar of a pod without data forms a cluster of one member: a restored one if the pod was rendered
// with size 1 and a store. Without a store, etcd starts with the configuration file, which the kubelet updates in a running pod.
func (s *seed) startsAlone(pod *etcdcluster.Pod) bool {
	return s.renderedSizes[pod.UID] == 1 && (s.renderedStores[pod.UID] || s.applied.clusterSize == 1)
}

// replaceLostData lets a sidecar that was rendered with size 1 form a new cluster, from its store if there is one, where the only
// member has lost its data. The sidecar of a larger cluster waits for the other members instead.
func (s *seed) replaceLostData(pod *etcdcluster.Pod, volume *simVolume) bool {
	if member := s.listed(pod.Ordinal); s.renderedSizes[pod.UID] != 1 || len(s.members) != 1 || member == nil || volume.member != 0 {
		return false
	}
	s.bootstrap(pod, fmt.Sprintf("http://%s.main-peer.demo.svc:%d", pod.Name, pod.PeerPort), volume)

	return true
}
