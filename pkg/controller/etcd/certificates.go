// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	extensionssecretsmanager "github.com/gardener/gardener/extensions/pkg/util/secret/manager"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

// issued is what the secrets manager has issued for one target.
type issued struct {
	// manager issued it. Nil: nothing was issued, and nothing is left of earlier.
	manager secretsmanager.Interface
	// isPartial is true until all certificates are issued.
	isPartial bool
	// secrets are the certificates by the names of their configs.
	secrets map[string]*corev1.Secret
}

// issuedFor returns what was issued for the target of a run; empty before Certificates.
func (r *execution) issuedFor(run *engine.Run) *issued {
	if i := r.issued[run.Target.Source]; i != nil {
		return i
	}

	return &issued{}
}

// Certificates implements engine.Executor. Only this method issues certificates. It records a rotation that begins before it generates
// anything for it, and then ends the reconciliation. Therefore an operator that continues after an interruption, or after a rejected dry
// run, generates the same CA.
func (r *execution) Certificates(ctx context.Context, run *engine.Run) (secrets.Names, error) {
	t, o := run.Target, run.Observation
	if t.BeginsRotation(o) {
		return secrets.Names{}, r.beginRotation(ctx, run)
	}
	if !t.TLS.AnyManaged() && len(o.Issued) == 0 {
		return secrets.Names{}, nil
	}
	names, err := r.generate(ctx, run)
	if err != nil {
		return secrets.Names{}, err
	}
	if t.PublishesConnection(o) {
		return names, r.ensureIssuedConnection(ctx, run)
	}
	return names, nil
}

// errNoSlot means that no slot is free to generate certificates.
var errNoSlot = errors.New("other Etcds generate certificates")

// generate issues the certificates, in the stage that the rotation of their CAs has reached. It generates keys while it has a slot. Running
// Etcds, for example with a certificate to renew, are urgent.
func (r *execution) generate(ctx context.Context, run *engine.Run) (secrets.Names, error) {
	t, i := run.Target, &issued{isPartial: true}
	r.issued[t.Source] = i
	configs := secrets.ConfigsFor(t.Etcd, t.TLS, t.Rotation.Stage)
	withOptions := make([]extensionssecretsmanager.SecretConfigWithOptions, 0, len(configs))
	for _, config := range configs {
		withOptions = append(withOptions, extensionssecretsmanager.SecretConfigWithOptions{Config: config.Certificate, Options: config.Options})
	}

	release := func() {}
	issuing := &issuedClient{Client: r.Client, beforeGeneration: sync.OnceValue(func() error {
		r.requestedSlot = true
		slot, acquired := r.Issuing.Acquire(client.ObjectKeyFromObject(t.Etcd), run.Observation.ManagedResource.Exists)
		if !acquired {
			return errNoSlot
		}
		release = slot

		return nil
	})}
	defer func() {
		issuing.beforeGeneration = nil // the manager keeps the client
		release()
	}()
	var err error
	if i.manager, err = r.secretsManager(ctx, run, withOptions, issuing); err != nil {
		return secrets.Names{}, fmt.Errorf("preparing to issue certificates: %w", err)
	}
	i.secrets, err = extensionssecretsmanager.GenerateAllSecrets(ctx, i.manager, withOptions)
	if errors.Is(err, errNoSlot) {
		return secrets.Names{}, plan.Waiting(calls.SlotRetry, "Waiting until the operator has generated the certificates of other Etcds")
	}
	if err != nil {
		return secrets.Names{}, fmt.Errorf("issuing certificates: %w", err)
	}
	i.isPartial = false
	run.RequeueWithin(i.renewal(t.Rotation, r.Clock.Now()))
	if t.ContinuesRotation(run.Observation, r.Clock.Now()) {
		run.RequeueWithin(stagePeriod) // this reconciliation has to record first that none is under way
	}
	i.addTo(&run.Observation, t.Etcd.Name)
	return i.mounted(t.Etcd.Name), nil
}

// addTo adds the Secrets that pods mount to an observation.
func (i *issued) addTo(o *etcdcluster.Observation, etcdName string) {
	configs := secrets.ConfigNamesFor(etcdName)
	for _, config := range []string{configs.ClientCA, configs.PeerCA} {
		if bundle, found := i.manager.Get(config, secretsmanager.Bundle); found && i.secrets[config] != nil {
			o.AddSecret(bundle.Name, bundle.Data)
		}
	}
	for _, config := range []string{configs.Server, configs.Client, configs.Peer} {
		if secret := i.secrets[config]; secret != nil {
			o.AddSecret(secret.Name, secret.Data)
		}
	}
}

// beginRotation records the rotation that begins.
func (r *execution) beginRotation(ctx context.Context, run *engine.Run) error {
	mr, err := r.currentManagedResource(ctx, run.Target.Etcd)
	if err != nil {
		return err
	}
	recorded, err := recordOf(mr)
	if err != nil {
		return err
	}
	if mr == nil || !recorded.Rotation.IsSame(run.Observation.State.Rotation) {
		return plan.Waiting(stagePeriod, "Waiting for the ManagedResource to be seen as it is, before the rotation of the CAs begins")
	}
	run.Reach()
	return r.advance(ctx, run, mr, run.Target.Rotation)
}

// mounted are the names of the Secrets that pods mount: of CAs the bundle, which holds the old one too.
func (i *issued) mounted(etcdName string) secrets.Names {
	configs := secrets.ConfigNamesFor(etcdName)
	return secrets.Names{
		ClientCA: i.bundleOf(configs.ClientCA), PeerCA: i.bundleOf(configs.PeerCA),
		Server: i.nameOf(configs.Server), Client: i.nameOf(configs.Client), Peer: i.nameOf(configs.Peer),
	}
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
