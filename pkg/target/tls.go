// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"

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

// renewalPause is the time after the start of the validity of a certificate in which the operator waits for other renewals. Controllers renew
// the certificates of one Etcd seconds apart, and each rollout restarts all members.
const renewalPause = time.Minute

// ResolveCertificates compares the certificates of the user with the recorded ones. etcd-wrapper and the HTTPS server of the sidecar read
// their certificates once, so that the members must restart after a renewal in place. If a certificate is missing or does not verify, the record
// remains. If nothing is recorded yet, the certificates are recorded, and restart nothing. It returns the time after which a renewal can be
// rolled out, or 0.
func (t *Target) ResolveCertificates(o etcdcluster.Observation, now time.Time) time.Duration {
	t.KeepCertificates(o)
	if t.CAChange.IsPartial {
		return 0 // the next stage restarts all members
	}
	recorded, uses := t.Certificates, t.userCertificates()
	if len(uses) == 0 {
		t.Certificates = nil

		return 0
	}
	checksum, newest := t.certificatesChecksum(o, uses)
	switch {
	case checksum == "":
		return 0
	case o.StatefulSet.Exists && o.StatefulSet.TLS != etcdcluster.TLSOf(t.Etcd):
		t.Certificates = &state.Certificates{First: checksum} // other Secrets restart the members
	case recorded == nil && slices.ContainsFunc(o.Pods, func(pod etcdcluster.Pod) bool { return pod.CertificatesChecksum != "" }):
		t.Certificates = &state.Certificates{Renewed: checksum} // the record was lost, and the template must keep the annotation
	case recorded == nil || recorded.First == checksum:
		t.Certificates = &state.Certificates{First: checksum}
	case recorded.Renewed == checksum, etcdcluster.CertificatesProblem(t.Etcd, o, etcdcluster.TLSOf(t.Etcd), now) != "":
	case now.Sub(newest) >= 0 && now.Sub(newest) < renewalPause:
		return renewalPause - now.Sub(newest)
	default:
		t.Certificates = &state.Certificates{First: recorded.First, Renewed: checksum}
	}

	return 0
}

// KeepCertificates keeps the recorded checksums. They describe the pod template also after a renewal that was not rolled out yet.
func (t *Target) KeepCertificates(o etcdcluster.Observation) {
	t.Certificates = nil
	if o.State.Accepted != nil {
		t.Certificates = o.State.Accepted.Certificates
	}
}

// userCertificates returns the Secrets with certificates of the user that the pods mount.
func (t *Target) userCertificates() []helper.SecretUse {
	return slices.DeleteFunc(helper.TLSSecrets(t.Etcd), func(use helper.SecretUse) bool { return t.Secrets.Contains(use.Name) })
}

// certificatesChecksum returns one checksum of all certificates of the user that the pods mount, and the latest start of their validity. The
// checksum is empty if one of them is missing.
func (t *Target) certificatesChecksum(o etcdcluster.Observation, uses []helper.SecretUse) (checksum string, newest time.Time) {
	secrets := map[string]etcdcluster.Secret{}
	for _, secret := range o.Secrets {
		secrets[secret.Name] = secret
	}
	var lines []string
	for _, use := range uses {
		keys := slices.DeleteFunc(slices.Clone(use.Keys), func(key string) bool { return key == corev1.TLSPrivateKeyKey })
		if len(keys) == 0 {
			keys = []string{cmp.Or(t.Accepted.CADataKeys[use.Name], "ca.crt")} // as the pods are rendered
		}
		for _, key := range keys {
			found := secrets[use.Name].CertificateChecksums[key]
			if found == "" {
				return "", time.Time{}
			}
			lines = append(lines, use.Name+"/"+key+"="+found)
		}
		for _, certificate := range secrets[use.Name].Certificates {
			if certificate.NotBefore.After(newest) {
				newest = certificate.NotBefore
			}
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))

	return hex.EncodeToString(sum[:]), newest
}

// RenewedCertificates returns the checksum of the certificates of the user after a renewal in place. It is empty if there was no renewal.
func (t *Target) RenewedCertificates() string {
	if t.Certificates == nil {
		return ""
	}

	return t.Certificates.Renewed
}

// HasNewerSecrets is true if a pod mounts other Secrets than the operator provides now: a certificate was renewed, or its CA is being rotated.
// It is also true if a pod has another checksum of the certificates of the user than the pod template.
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
