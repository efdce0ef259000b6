// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

const (
	// maxTicks bounds a simulation. A rolling update of seven members takes some hundred ticks.
	maxTicks = 3000
	// idleTicks is how many ticks without a change end a simulation: 10 minutes.
	idleTicks = 120
)

// Line is one thing that the operator would do, in the order of time.
type Line struct {
	// Stage of the plan. Empty: the generation is not planned, see Reason.
	Stage plan.Stage
	// Act describes the action. Empty: the operator waits, or it ends.
	Act string
	// Step is the step that Act describes. Nil: none, or the manifests change.
	Step plan.Step
	// Before and After are the voting members before and after Step. Zero without a step.
	Before, After Votes
	// Gap is the longest time without a write that is expected because of Step.
	Gap Gap
	// Reason with the calculation of the quorum.
	Reason string
	// WaitsFor is what has to happen before the operator continues, and did not. Empty: nothing.
	WaitsFor string
	// Refused is true if the operator rejects the spec for Reason.
	Refused bool
}

// Input is what is needed to compute what the operator would do.
type Input struct {
	// Stored is the Etcd as it is stored. Nil: it is not.
	Stored *druidv1alpha1.Etcd
	// Wanted is the Etcd to be rolled out, in its current fields.
	Wanted *druidv1alpha1.Etcd
	// Observation of its cluster, with the endpoint statuses of the members.
	Observation etcdcluster.Observation
	// Config is the configuration of the operator.
	Config target.Config
	// Now is the time of the observation.
	Now time.Time
	// IsEqual is true if the pods that run are known to be equal to those of the operator, although another operator has created them.
	IsEqual bool
}

// Plan returns what the operator would do until nothing is left to do. It executes the operator's own engine on a simulated cluster that begins
// as the observed one and in which all goes well. If the operator would wait for something that does not happen by itself, that is the last
// line. The error is that of a failure of the operator.
func Plan(in Input) ([]Line, error) {
	var running *Manifest
	if in.Stored != nil && in.Observation.StatefulSet.Exists && (in.IsEqual || in.Observation.ManagedResource.Exists) {
		var err error
		if running, err = runningManifest(in); err != nil {
			return nil, fmt.Errorf("the spec as it is stored: %w", err)
		}
	}
	s := &simulation{operator: NewOperator(From(in.Observation, requested(in.Stored, in.Wanted), in.Now, running), in.Config)}
	s.operator.OnApply = s.onApply
	s.operator.OnRotation = func(stage state.RotationStage) {
		act := "begin stage " + string(stage) + " of the CA rotation"
		if stage == state.StageIdle {
			act = "end the CA rotation"
		}
		s.add(Line{Act: act, Reason: "every member runs what the stage before renders"})
	}
	s.operator.OnStep = func(run *engine.Run, step plan.Step, reason string) func(error) {
		before := s.operator.Cluster.votes()
		s.add(Line{Stage: run.Plan.Stage, Act: plan.TraitsOf(step).Text, Step: step, Before: before, After: before, Reason: reason})
		i := len(s.lines) - 1

		return func(err error) {
			if line := &s.lines[i]; err == nil {
				line.After = s.operator.Cluster.votes()
				line.Gap = gapOf(step, line.Before, line.After)
			}
		}
	}

	return s.run()
}

// StatefulSetFor renders the StatefulSet of the wanted Etcd with as many members as run.
func StatefulSetFor(in Input) (*appsv1.StatefulSet, error) {
	if !helper.ManagesPods(in.Wanted) {
		return nil, errors.New("the operator does not run the pods of this Etcd")
	}
	replicas := in.Observation.StatefulSet.SpecReplicas
	_, rendered, err := render(in, in.Wanted, plan.Plan{Render: true, Replicas: replicas, ClusterSize: replicas, EtcdVersion: in.Observation.State.EtcdVersion}, func(t *target.Target) { t.ResolveCertificates(in.Observation, in.Now) })

	return rendered.StatefulSet, err
}

// simulation is the cluster of an Etcd as it would become.
type simulation struct {
	operator *Operator
	lines    []Line
}

// requested returns the wanted Etcd as it would be stored, with the annotation that requests its rollout, and without the one that suspends it.
func requested(stored, wanted *druidv1alpha1.Etcd) *druidv1alpha1.Etcd {
	etcd := wanted.DeepCopy()
	etcd.Generation = 1
	if stored != nil {
		etcd.Generation = stored.Generation
		if !apiequality.Semantic.DeepEqual(stored.Spec, wanted.Spec) {
			etcd.Generation++
		}
	}
	delete(etcd.Annotations, druidv1alpha1.SuspendEtcdSpecReconcileAnnotation)
	metav1.SetMetaDataAnnotation(&etcd.ObjectMeta, druidv1alpha1.DruidOperationAnnotation, druidv1alpha1.DruidOperationReconcile)

	return etcd
}

