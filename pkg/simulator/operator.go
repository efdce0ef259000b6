// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/evidence"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// Operator reconciles a simulated cluster with the engine of the operator. It implements engine.Observer and engine.Executor.
type Operator struct {
	// Cluster is the simulated cluster.
	Cluster *Cluster
	// Config is the part of the operator's configuration that decides how specs are resolved.
	Config target.Config
	// Start is when the operator began to reconcile. Zero: decisions do not consider it.
	Start time.Time
	// Render renders a target under a plan. Nil: engine.Render.
	Render func(t target.Target, p plan.Plan, o etcdcluster.Observation) (engine.Rendered, error)
	// Manifest returns what the simulation needs of a rendering. Nil: ManifestOf.
	Manifest func(t *target.Target, rendered engine.Rendered) Manifest
	// OnApply is called before new manifests are applied. Nil: nothing is called.
	OnApply func(run *engine.Run, manifest Manifest)
	// OnStep is called before a step is executed, and the function that it returns afterwards with the result. Nil, also as what it returns:
	// nothing is called.
	OnStep func(run *engine.Run, step plan.Step, reason string) func(err error)
	// OnObserve is called with each observation of a reconciliation before it is used. Nil: nothing is called.
	OnObserve func(o *etcdcluster.Observation)
	// OnRotation is called before a stage of a CA rotation begins. Nil: nothing is called.
	OnRotation func(stage state.RotationStage)

	// ClockOffset is by how much the clock of the operator is ahead of that of the API server. Negative: it is behind.
	ClockOffset time.Duration
	// WithoutCare is true if the care controller records no evidence and compares no data, for example because its reconciliations take long.
	WithoutCare bool

	// first are the issued Secrets that the cluster mounts at the start. firstModes are the TLS modes, and firstRotation is the rotation that is
	// recorded then.
	first         secrets.Names
	firstModes    state.TLSModes
	firstRotation state.Rotation
}

// NewOperator returns an operator for a cluster.
func NewOperator(c *Cluster, config target.Config) *Operator {
	o := &Operator{Cluster: c, Config: config}
	mounted := c.Objects.StatefulSet.TLS
	o.firstModes = secrets.RunningModes(c.Etcd.Name, c.Objects.State.TLS, c.Objects.StatefulSet.Exists, mounted.ClientCA, mounted.PeerCA)
	if o.firstModes.Client != state.ModeUserProvided {
		o.first.ClientCA, o.first.Server, o.first.Client = mounted.ClientCA, mounted.Server, mounted.Client
	}
	if o.firstModes.Peer != state.ModeUserProvided {
		o.first.PeerCA, o.first.Peer = mounted.PeerCA, mounted.Peer
	}
	if recorded := c.Objects.State.Rotation; recorded != nil {
		o.firstRotation = *recorded
	}

	return o
}

// Reconcile records the evidence of a quorum, as the care controller does, and reconciles the Etcd of the cluster once. It removes the
// annotations of consumed requests, and records a success and the joined cluster in the status of the Etcd, as the controller does.
func (o *Operator) Reconcile() engine.Result {
	o.Cluster.updateStrategy = o.Config.UpdateStrategy
	if !o.WithoutCare {
		evidence.ChangeAfter(o.Cluster.Etcd, o.Cluster.observeMembers(), o.Now()).Apply(&o.Cluster.Objects.State)
	}
	o.Cluster.reportSpace()
	if !o.WithoutCare {
		o.Cluster.compareData()
	}
	etcd, render := o.Cluster.Etcd, o.Render
	if render == nil {
		render = engine.Render
	}
	stored := etcd.DeepCopy()
	stored.Status.Conditions = slices.DeleteFunc(stored.Status.Conditions, func(condition druidv1alpha1.Condition) bool {
		return condition.Type == druidv1alpha1.ConditionTypeReady || condition.Type == druidv1alpha1.ConditionTypeAllMembersReady // of the real cluster
	})
	result := engine.Engine{Observer: o, Executor: o, Render: render, Config: o.Config, Clock: operatorClock{o}, Start: o.Start}.Reconcile(context.Background(), stored)
	if result.EndsVerification {
		o.Cluster.Objects.RestoreVerification.Recorded = true
	}
	for _, request := range result.Requests {
		delete(etcd.Annotations, request.Annotation)
	}
	if engine.IsInterrupted(result.Err) {
		return result
	}
	etcd.Status.BootstrapWithExistingCluster = result.JoinedCluster(etcd.Status, o.Now())
	o.Cluster.recordJoin()
	if result.Newest != nil && result.Newest.Applied {
		helper.RemoveOperationAnnotations(etcd)
	}
	result.SetObservedGeneration(&etcd.Status)
	if !result.KeepOperation {
		etcd.Status.LastOperation = &druidv1alpha1.LastOperation{State: result.State}
	}

	return result
}

