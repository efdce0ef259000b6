// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// This is the etcd of the simulated seed, and what we promise about it.

// listed is the member with the ordinal, running or not; nil when the cluster does not list it.
func (s *seed) listed(ordinal int) *simMember {
	for _, member := range s.members {
		if member.ordinal == ordinal {
			return member
		}
	}

	return nil
}

// alive is the member with the ordinal if it runs on its own data and others can reach it; nil otherwise.
func (s *seed) alive(ordinal int) *simMember {
	pod, member := s.seen.PodFor(ordinal), s.listed(ordinal)
	if pod == nil || member == nil || s.strange[ordinal] || s.waitsForStore[pod.UID] || pod.Deleting || pod.Containers[0].State != etcdcluster.ContainerRunning || s.brokenImages[pod.Containers[0].Image] {
		return nil
	}
	node, volume := s.node(pod.Node), s.volumes[helper.ClaimName(s.etcd, ordinal)]
	if node == nil || node.partitioned || node.gone || volume == nil || volume.lost || volume.member != member.id {
		return nil
	}

	return member
}

func (s *seed) voters() (alive, all int) {
	for _, member := range s.members {
		if member.learner {
			continue
		}
		all++
		if s.alive(member.ordinal) != nil && (s.leader == 0 || s.follows(member)) {
			alive++
		}
	}

	return alive, all
}

// elect keeps the leader while it lives and has a quorum. An election takes one tick without any.
func (s *seed) elect() bool {
	before := s.leader
	if s.leader != 0 {
		if !slices.ContainsFunc(s.members, func(m *simMember) bool { return m.id == s.leader && s.mayLead(m) }) {
			s.leader = 0
		}

		return before != s.leader
	}
	for _, member := range s.members {
		if s.leader == 0 && s.mayLead(member) {
			s.leader = member.id
		}
	}

	return before != s.leader
}

// mayLead is true for a voter that is connected with a quorum.
func (s *seed) mayLead(leader *simMember) bool {
	connected, all := 0, 0
	for _, member := range s.members {
		if member.learner {
			continue
		}
		all++
		if s.areConnected(leader, member) {
			connected++
		}
	}

	return !leader.learner && etcdcluster.IsQuorate(connected, all)
}

// follows is true for a member that is connected with the leader, of which it does not know at once that it is gone.
func (s *seed) follows(member *simMember) bool {
	return s.leader != 0 && !slices.ContainsFunc(s.members, func(leader *simMember) bool {
		return leader.id == s.leader && s.alive(leader.ordinal) != nil && !s.areConnected(leader, member)
	})
}

// areConnected is true for members of which one can dial the other, which listens where it is known: by https, if both have certificates,
// and by http, if the other has none.
func (s *seed) areConnected(a, b *simMember) bool {
	if s.alive(a.ordinal) == nil || s.alive(b.ordinal) == nil {
		return false
	}
	dials := func(from, to *simMember) bool {
		if s.portsMatter && !strings.HasSuffix(to.peerURL, fmt.Sprintf(":%d", s.seen.PodFor(to.ordinal).PeerPort)) {
			return false
		}
		if strings.HasPrefix(to.peerURL, "https:") {
			return s.seen.PodFor(from.ordinal).PeerTLS && s.seen.PodFor(to.ordinal).PeerTLS
		}

		return !s.seen.PodFor(to.ordinal).PeerTLS
	}

	return a == b || dials(a, b) || dials(b, a)
}

// sidecars let members form, join and rejoin the cluster, one at a time, and promote learners that have caught up.
func (s *seed) sidecars() bool {
	moved := false
	for i := range s.seen.Pods {
		pod := &s.seen.Pods[i]
		node, volume := s.node(pod.Node), s.volumes[helper.ClaimName(s.etcd, pod.Ordinal)]
		if s.strange[pod.Ordinal] || s.waitsForStore[pod.UID] || pod.Deleting || node == nil || node.partitioned || node.gone || pod.Containers[0].State != etcdcluster.ContainerRunning || volume == nil || volume.lost {
			continue
		}
		moved = s.sidecar(pod, volume) || moved
	}

	return moved
}

