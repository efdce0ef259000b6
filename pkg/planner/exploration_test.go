// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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
	begin func(*scenario) (func(), bool)
	// ticks is the duration of the fault.
	ticks int
}

func podDies(ordinal int) injection {
	return injection{name: fmt.Sprintf("pod %d is deleted", ordinal), begin: func(s *scenario) (func(), bool) {
		pod := s.Objects.PodFor(ordinal)
		isThere := pod != nil && !pod.Deleting
		s.DeletePod(ordinal)

		return func() {}, isThere
	}}
}

func etcdDies(ordinal int) injection {
	return injection{name: fmt.Sprintf("etcd of pod %d is killed", ordinal), begin: func(s *scenario) (func(), bool) {
		isRunning := s.RunningMember(ordinal) != nil
		s.StopEtcdBehindStore(ordinal)

		return func() {}, isRunning
	}}
}

func nodeIsCutOff(ordinal int) injection {
	return injection{name: fmt.Sprintf("the node of pod %d is cut off", ordinal), ticks: 20, begin: func(s *scenario) (func(), bool) {
		pod := s.Objects.PodFor(ordinal)
		if pod == nil || pod.Node == "" || s.Node(pod.Node).Partitioned {
			return nil, false
		}
		node := pod.Node
		s.PartitionNode(node, true)

		return func() { s.PartitionNode(node, false) }, true
	}}
}

func storeIsDown() injection {
	return injection{name: "the store is down", ticks: 20, begin: func(s *scenario) (func(), bool) {
		wasDown := s.Store.Down
		s.Store.Down = true

		return func() { s.Store.Down = false }, !wasDown
	}}
}

// operatorIsKilled stops the operator. Another one starts later.
func operatorIsKilled() injection {
	return injection{name: "the operator is killed", ticks: 10, begin: func(s *scenario) (func(), bool) {
		wasKilled := s.isKilled
		s.isKilled = true

		return func() { s.isKilled = false; s.startOperator(s.operator.ClockOffset) }, !wasKilled
	}}
}

// startOperator starts another operator, with another clock. It interrupts the calls of the previous one.
func (s *scenario) startOperator(clockOffset time.Duration) {
	s.operator.ClockOffset = clockOffset
	s.operator.Start = s.operator.Now()
	s.Objects.SnapshotAttempts.Running, s.Objects.SpaceCall = false, etcdcluster.SpaceCall{}
}

func clockIsAhead() injection {
	return injection{name: "an operator starts whose clock is ahead", ticks: 20, begin: func(s *scenario) (func(), bool) {
		if s.operator.ClockOffset != 0 {
			return nil, false
		}
		s.startOperator(20 * time.Minute)

		return func() { s.startOperator(0) }, true
	}}
}

func learnersAreSlow() injection {
	return injection{name: "learners catch up slowly", ticks: 30, begin: func(s *scenario) (func(), bool) {
		before := s.CatchUpTicks
		s.CatchUpTicks = 25

		return func() { s.CatchUpTicks = before }, before != 25
	}}
}

func imageChanges() injection {
	return injection{name: "the image changes", begin: func(s *scenario) (func(), bool) {
		s.change(func() { s.image = map[bool]string{true: "v3", false: "v2"}[s.image == "v2"] })

		return func() {}, true
	}}
}

// fault is an injection into a run at a tick.
type fault struct {
	tick, injection int
}

// point is where the next fault of a run is injected: after the faults, at the tick.
type point struct {
	faults []fault
	tick   int
}

// exploration is the state of an exploration.
type exploration struct {
	begin      func() *scenario
	injections []injection
	most       int
	// states are the explored states, with the number of the run that did so. The runs with fewer faults are the first ones.
	states map[[sha256.Size]byte]int
	points []point

	// runs is the number of runs. transitions are their ticks after the last fault, and depth is the largest number of ticks of one.
	runs, transitions, depth int
	problems                 []string
}

