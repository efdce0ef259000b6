// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

// Package forecast says what the operator would do: it lets the operator's own planner decide again and again in a world in
// memory that begins as the cluster is, and in which everything goes well.
//
// What may not live here: clients and clocks, and decisions, which are etcdcluster's.
package forecast

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/planner"
)

// passes bound the forecast; a roll of seven members takes some sixty.
const passes = 300

// pause is how much time goes by between two passes in which nothing else happens.
const pause = time.Minute

// Rendered is what a plan comes to.
type Rendered struct {
	// Rendering as the StatefulSet shows it.
	Rendering etcdcluster.Rendering
	// Template identifies what pods are made from: pods of another one are outdated.
	Template string
}

// Line is one thing that would happen, in the order of time.
type Line struct {
	// Stage of the plan.
	Stage plan.Stage `json:"stage"`
	// Act is what is done, in words. Empty: the operator waits.
	Act string `json:"act,omitempty"`
	// Reason with the arithmetic of the quorum.
	Reason string `json:"reason"`
	// WaitsFor is what has to happen before anything goes on, and did not. Empty: nothing.
	WaitsFor string `json:"waitsFor,omitempty"`
}

// Question is what a forecast is made from.
type Question struct {
	// Etcd with the spec to be carried out, in its current form.
	Etcd *druidv1alpha1.Etcd
	// Observation of its cluster now.
	Observation etcdcluster.Observation
	// Now is the time of the observation.
	Now time.Time
	// Running is what the cluster runs now, by the same rendering as Render; the zero value where there is no cluster.
	Running Rendered
	// Render renders a plan.
	Render func(plan.Plan) (Rendered, error)
}

// For forecasts what would be done until nothing is left to do. The error is that of the rendering. Where the operator would
// wait for something that does not come by itself, that is the last line.
func For(question Question) ([]Line, error) {
	w := newWorld(question)
	for range passes {
		decision, done, err := w.pass()
		if err != nil || done {
			return w.lines, err
		}
		if w.idle > 3 {
			w.add(Line{Stage: decision.Stage, Reason: decision.Reason, WaitsFor: decision.WaitsFor})

			return w.lines, nil
		}
	}
	w.add(Line{Reason: fmt.Sprintf("no end after %d passes", passes), WaitsFor: "somebody to look at this forecast, which has a mistake"})

	return w.lines, nil
}

// world is the cluster as it would become.
type world struct {
	Question

	seen   etcdcluster.Observation
	leader int
	idle   int
	lines  []Line
}

func newWorld(question Question) *world {
	w := &world{Question: question, seen: question.Observation}
	w.seen.Pods = slices.Clone(w.seen.Pods)
	w.seen.Claims = slices.Clone(w.seen.Claims)
	if w.seen.StatefulSet.Exists {
		// What is rendered here and what the operator rendered differ in what only the operator knows; both are held against the
		// rendering of what runs.
		w.seen.StatefulSet.Rendering.Checksum = question.Running.Rendering.Checksum
		w.relabel(w.seen.StatefulSet.UpdateRevision, question.Running.Template)
	}
	for _, answer := range w.seen.Etcd.Members {
		if answer.Leads() {
			w.leader = answer.Ordinal
		}
	}

	return w
}

// relabel names the newest template as the rendering does.
func (w *world) relabel(from, to string) {
	w.seen.StatefulSet.UpdateRevision = to
	for i := range w.seen.Pods {
		if w.seen.Pods[i].RevisionHash == from {
			w.seen.Pods[i].RevisionHash = to
		}
	}
}

func (w *world) add(line Line) {
	if len(w.lines) == 0 || w.lines[len(w.lines)-1] != line {
		w.lines = append(w.lines, line)
	}
}

// pass plays the operator once, and then everybody else; true when nothing is left to do.
func (w *world) pass() (plan.Plan, bool, error) {
	decision := planner.For(w.Etcd, w.seen, w.Now)
	if decision.Outcome() == plan.OutcomeRefused {
		w.add(Line{Stage: decision.Stage, Reason: decision.Refusal.Error()})

		return decision, true, nil
	}
	if !decision.Render {
		w.wait()

		return decision, false, nil
	}
	rendered, err := w.Render(decision)
	if err != nil {
		return decision, true, err
	}
	if w.isNews(decision, rendered) {
		w.apply(decision, rendered)

		return decision, false, nil
	}
	decision = planner.Gate(decision, rendered.Rendering, w.seen)
	done, err := w.carryOut(decision, rendered)

	return decision, done, err
}