func (s *seed) sidecar(pod *etcdcluster.Pod, volume *simVolume) bool {
	member := s.listed(pod.Ordinal)
	url := fmt.Sprintf("http://%s.main-peer.demo.svc:%d", pod.Name, pod.PeerPort)
	if pod.PeerTLS {
		url = "https" + url[len("http"):]
	}
	switch {
	case s.isForgotten():
		s.bootstrap(pod, url, volume)
	case s.leader == 0:
		if pod.Ordinal == 0 && s.startsAlone(pod) && volume.member == 0 && len(s.members) > 1 {
			s.broken("member 0 forms a cluster of its own, for which the sidecars of the others discard their data")
		}

		return s.replaceLostData(pod, volume)
	case member != nil && volume.member != member.id:
		s.members = slices.DeleteFunc(s.members, func(m *simMember) bool { return m == member }) // it lost its data
	case member == nil:
		if slices.ContainsFunc(s.members, func(m *simMember) bool { return m.learner }) {
			return false
		}
		s.nextID++
		s.members = append(s.members, &simMember{id: s.nextID, ordinal: pod.Ordinal, learner: true, peerURL: url})
		volume.member = s.nextID
	case !member.named && member.peerURL != url:
		return false // it is no member for its sidecar, which cannot add another learner
	case s.alive(pod.Ordinal) == nil || !s.follows(member):
		return false // it waits until its etcd serves
	case member.learner && member.caught < s.catchUp+6: // a sidecar promotes half a minute after it could
		member.named = true
		member.caught++
	case member.learner:
		member.learner = false
	case s.servedAt[pod.UID].IsZero():
		s.servedAt[pod.UID] = s.now // it finds that its etcd serves some seconds later, and then reads the ConfigMap as it is
	case !s.corrected[pod.UID]: // once, as it starts
		s.corrected[pod.UID] = true
		if member.peerURL == url {
			return false
		}
		member.peerURL = url
		pod.Ready, pod.ContainersReady, pod.ReadyChangedAt = false, false, s.now
		pod.Containers[0].State, pod.Containers[0].Reason = etcdcluster.ContainerTerminated, "Completed" // its kubelet starts it again
	default:
		return false
	}

	return true
}

// checkRegistered checks that no other peer URLs are rendered while a quorum of pods is ready, and a sidecar has yet to register those of its pod: it
// would read the new ones, register them, and stop etcd.
func (s *seed) checkRegistered(wanted manifest) {
	ready := 0
	for _, pod := range s.seen.Pods {
		if pod.Ready && !pod.Deleting {
			ready++
		}
	}
	isSame := s.applied == nil || wanted.peerTLS == s.applied.peerTLS && wanted.peerPort == s.applied.peerPort
	if isSame || wanted.replicas == 0 || len(s.members) < 2 || !etcdcluster.IsQuorate(ready, len(s.members)) || s.wasStrange {
		return
	}
	for _, pod := range s.seen.Pods {
		if s.alive(pod.Ordinal) != nil && !s.servedAt[pod.UID].IsZero() && !s.corrected[pod.UID] {
			s.broken("other peer URLs are rendered, which the sidecar of %s reads before it has registered those of its pod, and stops etcd", pod.Name)
		}
	}
}

// makeAgainWithout deletes the Etcd, whose claims stay but for those of the ordinals, and makes it again.
func (s *seed) makeAgainWithout(ordinals ...int) {
	s.written, s.applied, s.leader = nil, nil, 0
	s.etcd.CreationTimestamp = metav1.NewTime(s.now)
	s.seen.Pods, s.seen.MemberLeases, s.seen.StatefulSet = nil, nil, etcdcluster.StatefulSet{}
	s.seen.FullSnapshotLease, s.seen.DeltaSnapshotLease = etcdcluster.Lease{}, etcdcluster.Lease{}
	s.seen.ManagedResource = etcdcluster.ManagedResource{Name: s.seen.ManagedResource.Name}
	s.seen.State = state.State{}
	for _, ordinal := range ordinals {
		claim := s.seen.ClaimFor(ordinal)
		delete(s.volumes, claim.Name)
		*claim = etcdcluster.Claim{Name: claim.Name, Ordinal: ordinal}
	}
	s.respec()
	s.see()
}

