// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Two members are connected as soon as one of them can dial the other, because etcd uses the streams of either side in both directions.
// A member with certificates can dial https and http URLs. A member without them can dial only http URLs. Therefore members can change
// one after the other:
//   - To TLS: the https URLs of a member are registered after it has restarted. Its sidecar does that.
//   - From TLS: the http URLs of a member are registered before it restarts. The operator does that.

// PeerURLTimeout is how long a running member may be registered with peer URLs other than its own. After that the operator corrects them.
// Before that, the sidecar does so when it starts.
const PeerURLTimeout = time.Minute

// registrationTime is how long a change of peer URLs waits for a member that starts while a quorum is healthy. It waits although the
// sidecar of the member has renewed the Lease.
const registrationTime = time.Minute

// PinnedTLS returns the peer TLS mode that the members must keep for now, whatever the spec requests. Nil: the mode is free to change.
//
// It is the mode with which most members are registered. Members of a multi-member cluster that do not run cannot register new URLs of each
// other. If they started with another mode, they would never connect. If as many members are registered with TLS as without, they connect
// in either mode. The members that start correct their URLs to the rendered ones, so the rendered mode stays. It also stays while a quorum is healthy and
// too few pods are ready.
//
// A Lease records how a member was registered when the Lease was written. Therefore most Leases may be wrong if they differ: members that
// do not connect in one mode try the other. A healthy etcd proves that a quorum is connected, also while the sidecars of other members do
// not start and too few pods are ready. In this case the members do not try the other mode. The rendered mode also stays while a sidecar
// has not yet registered the peer URLs of its member (IsRegistering).
//
// Peer TLS is not enabled while a member is not healthy, if all members are registered without TLS. The member may need a raft snapshot, which a leader without peer TLS cannot send to a
// member that has it (FindBlockedSnapshot).
func PinnedTLS(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *bool {
	rendered := o.StatefulSet.TLS.PeerCA != ""
	switch hasQuorum := etcd.Spec.Replicas > 0 && etcdcluster.IsQuorumReady(o); {
	case etcdcluster.LastSize(o) <= 1 || !helper.ManagesPods(etcd):
		return nil
	case isSurging(o):
		return new(rendered)
	case hasQuorum && o.StatefulSet.Exists && isAnyRegistering(etcd, o, now):
		return new(rendered)
	case hasQuorum && o.StatefulSet.Exists && !rendered && areRegisteredWithout(etcd, o) && !isEachEtcdReady(o):
		return new(false)
	case hasQuorum:
		return nil
	case isQuorumHealthy(etcd, o):
		return new(rendered) // otherwise the mode would change with each pod that is replaced, and each change replaces a pod
	default:
		return pinnedByLeases(etcd, o, rendered, now)
	}
}

// isQuorumHealthy is true while a quorum of the rendered members is healthy, also if their pods are not ready because their sidecars do not start. It is
// false while the cluster hibernates.
func isQuorumHealthy(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	healthy, size := 0, int(etcdcluster.RenderedReplicas(o))
	for _, pod := range o.Pods {
		if status := o.Etcd.Endpoint(pod.Ordinal); pod.Ordinal < size && !pod.Deleting && status != nil && status.Healthy && !status.Learner {
			healthy++
		}
	}

	return etcd.Spec.Replicas > 0 && o.StatefulSet.Exists && etcdcluster.IsQuorate(healthy, size)
}

// pinnedByLeases is PinnedTLS while there is no healthy quorum.
func pinnedByLeases(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, rendered bool, now time.Time) *bool {
	size := int(etcdcluster.LastSize(o))
	known, withTLS := countKnown(etcd, o, size)
	differ := 0 < withTLS && withTLS < known
	switch {
	case known == 0:
		return nil
	case !o.StatefulSet.Exists || !differ:
		return new(2*withTLS > known)
	case haveFailedToMeet(o, size, rendered, now):
		return new(!rendered)
	case tryToMeet(o, rendered, now), 2*withTLS == known:
		return new(rendered)
	default:
		return new(2*withTLS > known)
	}
}

// PinnedPort returns the peer port that the members must keep for now, whatever the spec requests. 0: the port is free to change.
//
// The members of a multi-member cluster without a healthy quorum cannot register another port. Most of them are registered with the
// rendered one. If as many members as a quorum run with the rendered port and do not connect, they are not registered with it. Then the
// port of the spec applies, which a user may have changed back. The rendered port also stays while a sidecar has not yet registered the
// peer URLs of its member (IsRegistering), and during a surge.
func PinnedPort(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) int32 {
	size, rendered := int(etcdcluster.LastSize(o)), o.StatefulSet.PeerPort
	if size <= 1 || !helper.ManagesPods(etcd) {
		return 0
	}
	if isSurging(o) {
		return rendered
	}
	if etcd.Spec.Replicas > 0 && etcdcluster.IsQuorumReady(o) {
		if o.StatefulSet.Exists && isAnyRegistering(etcd, o, now) {
			return rendered
		}

		return 0
	}
	if countAlone(o, size, func(pod etcdcluster.Pod) bool { return pod.PeerPort == rendered }, now) >= etcdcluster.QuorumOf(size) {
		return 0
	}

	return rendered
}

// isSurging is true while two members of a surge have to reach each other. Their peer URLs change after the surge.
func isSurging(o etcdcluster.Observation) bool {
	return o.State.Surge.IsActive() && o.StatefulSet.Exists
}

// WithPinnedPort returns the Etcd with the peer port to render: the Etcd itself, or a copy if the port is pinned.
func WithPinnedPort(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *druidv1alpha1.Etcd {
	port := PinnedPort(etcd, o, now)
	if port == 0 || port == helper.PeerPort(etcd) {
		return etcd
	}
	pinned := etcd.DeepCopy()
	pinned.Spec.Etcd.ServerPort = &port

	return pinned
}

// countKnown counts the members whose Lease records the scheme of their registered peer URLs, and those that are registered with TLS.
func countKnown(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, size int) (known, withTLS int) {
	for ordinal := range size {
		for _, lease := range o.MemberLeases {
			if lease.Name != helper.MemberName(etcd, ordinal) || lease.TLSEnabled == nil || isLeaseStale(o, ordinal, lease) || hasNoVolume(o, ordinal) {
				continue
			}
			known++
			if *lease.TLSEnabled {
				withTLS++
			}
		}
	}

	return known, withTLS
}

// haveFailedToMeet is true if as many members as a quorum run in the rendered mode, with or without TLS, and will not connect. It concludes
// this from the time that they have not connected. It is false while any etcd is healthy. It is also false while another member starts in
// the rendered mode, because tryToMeet is false then. The next reconciliation would return to this mode, and the one after it to the other.
func haveFailedToMeet(o etcdcluster.Observation, size int, rendered bool, now time.Time) bool {
	return !hasHealthyEtcd(o) && !isAnyStartingAs(o, rendered, now) && etcdcluster.IsQuorate(countAlone(o, size, func(pod etcdcluster.Pod) bool { return pod.PeerTLS == rendered }, now), size)
}

// countAlone counts the running pods for which is holds and whose members have not connected to others for so long that they will not.
func countAlone(o etcdcluster.Observation, size int, is func(etcdcluster.Pod) bool, now time.Time) int {
	alone := 0
	for _, pod := range o.Pods {
		if pod.Ordinal < size && is(pod) && isAloneFor(pod, now) {
			alone++
		}
	}

	return alone
}

// tryToMeet is true if no pod is ready, and the running members start in the rendered mode. Members that still run in the other mode have
// not connected in it.
func tryToMeet(o etcdcluster.Observation, rendered bool, now time.Time) bool {
	isReady := func(pod etcdcluster.Pod) bool { return pod.Ready }

	return len(o.Pods) > 0 && !slices.ContainsFunc(o.Pods, isReady) && !isAnyStartingAs(o, !rendered, now)
}

// isAnyStartingAs is true while a pod with or without peer TLS runs etcd, and may connect to others that run in the same mode. Pods on
// unreachable nodes do not count.
func isAnyStartingAs(o etcdcluster.Observation, peerTLS bool, now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool {
		return pod.PeerTLS == peerTLS && pod.IsRunning() && !pod.IsNodeUnreachable() && !isAloneFor(pod, now)
	})
}

// areRegisteredWithout is true if the Leases show that all members are registered without TLS.
func areRegisteredWithout(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) bool {
	known, withTLS := countKnown(etcd, o, int(etcdcluster.LastSize(o)))

	return known > 0 && withTLS == 0
}

// isEachEtcdReady is true if etcd passes its readiness probe in as many pods as were rendered.
func isEachEtcdReady(o etcdcluster.Observation) bool {
	ready := 0
	for _, pod := range o.Pods {
		if !pod.Deleting && (pod.Ready || isEtcdReady(pod)) {
			ready++
		}
	}

	return ready >= int(etcdcluster.RenderedReplicas(o))
}

func isEtcdReady(pod etcdcluster.Pod) bool {
	return slices.ContainsFunc(pod.Containers, func(c etcdcluster.Container) bool {
		return c.Name == etcdcluster.ContainerEtcd && c.State == etcdcluster.ContainerRunning && c.Ready
	})
}

// hasHealthyEtcd is true if the etcd of a pod is healthy: its readiness probe is a linearizable read, which needs a quorum. The pod itself
// is not ready while its sidecar does not start. The status of a pod on an unreachable node is ignored.
func hasHealthyEtcd(o etcdcluster.Observation) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool {
		return pod.Ready || !pod.IsNodeUnreachable() && isEtcdReady(pod)
	})
}

