// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// seed is a simulated seed with one Etcd of several members, its nodes and its volumes. It extends world, whose part as the
// etcd controller and as resource manager it uses. Every five seconds each of the others does at most one thing, in a fixed
// order. What is true (members, volumes, nodes) is kept apart from what is seen of it (world.seen).
type seed struct {
	*world

	// voters and learners, as etcd itself knows them.
	members []*simMember
	leader  uint64
	nextID  uint64
	nodes   []*simNode
	volumes map[string]*simVolume // by name of the claim
	// portsMatter is true where nobody reaches a member at another port than it listens at. A change of the port that a lost quorum
	// interrupts is not promised to end.
	portsMatter bool
	// catchUp is how many ticks a learner takes.
	catchUp int
	// patience is how many ticks nothing happens before the world counts as at rest.
	patience int
	// remote is true where volumes can be used on any node, rigid where they cannot grow.
	remote, rigid bool
	// quotaFull is true while the API server refuses that claims ask for more; refusedAt is when it last did so, by their UIDs.
	quotaFull bool
	refusedAt map[types.UID]time.Time
	// offline is true where file systems grow when they are mounted, and no sooner.
	offline bool
	// violations are broken promises.
	violations []string
	// steps counts the acts of ours.
	steps map[string]int
	// halfBroken are the UIDs of pods whose sidecar does not start, while etcd runs.
	halfBroken map[types.UID]bool
	// strange are the ordinals of members that run on the data of another cluster.
	strange map[int]bool
	// notAskedFor is true while nobody asks for the spec to be carried out.
	notAskedFor bool
	// keys are how many the cluster has, stored how many its snapshots have.
	keys, stored int
	// storeEmptied is true where somebody has deleted every snapshot, of which the leases know nothing.
	storeEmptied bool
	// unverified is true when the restore that was asked for last takes the store at its word.
	unverified bool
	// refuseEvictions is how many evictions are refused from now on.
	refuseEvictions int
	// corrected are the pods whose sidecars have had their peer URLs corrected, as each does once.
	corrected map[types.UID]bool
	// wasStrange is true from when a member ran on the data of another cluster: its pod was ready, although its sidecar had not registered
	// peer URLs in this cluster.
	wasStrange bool
	// servedAt is when the etcd of a pod served first.
	servedAt map[types.UID]time.Time
	// readyAt is when pods were last ready, by their UIDs.
	readyAt map[types.UID]time.Time
	// waitsForStore are the UIDs of pods in which the sidecar of a single member with data does not start etcd before the store is reachable.
	waitsForStore map[types.UID]bool
	// renderedSizes are the cluster sizes with which pods were rendered, by their UIDs. A sidecar reads its size once, when it starts.
	renderedSizes map[types.UID]int32
	// renderedStores are the UIDs of pods that were rendered with a store.
	renderedStores map[types.UID]bool
}

type simMember struct {
	id      uint64
	ordinal int
	learner bool
	caught  int
	peerURL string
	// named is true as soon as it has run: a learner that was added has peer URLs alone.
	named bool
}

type simNode struct {
	name                            string
	partitioned, gone, outOfService bool
}

type simVolume struct {
	node string
	// member whose data it holds. 0: none.
	member uint64
	lost   bool
	// size of its file system. 0: none yet.
	size int64
}

func newSeed(replicas int32, change ...func(*druidv1alpha1.Etcd)) *seed {
	w := newWorld(change...)
	w.etcd.Spec.Replicas = replicas
	w.seen.Claims = nil
	s := &seed{world: w, nextID: 0xa0, volumes: map[string]*simVolume{}, halfBroken: map[types.UID]bool{}, catchUp: 2, patience: 30, steps: map[string]int{}, corrected: map[types.UID]bool{}, servedAt: map[types.UID]time.Time{}, refusedAt: map[types.UID]time.Time{}, readyAt: map[types.UID]time.Time{}, waitsForStore: map[types.UID]bool{}, renderedSizes: map[types.UID]int32{}, renderedStores: map[types.UID]bool{}}
	for ordinal := range 7 {
		w.seen.Claims = append(w.seen.Claims, etcdcluster.Claim{Name: helper.ClaimName(w.etcd, ordinal), Ordinal: ordinal})
		s.nodes = append(s.nodes, &simNode{name: fmt.Sprintf("n%d", ordinal+1)})
	}
	s.see()

	return s
}