// isForgotten is true when nothing tells of a cluster any more: no volume has the data of a member, and no lease a holder.
func (s *seed) isForgotten() bool {
	for _, volume := range s.volumes {
		if volume.member != 0 {
			return false
		}
	}

	return !slices.ContainsFunc(s.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.Holder != "" })
}

func (s *seed) bootstrap(pod *etcdcluster.Pod, url string, volume *simVolume) {
	if size := s.renderedSizes[pod.UID]; pod.Ordinal != 0 || size != 1 {
		s.broken("member %d started from nothing in a cluster of %d", pod.Ordinal, size)
	}
	s.nextID++
	s.leader, s.keys = 0, 0
	if helper.IsStoreConfigured(s.etcd) {
		s.keys = s.stored
	}
	s.members = []*simMember{{id: s.nextID, ordinal: pod.Ordinal, peerURL: url, named: true}}
	volume.member = s.nextID
}

func (s *seed) broken(format string, args ...any) {
	s.violations = append(s.violations, s.now.Format("15:04:05")+" "+fmt.Sprintf(format, args...))
}

// act carries out a step as far as its precondition holds, and checks what we promise about it.
func (s *seed) act(step plan.Step) {
	kind, object := plan.TraitsOf(step).Kind, plan.MetaOf(step).Object
	s.steps[kind]++
	aliveBefore, all := s.voters()
	serves := s.leader != 0
	if plan.MetaOf(step).UID == "" {
		s.broken("%s %s has no precondition", kind, object)
	}
	for _, answer := range s.seen.Etcd.Members {
		if answer.ClusterID == 2 && len(s.seen.Etcd.MemberList) > 0 && s.etcd.Spec.Replicas > 0 && kind != "RequestReconcile" {
			s.broken("%s %s while members of two clusters serve", kind, object)
		}
	}
	switch step := step.(type) {
	case plan.DeletePod:
		s.takePod(step.Meta, false)
	case plan.EvictPod:
		s.takePod(step.Meta, true)
	case plan.MoveLeader:
		s.moveLeader(step)
	case plan.PromoteMember:
		s.promote(step)
	case plan.UpdatePeerURLs:
		s.updatePeerURLs(step)
	case plan.ReplaceClaim:
		s.replaceClaim(step, aliveBefore, all)
	case plan.ResizeClaim:
		s.growClaim(step)
	case plan.DeleteClaim:
		s.discardClaim(step)
	case plan.VerifyRestore:
		s.seen.Rehearsal = etcdcluster.Rehearsal{Exists: true, Name: step.Object, UID: s.uid("job"), OwnerUID: s.etcd.UID}
	case plan.DeleteRestoreJob:
		s.seen.Rehearsal = etcdcluster.Rehearsal{}
	case plan.ResetLease:
		s.seen.MemberLeases = slices.DeleteFunc(s.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == step.Object && l.UID == step.UID })
	case plan.RecreateStatefulSet, plan.RequestReconcile, plan.TakeSnapshot:
		s.do(step)
	}
	aliveAfter, allAfter := s.voters()
	if serves && all > 1 && etcdcluster.IsQuorate(aliveBefore, all) && !etcdcluster.IsQuorate(aliveAfter, allAfter) {
		s.broken("%s %s took the quorum: %d, then %d of %d", kind, object, aliveBefore, aliveAfter, all)
	}
}

func (s *seed) takePod(step plan.Meta, isEviction bool) {
	for i := range s.seen.Pods {
		pod := &s.seen.Pods[i]
		if pod.Name != step.Object || pod.UID != step.UID {
			continue
		}
		s.checkSingle(*pod)
		member := s.alive(pod.Ordinal)
		serves := member != nil && !member.learner && s.follows(member)
		alive, all := s.voters()
		switch {
		case serves && all > 1 && !isEviction && s.isEvictable(pod):
			s.broken("%s is deleted although it serves", pod.Name)
		case serves && all > 1 && alive < all:
			s.broken("%s is evicted while only %d of %d serve", pod.Name, alive, all)
		}
		if isRefused := s.refuseEvictions > 0 || !s.isEvictable(pod); isEviction && isRefused {
			s.refuseEvictions = max(0, s.refuseEvictions-1)
			s.note("> the eviction is refused")

			return
		}
		s.terminate(pod)
	}
}

