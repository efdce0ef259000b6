// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/consistency"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/test/fixture"
)

// firstExisting is the ordinal of the first member of the joined cluster in a simulation.
const firstExisting = 100

// maxReported is the largest number of failed simulations whose traces are in the report.
const maxReported = 10

// simulate runs simulations, or as many as SIMULATIONS requests, or only SIMULATION. It returns how many ran and their steps by kind. Without a request
// it always runs the same ones: only a change can make a run fail. `make test-all` requests others.
func simulate(simulations int, newSimulation func(number int64) *randomScenario) (int, map[string]int) {
	GinkgoHelper()
	first := int64(1)
	if value, err := strconv.Atoi(os.Getenv("SIMULATIONS")); err == nil {
		simulations, first = value, GinkgoRandomSeed()
	}
	if value, err := strconv.ParseInt(os.Getenv("SIMULATION"), 10, 64); err == nil {
		first, simulations = value, 1
	}
	steps, faults, problems := map[string]int{}, 0, []string(nil)
	for i := range simulations {
		scenario := newSimulation(first + int64(i))
		scenario.runRandom()
		if problem := scenario.problem(); problem != "" {
			problems = append(problems, fmt.Sprintf("SIMULATION=%d: %s", scenario.number, problem))
		}
		faults += scenario.faults
		for kind, count := range scenario.steps {
			steps[kind] += count
		}
	}
	AddReportEntry(fmt.Sprintf("%d simulations from seed %d, %d faults, steps: %v", simulations, first, faults, steps), ReportEntryVisibilityAlways)
	if len(problems) > 0 {
		Fail(fmt.Sprintf("%d simulations fail; repeat one with its number:\n%s", len(problems), strings.Join(problems[:min(len(problems), maxReported)], "\n")))
	}

	return simulations, steps
}

// These hold in every simulation, in addition to the checks of invariants_test.go.
var _ = Describe("Random simulations", func() {
	It("keep the quorum, take one risk at a time, and converge", func() {
		simulations, steps := simulate(100, func(number int64) *randomScenario {
			scenario := newRandom(number)
			scenario.joinSometimes()

			return scenario
		})
		for _, kind := range []string{"DeletePod", "EvictPod", "MoveLeader", "PromoteMember", "ReplaceClaim", "TakeSnapshot", "ResizeClaim", "RecreateStatefulSet", "UpdatePeerURLs", "RemoveMember",
			"TakeDeltaSnapshot", "CompactHistory", "DefragmentMember", "DisarmAlarm", "CountKeys", "RequestSnapshot"} {
			Expect(simulations < 100 || steps[kind] > 0).To(BeTrue(), "no simulation executes %s", kind)
		}
	})
})

var _ = Describe("Random surges", func() {
	It("keep the acknowledged writes, and converge", func() {
		simulations, steps := simulate(100, newRandomSurge)
		for _, kind := range []string{"PromoteMember", "RemoveMember", "DeleteClaim", "RefreshPod", "MoveLeader"} {
			Expect(simulations < 100 || steps[kind] > simulations/2).To(BeTrue(), "%d times %s", steps[kind], kind)
		}
	})
})

var _ = Describe("Random volume migrations", func() {
	It("keep the acknowledged writes, and converge", func() {
		simulations, steps := simulate(100, newRandomMigration)
		for _, kind := range []string{"PromoteMember", "RemoveMember", "DeleteClaim", "MoveLeader"} {
			Expect(simulations < 100 || steps[kind] > simulations/2).To(BeTrue(), "%d times %s", steps[kind], kind)
		}
	})
})

var _ = Describe("Random differences", func() {
	It("of the data are replaced by the data of a quorum, and the cluster converges", func() {
		simulations, steps := simulate(100, newRandomDifferences)
		for _, kind := range []string{"ExcludePod", "RetainVolume", "ReplaceClaim", "EvictPod", "MoveLeader"} {
			Expect(simulations < 100 || steps[kind] > simulations/5).To(BeTrue(), "%d times %s", steps[kind], kind)
		}
	})
})

var _ = Describe("Random changes of the CA for peers", func() {
	It("keep the quorum, and converge", func() {
		simulations, steps := simulate(50, newRandomCAChange)
		Expect(simulations < 50 || steps["EvictPod"] > 6*simulations).To(BeTrue(), "%d times EvictPod", steps["EvictPod"])
	})
})

// newRandomCAChange returns a simulation of a multi-member cluster whose spec names other CAs for peers.
func newRandomCAChange(number int64) *randomScenario {
	s := newRandom(number)
	s.Etcd.Spec.Replicas = []int32{3, 3, 5}[number%3]
	withPeerTLS(s.Etcd)
	s.Objects.Secrets = peerSecrets()
	s.changesCA = true

	return s
}

