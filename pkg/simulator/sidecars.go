// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// promotionDelay is the number of ticks after which a sidecar promotes a learner that has caught up.
const promotionDelay = 6

// sidecars let members form and join the cluster, one at a time, and promote learners that have caught up.
func (c *Cluster) sidecars() bool {
	changed := false
	for i := range c.Objects.Pods {
		if pod := &c.Objects.Pods[i]; c.runsEtcd(pod) {
			changed = c.sidecar(pod, c.volume(pod.Ordinal)) || changed
		}
	}

	return changed
}

func (c *Cluster) sidecar(pod *etcdcluster.Pod, volume *Volume) bool {
	if c.Leader != 0 {
		c.Process(pod.UID).Unanswered = 0
	}
	if volume.Separate && c.Leader != 0 {
		volume.Separate = c.Process(pod.UID).IsSeparate // a sidecar that reaches the cluster when it starts deletes the data

		return !volume.Separate
	}
	member, urls := c.Member(pod.Ordinal), c.peerURLs(pod)
	switch {
	case c.isEmpty():
		return c.bootstrap(pod, volume)
	case c.Leader == 0:
		return c.startAlone(pod, volume)
	case member != nil && volume.Member != member.ID:
		c.Members = slices.DeleteFunc(c.Members, func(m *Member) bool { return m == member }) // it lost its data
	case member == nil && c.hasLeft(pod):
		return false // the configuration has no peer URL for the member
	case member == nil:
		return c.addLearner(pod, volume)
	case !member.Started && !slices.Equal(member.PeerURLs, urls):
		return false // its sidecar does not find the member, and etcd refuses another learner
	case c.RunningMember(pod.Ordinal) == nil || !c.IsConnected(member):
		return false
	case member.Learner:
		c.catchUp(pod, member, volume)
	default:
		return c.register(pod, member, urls)
	}

	return true
}

// hasLeft is true for a pod whose configuration has no advertised URLs of its member.
func (c *Cluster) hasLeft(pod *etcdcluster.Pod) bool {
	return !c.Process(pod.UID).includes(pod.Ordinal)
}

// catchUp starts a learner, sends it data, and promotes it when it has caught up.
func (c *Cluster) catchUp(pod *etcdcluster.Pod, learner *Member, volume *Volume) {
	switch process := c.Process(pod.UID); {
	case !learner.Started && !process.IsJoining:
		process.IsJoining = true
	case learner.CaughtUp < c.CatchUpTicks+promotionDelay:
		if leader := c.statuses[c.Leader]; learner.CaughtUp == 0 { // the leader sends its whole database
			c.setDatabase(learner.ID, leader.DBSize, leader.DBSizeInUse)
		}
		learner.Started = true
		learner.CaughtUp++
	default:
		learner.Learner, volume.Data = false, c.Data
	}
}

// register registers the peer URLs of a pod, some seconds after etcd became healthy. If they differ from the registered ones, it restarts etcd.
func (c *Cluster) register(pod *etcdcluster.Pod, member *Member, urls []string) bool {
	process := c.Process(pod.UID)
	if !process.HasServed {
		process.HasServed = true

		return true
	}
	if process.HasRegistered {
		return false
	}
	process.HasRegistered = true
	if slices.Equal(member.PeerURLs, urls) {
		return false
	}
	member.PeerURLs = urls
	c.stopEtcd(pod, "Completed")

	return true
}

// stopEtcd ends the etcd container of a pod. The kubelet starts it again.
func (c *Cluster) stopEtcd(pod *etcdcluster.Pod, reason string) {
	setUnready(pod, c.now)
	container := etcdContainer(pod)
	container.State, container.Reason = etcdcluster.ContainerTerminated, reason
}

// peerURLs returns the peer URLs in the configuration of a pod.
func (c *Cluster) peerURLs(pod *etcdcluster.Pod) []string {
	scheme := "http"
	if pod.PeerTLS {
		scheme = "https"
	}
	urls := []string{fmt.Sprintf("%s://%s:%d", scheme, etcdcluster.PeerHost(c.Etcd, pod.Ordinal), cmp.Or(pod.PeerPort, helper.PeerPort(c.Etcd)))}
	for _, additional := range c.Etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if additional.MemberName == helper.MemberName(c.Etcd, pod.Ordinal) {
			urls = append(urls, additional.URLs...)
		}
	}

	return urls
}

// isEmpty is true when neither a volume nor a Lease records a member, and no member of an existing cluster runs.
func (c *Cluster) isEmpty() bool {
	for _, existing := range c.existing {
		if !existing.stopped {
			return false
		}
	}
	for _, volume := range c.Volumes {
		if volume.Member != 0 {
			return false
		}
	}

	return !slices.ContainsFunc(c.Objects.MemberLeases, func(l etcdcluster.Lease) bool { return l.Holder != "" })
}