// checkSingle checks that the pod of the only member stays while its node is unreachable, and while the store is, unless it has not been
// ready for two minutes or its image cannot be pulled.
func (s *seed) checkSingle(pod etcdcluster.Pod) {
	if s.seen.StatefulSet.SpecReplicas != 1 {
		return
	}
	readyAt, wasReady := s.readyAt[pod.UID]
	isReady := wasReady && s.now.Sub(readyAt) < 2*time.Minute
	isStoreUnreachable := helper.IsStoreConfigured(s.etcd) && s.storeDown && s.now.Sub(s.seen.DeltaSnapshotLease.RenewTime) > 2*time.Minute
	switch node := s.node(pod.Node); {
	case node != nil && node.partitioned && !pod.Ready && pod.ContainersReady:
		s.broken("%s is deleted although only its node is unreachable", pod.Name)
	case isReady && isStoreUnreachable:
		s.broken("%s is deleted while the store is unreachable, and was ready at %s", pod.Name, readyAt.Format("15:04:05"))
	}
}

// isEvictable plays the PodDisruptionBudget: a quorum of the pods is ready without a pod that is, and with one that is not.
func (s *seed) isEvictable(pod *etcdcluster.Pod) bool {
	ready := 0
	for _, other := range s.seen.Pods {
		if other.Ready && other.UID != pod.UID {
			ready++
		}
	}

	replicas := int(s.seen.StatefulSet.SpecReplicas)

	return replicas <= 1 || ready >= replicas/2+1
}

func (s *seed) moveLeader(step plan.MoveLeader) {
	for _, member := range s.members {
		if member.id == step.To && !member.learner && s.alive(member.ordinal) != nil && s.leader != 0 {
			s.leader = member.id

			return
		}
	}
	s.broken("the leader cannot move to %x", step.To)
}

func (s *seed) updatePeerURLs(step plan.UpdatePeerURLs) {
	for _, member := range s.members {
		if member.id == step.Member && s.leader != 0 {
			member.peerURL = step.URLs[0]

			return
		}
	}
	s.broken("%x cannot be known by %v", step.Member, step.URLs)
}

// promote gives a learner its vote, as etcd does: never to one that has not caught up.
func (s *seed) promote(step plan.PromoteMember) {
	for _, member := range s.members {
		if member.id == step.Member && member.learner && member.caught >= s.catchUp && s.alive(member.ordinal) != nil && s.leader != 0 {
			member.learner = false

			return
		}
	}
	s.broken("%x cannot get a vote", step.Member)
}

func (s *seed) replaceClaim(step plan.ReplaceClaim, alive, all int) {
	for i := range s.seen.Claims {
		claim := &s.seen.Claims[i]
		if claim.Name != step.Object || claim.UID != step.UID {
			continue
		}
		volume := s.volumes[claim.Name]
		node := s.node(volume.node)
		if !volume.lost && !node.gone && !node.outOfService {
			s.broken("claim %s is deleted although its volume is not lost", claim.Name)
		}
		if !etcdcluster.IsQuorate(alive, all) || s.leader == 0 {
			s.broken("claim %s is deleted without a quorum", claim.Name)
		}
		if helper.IsStoreConfigured(s.etcd) && !volume.lost && s.seen.SnapshotCalls.Verified == nil {
			s.broken("claim %s is deleted without a snapshot", claim.Name)
		}
		claim.Deleting = true
	}
}

func (s *seed) growClaim(step plan.ResizeClaim) {
	for i := range s.seen.Claims {
		claim := &s.seen.Claims[i]
		if claim.Name != step.Object || claim.UID != step.UID {
			continue
		}
		if s.rigid || !claim.Bound || step.Size <= claim.Requested {
			s.broken("claim %s is asked to become %d, which the API server refuses", claim.Name, step.Size)
		}
		if at, refused := s.refusedAt[claim.UID]; refused && claim.RefusedSize == step.Size {
			s.broken("claim %s is asked again to become %d, which was refused at %s", claim.Name, step.Size, at.Format("15:04:05"))
		}
		if s.quotaFull {
			s.note("> the quota refuses that claim %s grows", claim.Name)
			s.refusedAt[claim.UID], claim.RefusedSize, claim.RefusedWhy = s.now, step.Size, "exceeded quota"

			return
		}
		claim.Requested = step.Size
	}
}

