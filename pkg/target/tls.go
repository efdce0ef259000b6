// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/peers"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// ResolveTLS decides how the connections of the cluster are secured, and how far the rotation of its CAs is.
func (t *Target) ResolveTLS(o etcdcluster.Observation, now time.Time) error {
	for _, section := range []etcdcluster.Section{etcdcluster.SectionSecrets, etcdcluster.SectionGardener} {
		if failure := o.Failure(section); failure != "" {
			return plan.Failed(druidv1alpha1.ErrorCodeObserve, fmt.Errorf("reading %s: %s", section, failure))
		}
	}
	modes, errs := secrets.Decide(t.Etcd, runningModes(t.Etcd, o), peers.PinnedTLS(t.Etcd, o, now))
	if len(errs) > 0 {
		return plan.Refused(druidv1alpha1.ErrorCodeInvalidSpec, errs.ToAggregate())
	}
	t.TLS, t.Rotation = modes, state.Rotation{}
	if modes.AnyManaged() {
		t.Rotation = secrets.Next(o.State.Rotation, t.rotationInput(o, now))
	}

	return nil
}

// BeginsRotation is true if the rotation has to be recorded before a CA is generated for it. An operator that is interrupted then generates
// the same CA again.
func (t *Target) BeginsRotation(o etcdcluster.Observation) bool {
	return t.TLS.AnyManaged() && secrets.Begins(t.Rotation, o.State.Rotation)
}

// ContinuesRotation is true if another rotation begins as soon as the one of this target is recorded.
func (t *Target) ContinuesRotation(o etcdcluster.Observation, now time.Time) bool {
	return o.ManagedResource.Exists && t.TLS.AnyManaged() && secrets.Begins(secrets.Next(&t.Rotation, t.rotationInput(o, now)), &t.Rotation)
}

// SetSecrets fills the Secrets that the operator provides into Etcd, so that rendering does not distinguish them from Secrets of the user.
func (t *Target) SetSecrets(names secrets.Names) {
	t.Secrets = names
	t.Etcd = secrets.Effective(t.Etcd, t.TLS, names)
}

// ResolveCertificates compares the certificates of the user with the recorded ones. The members read certificates once, so that they must
// restart after a renewal in place. A generation that an earlier operator accepted has no record and stays without one: its members would
// restart because of the new operator. If a Secret is missing, the recorded checksums remain.
func (t *Target) ResolveCertificates(o etcdcluster.Observation) {
	recorded := o.State.Certificates
	checksum, known := t.certificatesChecksum(o)
	switch {
	case !known:
		t.Certificates = recorded
	case checksum == "":
		t.Certificates = nil
	case recorded == nil && o.State.Accepted != nil && o.State.Accepted.Generation == t.Stored.Generation:
		t.Certificates = nil
	case recorded == nil || recorded.First == checksum:
		t.Certificates = &state.Certificates{First: checksum}
	default:
		t.Certificates = &state.Certificates{First: recorded.First, Renewed: checksum}
	}
}

// KeepCertificates keeps the recorded checksums. They describe the running pods also after a renewal that was not observed yet.
func (t *Target) KeepCertificates(o etcdcluster.Observation) { t.Certificates = o.State.Certificates }

// certificatesChecksum returns one checksum of all certificates of the user that the pods mount. It is empty if there are none. It returns
// false if a Secret is not known.
func (t *Target) certificatesChecksum(o etcdcluster.Observation) (checksum string, known bool) {
	byName := map[string]etcdcluster.Secret{}
	for _, secret := range o.Secrets {
		byName[secret.Name] = secret
	}
	var names []string
	for _, use := range helper.NeededSecrets(t.Etcd) {
		if !t.Secrets.Contains(use.Name) {
			names = append(names, use.Name)
		}
	}
	slices.Sort(names)
	hash, found := sha256.New(), false
	for _, name := range slices.Compact(names) {
		secret, isRead := byName[name]
		if !isRead || !secret.Exists {
			return "", false
		}
		if secret.CertificatesChecksum != "" {
			_, _ = fmt.Fprintf(hash, "%s=%s\n", name, secret.CertificatesChecksum)
			found = true
		}
	}
	if !found {
		return "", true
	}

	return hex.EncodeToString(hash.Sum(nil)), true
}

