// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	extensionssecretsmanager "github.com/gardener/gardener/extensions/pkg/util/secret/manager"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// issued is what was issued for the TLS of one Etcd.
type issued struct {
	// modes say what is ours.
	modes state.TLSModes
	// rotation is the state of the rotation of the CAs.
	rotation state.Rotation
	// manager issued it. Nil: nothing was, and nothing is left of earlier.
	manager secretsmanager.Interface
	// secrets are the certificates by the names of their configs.
	secrets map[string]*corev1.Secret
	// names are the names of what pods mount.
	names secrets.Names
}

// issue decides how the connections of an Etcd are secured, has issued what is ours, and fills it into the canonical form, so
// that whatever comes after needs to know nothing about it. It is the only place where certificates are issued.
func (r *Reconciler) issue(ctx context.Context, p *pass) error {
	o := p.observation
	for _, section := range []etcdcluster.Section{etcdcluster.SectionSecrets, etcdcluster.SectionGardener} {
		if failure := o.Failure(section); failure != "" {
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading %s: %s", section, failure))
		}
	}
	modes, errs := secrets.Decide(p.canonical, runningModes(p.canonical, o), peers.PinnedTLS(p.canonical, o, r.Clock.Now()))
	if len(errs) > 0 {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate())
	}

	p.issued = &issued{modes: modes}
	if modes.AnyManaged() {
		if err := r.decideRotation(ctx, p); err != nil {
			return err
		}
	}
	if modes.AnyManaged() || len(o.Issued) > 0 {
		if err := r.generate(ctx, p); err != nil {
			return plan.Failed(druidv1alpha1.ErrorCodeSyncSecrets, err)
		}
	}
	p.canonical = secrets.Effective(p.canonical, modes, p.issued.names)
	if modes.Client == state.ModeManaged && servesProvisioned(p.canonical.Name, o) {
		return plan.Failed(druidv1alpha1.ErrorCodeSyncSecrets, r.ensureConnection(ctx, p))
	}
	return nil
}

// runningModes are how the connections of the Etcd are secured now.
func runningModes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) state.TLSModes {
	return secrets.RunningModes(etcd.Name, o.State.TLS, o.StatefulSet.Exists, o.StatefulSet.TLS.ClientCA, o.StatefulSet.TLS.PeerCA)
}

// servesProvisioned is true when every member serves clients with certificates of ours, or none does yet of a new cluster: what a
// spec asks for may never come to be, and applications are told of what is. Where TLS is switched on they are told when all members
// were restarted.
func servesProvisioned(etcdName string, o etcdcluster.Observation) bool {
	var mounted []etcdcluster.MountedTLS
	if o.StatefulSet.Exists {
		mounted = append(mounted, o.StatefulSet.TLS)
	} else if recorded := o.State.TLS; recorded.IsKnown() && recorded.Client != state.ModeManaged {
		return false
	}
	for _, pod := range o.Pods {
		mounted = append(mounted, pod.TLS)
	}
	return !slices.ContainsFunc(mounted, func(tls etcdcluster.MountedTLS) bool {
		return secrets.RunningModes(etcdName, state.TLSModes{}, true, tls.ClientCA, tls.PeerCA).Client != state.ModeManaged
	})
}

// generate has the certificates issued, in the stage that the rotation of their CAs has reached.
func (r *Reconciler) generate(ctx context.Context, p *pass) error {
	i := p.issued
	configs := secrets.ConfigsFor(p.canonical, i.modes, i.rotation.Stage)
	withOptions := make([]extensionssecretsmanager.SecretConfigWithOptions, 0, len(configs))
	for _, config := range configs {
		withOptions = append(withOptions, extensionssecretsmanager.SecretConfigWithOptions{Config: config.Certificate, Options: config.Options})
	}

	var err error
	if i.manager, err = r.secretsManager(ctx, p, withOptions); err != nil {
		return fmt.Errorf("preparing to issue certificates: %w", err)
	}
	if i.secrets, err = extensionssecretsmanager.GenerateAllSecrets(ctx, i.manager, withOptions); err != nil {
		return fmt.Errorf("issuing certificates: %w", err)
	}
	i.names = i.mounted(p.canonical.Name)
	p.comeBack = i.renewal(r.Clock.Now())
	if p.observation.ManagedResource.Exists && i.modes.AnyManaged() && secrets.Begins(secrets.Next(&i.rotation, askedFor(p, r.Clock.Now())), &i.rotation) {
		p.comeBack = stagePeriod // this pass has to remember first that none is under way
	}
	return nil
}