// run lets the world go on until nothing happens any more, and notes every change of plan.
func (s *seed) run() { s.runFor(200) }

func (s *seed) runFor(ticks int) {
	idle := 0
	for range ticks {
		before := s.last
		acted := s.pass()
		s.takeAnnotation()
		moved := s.tick()
		if acted || moved || s.last != before {
			idle = 0
		} else if idle++; idle > s.patience {
			return
		}
	}
}

// pass plays our controller once; true when it wrote something.
func (s *seed) pass() bool {
	if s.seen.Etcd.Asked != s.asks() {
		s.seen.Etcd = s.answers()
	}
	s.tellLeases()
	s.seen.PeerChangePending = s.peerTLS() != (helper.PeerTLS(s.etcd) != nil) || s.effective() != s.etcd
	p := planner.For(s.effective(), s.seen, s.now)
	if s.notAskedFor || p.Refusal != nil {
		return s.repairBeside(p)
	}
	p = planner.Gate(p, s.manifestFor(p).rendering(), s.seen)
	s.noteOf(p)
	if p.Growth != nil {
		p = p.Grown()
	}
	wanted := s.manifestFor(p)
	if p.Render && (s.written == nil || s.written.rendering().Checksum != wanted.rendering().Checksum || len(s.written.fixed.Differences(wanted.fixed)) > 0) {
		s.checkRendered(wanted)
		s.checkSaved(p)
		s.checkRegistered(wanted)
		s.write(wanted, p)
		s.seen.State.Replicas, s.seen.State.FinalSnapshot = new(wanted.replicas), p.FinalSnapshot
		s.remember(p)

		return true
	}
	if p.Render && s.remember(p) {
		return true
	}
	if p.Step != nil {
		s.act(p.Step)
		s.see()

		return true
	}

	return false
}

// tellLeases plays what our controller does with leases: it makes them, and writes into those of voters of which no sidecar has told yet.
func (s *seed) tellLeases() {
	for ordinal := range int(s.etcd.Spec.Replicas) {
		name := helper.MemberName(s.etcd, ordinal)
		if !slices.ContainsFunc(s.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == name }) {
			s.seen.MemberLeases = append(s.seen.MemberLeases, etcdcluster.Lease{Exists: true, Name: name, UID: types.UID("lease-" + name)})
		}
	}
	for _, member := range planner.UntoldVoters(s.etcd, s.seen) {
		s.seen.MemberLeases[slices.IndexFunc(s.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == member.Name })].Holder = fmt.Sprintf("%x:Member", member.Listed.ID)
	}
}

// repairBeside plays what our controller does while the spec is not carried out.
func (s *seed) repairBeside(p plan.Plan) bool {
	repair := planner.ForRepair(s.etcd, s.seen, s.now)
	if p.Refusal != nil && repair.Step == nil {
		repair = p
	}
	s.noteOf(repair)
	if repair.Step == nil {
		return false
	}
	if kind := kindOf(repair.Step); kind != "ReplaceClaim" && kind != "DeletePod" && kind != "TakeSnapshot" {
		s.broken("%s although the spec is not carried out", kind)
	}
	s.act(repair.Step)
	s.see()

	return true
}

func (s *seed) manifestFor(p plan.Plan) manifest {
	return manifest{image: s.image, replicas: p.Replicas, clusterSize: p.ClusterSize, fixed: s.fixed(), peerTLS: s.peerTLS(), peerPort: helper.PeerPort(s.effective())}
}

// effective is the Etcd that is planned for and rendered.
func (s *seed) effective() *druidv1alpha1.Etcd {
	return peers.WithPinnedPort(s.etcd, s.seen, s.now)
}

// peerTLS is whether members are rendered that have certificates for each other.
func (s *seed) peerTLS() bool {
	if bound := peers.PinnedTLS(s.etcd, s.seen, s.now); bound != nil {
		return *bound
	}

	return helper.PeerTLS(s.etcd) != nil
}

// tick lets the others act and time pass; true when anything changed.
func (s *seed) tick() bool {
	s.now = s.now.Add(5 * time.Second)
	moved := s.endSnapshot(s.leader != 0)
	for _, act := range []func() bool{s.resourceManager, s.statefulSetController, s.podCollector, s.claimController, s.scheduler, s.kubelet, s.sidecars, s.elect, s.rehearse} {
		moved = act() || moved
		s.see()
	}
	s.snapshots()
	s.checkSizes()

	return moved
}