// Observe implements engine.Observer.
func (o *Operator) Observe(_ context.Context, run *engine.Run) (etcdcluster.Observation, error) {
	observed := o.Cluster.Observe()
	etcd := helper.WithUpdateStrategy(run.Target.Canonical, o.Config.UpdateStrategy)
	if run.Target.NeedsMembers(observed, o.Config) || engine.QueriesOnlyMember(etcd, observed, o.Now()) {
		observed.Etcd = o.Cluster.queryMembers()
	}
	if run.Target.RequestsDowngrade(observed, o.Config) {
		observed.Etcd.AuthEnabled = new(false)
	}
	if store := observed.State.Store; store != nil {
		observed.StoreLocation = store.String()
	}
	if o.OnObserve != nil {
		o.OnObserve(&observed)
	}

	return observed, nil
}

// Prepare implements engine.Executor.
func (*Operator) Prepare(context.Context, *engine.Run) error { return nil }

// Maintain implements engine.Executor.
func (o *Operator) Maintain(_ context.Context, _ *engine.Run, withoutHolder []etcdcluster.Member) error {
	for _, member := range withoutHolder {
		o.Cluster.SetLeaseHolder(member.Name, member.Listed.ID)
	}

	return nil
}

// Certificates implements engine.Executor. It returns the names of the Secrets that the cluster mounts, and invents others for certificates that
// are not issued yet.
func (o *Operator) Certificates(_ context.Context, run *engine.Run) (secrets.Names, error) {
	t := run.Target
	if t.BeginsRotation(run.Observation) {
		run.Reach()

		return secrets.Names{}, o.setRotation(t.Rotation)
	}

	names := o.secretNames(t)
	o.issueFor(&run.Observation, names)

	return names, nil
}

// Complete implements engine.Executor.
func (o *Operator) Complete(_ context.Context, run *engine.Run) error {
	rotation := run.Target.Rotation
	if next := secrets.AdvanceRotation(rotation, o.Now()); run.Target.TLS.AnyManaged() && next != rotation {
		return o.setRotation(next)
	}

	return nil
}

func (o *Operator) setRotation(rotation state.Rotation) error {
	if o.OnRotation != nil {
		o.OnRotation(rotation.Stage)
	}
	o.Cluster.Objects.State.Rotation = &rotation

	return plan.Waiting(time.Second, "Waiting for the next stage of the rotation of the CAs")
}

// secretNames returns the names of the Secrets that the operator provides for a target, in the stage of its CA rotation.
func (o *Operator) secretNames(t *target.Target) secrets.Names {
	configs, now, before := secrets.ConfigNamesFor(t.Etcd.Name), epochsOf(t.Rotation), epochsOf(o.firstRotation)
	names := secrets.Names{ClientCA: configs.ClientCA, PeerCA: configs.PeerCA, Server: configs.Server, Client: configs.Client, Peer: configs.Peer}
	if !t.Rotation.StartedAt.Equal(o.firstRotation.StartedAt) {
		before = epochs{}
	}
	name := func(first, invented, epoch, firstEpoch string) string {
		switch {
		case first != "" && epoch == firstEpoch && o.isRenewed(first):
			return first + "-renewed"
		case first != "" && epoch == firstEpoch:
			return first
		case epoch == "":
			return invented
		default:
			return fmt.Sprintf("%s-%s-%d", invented, epoch, t.Rotation.StartedAt.Unix())
		}
	}
	if t.TLS.Client == state.ModeManaged {
		names.ClientCA = name(o.first.ClientCA, names.ClientCA, now.bundle, before.bundle)
		names.Server = name(o.first.Server, names.Server, now.server, before.server)
		names.Client = name(o.first.Client, names.Client, now.client, before.client)
	}
	if t.TLS.Peer == state.ModeManaged {
		names.PeerCA = name(o.first.PeerCA, names.PeerCA, now.bundle, before.bundle)
		names.Peer = name(o.first.Peer, names.Peer, now.client, before.client)
	}

	return names
}

// isRenewed is true for a certificate that the operator has to renew. CAs are rotated instead.
func (o *Operator) isRenewed(name string) bool {
	for _, issued := range o.Cluster.Objects.Issued {
		if issued.Name == name && !issued.NotAfter.IsZero() && !o.Now().Before(secrets.RenewAt(issued.NotBefore, issued.NotAfter)) {
			configs := secrets.ConfigNamesFor(o.Cluster.Etcd.Name)

			return issued.ConfigName != configs.ClientCA && issued.ConfigName != configs.PeerCA
		}
	}

	return false
}

// epochs say which CA is in a bundle or has signed a certificate. Empty: the one before the rotation.
type epochs struct{ bundle, client, server string }

func epochsOf(rotation state.Rotation) epochs {
	switch {
	case rotation.StartedAt.IsZero():
		return epochs{}
	case rotation.Stage == state.StagePrepareBundle:
		return epochs{bundle: "both"}
	case rotation.Stage == state.StagePrepareLeaves, rotation.Stage == state.StagePrepared:
		return epochs{bundle: "both", client: "new"}
	case rotation.Stage == state.StageCompleteLeaves:
		return epochs{bundle: "both", client: "new", server: "new"}
	default:
		return epochs{bundle: "new", client: "new", server: "new"}
	}
}

