// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// Two members are connected as soon as one of them can dial the other, since etcd uses the streams of either side in both
// directions. Who has certificates can dial both ways, who has none can dial by http alone. One member after the other can
// therefore change: to TLS, when it is known by https after it has restarted, which its sidecar sees to; and from TLS, when it is
// known by http before it restarts, which is ours.

// PeerURLTimeout is how long a member that runs may be known by other peer URLs than its own before it is not left to its sidecar any
// more, which corrects them when it starts.
const PeerURLTimeout = time.Minute

// registrationTime is how long a change of peer URLs waits for a member that starts next to a quorum, although its sidecar has renewed the lease.
const registrationTime = time.Minute

// PinnedTLS says whether the members have to talk to each other with TLS or without it, whatever the spec says: as most of them
// know each other. Those of several that do not run cannot be told of each other's new URLs, and started otherwise they would
// never find together. Where as many are known by one as by the other, they find together either way, and those that start are
// correcting their URLs to what was rendered: it stays. A lease tells how a member was known when it was written, so that most of
// them may be wrong where they differ: members that do not find together in the one way try the other. A healthy etcd proves that a quorum
// is connected, also while the sidecars of others do not start and too few pods are ready: then they do not try the other. What was rendered
// also stays while a sidecar has not yet registered the peer URLs of its member (IsRegistering). Nil: they are free to change.
func PinnedTLS(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *bool {
	rendered := o.StatefulSet.TLS.PeerCA != ""
	switch isServed := etcd.Spec.Replicas > 0 && etcdcluster.IsQuorumReady(o); {
	case etcdcluster.LastSize(o) <= 1 || !helper.ManagesPods(etcd):
		return nil
	case isServed && o.StatefulSet.Exists && isAnyRegistering(etcd, o, now):
		return new(rendered)
	case isServed:
		return nil
	default:
		return pinnedByLeases(etcd, o, rendered, now)
	}
}

// pinnedByLeases is PinnedTLS while no quorum serves.
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

// PinnedPort is the port between members for as long as those of several that do not serve cannot be told of another one, whatever
// the spec says: most are known by the port that was rendered. Where as many as are a quorum run there and do not find together, they
// are not, and the spec counts, which a person may have set back. It also stays while a sidecar has not yet registered the peer URLs of its
// member (IsRegistering). 0: it is free to change.
func PinnedPort(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) int32 {
	size, rendered := int(etcdcluster.LastSize(o)), o.StatefulSet.PeerPort
	if size <= 1 || !helper.ManagesPods(etcd) {
		return 0
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

// WithPinnedPort returns the Etcd with the port between members that is to be rendered: itself, or a copy where the port is bound.
func WithPinnedPort(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) *druidv1alpha1.Etcd {
	port := PinnedPort(etcd, o, now)
	if port == 0 || port == helper.PeerPort(etcd) {
		return etcd
	}
	pinned := etcd.DeepCopy()
	pinned.Spec.Etcd.ServerPort = &port

	return pinned
}

// countKnown counts the members of which a lease tells how others know them, and those that are known with TLS.
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

// haveFailedToMeet is true where as many members as are a quorum run as rendered, with TLS or without, and have not found together for
// so long that they will not. It is false while any etcd is healthy, and while another member starts as rendered: tryToMeet is false there,
// so that the next reconciliation would return to this mode, and the one after it to the other.
func haveFailedToMeet(o etcdcluster.Observation, size int, rendered bool, now time.Time) bool {
	return !hasHealthyEtcd(o) && !isAnyStartingAs(o, rendered, now) && etcdcluster.IsQuorate(countAlone(o, size, func(pod etcdcluster.Pod) bool { return pod.PeerTLS == rendered }, now), size)
}

// countAlone counts the pods for which is holds that run, and have not found together with others for so long that they will not.
func countAlone(o etcdcluster.Observation, size int, is func(etcdcluster.Pod) bool, now time.Time) int {
	alone := 0
	for _, pod := range o.Pods {
		if pod.Ordinal < size && is(pod) && isAloneFor(pod, now) {
			alone++
		}
	}

	return alone
}

// tryToMeet is true where no member serves, and those that run start as rendered: what runs still in the other way has not found
// together in that.
func tryToMeet(o etcdcluster.Observation, rendered bool, now time.Time) bool {
	isReady := func(pod etcdcluster.Pod) bool { return pod.Ready }

	return len(o.Pods) > 0 && !slices.ContainsFunc(o.Pods, isReady) && !isAnyStartingAs(o, !rendered, now)
}

// isAnyStartingAs is true while a pod with or without peer TLS runs etcd, and may find others that run in the same way. Pods on unreachable
// nodes do not count.
func isAnyStartingAs(o etcdcluster.Observation, peerTLS bool, now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool {
		return pod.PeerTLS == peerTLS && etcdcluster.IsRunning(pod) && !etcdcluster.IsNodeUnreachable(pod) && !isAloneFor(pod, now)
	})
}

// hasHealthyEtcd is true where the etcd of a pod is healthy: its readiness probe is a linearizable read, which needs a quorum. The pod itself
// is not ready while its sidecar does not start. The status of a pod whose node is unreachable counts for nothing.
func hasHealthyEtcd(o etcdcluster.Observation) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool {
		isReady := func(c etcdcluster.Container) bool {
			return c.Name == etcdcluster.ContainerEtcd && c.State == etcdcluster.ContainerRunning && c.Ready
		}

		return pod.Ready || !etcdcluster.IsNodeUnreachable(pod) && slices.ContainsFunc(pod.Containers, isReady)
	})
}