func (s *seed) resourceManager() bool {
	moved := s.world.resourceManager()
	if moved {
		s.seen.StatefulSet.Replicas = int32(len(s.seen.Pods)) // #nosec G115 -- a handful
	}

	return moved
}

func (s *seed) statefulSetController() bool {
	statefulSet := &s.seen.StatefulSet
	if !statefulSet.Exists {
		return false
	}
	if statefulSet.ObservedGeneration != statefulSet.Generation {
		statefulSet.ObservedGeneration, statefulSet.UpdateRevision = statefulSet.Generation, s.applied.revision()
		if statefulSet.Store = ""; helper.IsStoreConfigured(s.etcd) {
			statefulSet.Store = "the store"
		}

		return true
	}
	moved := false
	for ordinal := range int(statefulSet.SpecReplicas) {
		if s.seen.PodFor(ordinal) == nil {
			s.makePod(ordinal)
			moved = true
		}
	}
	for i := range s.seen.Pods {
		if pod := &s.seen.Pods[i]; pod.Ordinal >= int(statefulSet.SpecReplicas) && !pod.Deleting {
			s.terminate(pod)
			moved = true
		}
	}

	return moved
}

func (s *seed) makePod(ordinal int) {
	claim := s.seen.ClaimFor(ordinal)
	if claim.Deleting {
		return
	}
	if !claim.Exists {
		claim.Exists, claim.UID, claim.CreationTime = true, s.uid("claim"), s.now
		claim.Requested = s.seen.StatefulSet.Rendering.Fixed.ClaimTemplates[0].Request
	}
	s.seen.Pods = append(s.seen.Pods, etcdcluster.Pod{
		Name: helper.PodName(s.etcd, ordinal), Ordinal: ordinal, UID: s.uid("pod"), RevisionHash: s.seen.StatefulSet.UpdateRevision,
		CreationTime: s.now, PeerTLS: s.applied.peerTLS, PeerPort: s.applied.peerPort, HasPreStopHook: s.applied.clusterSize > 1, Store: s.seen.StatefulSet.Store,
		Containers: []etcdcluster.Container{{Name: "etcd", Image: s.applied.image}, {Name: "backup-restore"}},
	})
	made := s.seen.Pods[len(s.seen.Pods)-1].UID
	s.renderedSizes[made], s.renderedStores[made] = s.applied.clusterSize, helper.IsStoreConfigured(s.etcd)
	slices.SortFunc(s.seen.Pods, func(a, b etcdcluster.Pod) int { return a.Ordinal - b.Ordinal })
}

func (s *seed) terminate(pod *etcdcluster.Pod) {
	pod.Deleting, pod.Ready, pod.ContainersReady = true, false, false
}

// podCollector removes pods that are being deleted once their kubelet agrees, and those of nodes that are gone or out of service (the taint evicts them).
func (s *seed) podCollector() bool {
	before := len(s.seen.Pods)
	s.seen.Pods = slices.DeleteFunc(s.seen.Pods, func(pod etcdcluster.Pod) bool {
		node := s.node(pod.Node)
		if node == nil {
			return pod.Deleting
		}

		return node.gone || node.outOfService || pod.Deleting && !node.partitioned
	})

	return len(s.seen.Pods) != before
}

// claimController removes claims that are being deleted and that no pod on a node uses, and lets file systems grow.
func (s *seed) claimController() bool {
	moved := false
	for i := range s.seen.Claims {
		claim := &s.seen.Claims[i]
		if pod := s.seen.PodFor(claim.Ordinal); claim.Deleting && (pod == nil || pod.Node == "") {
			delete(s.volumes, claim.Name)
			*claim = etcdcluster.Claim{Name: claim.Name, Ordinal: claim.Ordinal}
			moved = true
		} else if volume := s.volumes[claim.Name]; volume != nil && volume.size < claim.Requested {
			moved = s.growFileSystem(claim, volume, pod) || moved
		}
	}

	return moved
}

