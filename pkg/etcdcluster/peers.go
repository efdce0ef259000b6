// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
)

// Two members are connected as soon as one of them can dial the other, since etcd uses the streams of either side in both
// directions. Who has certificates can dial both ways, who has none can dial by http alone. One member after the other can
// therefore change: to TLS, when it is known by https after it has restarted, which its sidecar sees to; and from TLS, when it is
// known by http before it restarts, which is ours.

// staleTime is how long a member that runs may be known by other peer URLs than its own before it is not left to its sidecar any
// more, which corrects them when it starts.
const staleTime = time.Minute

// besideTime is how long a change of peer URLs waits for a member that starts next to a quorum, although its sidecar has renewed the lease.
const besideTime = time.Minute

// BoundPeers says whether the members have to talk to each other with TLS or without it, whatever the spec says: as most of them
// know each other. Those of several that do not run cannot be told of each other's new URLs, and started otherwise they would
// never find together. Where as many are known by one as by the other, they find together either way, and those that start are
// correcting their URLs to what was rendered: it stays. A lease tells how a member was known when it was written, so that most of
// them may be wrong where they differ: members that do not find together in the one way try the other. A healthy etcd proves that a quorum
// is connected, also while the sidecars of others do not start and too few pods are ready: then they do not try the other. What was rendered
// also stays while a sidecar has not yet registered the peer URLs of its member (isRegistering). Nil: they are free to change.
func BoundPeers(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) *bool {
	rendered := o.StatefulSet.TLS.PeerCA != ""
	switch isServed := etcd.Spec.Replicas > 0 && isServedByPods(o); {
	case lastSize(o) <= 1 || !helper.ManagesPods(etcd):
		return nil
	case isServed && o.StatefulSet.Exists && isAnyRegistering(etcd, o, now):
		return new(rendered)
	case isServed:
		return nil
	default:
		return boundByLeases(etcd, o, rendered, now)
	}
}