// peerSecrets are the Secrets of withPeerTLS, and two others with other CAs.
var peerSecrets = sync.OnceValue(func() []etcdcluster.Secret {
	var secrets []etcdcluster.Secret
	for _, prefix := range []string{"peer", "other", "third"} {
		authority, always := fixture.NewAuthority(prefix, fixture.Validity{}), fixture.Validity{}
		for name, data := range map[string]map[string][]byte{"ca": {"ca.crt": authority.PEM()}, "server": authority.Leaf(always, "*.main-peer.demo.svc")} {
			secrets = append(secrets, etcdcluster.Secret{
				Name: prefix + "-" + name, Exists: true, Keys: slices.Sorted(maps.Keys(data)), Certificates: etcdcluster.CertificatesIn(data),
			})
		}
	}

	return secrets
})

// nameCA names another CA for peers, and its certificate.
func nameCA(etcd *druidv1alpha1.Etcd, prefix string) {
	withPeerTLS(etcd)
	tls := &etcd.Spec.Etcd.PeerUrlTLS.TLSConfig
	tls.TLSCASecretRef.Name, tls.ServerTLSSecretRef.Name = prefix+"-ca", prefix+"-server"
}

// newRandomDifferences returns a simulation of a multi-member cluster whose members get different data. In some of them, volumes are replaced too.
func newRandomDifferences(number int64) *randomScenario {
	s := newRandom(number)
	if number%4 == 0 {
		s = newRandomMigration(number)
	}
	s.Etcd.Spec.Replicas = []int32{3, 3, 5}[number%3]
	s.differs = true

	return s
}

// newRandomMigration returns a simulation of a multi-member cluster whose volumes are replaced. Some have a surge when their size is one.
func newRandomMigration(number int64) *randomScenario {
	s := newRandomSurge(number)
	s.Etcd.Spec.Replicas = []int32{3, 3, 5}[number%3]
	if number%2 == 0 {
		s.Etcd.Spec.Etcd.UpdateStrategy = nil
	}

	return s
}

// newRandomSurge returns a simulation of a single member that is replaced by surges. Its volume changes too.
func newRandomSurge(number int64) *randomScenario {
	random := rand.New(rand.NewSource(number)) // #nosec G404 -- repeatable on purpose
	change := []func(*druidv1alpha1.Etcd){withSurge, func(etcd *druidv1alpha1.Etcd) { etcd.Spec.StorageClass = new("class-1") }}
	if random.Intn(3) > 0 {
		change = append(change, withStore)
	}
	s := &randomScenario{scenario: newScenario(1, change...), number: number, random: random, replacesVolumes: true}
	s.operator.Config.StoreTimeout = 30 * time.Second
	s.RestoreDelay = time.Minute
	s.CatchUpTicks = random.Intn(6)
	s.NetworkVolumes = random.Intn(4) == 0
	s.FixedVolumes = random.Intn(4) == 0

	return s
}

// randomScenario is a scenario with random faults. The same number gives the same simulation.
type randomScenario struct {
	*scenario

	number int64
	random *rand.Rand
	faults int
	images int
	// short is true if the quota has no room at the end.
	short bool
	// joins is true if the members join the cluster of old-0, old-1 and old-2.
	joins bool
	// awake is the number of replicas before hibernation.
	awake int32
	// replacesVolumes is true if surges and migrations replace volumes.
	replacesVolumes bool
	// differs is true if the data of members changes.
	differs bool
	// changesCA is true if the CA for peers changes.
	changesCA bool
	// isInterrupted is true if something other than faults interrupts procedures, see interruptions_test.go.
	isInterrupted bool
	// repairsNamed is true if only what messages name is repaired, see waits_test.go.
	repairsNamed bool
}

func newRandom(number int64) *randomScenario {
	random := rand.New(rand.NewSource(number)) // #nosec G404 -- repeatable on purpose
	sizes := []int32{1, 3, 3, 3, 5}
	var change []func(*druidv1alpha1.Etcd)
	if random.Intn(2) == 0 {
		change = append(change, withStore)
	}
	s := &randomScenario{scenario: newScenario(sizes[random.Intn(len(sizes))], change...), number: number, random: random}
	s.operator.Config.StoreTimeout = 30 * time.Second
	s.CatchUpTicks = random.Intn(6)
	s.NetworkVolumes = random.Intn(4) == 0
	s.FixedVolumes = random.Intn(4) == 0
	s.short = random.Intn(4) == 0
	for random.Intn(3) == 0 && len(s.Nodes) > 5 {
		s.Nodes = s.Nodes[:len(s.Nodes)-1]
	}

	return s
}

