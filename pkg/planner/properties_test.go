// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// What holds in every world: see act, checkRendered and bootstrap for the promises that are checked at each act of ours.
var _ = Describe("Random worlds", func() {
	worlds := 400
	if value, err := strconv.Atoi(os.Getenv("WORLDS")); err == nil {
		worlds = value
	}

	It("keep the quorum, take one risk at a time, and converge", func() {
		first := int64(1) // always the same, so that a run which fails fails for what was changed
		if os.Getenv("WORLDS") != "" {
			first = GinkgoRandomSeed()
		}
		if value, err := strconv.ParseInt(os.Getenv("WORLD"), 10, 64); err == nil {
			first, worlds = value, 1
		}
		steps, faults := map[string]int{}, 0
		for i := range worlds {
			world := newRandomWorld(first + int64(i))
			world.live()
			world.expectConverged()
			faults += world.faults
			for kind, count := range world.steps {
				steps[kind] += count
			}
		}
		AddReportEntry(fmt.Sprintf("%d worlds from seed %d, %d faults, steps: %v", worlds, first, faults, steps), ReportEntryVisibilityAlways)
		for _, kind := range []string{"DeletePod", "EvictPod", "MoveLeader", "PromoteMember", "ReplaceClaim", "TakeSnapshot", "GrowClaim", "RecreateStatefulSet", "UpdatePeerURLs"} {
			Expect(worlds < 100 || steps[kind] > 0).To(BeTrue(), "no world made us do %s", kind)
		}
	})
})

// randomWorld is a seed to which things happen. The same number gives the same world.
type randomWorld struct {
	*seed

	number int64
	random *rand.Rand
	faults int
	images int
	// short is true where a quota never has room again at the end.
	short bool
	// awake is the size that it had before it went to sleep.
	awake int32
}

func newRandomWorld(number int64) *randomWorld {
	random := rand.New(rand.NewSource(number)) // #nosec G404 -- repeatable on purpose
	sizes := []int32{1, 3, 3, 3, 5}
	var change []func(*druidv1alpha1.Etcd)
	if random.Intn(2) == 0 {
		change = append(change, withStore)
	}
	w := &randomWorld{seed: newSeed(sizes[random.Intn(len(sizes))], change...), number: number, random: random}
	w.catchUp = random.Intn(6)
	w.remote = random.Intn(4) == 0
	w.rigid = random.Intn(4) == 0
	w.short = random.Intn(4) == 0
	for random.Intn(3) == 0 && len(w.nodes) > 5 {
		w.nodes = w.nodes[:len(w.nodes)-1]
	}

	return w
}

// live lets things happen for a while, then ends what can be mended, and waits.
func (w *randomWorld) live() {
	for range 40 + w.random.Intn(80) {
		if w.random.Intn(5) == 0 {
			w.fault()
		}
		if w.random.Intn(4) > 0 { // we are not always there at once
			w.pass()
		}
		w.tick()
	}
	w.event("all that can be mended is mended", func() {
		for _, node := range w.nodes {
			node.partitioned = node.partitioned && node.outOfService
		}
		w.refuseEvictions, w.storeDown, w.notAskedFor, w.strange, w.quotaFull = 0, false, false, nil, w.short
		if templates := w.seen.StatefulSet.Rendering.Fixed.ClaimTemplates; w.rigid && len(templates) > 0 {
			w.etcd.Spec.StorageCapacity = resource.NewQuantity(templates[0].Request, resource.BinarySI)
		}
		w.image = "good"
		if w.etcd.Spec.Replicas == 0 {
			w.etcd.Spec.Replicas = w.awake
			w.respec()
		}
	})
	w.see()
	w.patience = 70 // longer than the pause between two attempts to take a snapshot grows
	w.runFor(300)
}

func (w *randomWorld) expectConverged() {
	GinkgoHelper()
	p := planner.For(w.etcd, w.seen, w.now)
	p = planner.Gate(p, w.manifestFor(p).rendering(), w.seen)
	alive, all := w.voters()
	whole := int(w.etcd.Spec.Replicas)
	isDone := p.Outcome() == plan.OutcomeDone || w.quotaFull && (p.Outcome() == plan.OutcomeHindered || p.Stage == plan.StageGrowVolume)
	if len(w.violations) > 0 || !isDone || alive != whole || all != whole {
		Fail(fmt.Sprintf("world %d (repeat it by WORLD=%d): %s; at the end %s, %d of %d alive, waits for %s\n%s",
			w.number, w.number, strings.Join(w.violations, "; "), p.Stage, alive, all, p.WaitsFor, strings.Join(w.trace, "\n")))
	}
}