// boundByLeases is BoundPeers while no quorum serves.
func boundByLeases(etcd *druidv1alpha1.Etcd, o Observation, rendered bool, now time.Time) *bool {
	size := int(lastSize(o))
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

// BoundPeerPort is the port between members for as long as those of several that do not serve cannot be told of another one, whatever
// the spec says: most are known by the port that was rendered. Where as many as are a quorum run there and do not find together, they
// are not, and the spec counts, which a person may have set back. It also stays while a sidecar has not yet registered the peer URLs of its
// member (isRegistering). 0: it is free to change.
func BoundPeerPort(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) int32 {
	size, rendered := int(lastSize(o)), o.StatefulSet.PeerPort
	if size <= 1 || !helper.ManagesPods(etcd) {
		return 0
	}
	if etcd.Spec.Replicas > 0 && isServedByPods(o) {
		if o.StatefulSet.Exists && isAnyRegistering(etcd, o, now) {
			return rendered
		}

		return 0
	}
	if countAlone(o, size, func(pod Pod) bool { return pod.PeerPort == rendered }, now) >= QuorumOf(size) {
		return 0
	}

	return rendered
}

// WithBoundPeerPort returns the Etcd with the port between members that is to be rendered: itself, or a copy where the port is bound.
func WithBoundPeerPort(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) *druidv1alpha1.Etcd {
	port := BoundPeerPort(etcd, o, now)
	if port == 0 || port == helper.PeerPort(etcd) {
		return etcd
	}
	bound := etcd.DeepCopy()
	bound.Spec.Etcd.ServerPort = &port

	return bound
}

// countKnown counts the members of which a lease tells how others know them, and those that are known with TLS.
func countKnown(etcd *druidv1alpha1.Etcd, o Observation, size int) (known, withTLS int) {
	for ordinal := range size {
		for _, lease := range o.MemberLeases {
			if lease.Name != helper.MemberName(etcd, ordinal) || lease.TLSEnabled == nil || isOutlived(o, ordinal, lease) || hasNoVolume(o, ordinal) {
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
func haveFailedToMeet(o Observation, size int, rendered bool, now time.Time) bool {
	return !hasHealthyEtcd(o) && !isAnyStartingAs(o, rendered, now) && IsQuorate(countAlone(o, size, func(pod Pod) bool { return pod.PeerTLS == rendered }, now), size)
}

// countAlone counts the pods for which is holds that run, and have not found together with others for so long that they will not.
func countAlone(o Observation, size int, is func(Pod) bool, now time.Time) int {
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
func tryToMeet(o Observation, rendered bool, now time.Time) bool {
	isReady := func(pod Pod) bool { return pod.Ready }

	return len(o.Pods) > 0 && !slices.ContainsFunc(o.Pods, isReady) && !isAnyStartingAs(o, !rendered, now)
}

// isAnyStartingAs is true while a pod with or without peer TLS runs etcd, and may find others that run in the same way. Pods on unreachable
// nodes do not count.
func isAnyStartingAs(o Observation, peerTLS bool, now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod Pod) bool {
		return pod.PeerTLS == peerTLS && isRunning(pod) && !isOutOfSight(pod) && !isAloneFor(pod, now)
	})
}

// hasHealthyEtcd is true where the etcd of a pod is healthy: its readiness probe is a linearizable read, which needs a quorum. The pod itself
// is not ready while its sidecar does not start. The status of a pod whose node is unreachable counts for nothing.
func hasHealthyEtcd(o Observation) bool {
	return slices.ContainsFunc(o.Pods, func(pod Pod) bool {
		isReady := func(c Container) bool { return c.Name == ContainerEtcd && c.State == ContainerRunning && c.Ready }

		return pod.Ready || !isOutOfSight(pod) && slices.ContainsFunc(pod.Containers, isReady)
	})
}

// isAnyRegistering is true while the sidecar of a pod is registering the peer URLs of its member.
func isAnyRegistering(etcd *druidv1alpha1.Etcd, o Observation, now time.Time) bool {
	return slices.ContainsFunc(o.Pods, func(pod Pod) bool { return isRegistering(etcd, o, pod, now) })
}

// isRegistering is true for a pod whose sidecar has not yet registered the peer URLs of its member. It does that once, some seconds after
// etcd serves for the first time, and reads the ConfigMap as it is then, and not as it was when its pod was created. If the ConfigMap has
// other peer URLs by then, the sidecar registers these and stops etcd: members that wake up together would all stop at the same time. A
// sidecar has registered them before it renews the Lease of its member. The wait ends after staleTime for a pod that is ready, and after
// startTime for a pod that does not become ready. A pod whose etcd container has never run reads the newest ConfigMap anyway.
func isRegistering(etcd *druidv1alpha1.Etcd, o Observation, pod Pod, now time.Time) bool {
	name, age := helper.MemberName(etcd, pod.Ordinal), now.Sub(pod.CreationTime)
	hasRegistered := slices.ContainsFunc(o.MemberLeases, func(l Lease) bool { return l.Name == name && hasBeaten(pod, l) })
	switch {
	case pod.Deleting || !hasStarted(pod):
		return false
	case pod.Ready:
		return !hasRegistered && now.Sub(later(pod.ReadyChangedAt, pod.sidecarStartedAt())) < staleTime
	default:
		return age < besideTime || !hasRegistered && age < startTime
	}
}

// holdPeers waits while the spec asks for other peer URLs, a quorum serves, and a sidecar has not yet registered those of its member. Other
// changes of the spec wait too, so that each pod is replaced only once.
func (v view) holdPeers(plan Plan) (Plan, bool) {
	if !v.o.PeerChangePending || !isServedByPods(v.o) {
		return plan, false
	}
	for _, member := range v.members {
		if member.Pod == nil || !isRegistering(v.etcd, v.o, *member.Pod, v.now) {
			continue
		}
		plan.Stage, plan.Render = StageSettle, false
		plan.WaitsFor = cmp.Or(awaitedOfPod(v.etcd, member), "the heartbeat of member "+member.Name)
		plan.Reason = v.arithmetic() + "; the spec is applied when the sidecars of all members have registered their current peer URLs"

		return plan, true
	}

	return plan, false
}

// isAloneFor is true for a pod whose etcd runs, and has not been ready for as long as members may take to start.
func isAloneFor(pod Pod, now time.Time) bool {
	return isRunning(pod) && !pod.Ready && !pod.ContainersReady && now.Sub(later(pod.ReadyChangedAt, pod.CreationTime)) >= startTime
}

func isRunning(pod Pod) bool {
	return slices.ContainsFunc(pod.Containers, func(c Container) bool { return c.Name == ContainerEtcd && c.State == ContainerRunning })
}

// hasStarted is true for a pod whose etcd runs, or has run.
func hasStarted(pod Pod) bool {
	return isRunning(pod) || slices.ContainsFunc(pod.Containers, func(c Container) bool {
		return c.Name == ContainerEtcd && (c.State == ContainerTerminated || c.Restarts > 0)
	})
}

// hasNoVolume is true for a member whose claim is gone: it is made anew, and what its lease tells with it.
func hasNoVolume(o Observation, ordinal int) bool {
	claim := o.ClaimFor(ordinal)

	return claim != nil && !claim.Exists
}

// isOutlived is true for the lease of a first member that tells of the pod before the one that runs, while a cluster begins to grow from
// it: it was restarted with other peer URLs, its sidecar writes the lease after ten seconds for the first time, and the next member joins
// before that.
func isOutlived(o Observation, ordinal int, lease Lease) bool {
	rendered, pod := o.ManagedResource.Replicas, o.PodFor(ordinal)
	grows := rendered != nil && *rendered > 0 && *rendered <= 2 && *rendered < lastSize(o)

	return grows && ordinal == 0 && pod != nil && pod.PeerTLS != *lease.TLSEnabled
}

// isServedByPods is true while a quorum of the pods that were rendered is ready.
func isServedByPods(o Observation) bool {
	size := int(lastSize(o))
	if rendered := o.ManagedResource.Replicas; rendered != nil && *rendered > 0 {
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

// peerURLs are the URLs by which other members are to know this one once it is as the spec says, with TLS or without.
func peerURLs(etcd *druidv1alpha1.Etcd, m Member, tls bool) []string {
	return peerURLsAt(etcd, m, tls, helper.PeerPort(etcd))
}

// ownPeerURLs are the URLs that a member has whose pod exists.
func ownPeerURLs(etcd *druidv1alpha1.Etcd, m Member) []string {
	return peerURLsAt(etcd, m, m.Pod.PeerTLS, cmp.Or(m.Pod.PeerPort, helper.PeerPort(etcd)))
}

func peerURLsAt(etcd *druidv1alpha1.Etcd, m Member, tls bool, port int32) []string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	urls := []string{scheme + "://" + net.JoinHostPort(peerHost(etcd, m.Ordinal), strconv.Itoa(int(port)))}
	for _, additional := range etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if additional.MemberName == m.Name {
			urls = append(urls, additional.URLs...)
		}
	}

	return urls
}

// peerHost is the name by which other members find the pod with the ordinal.
func peerHost(etcd *druidv1alpha1.Etcd, ordinal int) string {
	return fmt.Sprintf("%s.%s.%s.svc", helper.PodName(etcd, ordinal), helper.PeerServiceName(etcd), etcd.Namespace)
}

// isKnownBy is true when the member is listed with these URLs, in whatever order.
func (m Member) isKnownBy(urls []string) bool {
	return m.Listed != nil && slices.Equal(slices.Sorted(slices.Values(m.Listed.PeerURLs)), slices.Sorted(slices.Values(urls)))
}

// losesPeerTLS is true for a member that has certificates for others, and will have none when its pod is made anew.
func (v view) losesPeerTLS(m Member) bool {
	return v.isOutdated(m) && m.Pod.PeerTLS && v.o.StatefulSet.TLS.PeerCA == ""
}

// awaitedURLs says what is waited for until others know the member by the URLs that it has. Empty: nothing.
func (v view) awaitedURLs(m Member) string {
	if urls := ownPeerURLs(v.etcd, m); m.Listed != nil && !m.isKnownBy(urls) {
		return fmt.Sprintf("member %s to advertise %s and not %s", m.Name, strings.Join(urls, ", "), strings.Join(m.Listed.PeerURLs, ", "))
	}

	return ""
}

// correctURLs has the cluster know a member by its own URLs where its sidecar has left that undone, such as when TLS among the
// members was to be switched off, and then was not. A sidecar does it when its etcd serves: without certificates, and known by https,
// it never would.
func (v view) correctURLs(plan Plan) (Plan, bool) {
	for _, member := range v.members {
		if !v.isSeen() || !member.isUp() || v.isOutdated(member) || v.awaitedURLs(member) == "" || !v.isSettled(member) {
			continue
		}
		plan.Stage = StageSettle
		plan.Reason = v.arithmetic() + "; " + member.Name + " is known by URLs that it does not have"
		plan.Step = member.toBeKnownBy(ownPeerURLs(v.etcd, member))

		return plan, true
	}

	return plan, false
}

// isUp is true for a member that serves, or whose etcd runs at least, in a pod that stays.
func (m Member) isUp() bool {
	return m.Pod != nil && !m.Pod.Deleting && (m.Serves() || isRunning(*m.Pod))
}

// isSettled is true for a member that has been as it is for so long that its sidecar will not correct its peer URLs any more.
func (v view) isSettled(m Member) bool {
	return v.now.Sub(later(m.Pod.ReadyChangedAt, m.Pod.CreationTime)) >= staleTime
}

// hasBeaten is true for a member whose sidecar has renewed its lease since the sidecar started. Before that it corrects the peer URLs to
// those of its own configuration, once, and stops etcd where they were others.
func (v view) hasBeaten(m Member) bool { return m.Lease != nil && hasBeaten(*m.Pod, *m.Lease) }

// hasBeaten is true where the sidecar of the pod has renewed the lease since it started.
func hasBeaten(pod Pod, lease Lease) bool { return lease.RenewTime.After(pod.sidecarStartedAt()) }

// sidecarStartedAt is when the sidecar of the pod started last; before it ever ran, when the pod was created.
func (p Pod) sidecarStartedAt() time.Time {
	since := p.CreationTime
	for _, container := range p.Containers {
		if container.Name == ContainerBackupRestore {
			since = later(since, container.StartedAt)
		}
	}

	return since
}

// toBeToldBefore is the step by which others know a member that loses its certificates by the URLs that it will have, and what they are.
// Nil: they know it so, or nothing changes.
func (v view) toBeToldBefore(m Member) (*Step, string) {
	urls := peerURLs(v.etcd, m, false)
	if !v.isSeen() || !v.losesPeerTLS(m) || m.Listed == nil || m.isKnownBy(urls) {
		return nil, ""
	}

	return m.toBeKnownBy(urls), fmt.Sprintf(", once the others know it by %s", strings.Join(urls, ", "))
}

// toBeKnownBy is for a member that the cluster lists: it need not answer itself.
func (m Member) toBeKnownBy(urls []string) *Step {
	return &Step{Kind: StepUpdatePeerURLs, Object: m.Pod.Name, UID: m.Pod.UID, To: m.Listed.ID, PeerURLs: urls}
}