// RenewedCertificates returns the checksum of the certificates of the user after a renewal in place. It is empty if there was no renewal.
func (t *Target) RenewedCertificates() string {
	if t.Certificates == nil {
		return ""
	}

	return t.Certificates.Renewed
}

// HasNewerSecrets is true if a pod mounts other Secrets than the operator provides now: a certificate was renewed, or its CA is being rotated.
// It is also true if the user has renewed a certificate in place since a pod started.
func (t *Target) HasNewerSecrets(o etcdcluster.Observation) bool {
	for _, pod := range o.Pods {
		if pod.CertificatesChecksum != t.RenewedCertificates() {
			return true
		}
		client := secrets.Names{ClientCA: pod.TLS.ClientCA, Server: pod.TLS.Server, Client: pod.TLS.Client}
		peer := secrets.Names{PeerCA: pod.TLS.PeerCA, Peer: pod.TLS.Peer}
		if t.TLS.Client == state.ModeManaged && client != (secrets.Names{ClientCA: t.Secrets.ClientCA, Server: t.Secrets.Server, Client: t.Secrets.Client}) ||
			t.TLS.Peer == state.ModeManaged && peer != (secrets.Names{PeerCA: t.Secrets.PeerCA, Peer: t.Secrets.Peer}) {
			return true
		}
	}

	return false
}

// PublishesConnection is true if the operator writes the Secret with which applications connect. Either every member presents a certificate
// of the operator to clients, or no member of a new cluster runs yet. What a spec requests may never become true, and applications must
// connect to what is. If TLS is enabled, they learn of it when all members were restarted.
func (t *Target) PublishesConnection(o etcdcluster.Observation) bool {
	if t.TLS.Client != state.ModeManaged {
		return false
	}
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
		return secrets.RunningModes(t.Etcd.Name, state.TLSModes{}, true, tls.ClientCA, tls.PeerCA).Client != state.ModeManaged
	})
}

// IsPeerChangePending is true if the spec has other peer URLs than the members can be rendered with now.
func (t *Target) IsPeerChangePending(o etcdcluster.Observation, now time.Time) bool {
	return peers.WithPinnedPort(t.Canonical, o, now) != t.Canonical ||
		secrets.IsPeerChangePending(t.Canonical, runningModes(t.Canonical, o), peers.PinnedTLS(t.Canonical, o, now))
}

// runningModes are the TLS modes with which the cluster runs now.
func runningModes(etcd *druidv1alpha1.Etcd, o etcdcluster.Observation) state.TLSModes {
	return secrets.RunningModes(etcd.Name, o.State.TLS, o.StatefulSet.Exists, o.StatefulSet.TLS.ClientCA, o.StatefulSet.TLS.PeerCA)
}

// rotationInput is what requests a rotation of the CAs.
func (t *Target) rotationInput(o etcdcluster.Observation, now time.Time) secrets.RotationInput {
	input := secrets.RotationInput{Annotation: t.Etcd.Annotations[druidv1alpha1.RotateCAAnnotation], Now: now}
	for _, rotation := range []*etcdcluster.CARotation{o.Gardener.Garden, o.Gardener.Cluster} {
		if rotation != nil {
			input.Gardener = &secrets.GardenerRotation{Phase: gardencorev1beta1.CredentialsRotationPhase(rotation.Phase), InitiatedAt: rotation.InitiatedAt}
		}
	}
	names := secrets.ConfigNamesFor(t.Etcd.Name)
	for _, secret := range o.Issued {
		if secret.ConfigName == names.ClientCA || secret.ConfigName == names.PeerCA {
			input.CAs = append(input.CAs, secrets.CA{
				ConfigName: secret.ConfigName, CreatedAt: secret.CreatedAt, RotationStartedAt: secret.RotationStartedAt,
				NotBefore: secret.NotBefore, NotAfter: secret.NotAfter,
			})
		}
	}

	return input
}