// isAnyRegistering is true while the sidecar of a pod is registering the peer URLs of its member.
func isAnyRegistering(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return IsRegistering(etcd, o, pod, now) })
}

// IsRegistering is true for a pod whose sidecar has not yet registered the peer URLs of its member.
//
// The sidecar registers them once, some seconds after etcd becomes healthy for the first time. It reads the ConfigMap as it is then, and
// not as it was when its pod was created. If the ConfigMap has other peer URLs by then, the sidecar registers these and stops etcd. Members
// that wake up together would all stop at the same time. A sidecar has registered them before it renews the Lease of its member.
//
// The wait ends after PeerURLTimeout for a pod that is ready, and after MemberStartTimeout for a pod that does not become ready. A pod
// whose etcd container has never run reads the latest ConfigMap anyway.
func IsRegistering(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) bool {
	name, age := helper.MemberName(etcd, pod.Ordinal), now.Sub(pod.CreationTime)
	hasRegistered := slices.ContainsFunc(o.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == name && etcdcluster.HasHeartbeatSinceStart(pod, l) })
	switch {
	case pod.Deleting || !pod.HasStarted():
		return false
	case pod.Ready:
		return !hasRegistered && now.Sub(etcdcluster.Later(pod.ReadyChangedAt, pod.SidecarStartedAt())) < PeerURLTimeout
	default:
		return age < registrationTime || !hasRegistered && age < etcdcluster.MemberStartTimeout
	}
}

