// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brunoga/deep"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/simulator/history"
)

// These inject each sequence of up to EXPLORED_FAULTS faults, by default one, at each point of a procedure at which the cluster looks different. Two
// points look the same if the operator and the simulation observe the same, apart from times and revisions. While the operator only waits for a time to
// pass, there is one point.
var _ = Describe("Exhaustive exploration", func() {
	It("of a surge keeps each acknowledged write, and completes it", func() {
		explore(func() *scenario {
			s := newScenario(1, withStore, withSurge)
			s.RestoreDelay = time.Minute
			s.idleTicks = 3
			s.run()
			s.expectDone()
			s.change(func() { s.image = "v2" })

			return s
		}, []string{"PromoteMember", "DeleteClaim", "RemoveMember"}, nodeIsCutOff(0), nodeIsCutOff(1))
	})

	It("of a recovery from a lost quorum keeps what it states, and completes it", func() {
		explore(func() *scenario {
			s := newScenario(3, withStore, withPolicy(druidv1alpha1.RecoveryPolicyAuto))
			s.operator.Config.RecoveryDwellTime, s.operator.Config.RecoveryMaxClusters = time.Minute, 3
			s.idleTicks = 3
			s.run()
			s.expectDone()
			for _, ordinal := range []int{1, 2} {
				s.LoseVolume(ordinal)
				s.DeletePod(ordinal)
			}

			return s
		}, []string{"RecoverData", "VerifyRestore", "DeleteClaim"}, nodeIsCutOff(0), storeIsDown())
	})
})

// longestRun is the largest number of ticks from the last fault to the end of a procedure.
const longestRun = 700

// jobTicks is the number of ticks between two deletions of all Jobs that verify a restore or inspect volumes.
const jobTicks = 120

// injection is a fault that an exploration injects. It ends by itself.
type injection struct {
	name string
	// begin injects the fault, and returns what ends it. False: it would change nothing now.
	begin func(*scenario) (func(*scenario), bool)
	// ticks is the duration of the fault.
	ticks int
}

func podDies(ordinal int) injection {
	return injection{name: fmt.Sprintf("pod %d is deleted", ordinal), begin: func(s *scenario) (func(*scenario), bool) {
		pod := s.Objects.PodFor(ordinal)
		isThere := pod != nil && !pod.Deleting
		s.DeletePod(ordinal)

		return func(*scenario) {}, isThere
	}}
}

func etcdDies(ordinal int) injection {
	return injection{name: fmt.Sprintf("etcd of pod %d is killed", ordinal), begin: func(s *scenario) (func(*scenario), bool) {
		isRunning := s.RunningMember(ordinal) != nil
		s.StopEtcdBehindStore(ordinal)

		return func(*scenario) {}, isRunning
	}}
}

func nodeIsCutOff(ordinal int) injection {
	return injection{name: fmt.Sprintf("the node of pod %d is cut off", ordinal), ticks: 20, begin: func(s *scenario) (func(*scenario), bool) {
		pod := s.Objects.PodFor(ordinal)
		if pod == nil || pod.Node == "" || s.Node(pod.Node).Partitioned {
			return nil, false
		}
		node := pod.Node
		s.PartitionNode(node, true)

		return func(s *scenario) { s.PartitionNode(node, false) }, true
	}}
}

func storeIsDown() injection {
	return injection{name: "the store is down", ticks: 20, begin: func(s *scenario) (func(*scenario), bool) {
		wasDown := s.Store.Down
		s.Store.Down = true

		return func(s *scenario) { s.Store.Down = false }, !wasDown
	}}
}

// operatorIsKilled stops the operator. Another one starts later.
func operatorIsKilled() injection {
	return injection{name: "the operator is killed", ticks: 10, begin: func(s *scenario) (func(*scenario), bool) {
		wasKilled := s.isKilled
		s.isKilled = true

		return func(s *scenario) { s.isKilled = false; s.startOperator(s.operator.ClockOffset) }, !wasKilled
	}}
}