// joinSometimes lets the members of some simulations join another cluster before the faults begin.
func (s *randomScenario) joinSometimes() {
	if s.joins = s.number%5 == 0 && s.Etcd.Spec.Replicas >= 3; s.joins {
		joining(s.Etcd)
		s.AddExisting("old-0", "old-1", "old-2")
		s.ReaddExisting(s.number%10 == 0)
		s.run()
	}
}

// runRandom injects faults for some time, then repairs what can be repaired, and waits.
func (s *randomScenario) runRandom() {
	for range 40 + s.random.Intn(80) {
		if s.random.Intn(5) == 0 {
			s.fault()
		}
		if s.random.Intn(4) > 0 { // the operator does not reconcile in each tick
			s.reconcile()
		}
		s.Write(1)
		s.tick()
	}
	if s.repairsNamed {
		s.repairNamed()

		return
	}
	if s.operator.ClockOffset != 0 {
		s.startOperator(0)
	}
	s.inject("all faults are repaired", func() {
		for _, node := range s.Nodes {
			node.Partitioned = node.Partitioned && node.OutOfService
		}
		s.RefuseEvictions(0)
		s.Objects.Defragmentation = ""
		s.KeysSize = 1 << 30
		s.RemoveForeignData()
		if s.correctData() == unknownData {
			for _, volume := range s.Volumes {
				volume.Corruption = 0
			}
		}
		s.SetQuotaExhausted(s.short)
		s.Store.PutBack()
		s.Store.Down, s.operator.Config.AutoReconcile = false, true
		s.image = "good"
		if accepted := s.Objects.State.Accepted; s.Objects.State.Surge.IsActive() && accepted != nil { // the surge continues only with the same endpoints
			s.Etcd.Spec.Replicas, s.Etcd.Spec.Etcd.ServerPort, s.Etcd.Spec.Etcd.PeerUrlTLS = 1, accepted.Spec.Etcd.ServerPort, accepted.Spec.Etcd.PeerUrlTLS
			s.Etcd.Spec.Etcd.Version = accepted.Spec.Etcd.Version
		}
		if s.Etcd.Spec.Replicas == 0 {
			s.Etcd.Spec.Replicas = s.awake
		}
		for i, name := range []string{"old-0", "old-1", "old-2"} {
			member := s.Member(firstExisting + i)
			isRemoved := member == nil || member.Learner // its sidecar may have added it again, and a user ends that
			s.StopExisting(name, isRemoved)
			s.Members = slices.DeleteFunc(s.Members, func(m *simulator.Member) bool { return isRemoved && m == member })
		}
		if s.hasJoined() {
			s.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
		}
		templates, isReplaced := s.Objects.StatefulSet.Rendering.Fixed.ClaimTemplates, s.replacesVolumes && (s.Etcd.Spec.Replicas == 1 && helper.UsesSurge(s.Etcd) || s.Etcd.Spec.Replicas > 1 && !s.FixedVolumes)
		if len(templates) > 0 && !isReplaced && (s.FixedVolumes || s.replacesVolumes) {
			s.Etcd.Spec.StorageCapacity = resource.NewQuantity(templates[0].Request, resource.BinarySI)
		}
		if isReplaced && s.Etcd.Spec.Replicas > 1 {
			s.Etcd.Spec.StorageClass = new("class-9")
		}
		if s.replacesVolumes && s.Etcd.Spec.Replicas > 1 {
			for i := range s.Etcd.Spec.Replicas + 1 { // each member needs its own node
				s.Nodes = append(s.Nodes, &simulator.Node{Name: fmt.Sprintf("new-%d", i)})
			}
		}
		if len(templates) > 0 && !isReplaced && s.replacesVolumes && s.Etcd.Spec.Replicas == 1 {
			s.Etcd.Spec.StorageClass = templates[0].StorageClass
		}
	})
	s.Refresh()
	s.idleTicks = 70 // longer than the longest pause between two attempts to take a snapshot
	if s.replacesVolumes {
		s.idleTicks = 140 // longer than the pause after an aborted surge
	}
	s.runFor(600)
	if left := s.Objects.ClaimFor(1); s.isInterrupted && s.Etcd.Spec.Replicas == 1 && left.Exists && s.Objects.PodFor(1) == nil { // the record of a surge was lost
		s.inject("a user deletes "+left.Name+", for which the operator waits", func() { s.DeleteClaim(1) })
		s.runFor(300)
	}
	if found := s.Objects.State.Inconsistency; consistency.IsConfirmed(found) && s.correctData() == unknownData { // a learner got other data, and was promoted
		s.inject("a user corrects the different data, for which the operator waits", func() {
			for _, volume := range s.Volumes {
				volume.Corruption = 0
			}
		})
		s.runFor(300)
	}
	if s.hasJoined() { // the join was not complete before
		s.inject("the members of the joined cluster are removed from the spec", func() { s.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil })
		s.runFor(300)
	}
}