// fault lets one thing happen that does not lose the quorum for good.
func (w *randomWorld) fault() {
	faults := []func() string{
		w.podGoes, w.podGoes, w.etcdIsKilled, w.nodeIsCutOff, w.nodeIsBack, w.nodeGoes, w.nodeIsGivenUp, w.volumeGoes, w.volumeRots,
		w.imageChanges, w.imageBreaks, w.sidecarBreaks, w.peerPortChanges, w.storeFails, w.leaderMoves, w.evictionsAreRefused, w.clusterGrows, w.clusterSleepsOrWakes,
		w.readinessFlaps, w.etcdEnds, w.isMadeAgain, w.volumesGrow, w.quotaChanges, w.peersChange, w.nobodyAsks, w.somebodyAsks, w.memberIsStrange, w.strangerIsEmptied,
	}
	what := faults[w.random.Intn(len(faults))]()
	if what != "" {
		w.faults++
		w.note("* %s", what)
		w.see()
	}
}

func (w *randomWorld) anyPod() *etcdcluster.Pod {
	if len(w.seen.Pods) == 0 {
		return nil
	}

	return &w.seen.Pods[w.random.Intn(len(w.seen.Pods))]
}

func (w *randomWorld) anyNode() *simNode { return w.nodes[w.random.Intn(len(w.nodes))] }

// survives is true when a quorum of the voters keeps its data without those for which lost is true.
func (w *randomWorld) survives(lost func(ordinal int, volume *simVolume) bool) bool {
	intact, all := 0, 0
	for _, member := range w.members {
		if member.learner {
			continue
		}
		all++
		volume := w.volumes[helper.ClaimName(w.etcd, member.ordinal)]
		if volume == nil || volume.lost || volume.member != member.id || lost(member.ordinal, volume) {
			continue
		}
		if node := w.node(volume.node); w.remote || !node.gone && !node.outOfService {
			intact++
		}
	}

	return etcdcluster.IsQuorate(intact, all)
}

func (w *randomWorld) podGoes() string {
	pod := w.anyPod()
	if pod == nil {
		return ""
	}
	w.terminate(pod)

	return "pod " + pod.Name + " is deleted by somebody"
}

// etcdIsKilled kills etcd while its database is older than the newest delta snapshot.
func (w *randomWorld) etcdIsKilled() string {
	pod := w.anyPod()
	if pod == nil || w.strange != nil {
		return ""
	}
	w.restartEtcd(pod.Ordinal)

	return "the etcd of pod " + pod.Name + " is killed"
}

func (w *randomWorld) nodeIsCutOff() string {
	node := w.anyNode()
	node.partitioned = true

	return "node " + node.name + " is cut off"
}

func (w *randomWorld) nodeIsBack() string {
	node := w.anyNode()
	if !node.partitioned || node.outOfService {
		return ""
	}
	node.partitioned = false

	return "node " + node.name + " is back"
}

// spare is true when a node can be lost: those left are enough for all members that there will be.
func (w *randomWorld) spare(node *simNode) bool {
	left := 0
	for _, other := range w.nodes {
		if other != node && !other.gone && !other.outOfService {
			left++
		}
	}

	return left >= 5 && w.survives(func(_ int, volume *simVolume) bool { return !w.remote && volume.node == node.name })
}

func (w *randomWorld) nodeGoes() string {
	node := w.anyNode()
	if node.gone || !w.spare(node) {
		return ""
	}
	node.gone = true

	return "node " + node.name + " is gone"
}

func (w *randomWorld) nodeIsGivenUp() string {
	node := w.anyNode()
	if !node.partitioned || node.outOfService || !w.spare(node) {
		return ""
	}
	node.outOfService = true

	return "node " + node.name + " is tainted out-of-service"
}

func (w *randomWorld) anyVolume() (int, *simVolume) {
	pod := w.anyPod()
	if pod == nil {
		return 0, nil
	}
	volume := w.volumes[helper.ClaimName(w.etcd, pod.Ordinal)]
	if volume == nil || !w.survives(func(ordinal int, _ *simVolume) bool { return ordinal == pod.Ordinal }) {
		return 0, nil
	}

	return pod.Ordinal, volume
}