// isAnyRegistering is true while the sidecar of a pod is registering the peer URLs of its member.
func isAnyRegistering(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return IsRegistering(etcd, o, pod, now) })
}

// IsRegistering is true for a pod whose sidecar has not yet registered the peer URLs of its member. It does that once, some seconds after
// etcd serves for the first time, and reads the ConfigMap as it is then, and not as it was when its pod was created. If the ConfigMap has
// other peer URLs by then, the sidecar registers these and stops etcd: members that wake up together would all stop at the same time. A
// sidecar has registered them before it renews the Lease of its member. The wait ends after PeerURLTimeout for a pod that is ready, and after
// MemberStartTimeout for a pod that does not become ready. A pod whose etcd container has never run reads the newest ConfigMap anyway.
func IsRegistering(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation, pod etcdcluster.Pod, now time.Time) bool {
	name, age := helper.MemberName(etcd, pod.Ordinal), now.Sub(pod.CreationTime)
	hasRegistered := slices.ContainsFunc(o.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == name && etcdcluster.HasHeartbeatSinceStart(pod, l) })
	switch {
	case pod.Deleting || !etcdcluster.HasStarted(pod):
		return false
	case pod.Ready:
		return !hasRegistered && now.Sub(etcdcluster.Later(pod.ReadyChangedAt, pod.SidecarStartedAt())) < PeerURLTimeout
	default:
		return age < registrationTime || !hasRegistered && age < etcdcluster.MemberStartTimeout
	}
}

// isAloneFor is true for a pod whose etcd runs, and has not been ready for as long as members may take to start.
func isAloneFor(pod etcdcluster.Pod, now time.Time) bool {
	return etcdcluster.IsRunning(pod) && !pod.Ready && !pod.ContainersReady && now.Sub(etcdcluster.Later(pod.ReadyChangedAt, pod.CreationTime)) >= etcdcluster.MemberStartTimeout
}

// hasNoVolume is true for a member whose claim is gone: it is made anew, and what its lease tells with it.
func hasNoVolume(o etcdcluster.Observation, ordinal int) bool {
	claim := o.ClaimFor(ordinal)

	return claim != nil && !claim.Exists
}

// isLeaseStale is true for the lease of a first member that tells of the pod before the one that runs, while a cluster begins to grow from
// it: it was restarted with other peer URLs, its sidecar writes the lease after ten seconds for the first time, and the next member joins
// before that.
func isLeaseStale(o etcdcluster.Observation, ordinal int, lease etcdcluster.Lease) bool {
	rendered, pod := o.State.Replicas, o.PodFor(ordinal)
	isScalingUp := rendered != nil && *rendered > 0 && *rendered <= 2 && *rendered < etcdcluster.LastSize(o)

	return isScalingUp && ordinal == 0 && pod != nil && pod.PeerTLS != *lease.TLSEnabled
}

// URLs are the URLs by which other members are to know this one once it is as the spec says, with TLS or without.
func URLs(etcd *druidv1alpha1.Etcd, m etcdcluster.Member, tls bool) []string {
	return urlsAt(etcd, m, tls, helper.PeerPort(etcd))
}

// OwnURLs are the URLs that a member has whose pod exists.
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

// IsRegisteredWith is true when the member is listed with these URLs, in whatever order.
func IsRegisteredWith(m etcdcluster.Member, urls []string) bool {
	return m.Listed != nil && slices.Equal(slices.Sorted(slices.Values(m.Listed.PeerURLs)), slices.Sorted(slices.Values(urls)))
}