// hasJoined is true for a cluster that has joined another one whose members the spec names.
func (s *randomScenario) hasJoined() bool {
	return s.Etcd.Spec.Etcd.BootstrapWithExistingCluster != nil && s.Etcd.Status.BootstrapWithExistingCluster != nil
}

// joinedMembersChange removes members of the joined cluster from the spec, or puts them back, as far as the CustomResourceDefinition allows it.
func (s *randomScenario) joinedMembersChange() string {
	if s.Etcd.Status.BootstrapWithExistingCluster == nil || s.Etcd.Spec.Replicas == 0 || s.Objects.State.ScaleIn != nil {
		return ""
	}
	if s.Etcd.Spec.Etcd.BootstrapWithExistingCluster == nil { // the CustomResourceDefinition allows it on creation only
		return ""
	}
	count := s.random.Intn(4)
	joining(s.Etcd)
	s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members = s.Etcd.Spec.Etcd.BootstrapWithExistingCluster.Members[:count]
	if count == 0 {
		s.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	}

	return fmt.Sprintf("the spec names %d members of the joined cluster", count)
}

// existingMemberStops stops a member of the joined cluster, or starts all of them.
func (s *randomScenario) existingMemberStops() string {
	name := fmt.Sprintf("old-%d", s.random.Intn(3))
	if s.random.Intn(2) == 0 {
		for _, name := range []string{"old-0", "old-1", "old-2"} {
			s.StopExisting(name, false)
		}

		return "the members of the joined cluster start"
	}
	s.StopExisting(name, true)
	if !s.survives(func(int, *simulator.Volume) bool { return false }) {
		s.StopExisting(name, false)

		return ""
	}

	return name + " stops"
}

// problem returns why the cluster is not as the last generation describes it, with the trace. Empty: it is.
func (s *randomScenario) problem() string {
	if failure := InterceptGomegaFailure(s.expectRolledOut); failure != nil && !s.IsQuotaExhausted() {
		return fmt.Sprintf("%s\n%s", failure, strings.Join(s.trace, "\n"))
	}
	p := s.result.Newest.Plan
	if len(s.Alarms) > 0 {
		s.violated("%d alarms are left", len(s.Alarms))
	}
	for _, pod := range s.Objects.Pods {
		if pod.Excluded || !s.Applied().Selects(pod) {
			s.violated("clients do not use %s", pod.Name)
		}
	}
	for _, member := range s.Members {
		if volume := s.volumeOf(member); s.differs && (s.Objects.State.Inconsistency != nil || volume == nil || volume.Corruption != s.correctData()) {
			s.violated("member %d has other data than a quorum: %+v", member.Ordinal, s.Objects.State.Inconsistency)
		}
	}
	alive, all := s.Voters()
	whole := int(s.Etcd.Spec.Replicas)
	isDone := p.Outcome() == plan.OutcomeDone || s.IsQuotaExhausted() && (p.Outcome() == plan.OutcomeBlocked || p.Stage == plan.StageResizeVolume)
	if len(s.violations()) == 0 && isDone && alive == whole && all == whole {
		return ""
	}

	return fmt.Sprintf("%s; at the end %s, %d of %d alive, waits for %s\n%s", strings.Join(s.violations(), "; "), p.Stage, alive, all, p.WaitsFor, strings.Join(s.trace, "\n"))
}