// explore explores the procedure that begins in a scenario. Without faults, it executes steps of the kinds.
func explore(begin func() *scenario, kinds []string, others ...injection) {
	GinkgoHelper()
	e := &exploration{begin: begin, most: 1, states: map[[sha256.Size]byte]int{}, injections: append([]injection{
		podDies(0), podDies(1), etcdDies(0), etcdDies(1), operatorIsKilled(), learnersAreSlow(), clockIsAhead(), imageChanges(),
	}, others...)}
	if value := os.Getenv("EXPLORED_FAULTS"); value != "" {
		var err error
		e.most, err = strconv.Atoi(value)
		Expect(err).NotTo(HaveOccurred())
		Expect(e.most).To(BeNumerically(">", 0))
	}
	steps := e.run(nil).steps
	for _, kind := range kinds {
		Expect(steps).To(HaveKey(kind))
	}
	injected := map[int]bool{}
	for len(e.points) > 0 && len(e.problems) < maxReported {
		next := e.points[0]
		e.points = e.points[1:]
		if len(e.points)%1000 == 0 {
			GinkgoWriter.Printf("%d states, %d transitions, %d points with %d or more faults are left\n", len(e.states), e.transitions, len(e.points), len(next.faults))
		}
		for i := range e.injections {
			if e.run(append(slices.Clone(next.faults), fault{next.tick, i})) != nil {
				injected[i] = true
			}
		}
	}
	AddReportEntry(fmt.Sprintf("up to %d faults: %d states, %d transitions, %d sequences of faults, at most %d ticks long", e.most, len(e.states), e.transitions, e.runs, e.depth), ReportEntryVisibilityAlways)
	if len(e.problems) > 0 {
		Fail(fmt.Sprintf("%d sequences of faults fail:\n%s", len(e.problems), strings.Join(e.problems, "\n")))
	}
	Expect(injected).To(HaveLen(len(e.injections)))
}

// run repeats the procedure with the faults. After the last fault it continues until the procedure is complete, or until another run has explored the
// state. It adds the points that it finds on its way. Nil: the last fault would change nothing.
func (e *exploration) run(faults []fault) *scenario {
	s, last, active := e.begin(), 0, 0
	if len(faults) > 0 {
		last = faults[len(faults)-1].tick
	}
	s.resetTrace()
	e.runs++
	ends := map[int][]func(){}
	for tick := 0; ; tick++ {
		for _, end := range ends[tick] {
			end()
			active--
		}
		for _, f := range faults {
			if f.tick != tick {
				continue
			}
			injected := e.injections[f.injection]
			end, changes := injected.begin(s)
			if !changes {
				e.runs--

				return nil
			}
			s.note("* %s", injected.name)
			s.LoseLeader()
			s.Refresh()
			ends[tick+injected.ticks+1] = append(ends[tick+injected.ticks+1], end)
			active++
		}
		if tick >= last && !e.enter(s, point{faults, tick}, active) {
			return s
		}
		if tick%jobTicks == 0 {
			s.ExpireJobs()
		}
		if !s.isKilled {
			s.reconcile()
		}
		s.Write(1)
		s.tick()
		if tick < last {
			continue
		}
		e.transitions++
		e.depth = max(e.depth, tick)
		problem := strings.Join(s.violations(), "; ")
		if active == 0 && tick-last > longestRun {
			p := s.result.Current().Plan
			problem = fmt.Sprintf("never ends: %s, waits for %s", p.Stage, p.WaitsFor)
		}
		if problem != "" {
			e.problems = append(e.problems, problem+"\n"+strings.Join(s.trace, "\n"))
		}
		if problem != "" || active == 0 && s.isComplete() {
			return s
		}
	}
}

// enter adds the state of a run. False: another run has explored it, so that this one need not continue. A run continues until its faults have ended,
// since the state does not contain how long they last.
func (e *exploration) enter(s *scenario, at point, active int) bool {
	key := s.observationKey(active)
	if run, isKnown := e.states[key]; isKnown {
		return run == e.runs || active > 0
	}
	e.states[key] = e.runs
	if len(at.faults) < e.most {
		e.points = append(e.points, at)
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
		k.write(reflect.ValueOf([]any{s.Process(pod.UID), s.Now().Sub(pod.CreationTime) < etcdcluster.MemberStartTimeout}))
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