// growFileSystem makes the file system of a volume as large as was asked for, if it may be used meanwhile.
func (s *seed) growFileSystem(claim *etcdcluster.Claim, volume *simVolume, pod *etcdcluster.Pod) bool {
	isMounted := pod != nil && pod.Node != "" && (claim.RemountSince.IsZero() || pod.CreationTime.Before(claim.RemountSince))
	if s.offline && volume.size > 0 && isMounted {
		if !claim.RemountSince.IsZero() {
			return false
		}
		claim.RemountSince = s.now

		return true
	}
	volume.size, claim.RemountSince = claim.Requested, time.Time{}

	return true
}

// scheduler gives pods a node: that of their volume, else the first one without a pod.
func (s *seed) scheduler() bool {
	moved := false
	for i := range s.seen.Pods {
		pod := &s.seen.Pods[i]
		claim := s.seen.ClaimFor(pod.Ordinal)
		if pod.Node != "" || pod.Deleting {
			continue
		}
		node := s.placeFor(claim)
		was := pod.Unschedulable
		pod.Unschedulable = ""
		if node == nil {
			pod.Unschedulable = "no node fits"
		} else {
			pod.Node, moved = node.name, true
			if s.volumes[claim.Name] == nil {
				s.volumes[claim.Name] = &simVolume{node: node.name}
				claim.Bound = true
			}
		}
		moved = moved || was != pod.Unschedulable
	}

	return moved
}

func (s *seed) placeFor(claim *etcdcluster.Claim) *simNode {
	volume := s.volumes[claim.Name]
	if !claim.Exists || claim.Deleting || volume != nil && volume.lost {
		return nil
	}
	for _, node := range s.nodes {
		taken := slices.ContainsFunc(s.seen.Pods, func(pod etcdcluster.Pod) bool { return pod.Node == node.name })
		usable := !node.gone && !node.partitioned && !node.outOfService
		here := volume != nil && volume.node == node.name && !s.remote
		if usable && (here || (volume == nil || s.remote) && !taken) {
			return node
		}
	}

	return nil
}

func (s *seed) node(name string) *simNode {
	for _, node := range s.nodes {
		if node.name == name {
			return node
		}
	}

	return nil
}

// kubelet starts containers, and tells of pods that serve. Of a node that is cut off, the API server tells.
func (s *seed) kubelet() bool {
	moved := false
	for i := range s.seen.Pods {
		pod := &s.seen.Pods[i]
		container := &pod.Containers[0]
		node := s.node(pod.Node)
		before := *pod
		before.Containers = slices.Clone(pod.Containers)
		switch {
		case pod.Deleting || node == nil:
		case node.partitioned || node.gone:
			pod.Ready = false // and what its kubelet said last remains
		case s.brokenImages[container.Image]:
			container.State, container.Reason, pod.Ready = etcdcluster.ContainerWaiting, "ImagePullBackOff", false
			pod.ContainersReady = false
		default:
			volume := s.volumes[helper.ClaimName(s.etcd, pod.Ordinal)]
			isHeld := container.State != etcdcluster.ContainerRunning && s.applied.clusterSize == 1 && volume != nil && volume.member != 0
			s.waitsForStore[pod.UID] = s.storeDown && helper.IsStoreConfigured(s.etcd) && (s.waitsForStore[pod.UID] || isHeld)
			container.State, container.Reason = etcdcluster.ContainerRunning, ""
			member := s.alive(pod.Ordinal)
			pod.Ready = s.strange[pod.Ordinal] && s.volumes[helper.ClaimName(s.etcd, pod.Ordinal)].member == 0 || member != nil && !member.learner && s.follows(member)
			container.Ready = pod.Ready
			s.wasStrange = s.wasStrange || s.strange[pod.Ordinal]
			pod.Ready = pod.Ready && !s.halfBroken[pod.UID]
			pod.ContainersReady = pod.Ready
		}
		if before.Ready != pod.Ready {
			pod.ReadyChangedAt = s.now
		}
		if pod.Ready {
			s.readyAt[pod.UID] = s.now
		}
		moved = moved || before.Ready != pod.Ready || before.Containers[0].State != container.State
	}

	return moved
}