// fault injects one fault that does not lose the quorum permanently.
func (s *randomScenario) fault() {
	faults := []func() string{
		s.podGoes, s.podGoes, s.etcdIsKilled, s.nodeIsCutOff, s.nodeRecovers, s.nodeGoes, s.nodeIsGivenUp, s.volumeGoes, s.volumeRots,
		s.imageChanges, s.imageBreaks, s.versionChanges, s.sidecarBreaks, s.peerPortChanges, s.storeFails, s.bucketIsEmptied, s.bucketIsRolledBack, s.bucketIsRepaired, s.leaderMoves, s.evictionsAreRefused, s.clusterIsScaledUp, s.clusterIsScaledIn, s.clusterSleepsOrWakes,
		s.readinessFlaps, s.etcdEnds, s.etcdIsRecreated, s.volumesAreExpanded, s.quotaChanges, s.peersChange, s.reconciliationIsSuspended, s.reconciliationIsRequested, s.memberIsStrange, s.strangerIsEmptied,
	}
	if !s.joins && !s.replacesVolumes && !s.differs {
		faults = append(faults, s.databasesFill)
	}
	if s.joins {
		faults = append(faults, s.joinedMembersChange, s.joinedMembersChange, s.existingMemberStops)
	}
	if s.changesCA {
		faults = append(faults, s.caChanges, s.caChanges, s.caChanges, s.caChanges, s.caChanges, s.caChanges)
	}
	if s.differs {
		faults = append(faults, s.dataChanges, s.dataChanges, s.dataChanges, s.dataChanges)
	}
	if s.replacesVolumes {
		faults = append(faults, s.imageChanges, s.imageChanges, s.storageClassChanges, s.storageClassChanges, s.volumeShrinks, s.evictionIsRequested, s.etcdIsKilled, s.etcdEnds)
	}
	if s.isInterrupted {
		faults = append(faults, s.operatorStarts, s.operatorStarts, s.taskStarts, s.taskStarts, s.taskStarts, s.recordIsLost, s.fieldsArePruned)
	}
	what := ""
	s.change(func() { what = faults[s.random.Intn(len(faults))]() })
	if what != "" {
		s.faults++
		s.note("* %s", what)
		s.LoseLeader()
		s.Refresh()
	}
}

func (s *randomScenario) anyPod() *etcdcluster.Pod {
	if len(s.Objects.Pods) == 0 {
		return nil
	}

	return &s.Objects.Pods[s.random.Intn(len(s.Objects.Pods))]
}

func (s *randomScenario) anyNode() *simulator.Node { return s.Nodes[s.random.Intn(len(s.Nodes))] }

// survives is true if a quorum of the voting members keeps its data without those for which lost is true. A quorum of the members of the Etcd must
// do so too: members of a joined cluster restore none of them.
func (s *randomScenario) survives(lost func(ordinal int, volume *simulator.Volume) bool) bool {
	intact, all, running, existing := 0, 0, 0, 0
	for _, member := range s.Members {
		if member.Learner {
			continue
		}
		all++
		if s.IsExisting(member) {
			existing++
			if s.RunningMember(member.Ordinal) != nil {
				running++
			}
			continue
		}
		volume, claim := s.Volumes[helper.ClaimName(s.Etcd, member.Ordinal)], s.Objects.ClaimFor(member.Ordinal)
		if volume == nil || volume.Lost || volume.Member != member.ID || claim.Deleting || lost(member.Ordinal, volume) {
			continue
		}
		if node := s.Node(volume.Node); s.NetworkVolumes || !node.Gone && !node.OutOfService {
			intact++
		}
	}

	return etcdcluster.IsQuorate(intact+running, all) && (all == existing || etcdcluster.IsQuorate(intact, all-existing))
}

func (s *randomScenario) podGoes() string {
	pod := s.anyPod()
	if pod == nil {
		return ""
	}
	s.DeletePod(pod.Ordinal)

	return "pod " + pod.Name + " is deleted by a user"
}

// etcdIsKilled kills etcd while its database is older than the newest delta snapshot.
func (s *randomScenario) etcdIsKilled() string {
	pod := s.anyPod()
	if pod == nil || s.HasForeignData() {
		return ""
	}
	s.StopEtcdBehindStore(pod.Ordinal)

	return "the etcd of pod " + pod.Name + " is killed"
}

func (s *randomScenario) nodeIsCutOff() string {
	node := s.anyNode()
	s.PartitionNode(node.Name, true)

	return "node " + node.Name + " is cut off"
}

func (s *randomScenario) nodeRecovers() string {
	node := s.anyNode()
	if !node.Partitioned || node.OutOfService {
		return ""
	}
	s.PartitionNode(node.Name, false)

	return "node " + node.Name + " recovers"
}

// spare is true if a node can be lost: the others are enough for all members.
func (s *randomScenario) spare(node *simulator.Node) bool {
	left := 0
	for _, other := range s.Nodes {
		if other != node && !other.Gone && !other.OutOfService {
			left++
		}
	}

	return left >= 5 && s.survives(func(_ int, volume *simulator.Volume) bool { return !s.NetworkVolumes && volume.Node == node.Name })
}

func (s *randomScenario) nodeGoes() string {
	node := s.anyNode()
	if node.Gone || !s.spare(node) {
		return ""
	}
	s.RemoveNode(node.Name)

	return "node " + node.Name + " is gone"
}

func (s *randomScenario) nodeIsGivenUp() string {
	node := s.anyNode()
	if !node.Partitioned || node.OutOfService || !s.spare(node) {
		return ""
	}
	s.TaintNode(node.Name)

	return "node " + node.Name + " is tainted out-of-service"
}