// runningManifest renders what the cluster runs: the generation that was accepted last, else the stored one.
func runningManifest(in Input) (*Manifest, error) {
	etcd := in.Stored.DeepCopy()
	if accepted := in.Observation.State.Accepted; accepted != nil && accepted.Spec != nil {
		etcd.Spec = *accepted.Spec
	}
	t, rendered, err := render(in, etcd, sizeOf(etcd, in.Observation), func(t *target.Target) { t.KeepCertificates(in.Observation) })
	if err != nil {
		return nil, err
	}
	rendered.Rendering.Fixed = in.Observation.StatefulSet.Rendering.Fixed
	manifest := ManifestOf(t, rendered)

	return &manifest, nil
}

// sizeOf returns the plan with which the StatefulSet was rendered.
func sizeOf(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) plan.Plan {
	size := max(o.State.Size, o.StatefulSet.SpecReplicas)
	if size == 1 && o.StatefulSet.HasPreStopHook { // the first member runs with the size that the cluster is scaled up to
		size = etcd.Spec.Replicas
	}

	excludes := o.State.Migration.AddsMember() || slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return pod.Excluded })

	return plan.Plan{Render: true, Replicas: o.StatefulSet.SpecReplicas, ClusterSize: size, EtcdVersion: o.State.EtcdVersion, ExcludesPods: excludes}
}

// render renders an Etcd under a plan, as the operator would with the certificates that the cluster mounts. setCertificates sets the checksums
// of the certificates of the user.
func render(in Input, etcd *druidv1alpha1.Etcd, p plan.Plan, setCertificates func(*target.Target)) (*target.Target, engine.Rendered, error) {
	t, o := target.ForNewest(etcd), in.Observation
	if problem := t.Problem(); problem != nil {
		return nil, engine.Rendered{}, problem
	}
	t.PinPort(o, in.Now)
	t.Accepted = o.State.Accepted
	if t.Accepted == nil {
		t.Accepted = &state.Accepted{Defaults: in.Config.Defaults}
	}
	t.ResolveNetworkPolicies(in.Config)
	if err := t.ResolveStore(o, in.Config, in.Now); err != nil {
		return nil, engine.Rendered{}, err
	}
	if err := t.ResolveTLS(o, in.Now); err != nil {
		return nil, engine.Rendered{}, err
	}
	t.Rotation = ptr.Deref(o.State.Rotation, state.Rotation{})
	t.SetSecrets(NewOperator(&Cluster{Etcd: etcd, Objects: o}, in.Config).secretNames(t))
	setCertificates(t)
	rendered, err := engine.Render(*t, p, o)
	rendered.Plan = p

	return t, rendered, err
}

// onApply adds what new manifests mean for the members.
func (s *simulation) onApply(run *engine.Run, manifest Manifest) {
	switch {
	case !run.Observation.StatefulSet.Exists && !run.Observation.ManagedResource.Exists:
		s.add(Line{
			Stage: run.Plan.Stage, Reason: run.Plan.Reason,
			Act: fmt.Sprintf("create the cluster's objects with %d of %d members", manifest.Replicas, run.Target.Etcd.Spec.Replicas),
		})
	case run.IsAddingMember() && run.Plan.NextSurge != nil:
		s.add(Line{Stage: run.Plan.Stage, Act: "start a temporary second member", Reason: run.Plan.Reason})
	case run.IsAddingMember():
		s.add(Line{Stage: run.Plan.Stage, Act: "start the next member", Reason: run.Plan.Reason})
	}
}

func (s *simulation) add(line Line) { s.lines = append(s.lines, line) }

// run reconciles until nothing is left to do. The last line says how it ends.
func (s *simulation) run() ([]Line, error) {
	idle := 0
	for range maxTicks {
		before := len(s.lines)
		result := s.operator.Reconcile()
		changed := s.operator.Cluster.Tick()
		isCompleted := result.State == druidv1alpha1.LastOperationStateSucceeded
		if changed || len(s.lines) > before {
			idle = 0
		} else if idle++; isCompleted || !helper.IsReconciling(result.Reason) && idle > 1 || idle > idleTicks {
			return append(s.lines, endOf(result)), errorOf(result)
		}
	}

	return s.lines, errors.New("the simulation does not end; this is a mistake of this command")
}

// endOf returns the last line of a simulation.
func endOf(result engine.Result) Line {
	p := result.Current().Plan
	switch {
	case result.State == druidv1alpha1.LastOperationStateSucceeded:
		return Line{Stage: p.Stage, Reason: p.Reason}
	case result.Reason == druidv1alpha1.ReasonInvalidSpec:
		return Line{Stage: p.Stage, Reason: result.Description, Refused: true}
	case p.WaitsFor != "":
		return Line{Stage: p.Stage, Reason: p.Reason, WaitsFor: p.WaitsFor}
	default:
		what, isWaiting := strings.CutPrefix(result.Description, "Waiting for ")
		if !isWaiting {
			what = ""
		}

		return Line{Stage: p.Stage, Reason: result.Description, WaitsFor: what}
	}
}

// errorOf returns the error of a simulation that ends in a failure of the operator. What the plan waits for is none: the last line has it.
func errorOf(result engine.Result) error {
	if result.Err == nil || result.Reason == druidv1alpha1.ReasonInvalidSpec || result.Current().Plan.WaitsFor != "" {
		return nil
	}

	return result.Err
}