// snapshots renews the leases of members and of snapshots.
func (s *seed) snapshots() {
	for ordinal := range 7 {
		member, pod := s.alive(ordinal), s.seen.PodFor(ordinal)
		if member == nil || s.leader == 0 || !s.corrected[pod.UID] || s.now.Sub(pod.CreationTime) < 15*time.Second {
			continue // a sidecar writes ten seconds after it has started, and has corrected the peer URLs
		}
		name := helper.MemberName(s.etcd, ordinal)
		s.seen.MemberLeases = slices.DeleteFunc(s.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.Name == name })
		s.seen.MemberLeases = append(s.seen.MemberLeases, etcdcluster.Lease{
			Exists: true, Name: name, UID: types.UID("lease-" + name), Holder: fmt.Sprintf("%x:1:Member", member.id), RenewTime: s.now, TLSEnabled: new(pod.PeerTLS),
		})
	}
	if helper.IsStoreConfigured(s.etcd) && !s.storeDown && !s.storeEmptied && s.leader != 0 {
		s.stored = s.keys
		s.seen.FullSnapshotLease = etcdcluster.Lease{Exists: true, Name: "main-full-snap", RenewTime: s.now}
		s.seen.DeltaSnapshotLease = etcdcluster.Lease{Exists: true, Name: "main-delta-snap", RenewTime: s.now}
	}
}

// see is what the observer would see.
func (s *seed) see() {
	for i := range s.seen.Claims {
		claim := &s.seen.Claims[i]
		claim.Lost, claim.Nodes = false, nil
		if at, refused := s.refusedAt[claim.UID]; refused && s.now.Sub(at) >= time.Minute {
			delete(s.refusedAt, claim.UID)
			claim.RefusedSize, claim.RefusedWhy = 0, ""
		}
		if volume := s.volumes[claim.Name]; volume != nil && claim.Exists {
			claim.Lost, claim.Bound = volume.lost, !volume.lost
			if !s.remote {
				claim.Nodes = []string{volume.node}
			}
			claim.Capacity, claim.Growable = volume.size, nil
			if claim.Bound && claim.Requested < new(helper.StorageCapacity(s.etcd)).Value() {
				claim.Growable = new(!s.rigid)
			}
		}
	}
	s.seen.Nodes = nil
	for _, node := range s.nodes {
		s.seen.Nodes = append(s.seen.Nodes, etcdcluster.Node{Name: node.name, Exists: !node.gone, OutOfService: node.outOfService})
	}
	s.seen.StatefulSet.Replicas = int32(len(s.seen.Pods)) // #nosec G115 -- a handful
	s.seen.Etcd = s.answers()
}

// asks is false for a single member: our controller does not ask it.
func (s *seed) asks() bool {
	_, restores := s.etcd.Annotations["druid.gardener.cloud/restore"]

	return s.etcd.Spec.Replicas != 1 || restores
}

func (s *seed) answers() etcdcluster.EtcdAnswers {
	if !s.asks() {
		return etcdcluster.EtcdAnswers{}
	}
	answers := etcdcluster.EtcdAnswers{Asked: true, MemberListError: "no member serves"}
	for _, pod := range s.seen.Pods {
		if pod.Deleting || pod.Node == "" {
			continue
		}
		answer := etcdcluster.MemberAnswer{Ordinal: pod.Ordinal}
		if member := s.alive(pod.Ordinal); member != nil {
			answer.Reachable, answer.MemberID, answer.ClusterID, answer.LeaderID = true, member.id, 1, s.leader
			if !s.follows(member) {
				answer.LeaderID = 0
			}
			answer.Learner = member.learner
			answer.RaftIndex, answer.RaftAppliedIndex = 100, 100
			if member.learner {
				answer.RaftAppliedIndex = uint64(min(100, 100*member.caught/max(s.catchUp, 1))) // #nosec G115 -- never negative
			}
			answer.Serves = !member.learner && s.follows(member)
		}
		if s.strange[pod.Ordinal] && pod.Containers[0].State == etcdcluster.ContainerRunning {
			answer.Reachable, answer.Serves, answer.MemberID, answer.ClusterID, answer.LeaderID = true, true, 0xfe, 2, 0xfe
		} else if answer.Serves {
			answers.MemberListError = ""
		}
		answers.Members = append(answers.Members, answer)
	}
	if answers.MemberListError == "" {
		for _, member := range s.members {
			listed := etcdcluster.ListedMember{ID: member.id, Learner: member.learner, PeerURLs: []string{member.peerURL}}
			if member.named {
				listed.Name = helper.MemberName(s.etcd, member.ordinal)
			}
			answers.MemberList = append(answers.MemberList, listed)
		}
	}

	return answers
}