func (s *randomScenario) anyVolume() (int, *simulator.Volume) {
	pod := s.anyPod()
	if pod == nil {
		return 0, nil
	}
	volume := s.Volumes[helper.ClaimName(s.Etcd, pod.Ordinal)]
	if volume == nil || !s.survives(func(ordinal int, _ *simulator.Volume) bool { return ordinal == pod.Ordinal }) {
		return 0, nil
	}

	return pod.Ordinal, volume
}

func (s *randomScenario) volumeGoes() string {
	ordinal, volume := s.anyVolume()
	if volume == nil {
		return ""
	}
	s.LoseVolume(ordinal)
	s.DeletePod(ordinal)

	return fmt.Sprintf("the volume of member %d is deleted, and its pod", ordinal)
}

// etcdIsRecreated deletes one claim that is not the last and keeps the others. No Lease records the members.
func (s *randomScenario) etcdIsRecreated() string {
	ordinal, volume := s.anyVolume()
	if volume == nil || s.joins || s.Etcd.Spec.Replicas < max(3, s.Objects.State.Size) || ordinal+1 >= len(s.Members) || s.random.Intn(3) > 0 || !s.isRecordedByClaimsWithout(ordinal) {
		return ""
	}
	s.RecreateEtcd(ordinal)
	s.keepPeers()

	return fmt.Sprintf("the Etcd is deleted and made again, without claim %d", ordinal)
}

// isRecordedByClaimsWithout is true if the other claims are enough to derive what the cluster was. Nothing else records it when the Etcd
// is recreated.
func (s *randomScenario) isRecordedByClaimsWithout(ordinal int) bool {
	claims, data := 0, 0
	for _, claim := range s.Objects.Claims {
		if !claim.Exists || claim.Ordinal == ordinal {
			continue
		}
		claims = max(claims, claim.Ordinal+1)
		if volume := s.Volumes[claim.Name]; volume != nil && !volume.Lost {
			data++
		}
	}

	return etcdcluster.IsQuorate(data, claims)
}

func (s *randomScenario) volumeRots() string {
	ordinal, volume := s.anyVolume()
	if volume == nil {
		return ""
	}
	s.CorruptVolume(ordinal)

	return fmt.Sprintf("the data of member %d is corrupted", ordinal)
}

// dataChanges changes the data of a member, as long as a quorum of the voting members has the same data afterwards.
func (s *randomScenario) dataChanges() string {
	pod := s.anyPod()
	if pod == nil || s.Volumes[helper.ClaimName(s.Etcd, pod.Ordinal)] == nil {
		return ""
	}
	volume := s.Volumes[helper.ClaimName(s.Etcd, pod.Ordinal)]
	before := volume.Corruption
	volume.Corruption = 1
	if correct := s.correctData(); volume.Corruption == before || correct != 0 {
		volume.Corruption = before

		return ""
	}

	return fmt.Sprintf("the data of member %d changes", pod.Ordinal)
}

func (s *randomScenario) memberIsStrange() string {
	ordinal, volume := s.anyVolume()
	if volume == nil || s.HasForeignData() {
		return ""
	}
	s.CorruptVolume(ordinal)
	s.UseForeignData(ordinal)

	return fmt.Sprintf("member %d runs on the data of another cluster", ordinal)
}

func (s *randomScenario) strangerIsEmptied() string {
	if !s.HasForeignData() {
		return ""
	}
	s.RemoveForeignData()

	return "a user empties the volume with the data of another cluster"
}

func (s *randomScenario) imageChanges() string {
	s.images++
	s.image = fmt.Sprintf("v%d", s.images+1)

	return "the image becomes " + s.image
}

// versionChanges requests another version of etcd, or none. Without a request the cluster keeps the version that it has.
func (s *randomScenario) versionChanges() string {
	versions := []*string{nil, new("3.4"), new("3.5")}
	s.Etcd.Spec.Etcd.Version = versions[s.random.Intn(len(versions))]
	if s.Etcd.Spec.Etcd.Version == nil {
		return "the spec requests no version of etcd"
	}

	return "the spec requests etcd " + *s.Etcd.Spec.Etcd.Version
}

func (s *randomScenario) imageBreaks() string {
	s.imageChanges()
	s.SetImageBroken(s.image, true)

	return "the image becomes " + s.image + ", which is broken"
}