// Apply implements engine.Executor.
func (o *Operator) Apply(_ context.Context, run *engine.Run) (engine.Applied, error) {
	manifestOf := o.Manifest
	if manifestOf == nil {
		manifestOf = ManifestOf
	}
	manifest, next := manifestOf(run.Target, run.Rendered), run.NextState()
	if next.Store == nil {
		next.Store = run.Observation.State.Store // the annotation of the store stays
	}
	if o.Cluster.Written() == nil || !o.Cluster.Written().isSame(manifest) {
		if err := run.CheckObjects(); err != nil {
			return engine.Applied{}, err
		}
		if o.OnApply != nil {
			o.OnApply(run, manifest)
		}
	}
	o.Cluster.CreateMemberLeases()
	for _, bundle := range run.Target.CAChange.Bundles {
		o.addSecret(&run.Observation, bundle.Name, etcdcluster.CertificatesIn(map[string][]byte{etcdcluster.BundleKey: bundle.PEM})...)
	}
	if o.Cluster.Apply(manifest, next) {
		return engine.Applied{Changed: true}, plan.Waiting(engine.FallbackResync, "Waiting for ManagedResource %s to be applied", o.Cluster.Objects.ManagedResource.Name)
	}

	return engine.Applied{IsObserved: o.Cluster.Objects.ManagedResource.GenerationObserved}, nil
}

// RepairDrift implements engine.Executor. No other writer changes objects.
func (*Operator) RepairDrift(context.Context, *engine.Run, bool) (bool, error) { return false, nil }

// RecordEvidence implements engine.Executor.
func (o *Operator) RecordEvidence(_ context.Context, run *engine.Run, change evidence.Change) error {
	change.Apply(&o.Cluster.Objects.State)
	change.Apply(&run.Observation.State)

	return nil
}

// Do implements engine.Executor.
func (o *Operator) Do(_ context.Context, run *engine.Run, step plan.Step, reason string) error {
	if err := o.resolveForVerification(run, step); err != nil {
		return err
	}
	var executed func(err error)
	if o.OnStep != nil {
		executed = o.OnStep(run, step, reason)
	}
	err := o.Cluster.Execute(step)
	switch step.(type) { //nolint:gochecksumtype // others have no store
	case plan.VerifyRestore:
		o.Cluster.Objects.RestoreVerification.Store = run.Target.StoreRecord.String()
	case plan.RecoverData:
		o.Cluster.Objects.RecoveryJob.Store = run.Target.StoreRecord.String()
	}
	if executed != nil {
		executed(err)
	}
	if errors.Is(err, ErrEvictionRefused) || errors.Is(err, ErrQuotaExceeded) {
		return plan.Waiting(time.Second, "Waiting for the API server to accept step %s: %s", plan.TraitsOf(step).Kind, err)
	}

	return err
}

// resolveForVerification resolves the store before a Job is created that uses it.
func (o *Operator) resolveForVerification(run *engine.Run, step plan.Step) error {
	switch step.(type) { //nolint:gochecksumtype // others use no store
	case plan.VerifyRestore, plan.RecoverData:
	default:
		return nil
	}

	return run.Target.ResolveStore(run.Observation, o.Config, o.Now())
}

// ManifestOf returns what the simulation needs of a rendering. The revision is a checksum of the pod template.
func ManifestOf(t *target.Target, rendered engine.Rendered) Manifest {
	template := rendered.StatefulSet.Spec.Template
	data, err := json.Marshal(template)
	if err != nil {
		panic(err) // an API object
	}
	sum := sha256.Sum256(data)
	manifest := Manifest{
		Rendering: rendered.Rendering, Revision: hex.EncodeToString(sum[:]), Replicas: rendered.Plan.Replicas, ClusterSize: rendered.Plan.ClusterSize, Advertised: AdvertisedIn(rendered.Plan), HasPreStopHook: cmp.Or(rendered.Plan.PodSize, rendered.Plan.ClusterSize) > 1,
		PeerPort: helper.PeerPort(t.Etcd), Store: etcdcluster.StoreFingerprint(template.Spec), EtcdVersion: rendered.Plan.EtcdVersion,
		TLS: etcdcluster.TLSOf(t.Etcd), CertificatesChecksum: t.RenewedCertificates(), ServiceMember: rendered.Plan.ServiceMember(), ExcludesPods: rendered.Plan.ExcludesPods,
	}
	if existing := rendered.Values.Bootstrap; existing != nil {
		manifest.ClusterSize += int32(len(existing.Members)) // #nosec G115 -- a few members
	}
	for _, container := range template.Spec.Containers {
		if container.Name == etcdcluster.ContainerEtcd {
			manifest.Image = container.Image
		}
	}

	return manifest
}

// Now returns the time of the operator.
func (o *Operator) Now() time.Time { return o.Cluster.Now().Add(o.ClockOffset) }

// operatorClock is the clock of an operator.
type operatorClock struct{ operator *Operator }

// Now implements clock.PassiveClock.
func (c operatorClock) Now() time.Time { return c.operator.Now() }

// Since implements clock.PassiveClock.
func (c operatorClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