// isAloneFor is true for a pod whose etcd runs, and has not been ready for as long as members may take to start.
func isAloneFor(pod etcdcluster.Pod, now time.Time) bool {
	return pod.IsRunning() && !pod.Ready && !pod.ContainersReady && now.Sub(pod.ReadinessSince()) >= etcdcluster.MemberStartTimeout
}

// hasNoVolume is true for a member whose claim does not exist. The claim will be recreated, and the Lease of the member is outdated.
func hasNoVolume(o etcdcluster.Observation, ordinal int) bool {
	claim := o.ClaimFor(ordinal)

	return claim != nil && !claim.Exists
}

// isLeaseStale is true for a Lease of the first member that its previous pod has written, while a cluster is scaled up from one. The
// member was restarted with other peer URLs. Its sidecar writes the Lease ten seconds after the start, and the next member joins
// before that.
func isLeaseStale(o etcdcluster.Observation, ordinal int, lease etcdcluster.Lease) bool {
	rendered, pod := o.State.Replicas, o.PodFor(ordinal)
	isScalingUp := rendered != nil && *rendered > 0 && *rendered <= 2 && *rendered < etcdcluster.LastSize(o)

	return isScalingUp && ordinal == 0 && pod != nil && pod.PeerTLS != *lease.TLSEnabled
}

// URLs are the peer URLs of the member according to the spec, with TLS or without.
func URLs(etcd *druidv1alpha1.Etcd, m etcdcluster.Member, tls bool) []string {
	return urlsAt(etcd, m, tls, helper.PeerPort(etcd))
}

// OwnURLs are the peer URLs of a member whose pod exists.
func OwnURLs(etcd *druidv1alpha1.Etcd, m etcdcluster.Member) []string {
	return urlsAt(etcd, m, m.Pod.PeerTLS, cmp.Or(m.Pod.PeerPort, helper.PeerPort(etcd)))
}

func urlsAt(etcd *druidv1alpha1.Etcd, m etcdcluster.Member, tls bool, port int32) []string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	urls := []string{scheme + "://" + net.JoinHostPort(etcdcluster.PeerHost(etcd, m.Ordinal), strconv.Itoa(int(port)))}
	for _, additional := range etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if additional.MemberName == m.Name {
			urls = append(urls, additional.URLs...)
		}
	}

	return urls
}

// IsRegisteredWithout is true if the member list has the member with a URL of its own without TLS, at any port.
func IsRegisteredWithout(etcd *druidv1alpha1.Etcd, m etcdcluster.Member) bool {
	return m.Listed != nil && slices.ContainsFunc(m.Listed.PeerURLs, func(url string) bool {
		return strings.HasPrefix(url, "http://"+etcdcluster.PeerHost(etcd, m.Ordinal)+":")
	})
}

// IsRegisteredWith is true if the member list has the member with these URLs, in any order.
func IsRegisteredWith(m etcdcluster.Member, urls []string) bool {
	return m.Listed != nil && slices.Equal(slices.Sorted(slices.Values(m.Listed.PeerURLs)), slices.Sorted(slices.Values(urls)))
}