// decideRotation decides how far the rotation of the CAs is. One that begins is remembered before anything is generated for it, and
// ends the pass: whoever goes on after an interruption, or after a dry run was refused, generates the same CA.
func (r *Reconciler) decideRotation(ctx context.Context, p *pass) error {
	recorded := p.observation.State.Rotation
	p.issued.rotation = secrets.Next(recorded, askedFor(p, r.Clock.Now()))
	if !secrets.Begins(p.issued.rotation, recorded) {
		return nil
	}
	mr, err := r.currentManagedResource(ctx, p.canonical)
	if err != nil {
		return err
	}
	if mr == nil || !isSameRotation(state.Decode(mr.Annotations).Rotation, recorded) {
		return plan.Waiting(stagePeriod, "Waiting for the ManagedResource to be seen as it is, before the rotation of the CAs begins")
	}
	p.reached = true
	return r.advance(ctx, p, mr, p.issued.rotation)
}

// isSameRotation compares two records of a rotation. Nil: none is recorded.
func isSameRotation(a, b *state.Rotation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.String() == b.String()
}

// askedFor is who asks for a rotation of the CAs.
func askedFor(p *pass, now time.Time) secrets.RotationInput {
	asked := secrets.RotationInput{Annotation: p.canonical.Annotations[druidv1alpha1.RotateCAAnnotation], Now: now}
	gardener := p.observation.Gardener
	for _, rotation := range []*etcdcluster.CARotation{gardener.Garden, gardener.Cluster} {
		if rotation != nil {
			asked.Gardener = &secrets.GardenerRotation{Phase: gardencorev1beta1.CredentialsRotationPhase(rotation.Phase), InitiatedAt: rotation.InitiatedAt}
		}
	}
	names := secrets.ConfigNamesFor(p.canonical.Name)
	for _, secret := range p.observation.Issued {
		if secret.ConfigName == names.ClientCA || secret.ConfigName == names.PeerCA {
			asked.CAs = append(asked.CAs, secrets.CA{
				ConfigName: secret.ConfigName, CreatedAt: secret.CreatedAt, RotationStartedAt: secret.RotationStartedAt,
				NotBefore: secret.NotBefore, NotAfter: secret.NotAfter,
			})
		}
	}
	return asked
}

// mounted are the names of the Secrets that pods mount: of CAs the bundle, which holds the old one too.
func (i *issued) mounted(etcdName string) secrets.Names {
	configs := secrets.ConfigNamesFor(etcdName)
	return secrets.Names{
		ClientCA: i.bundleOf(configs.ClientCA), PeerCA: i.bundleOf(configs.PeerCA),
		Server: i.nameOf(configs.Server), Client: i.nameOf(configs.Client), Peer: i.nameOf(configs.Peer),
	}
}

// isAheadOf is true when a pod mounts something else than what was issued: it was renewed, or its CA is being rotated. It is false of nil,
// in a reconciliation that renders nothing.
func (i *issued) isAheadOf(o etcdcluster.Observation) bool {
	if i == nil {
		return false
	}
	for _, pod := range o.Pods {
		client := secrets.Names{ClientCA: pod.TLS.ClientCA, Server: pod.TLS.Server, Client: pod.TLS.Client}
		peer := secrets.Names{PeerCA: pod.TLS.PeerCA, Peer: pod.TLS.Peer}
		if i.modes.Client == state.ModeManaged && client != (secrets.Names{ClientCA: i.names.ClientCA, Server: i.names.Server, Client: i.names.Client}) ||
			i.modes.Peer == state.ModeManaged && peer != (secrets.Names{PeerCA: i.names.PeerCA, Peer: i.names.Peer}) {
			return true
		}
	}
	return false
}

func (i *issued) nameOf(config string) string {
	if secret := i.secrets[config]; secret != nil {
		return secret.Name
	}
	return ""
}

func (i *issued) bundleOf(config string) string {
	if i.secrets[config] == nil {
		return ""
	}
	if bundle, found := i.manager.Get(config, secretsmanager.Bundle); found {
		return bundle.Name
	}
	return ""
}