// carryOut does what a plan asks for that was held against its rendering; true when that is nothing.
func (w *world) carryOut(decision plan.Plan, rendered Rendered) (bool, error) {
	switch decision.Outcome() {
	case plan.OutcomeDone:
		w.add(Line{Stage: decision.Stage, Reason: decision.Reason})

		return true, nil
	case plan.OutcomeGrow:
		w.add(Line{Stage: decision.Stage, Act: "start the next member", Reason: decision.Reason})
		grown := decision.Grown()
		rendered, err := w.Render(grown)
		if err != nil {
			return true, err
		}
		w.apply(grown, rendered)
	case plan.OutcomeStep:
		w.add(Line{Stage: decision.Stage, Act: plan.TraitsOf(decision.Step).Text, Reason: decision.Reason})
		w.act(decision, rendered)
	default:
		w.wait()
	}

	return false, nil
}

// wait lets time go by, in which members start and catch up.
func (w *world) wait() {
	w.idle++
	w.Now = w.Now.Add(pause)
	w.settle()
}

// isNews is true when what is rendered is not what the cluster shows.
func (w *world) isNews(decision plan.Plan, rendered Rendered) bool {
	return !w.seen.ManagedResource.Exists || !w.seen.StatefulSet.Exists || !w.seen.ManagedResource.IsApplied() ||
		w.seen.StatefulSet.Rendering.Checksum != rendered.Rendering.Checksum || w.seen.StatefulSet.SpecReplicas != decision.Replicas
}

// apply is what the resource manager and the StatefulSet controller do with a rendering.
func (w *world) apply(decision plan.Plan, rendered Rendered) {
	w.idle = 0
	if !w.seen.StatefulSet.Exists {
		w.add(Line{Stage: decision.Stage, Act: fmt.Sprintf("create the cluster's objects with %d of %d members", decision.Replicas, w.Etcd.Spec.Replicas), Reason: decision.Reason})
		w.seen.StatefulSet = etcdcluster.StatefulSet{Exists: true, Name: w.Etcd.Name, UID: "planned", OwnerUID: w.Etcd.UID, Rendering: rendered.Rendering}
	}
	resource := &w.seen.ManagedResource
	*resource = etcdcluster.ManagedResource{
		Exists: true, Name: resource.Name, UID: resource.UID, GenerationObserved: true,
		Applied: etcdcluster.ConditionFact{Status: "True"}, Healthy: resource.Healthy, Progressing: resource.Progressing,
	}
	w.seen.State.Replicas, w.seen.State.Restore, w.seen.State.FinalSnapshot = new(decision.Replicas), decision.Restore, decision.FinalSnapshot
	if decision.Replicas > 0 {
		w.seen.State.Size = planner.SizeToPersist(decision, w.seen)
	}
	set := &w.seen.StatefulSet
	set.Generation++
	set.ObservedGeneration = set.Generation
	set.SpecReplicas, set.UpdateRevision, set.Rendering.Checksum = decision.Replicas, rendered.Template, rendered.Rendering.Checksum
	set.HasPreStopHook = decision.ClusterSize > 1
	w.settle()
}

// act is what a step comes to.
func (w *world) act(decision plan.Plan, rendered Rendered) {
	w.idle = 0
	switch step := decision.Step.(type) {
	case plan.EvictPod:
		w.remove(step.Object)
	case plan.DeletePod:
		w.remove(step.Object)
	case plan.MoveLeader:
		for _, answer := range w.seen.Etcd.Members {
			if answer.MemberID == step.To {
				w.leader = answer.Ordinal
			}
		}
	case plan.ReplaceClaim:
		for i := range w.seen.Claims {
			if w.seen.Claims[i].Name == step.Object {
				w.seen.Claims[i].Lost, w.seen.Claims[i].Nodes = false, nil
			}
		}
	case plan.RecreateStatefulSet:
		w.seen.StatefulSet.Rendering = rendered.Rendering
	case plan.PromoteMember, plan.UpdatePeerURLs, plan.ResizeClaim, plan.DeleteClaim, plan.VerifyRestore, plan.DeleteRestoreJob, plan.ResetLease, plan.TakeSnapshot, plan.RequestReconcile:
		// The forecast does not show their effect.
	}
	w.settle()
}