// remember keeps the phase of a restore with the rendering, and takes the annotation once it is kept. True: it changed.
func (s *seed) remember(p plan.Plan) bool {
	changed := s.seen.State.Restore != p.Restore
	s.seen.State.Restore = p.Restore

	return changed
}

// takeAnnotation plays what the etcd controller does after each pass.
func (s *seed) takeAnnotation() {
	_, ignored := planner.EvaluateRestore(s.etcd, s.seen, s.now)
	if _, asked := s.etcd.Annotations["druid.gardener.cloud/restore"]; asked && (s.seen.State.Restore == "discard" || ignored != "") {
		s.note("> the annotation is taken%s", strings.TrimSuffix("; it is ignored: "+ignored, "; it is ignored: "))
		s.seen.Rehearsal.Recorded = s.seen.Rehearsal.Failed
		s.unverified = s.etcd.Annotations["druid.gardener.cloud/restore"] == "from-store-unverified"
		delete(s.etcd.Annotations, "druid.gardener.cloud/restore")
	}
}

// rehearse ends the Job that restores beside the volumes.
func (s *seed) rehearse() bool {
	rehearsal := &s.seen.Rehearsal
	if !rehearsal.Exists || rehearsal.Failed || rehearsal.Succeeded {
		return false
	}
	rehearsal.Succeeded = !s.storeDown && !s.storeEmptied
	if rehearsal.Failed = !rehearsal.Succeeded; rehearsal.Failed {
		rehearsal.Message = "nothing was restored"
	}

	return true
}

// discardClaim discards what is left of a cluster that is restored. Nobody may run on any of it.
func (s *seed) discardClaim(step plan.DeleteClaim) {
	if len(s.seen.Pods) > 0 {
		s.broken("%s is discarded while there are pods", step.Object)
	}
	for i := range s.seen.Claims {
		if claim := &s.seen.Claims[i]; claim.Name == step.Object && claim.UID == step.UID {
			if volume := s.volumes[claim.Name]; volume != nil && volume.member != 0 && !volume.lost && !s.node(volume.node).gone && !s.seen.Rehearsal.Succeeded && !s.unverified {
				s.broken("%s is discarded, and nobody has seen what the store holds", step.Object)
			}
			claim.Deleting = true
		}
	}
}

// checkSaved checks that members are stopped after a snapshot, or after three attempts to take one, or before any of them has served.
func (s *seed) checkSaved(p plan.Plan) {
	hasServed := slices.ContainsFunc(s.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.Holder != "" }) ||
		slices.ContainsFunc(s.seen.Claims, func(c etcdcluster.Claim) bool {
			return c.Exists && c.CreationTime.Before(s.etcd.CreationTimestamp.Time)
		})
	if !hasServed && p.FinalSnapshot != nil && p.FinalSnapshot.Missing == state.SnapshotNoData {
		return
	}
	if p.Replicas > 0 || p.Restore != "" || s.written == nil || s.written.replicas == 0 || !helper.IsStoreConfigured(s.etcd) {
		return
	}
	calls := s.seen.SnapshotCalls
	if p.FinalSnapshot == nil || calls.Verified == nil && calls.Failures < 3 || calls.Running {
		s.broken("the members are stopped without a snapshot")
	}
}

// checkRendered checks that a cluster grows by one member at a time, and never shrinks but to hibernate. A member that has joined
// before is no growth.
func (s *seed) checkRendered(wanted manifest) {
	if s.written == nil || s.written.replicas == 0 || wanted.replicas == 0 {
		return
	}
	switch {
	case wanted.replicas < s.written.replicas:
		s.broken("the cluster shrinks from %d to %d", s.written.replicas, wanted.replicas)
	case wanted.replicas > s.written.replicas+1:
		s.broken("the cluster grows from %d to %d at once", s.written.replicas, wanted.replicas)
	case wanted.replicas > s.written.replicas && s.listed(int(s.written.replicas)) == nil:
		for ordinal := range int(s.written.replicas) {
			if member := s.alive(ordinal); member == nil || member.learner {
				s.broken("the cluster grows to %d while member %d is no voter that serves", wanted.replicas, ordinal)
			}
		}
	}
}