// startOperator starts another operator, with another clock. It interrupts the calls of the previous one.
func (s *scenario) startOperator(clockOffset time.Duration) {
	s.operator.ClockOffset = clockOffset
	s.operator.Start = s.operator.Now()
	s.Objects.SnapshotAttempts.Running, s.Objects.SpaceCall = false, etcdcluster.SpaceCall{}
}

func clockIsAhead() injection {
	return injection{name: "an operator starts whose clock is ahead", ticks: 20, begin: func(s *scenario) (func(*scenario), bool) {
		if s.operator.ClockOffset != 0 {
			return nil, false
		}
		s.startOperator(20 * time.Minute)

		return func(s *scenario) { s.startOperator(0) }, true
	}}
}

func learnersAreSlow() injection {
	return injection{name: "learners catch up slowly", ticks: 30, begin: func(s *scenario) (func(*scenario), bool) {
		before := s.CatchUpTicks
		s.CatchUpTicks = 25

		return func(s *scenario) { s.CatchUpTicks = before }, before != 25
	}}
}

func imageChanges() injection {
	return injection{name: "the image changes", begin: func(s *scenario) (func(*scenario), bool) {
		s.change(func() { s.image = map[bool]string{true: "v3", false: "v2"}[s.image == "v2"] })

		return func(*scenario) {}, true
	}}
}

// point is where a run is continued with the next fault. The scenario is a copy.
type point struct {
	*scenario

	// tick is the number of ticks since the procedure has begun, and faults is the number of injected faults.
	tick, faults int
	// ends end faults, by their ticks. active is the number of faults that have not ended.
	ends   map[int][]func(*scenario)
	active int
}

// fork returns a copy of a point that continues on its own.
func (p point) fork() point {
	forked := *p.scenario
	forked.Cluster, forked.invariants = deep.MustCopy(p.Cluster), deep.MustCopy(p.invariants)
	forked.trace, forked.steps = slices.Clip(p.trace), maps.Clone(p.steps)
	operator, bound := *p.operator, forked.newOperator()
	operator.Cluster, operator.Manifest, operator.OnApply, operator.OnStep = bound.Cluster, bound.Manifest, bound.OnApply, bound.OnStep
	forked.operator = &operator
	p.scenario, p.ends = &forked, maps.Clone(p.ends)

	return p
}

// exploration is the state of an exploration.
type exploration struct {
	injections []injection
	most       int
	// states are the explored states, with the number of the run that did so. The runs with fewer faults are the first ones.
	states map[[sha256.Size]byte]int
	points []point

	// runs is the number of runs. transitions are their ticks after the last fault, and depth is the largest number of ticks of one. risks is the number of
	// runs that end with the risk that a surge accepts.
	runs, transitions, depth, risks int
	problems                        []string
}

// explore explores the procedure that begins in a scenario. Without faults, it executes steps of the kinds.
func explore(begin func() *scenario, kinds []string, others ...injection) {
	GinkgoHelper()
	e := &exploration{most: 1, states: map[[sha256.Size]byte]int{}, injections: append([]injection{
		podDies(0), podDies(1), etcdDies(0), etcdDies(1), operatorIsKilled(), learnersAreSlow(), clockIsAhead(), imageChanges(),
	}, others...)}
	if value := os.Getenv("EXPLORED_FAULTS"); value != "" {
		var err error
		e.most, err = strconv.Atoi(value)
		Expect(err).NotTo(HaveOccurred())
		Expect(e.most).To(BeNumerically(">", 0))
	}
	first := point{scenario: begin(), ends: map[int][]func(*scenario){}}
	first.resetTrace()
	e.run(first)
	for _, kind := range kinds {
		Expect(first.steps).To(HaveKey(kind))
	}
	injected := map[int]bool{}
	for len(e.points) > 0 && len(e.problems) < maxReported {
		next := e.points[0]
		e.points = e.points[1:]
		if len(e.points)%1000 == 0 {
			GinkgoWriter.Printf("%d states, %d transitions, %d points with %d or more faults are left\n", len(e.states), e.transitions, len(e.points), next.faults)
		}
		for i, injection := range e.injections {
			if forked := next.fork(); forked.inject(injection) {
				injected[i] = true
				e.run(forked)
			}
		}
	}
	AddReportEntry(fmt.Sprintf("up to %d faults: %d states, %d transitions, %d sequences of faults, at most %d ticks long; %d end with a second cluster while no operator runs", e.most, len(e.states), e.transitions, e.runs, e.depth, e.risks), ReportEntryVisibilityAlways)
	if len(e.problems) > 0 {
		Fail(fmt.Sprintf("%d sequences of faults fail:\n%s", len(e.problems), strings.Join(e.problems, "\n")))
	}
	Expect(injected).To(HaveLen(len(e.injections)))
	if e.most < 3 { // two faults that stop the operator, and one that stops etcd
		Expect(e.risks).To(BeZero())
	}
}