// sidecarBreaks lets up to two sidecars at a time not start any more, until their pods are replaced.
func (s *randomScenario) sidecarBreaks() string {
	pod := s.anyPod()
	if alive, all := s.Voters(); pod == nil || alive < 3 || alive < all || len(s.Members) < int(s.Etcd.Spec.Replicas) {
		return ""
	}
	broken := 0
	for _, other := range s.Objects.Pods {
		if s.Process(other.UID).SidecarBroken {
			broken++
		}
	}
	if broken > 1 {
		return ""
	}
	s.BreakSidecar(pod.Ordinal)

	return "the sidecar in pod " + pod.Name + " does not start again"
}

// readinessFlaps lets a probe of a pod fail once.
func (s *randomScenario) readinessFlaps() string {
	pod := s.readyPod()
	if pod == nil {
		return ""
	}
	s.FailReadiness(pod.Ordinal)

	return "pod " + pod.Name + " is not ready for a moment"
}

// etcdEnds ends etcd in a pod. The kubelet starts it again.
func (s *randomScenario) etcdEnds() string {
	pod := s.readyPod()
	if pod == nil || s.Etcd.Spec.Replicas == 0 {
		return ""
	}
	s.StopEtcd(pod.Ordinal)

	return "etcd in pod " + pod.Name + " ends"
}

// readyPod returns a random pod. Nil: it is not ready, or its node is unreachable.
func (s *randomScenario) readyPod() *etcdcluster.Pod {
	pod := s.anyPod()
	if pod == nil || !pod.Ready || s.Node(pod.Node) == nil || s.Node(pod.Node).Partitioned {
		return nil
	}

	return pod
}

func (s *randomScenario) peerPortChanges() string {
	s.Etcd.Spec.Etcd.ServerPort = new(helper.PeerPort(s.Etcd) + 2)

	return fmt.Sprintf("spec.etcd.serverPort becomes %d", helper.PeerPort(s.Etcd))
}

func (s *randomScenario) storeFails() string {
	s.Store.Down = !s.Store.Down
	if s.Store.Down {
		return "the store fails"
	}

	return "the store recovers"
}

func (s *randomScenario) bucketIsEmptied() string {
	if s.Store.IsEmpty() {
		return ""
	}
	s.Store.Empty()

	return "the bucket is emptied"
}

func (s *randomScenario) bucketIsRolledBack() string {
	newest, err := s.Store.Newest()
	if err != nil || newest.Position.Revision < 2 {
		return ""
	}
	revision := 1 + s.random.Int63n(newest.Position.Revision-1)
	s.Store.RollBackTo(revision)

	return fmt.Sprintf("the bucket is rolled back to revision %d", revision)
}

func (s *randomScenario) bucketIsRepaired() string {
	before := s.Store.Len()
	s.Store.PutBack()
	if s.Store.Len() == before {
		return ""
	}

	return "the removed snapshots are put back"
}

func (s *randomScenario) leaderMoves() string {
	if leader := s.MoveLeadership(); leader != 0 {
		return fmt.Sprintf("%x leads", leader)
	}

	return ""
}

func (s *randomScenario) evictionsAreRefused() string {
	count := 1 + s.random.Intn(5)
	s.RefuseEvictions(count)

	return fmt.Sprintf("%d evictions will be refused", count)
}

// clusterIsScaledIn reduces the size, as far as the CustomResourceDefinition allows it.
func (s *randomScenario) clusterIsScaledIn() string {
	size := s.Etcd.Spec.Replicas
	isScalingOut := s.Objects.State.Replicas != nil && *s.Objects.State.Replicas < size && etcdcluster.SizeBefore(s.Etcd, s.Objects) == 0
	if size < 3 || isScalingOut || s.isRemovingExisting() || s.Objects.State.Size == 0 { // claims of a deleted Etcd determine the size
		return ""
	}
	s.Etcd.Spec.Replicas = size - 2

	return fmt.Sprintf("spec.replicas becomes %d", s.Etcd.Spec.Replicas)
}

// isRemovingExisting is true while the condition ScaleOperationComplete has the reason BootstrapMembersRemoval, so that the size cannot change.
func (s *randomScenario) isRemovingExisting() bool {
	recorded := s.Objects.State.Existing

	return recorded != nil && recorded.Voters > 0
}

func (s *randomScenario) clusterIsScaledUp() string {
	if s.Etcd.Spec.Replicas == 0 || s.Etcd.Spec.Replicas >= 5 || s.isRemovingExisting() {
		return ""
	}
	s.Etcd.Spec.Replicas += 2

	return fmt.Sprintf("spec.replicas becomes %d", s.Etcd.Spec.Replicas)
}