// bootstrap forms a new cluster of one member, with the data of the store if there is one. It waits while the store is unreachable.
func (c *Cluster) bootstrap(pod *etcdcluster.Pod, volume *Volume) bool {
	restored := history.New()
	if helper.IsStoreConfigured(c.Etcd) {
		switch newest, err := c.Store.Newest(); {
		case errors.Is(err, history.ErrUnreachable):
			return false
		case err == nil:
			restored = newest.Position.Restored()
		}
	}
	if size := c.Process(pod.UID).ClusterSize; pod.Ordinal != 0 || size != 1 {
		c.report("member %d forms a new cluster, and its sidecar was rendered with size %d", pod.Ordinal, size)
	}
	if c.nextID != firstID { // the token of the cluster contains the UID of the pod
		c.clusterID++
	}
	c.nextID++
	c.Leader, c.Data, volume.Data, volume.Corruption = 0, restored, restored, 0
	c.Alarms = nil
	c.Members = []*Member{{ID: c.nextID, Ordinal: pod.Ordinal, PeerURLs: c.peerURLs(pod), Started: true}}
	volume.Member = c.nextID

	return true
}

// addLearner adds the member of a pod as a learner. etcd refuses a second one, and each while a voting member is disconnected.
func (c *Cluster) addLearner(pod *etcdcluster.Pod, volume *Volume) bool {
	if slices.ContainsFunc(c.Members, func(m *Member) bool { return m.Learner || c.RunningMember(m.Ordinal) == nil || !c.IsConnected(m) }) {
		return false
	}
	c.nextID++
	c.Members = append(c.Members, &Member{ID: c.nextID, Ordinal: pod.Ordinal, Learner: true, PeerURLs: c.peerURLs(pod)})
	volume.Member, volume.Corruption = c.nextID, c.leaderCorruption() // the sidecar deletes the data, and the leader sends its own
	c.Process(pod.UID).IsJoining = true

	return true
}

// startAlone lets a sidecar that was rendered with size 1 form a new cluster. The cluster has no leader, and its only member has lost its
// data. The sidecar of a larger cluster waits for the other members, see separates.
func (c *Cluster) startAlone(pod *etcdcluster.Pod, volume *Volume) bool {
	process := c.Process(pod.UID)
	if c.separates(pod, volume) {
		return true
	}
	if process.ClusterSize != 1 || volume.Member != 0 {
		return false
	}
	// Without a store, etcd starts with the configuration file, which the kubelet updates in a running pod.
	if pod.Ordinal == 0 && len(c.Members) > 1 && (process.HasStore || c.appliedSize() == 1) {
		c.report("member 0 forms a cluster of its own, for which the sidecars of the others delete their data")
	}
	if len(c.Members) != 1 || c.Member(pod.Ordinal) == nil {
		return false
	}

	return c.bootstrap(pod, volume)
}

// joinAttempts is the number of ticks for which a sidecar that has no heartbeat tries to reach the cluster before it adds a learner.
const joinAttempts = 14

// separates lets the etcd of a joining member form a separate cluster. This happens in two cases. The cluster has no leader when the sidecar
// requests the member list for the configuration of etcd. Or it has none for a minute, and the sidecar adds no learner. A restarted etcd
// keeps the separate data.
func (c *Cluster) separates(pod *etcdcluster.Pod, volume *Volume) bool {
	process, member := c.Process(pod.UID), c.Member(pod.Ordinal)
	if process.IsSeparate || process.ClusterSize == 1 {
		return false
	}
	hasHeartbeat := slices.ContainsFunc(c.Objects.MemberLeases, func(l etcdcluster.Lease) bool {
		return l.Name == helper.MemberName(c.Etcd, pod.Ordinal) && l.Holder != ""
	})
	if hasRun := member != nil && member.Started || member == nil && volume.Member != 0; !hasRun && !hasHeartbeat {
		process.Unanswered++
	}
	if !volume.Separate && process.Unanswered < joinAttempts && (member == nil || member.Started || !process.IsJoining) {
		return false
	}
	volume.Separate, process.IsSeparate = true, true

	return true
}

// setUnready ends the readiness of a pod. The time of the condition changes only with its status.
func setUnready(pod *etcdcluster.Pod, now time.Time) {
	if pod.Ready {
		pod.ReadyChangedAt = now
	}
	pod.Ready, pod.ContainersReady = false, false
}