// inject injects a fault. False: it would change nothing.
func (p *point) inject(injected injection) bool {
	end, changes := injected.begin(p.scenario)
	if !changes {
		return false
	}
	p.note("* %s", injected.name)
	p.LoseLeader()
	p.Refresh()
	at := p.tick + injected.ticks + 1
	p.ends[at] = append(slices.Clip(p.ends[at]), end)
	p.active++
	p.faults++

	return true
}

// run continues the procedure until it is complete, or until another run has explored the state. It adds the points that it finds on its way.
func (e *exploration) run(p point) {
	e.runs++
	for last := p.tick; ; p.tick++ {
		if p.tick > last {
			for _, end := range p.ends[p.tick] {
				end(p.scenario)
				p.active--
			}
		}
		if !e.enter(p) {
			return
		}
		if p.tick%jobTicks == 0 {
			p.ExpireJobs()
		}
		if !p.isKilled {
			p.reconcile()
		}
		p.Write(1)
		p.scenario.tick()
		e.transitions++
		e.depth = max(e.depth, p.tick)
		problem := strings.Join(p.violations(), "; ")
		if p.isAcceptedRisk() {
			e.risks++

			return
		}
		if p.active == 0 && p.tick-last > longestRun {
			current := p.result.Current().Plan
			problem = fmt.Sprintf("never ends: %s, waits for %s", current.Stage, current.WaitsFor)
		}
		if problem != "" {
			e.problems = append(e.problems, problem+"\n"+strings.Join(p.trace, "\n"))
		}
		if problem != "" || p.active == 0 && p.isComplete() {
			return
		}
	}
}

// isAcceptedRisk is true if the sidecar of the original first member has restored a second cluster during a surge. No operator has reconciled since its
// etcd stopped. A surge accepts this risk, see the decision record.
func (s *scenario) isAcceptedRisk() bool {
	pod, surge := s.Objects.PodFor(0), s.Objects.State.Surge

	return len(s.violations()) == 1 && strings.Contains(s.violations()[0], simulator.SecondCluster) && surge.IsActive() && pod != nil && pod.UID == surge.Pod && s.isUnseen(*pod)
}

// isUnseen is true if etcd of the pod has stopped behind the store, and no operator has reconciled since.
func (s *scenario) isUnseen(pod etcdcluster.Pod) bool {
	return s.reconciledAt.Before(s.Process(pod.UID).StoppedBehindStore)
}

// enter adds the state of a run. False: another run has explored it, so that this one need not continue. A run continues until its faults have ended,
// since the state does not contain how long they last.
func (e *exploration) enter(p point) bool {
	key := p.observationKey(p.active)
	if run, isKnown := e.states[key]; isKnown {
		return run == e.runs || p.active > 0
	}
	e.states[key] = e.runs
	if p.faults < e.most {
		e.points = append(e.points, p.fork())
	}

	return true
}

// isComplete is true if the newest generation is rolled out, and all members are healthy.
func (s *scenario) isComplete() bool {
	return !s.acted && s.result.Newest != nil && s.result.Newest.Plan.Stage == plan.StageDone && InterceptGomegaFailure(s.expectDone) == nil
}