// volumesAreExpanded requests a larger volume. If volumes cannot be expanded, the next call reverts it.
func (s *randomScenario) volumesAreExpanded() string {
	size := new(helper.StorageCapacity(s.Etcd)).Value() + 1<<30
	if templates := s.Objects.StatefulSet.Rendering.Fixed.ClaimTemplates; s.FixedVolumes && len(templates) > 0 && size > templates[0].Request+1<<30 {
		size = templates[0].Request
	}
	s.Etcd.Spec.StorageCapacity = resource.NewQuantity(size, resource.BinarySI)

	return "spec.storageCapacity becomes " + s.Etcd.Spec.StorageCapacity.String()
}

// storageClassChanges requests another StorageClass.
func (s *randomScenario) storageClassChanges() string {
	if s.Etcd.Spec.Replicas != 1 {
		return ""
	}
	s.Etcd.Spec.StorageClass = new(fmt.Sprintf("class-%d", 1+s.random.Intn(3)))

	return "spec.storageClass becomes " + *s.Etcd.Spec.StorageClass
}

// volumeShrinks requests a smaller volume, which has room for the data.
func (s *randomScenario) volumeShrinks() string {
	if s.Etcd.Spec.Replicas != 1 {
		return ""
	}
	s.Etcd.Spec.StorageCapacity = resource.NewQuantity(int64(10+s.random.Intn(6))<<30, resource.BinarySI)

	return "spec.storageCapacity becomes " + s.Etcd.Spec.StorageCapacity.String()
}

// evictionIsRequested requests the eviction of the only member.
func (s *randomScenario) evictionIsRequested() string {
	pod := s.Objects.PodFor(0)
	if pod == nil || s.Etcd.Spec.Replicas != 1 {
		return ""
	}
	pod.EvictionRequestedAt = s.Now()

	return "the eviction of " + pod.Name + " is requested"
}

func (s *randomScenario) quotaChanges() string {
	s.SetQuotaExhausted(!s.IsQuotaExhausted())
	if s.IsQuotaExhausted() {
		return "the quota has no room for larger volumes"
	}

	return "the quota has room for larger volumes"
}

// keepPeers gives a recreated Etcd the peer TLS mode of its members. Nothing but their data records how they are registered.
func (s *randomScenario) keepPeers() {
	withTLS := 0
	for _, member := range s.Members {
		if strings.HasPrefix(member.PeerURLs[0], "https:") {
			withTLS++
		}
	}
	s.Etcd.Spec.Etcd.PeerUrlTLS = nil
	if 2*withTLS > len(s.Members) {
		withPeerTLS(s.Etcd)
	}
}

// databasesFill lets all databases reach their quota. In some simulations the keys alone need too much. While an alarm is raised, nothing can be written.
func (s *randomScenario) databasesFill() string {
	if s.Leader == 0 || len(s.Alarms) > 0 {
		return ""
	}
	s.FillDatabases(int64(1+s.random.Intn(8)) << 30) // the quota is 8Gi
	s.Write(1)

	return fmt.Sprintf("the databases are full, and %d bytes are keys", s.KeysSize)
}

func (s *randomScenario) peersChange() string {
	if len(s.Members) > 1 && !slices.ContainsFunc(s.Objects.MemberLeases, func(l etcdcluster.Lease) bool { return l.TLSEnabled != nil }) {
		return ""
	}
	if s.Etcd.Spec.Etcd.PeerUrlTLS == nil {
		withPeerTLS(s.Etcd)

		return "peer TLS is switched on"
	}
	withoutPeerTLS(s.Etcd)

	return "peer TLS is switched off"
}

func (s *randomScenario) caChanges() string {
	if s.Etcd.Spec.Etcd.PeerUrlTLS == nil {
		return ""
	}
	prefix := []string{"peer", "other", "third"}[s.random.Intn(3)]
	nameCA(s.Etcd, prefix)

	return "peers get the CA " + prefix
}

func (s *randomScenario) reconciliationIsSuspended() string {
	s.operator.Config.AutoReconcile = false

	return "no annotation requests the spec"
}

func (s *randomScenario) reconciliationIsRequested() string {
	if s.operator.Config.AutoReconcile {
		return ""
	}
	s.operator.Config.AutoReconcile = true

	return "an annotation requests the spec"
}

func (s *randomScenario) clusterSleepsOrWakes() string {
	if s.random.Intn(3) > 0 {
		return ""
	}
	if s.Etcd.Spec.Replicas > 0 {
		s.awake, s.Etcd.Spec.Replicas = s.Etcd.Spec.Replicas, 0

		return "spec.replicas becomes 0"
	}
	s.Etcd.Spec.Replicas = s.awake

	return fmt.Sprintf("spec.replicas becomes %d", s.Etcd.Spec.Replicas)
}