func (w *world) remove(pod string) {
	for _, seen := range w.seen.Pods {
		if seen.Name == pod && seen.Ordinal == w.leader && len(w.seen.Pods) > 1 {
			w.leader = (w.leader + 1) % len(w.seen.Pods)
		}
	}
	w.seen.Pods = slices.DeleteFunc(w.seen.Pods, func(seen etcdcluster.Pod) bool { return seen.Name == pod })
}

// settle is what comes by itself: pods start, members serve, learners get their votes, and all know each other.
func (w *world) settle() {
	w.seen.Pods = slices.DeleteFunc(w.seen.Pods, func(pod etcdcluster.Pod) bool { return pod.Ordinal >= int(w.seen.StatefulSet.SpecReplicas) })
	for ordinal := range int(w.seen.StatefulSet.SpecReplicas) {
		if w.seen.PodFor(ordinal) == nil {
			w.seen.Pods = append(w.seen.Pods, w.podFor(ordinal))
		}
	}
	slices.SortFunc(w.seen.Pods, func(a, b etcdcluster.Pod) int { return a.Ordinal - b.Ordinal })
	set := &w.seen.StatefulSet
	set.Replicas, set.ReadyReplicas = set.SpecReplicas, set.SpecReplicas
	w.answer()
}

func (w *world) podFor(ordinal int) etcdcluster.Pod {
	running := func(name string) etcdcluster.Container {
		return etcdcluster.Container{Name: name, Ready: true, State: etcdcluster.ContainerRunning, StartedAt: w.Now}
	}

	return etcdcluster.Pod{
		Name: helper.PodName(w.Etcd, ordinal), Ordinal: ordinal, RevisionHash: w.seen.StatefulSet.UpdateRevision, OwnerUID: w.seen.StatefulSet.UID,
		Phase: "Running", Ready: true, ContainersReady: true, ReadyChangedAt: w.Now, CreationTime: w.Now, Node: "planned", IPs: []string{"planned"},
		Containers: []etcdcluster.Container{running(etcdcluster.ContainerEtcd), running(etcdcluster.ContainerBackupRestore)},
		PeerTLS:    helper.PeerTLS(w.Etcd) != nil,
	}
}

// answer has every member serve, and list all.
func (w *world) answer() {
	before := w.seen.Etcd
	w.seen.Etcd = etcdcluster.EtcdAnswers{Asked: len(w.seen.Pods) > 0}
	if w.leader >= len(w.seen.Pods) {
		w.leader = 0
	}
	for _, pod := range w.seen.Pods {
		answer := etcdcluster.MemberAnswer{Ordinal: pod.Ordinal, MemberID: uint64(pod.Ordinal) + 1, ClusterID: 1} // #nosec G115 -- an ordinal
		if known := before.Answer(pod.Ordinal); known != nil && known.Reachable {
			answer = *known
		}
		answer.Reachable, answer.Serves, answer.Learner, answer.Error = true, true, false, ""
		w.seen.Etcd.Members = append(w.seen.Etcd.Members, answer)
		w.seen.Etcd.MemberList = append(w.seen.Etcd.MemberList, etcdcluster.ListedMember{
			ID: answer.MemberID, Name: helper.MemberName(w.Etcd, pod.Ordinal), PeerURLs: w.peerURLs(pod),
		})
	}
	for i := range w.seen.Etcd.Members {
		w.seen.Etcd.Members[i].LeaderID = w.seen.Etcd.Members[w.leader].MemberID
		w.seen.Etcd.Members[i].ClusterID = w.seen.Etcd.Members[0].ClusterID
	}
}

func (w *world) peerURLs(pod etcdcluster.Pod) []string {
	scheme := "http"
	if pod.PeerTLS {
		scheme = "https"
	}
	host := fmt.Sprintf("%s.%s.%s.svc", pod.Name, helper.PeerServiceName(w.Etcd), w.Etcd.Namespace)
	urls := []string{scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(helper.PeerPort(w.Etcd))))}
	for _, additional := range w.Etcd.Spec.Etcd.AdditionalAdvertisePeerURLs {
		if additional.MemberName == helper.MemberName(w.Etcd, pod.Ordinal) {
			urls = append(urls, additional.URLs...)
		}
	}

	return urls
}