// observationKey is the same for two states that differ only in the past times, in the revisions, and in the numbers of UIDs.
func (s *scenario) observationKey(active int) [sha256.Size]byte {
	objects, k := s.Observe(), keyWriter{now: s.operator.Now(), names: map[string]int{"": 0, "0": 1}}
	objects.FullSnapshotLease.Holder, objects.DeltaSnapshotLease.Holder = "", ""
	var members []simulator.Member
	for _, member := range s.Members {
		if members = append(members, *member); !member.Learner {
			members[len(members)-1].CaughtUp = 0
		}
	}
	accepted := s.Objects.State.Accepted
	k.write(reflect.ValueOf([]any{accepted != nil && accepted.Generation == s.Etcd.Generation, objects.StatefulSet.GenerationObserved(), s.invariants.lostSince.IsZero(), s.isLossReported(), len(s.Acknowledged.Lost(s.isKeptAsKnown))}))
	k.write(reflect.ValueOf([]any{active, s.isKilled, s.CatchUpTicks, s.operator.ClockOffset, s.image, s.Leader, s.Store.Down, s.Store.Last().Position == s.Data, objects, members, s.Nodes}))
	for _, pod := range s.Objects.Pods {
		k.write(reflect.ValueOf([]any{s.Process(pod.UID), s.isUnseen(pod), s.Now().Sub(pod.CreationTime) < etcdcluster.MemberStartTimeout}))
	}
	for _, claim := range s.Objects.Claims {
		if volume := s.Volumes[claim.Name]; volume != nil {
			k.write(reflect.ValueOf([]any{volume, volume.Data == s.Data}))
		}
	}

	return sha256.Sum256(k.text)
}

// names are the IDs of members and the names of volumes.
var names = regexp.MustCompile(`^[a-f][0-9a-f]\b|^pv-\d+`)

// keyWriter writes values without times and revisions. It numbers UIDs and names in the order in which it finds them.
type keyWriter struct {
	now   time.Time
	text  []byte
	names map[string]int
}

var timeType, positionType, uidType = reflect.TypeFor[time.Time](), reflect.TypeFor[history.Position](), reflect.TypeFor[types.UID]()

func (k *keyWriter) write(v reflect.Value) {
	k.text = append(k.text, ' ')
	switch {
	case !v.IsValid() || v.Type() == positionType:
	case v.Type() == timeType:
		k.text = strconv.AppendBool(strconv.AppendBool(k.text, v.IsZero()), v.CanInterface() && v.Interface().(time.Time).After(k.now))
	case v.Type() == uidType:
		k.text = strconv.AppendInt(k.text, int64(k.numberOf(v.String())), 10)
	default:
		k.writeKind(v)
	}
}

// numberOf returns the number of a name.
func (k *keyWriter) numberOf(name string) int {
	if _, known := k.names[name]; !known {
		k.names[name] = len(k.names)
	}

	return k.names[name]
}

func (k *keyWriter) writeKind(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		k.write(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			k.write(v.Index(i))
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			k.write(key)
			k.write(v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !isRevision(v.Type().Field(i)) {
				k.write(v.Field(i))
			}
		}
	case reflect.String:
		k.writeText(v.String())
	case reflect.Bool:
		k.text = strconv.AppendBool(k.text, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		k.text = strconv.AppendInt(k.text, v.Int(), 10)
	case reflect.Uint64:
		k.text = strconv.AppendInt(k.text, int64(k.numberOf(strconv.FormatUint(v.Uint(), 16))), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		k.text = strconv.AppendUint(k.text, v.Uint(), 10)
	default: // functions
	}
}

// writeText writes a text with the number of a name at its start.
func (k *keyWriter) writeText(text string) {
	if strings.HasPrefix(text, "pv-") || len(text) > 1 && 'a' <= text[0] && text[0] <= 'f' {
		text = names.ReplaceAllStringFunc(text, func(name string) string { return strconv.Itoa(k.numberOf(name)) })
	}
	k.text = append(k.text, text...)
}

// isRevision is true for a field that changes with each write, or only counts.
func isRevision(field reflect.StructField) bool {
	isNumber := field.Type.Kind() == reflect.Int64 || field.Type.Kind() == reflect.Uint64

	return isNumber && (strings.HasSuffix(field.Name, "Revision") || strings.HasSuffix(field.Name, "Generation") || strings.HasSuffix(field.Name, "Index") || strings.HasPrefix(field.Name, "DBSize") || field.Name == "Keys" || field.Name == "RaftTerm")
}