func (w *randomWorld) volumeGoes() string {
	ordinal, volume := w.anyVolume()
	if volume == nil {
		return ""
	}
	volume.lost = true
	if pod := w.seen.PodFor(ordinal); pod != nil {
		w.terminate(pod)
	}

	return fmt.Sprintf("the volume of member %d is deleted, and its pod", ordinal)
}

// isMadeAgain keeps the claims but for one that is not the last, and no lease tells who the members were.
func (w *randomWorld) isMadeAgain() string {
	ordinal, volume := w.anyVolume()
	if volume == nil || w.etcd.Spec.Replicas < 3 || ordinal+1 >= len(w.members) || w.random.Intn(3) > 0 || !w.isToldByClaimsWithout(ordinal) {
		return ""
	}
	w.makeAgainWithout(ordinal)
	w.keepPeers()

	return fmt.Sprintf("the Etcd is deleted and made again, without claim %d", ordinal)
}

// isToldByClaimsWithout is true where the claims of the others are enough to tell what the cluster was, which nothing else does once
// the Etcd is made again.
func (w *randomWorld) isToldByClaimsWithout(ordinal int) bool {
	claims, data := 0, 0
	for _, claim := range w.seen.Claims {
		if !claim.Exists || claim.Ordinal == ordinal {
			continue
		}
		claims = max(claims, claim.Ordinal+1)
		if volume := w.volumes[claim.Name]; volume != nil && !volume.lost {
			data++
		}
	}

	return etcdcluster.IsQuorate(data, claims)
}

func (w *randomWorld) volumeRots() string {
	ordinal, volume := w.anyVolume()
	if volume == nil {
		return ""
	}
	volume.member = 0

	return fmt.Sprintf("the data of member %d is corrupted", ordinal)
}

func (w *randomWorld) memberIsStrange() string {
	ordinal, volume := w.anyVolume()
	if volume == nil || w.strange != nil {
		return ""
	}
	volume.member = 0
	w.strange = map[int]bool{ordinal: true}

	return fmt.Sprintf("member %d runs on the data of another cluster", ordinal)
}

func (w *randomWorld) strangerIsEmptied() string {
	if w.strange == nil {
		return ""
	}
	w.strange = nil

	return "somebody empties the volume with the data of another cluster"
}

func (w *randomWorld) imageChanges() string {
	w.images++
	w.image = fmt.Sprintf("v%d", w.images+1)

	return "the image becomes " + w.image
}

func (w *randomWorld) imageBreaks() string {
	w.imageChanges()
	w.brokenImages[w.image] = true

	return "the image becomes " + w.image + ", which is broken"
}

// sidecarBreaks lets up to two sidecars at a time not start any more, until their pods are replaced.
func (w *randomWorld) sidecarBreaks() string {
	pod := w.anyPod()
	if alive, all := w.voters(); pod == nil || alive < 3 || alive < all || len(w.members) < int(w.etcd.Spec.Replicas) {
		return ""
	}
	broken := 0
	for _, other := range w.seen.Pods {
		if w.halfBroken[other.UID] {
			broken++
		}
	}
	if broken > 1 {
		return ""
	}
	w.halfBroken[pod.UID] = true

	return "the sidecar in pod " + pod.Name + " does not start again"
}

// readinessFlaps lets a probe of a pod fail once.
func (w *randomWorld) readinessFlaps() string {
	pod := w.readyPod()
	if pod == nil {
		return ""
	}
	pod.Ready, pod.ContainersReady, pod.ReadyChangedAt = false, false, w.now

	return "pod " + pod.Name + " is not ready for a moment"
}

// etcdEnds ends etcd in a pod, whose kubelet starts it again.
func (w *randomWorld) etcdEnds() string {
	pod := w.readyPod()
	if pod == nil || w.etcd.Spec.Replicas == 0 {
		return ""
	}
	pod.Ready, pod.ContainersReady, pod.ReadyChangedAt = false, false, w.now
	pod.Containers[0].State, pod.Containers[0].Reason = etcdcluster.ContainerTerminated, "OOMKilled"

	return "etcd in pod " + pod.Name + " ends"
}

// readyPod is a pod that is ready on a node that can be reached; nil when the one that was picked is not.
func (w *randomWorld) readyPod() *etcdcluster.Pod {
	pod := w.anyPod()
	if pod == nil || !pod.Ready || w.node(pod.Node) == nil || w.node(pod.Node).partitioned {
		return nil
	}

	return pod
}

func (w *randomWorld) peerPortChanges() string {
	w.etcd.Spec.Etcd.ServerPort = new(helper.PeerPort(w.etcd) + 2)

	return fmt.Sprintf("spec.etcd.serverPort becomes %d", helper.PeerPort(w.etcd))
}

func (w *randomWorld) storeFails() string {
	w.storeDown = !w.storeDown
	if w.storeDown {
		return "the store fails"
	}

	return "the store is back"
}

func (w *randomWorld) leaderMoves() string {
	for _, member := range w.members {
		if w.leader != 0 && member.id != w.leader && !member.learner && w.alive(member.ordinal) != nil {
			w.leader = member.id

			return fmt.Sprintf("%x leads", member.id)
		}
	}

	return ""
}

func (w *randomWorld) evictionsAreRefused() string {
	w.refuseEvictions = 1 + w.random.Intn(5)

	return fmt.Sprintf("%d evictions will be refused", w.refuseEvictions)
}

func (w *randomWorld) clusterGrows() string {
	if w.etcd.Spec.Replicas == 0 || w.etcd.Spec.Replicas >= 5 {
		return ""
	}
	w.etcd.Spec.Replicas += 2
	w.respec()

	return fmt.Sprintf("spec.replicas becomes %d", w.etcd.Spec.Replicas)
}

// volumesGrow asks for more, and where volumes cannot grow takes it back by the next time.
func (w *randomWorld) volumesGrow() string {
	size := new(helper.StorageCapacity(w.etcd)).Value() + 1<<30
	if templates := w.seen.StatefulSet.Rendering.Fixed.ClaimTemplates; w.rigid && len(templates) > 0 && size > templates[0].Request+1<<30 {
		size = templates[0].Request
	}
	w.etcd.Spec.StorageCapacity = resource.NewQuantity(size, resource.BinarySI)

	return "spec.storageCapacity becomes " + w.etcd.Spec.StorageCapacity.String()
}

func (w *randomWorld) quotaChanges() string {
	w.quotaFull = !w.quotaFull
	if w.quotaFull {
		return "the quota has no room for larger volumes"
	}

	return "the quota has room for larger volumes"
}

// keepPeers has whoever makes the Etcd again write what its members were: nothing but their data tells how they know each other.
func (w *randomWorld) keepPeers() {
	withTLS := 0
	for _, member := range w.members {
		if strings.HasPrefix(member.peerURL, "https:") {
			withTLS++
		}
	}
	w.etcd.Spec.Etcd.PeerUrlTLS = nil
	if 2*withTLS > len(w.members) {
		withPeerTLS(w.etcd)
	}
}

func (w *randomWorld) peersChange() string {
	if len(w.members) > 1 && !slices.ContainsFunc(w.seen.MemberLeases, func(l etcdcluster.Lease) bool { return l.TLSEnabled != nil }) {
		return ""
	}
	if w.etcd.Spec.Etcd.PeerUrlTLS == nil {
		w.etcd.Spec.Etcd.PeerUrlTLS = &druidv1alpha1.PeerTLSConfig{}

		return "peer TLS is switched on"
	}
	w.etcd.Spec.Etcd.PeerUrlTLS = nil

	return "peer TLS is switched off"
}

func (w *randomWorld) nobodyAsks() string {
	w.notAskedFor = true

	return "nobody asks for what the spec says"
}

func (w *randomWorld) somebodyAsks() string {
	if !w.notAskedFor {
		return ""
	}
	w.notAskedFor = false

	return "somebody asks for what the spec says"
}

func (w *randomWorld) clusterSleepsOrWakes() string {
	if w.random.Intn(3) > 0 {
		return ""
	}
	w.respec()
	if w.etcd.Spec.Replicas > 0 {
		w.awake, w.etcd.Spec.Replicas = w.etcd.Spec.Replicas, 0

		return "spec.replicas becomes 0"
	}
	w.etcd.Spec.Replicas = w.awake

	return fmt.Sprintf("spec.replicas becomes %d", w.etcd.Spec.Replicas)
}
