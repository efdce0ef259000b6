// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"strconv"
	"time"

	extensionscontroller "github.com/gardener/gardener/extensions/pkg/controller"
	extensionssecretsmanager "github.com/gardener/gardener/extensions/pkg/util/secret/manager"
	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/engine"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/target"
)

// secretsManager returns Gardener's secrets manager for one Etcd. It is that of the shoot whose control plane is in the namespace, that of
// the Garden, or a plain one. The library gets the rotation that the operator has reached, not that of the Shoot or Garden. The library
// drops an old CA as soon as the phase is Completing.
func (r *execution) secretsManager(
	ctx context.Context, run *engine.Run, configs []extensionssecretsmanager.SecretConfigWithOptions, issued client.Client,
) (secretsmanager.Interface, error) {
	var (
		log      = logf.FromContext(ctx).WithName("secretsmanager")
		identity = secrets.Identity(run.Target.Etcd.Name)
		rotation = rotationOf(secrets.LibraryRotation(run.Target.Rotation))
		gardener = run.Observation.Gardener
	)
	switch {
	case gardener.Cluster != nil:
		cluster := &extensionscontroller.Cluster{ObjectMeta: metav1.ObjectMeta{Name: run.Target.Etcd.Namespace}, Shoot: &gardencorev1beta1.Shoot{}}
		cluster.Shoot.Status.Credentials = &gardencorev1beta1.ShootCredentials{Rotation: &gardencorev1beta1.ShootCredentialsRotation{CertificateAuthorities: rotation}}
		return extensionssecretsmanager.SecretsManagerForCluster(ctx, log, r.Clock, issued, cluster, identity, configs)
	case gardener.Garden != nil:
		garden := &operatorv1alpha1.Garden{}
		garden.Status.Credentials = &operatorv1alpha1.Credentials{Rotation: &operatorv1alpha1.CredentialsRotation{CertificateAuthorities: rotation}}
		return extensionssecretsmanager.SecretsManagerForGarden(ctx, log, r.Clock, issued, garden, identity, configs, run.Target.Etcd.Namespace)
	default:
		return secretsmanager.New(ctx, log, r.Clock, issued, identity,
			secretsmanager.WithNamespaces(run.Target.Etcd.Namespace),
			secretsmanager.WithSecretNamesToTimes(startTimes(run.Target)),
		)
	}
}

func rotationOf(rotation secrets.GardenerRotation) *gardencorev1beta1.CARotation {
	if rotation.InitiatedAt.IsZero() {
		return nil
	}
	return &gardencorev1beta1.CARotation{Phase: rotation.Phase, LastInitiationTime: &metav1.Time{Time: rotation.InitiatedAt}}
}

// startTimes are the times from which the secrets manager derives the names of CAs.
func startTimes(t *target.Target) map[string]time.Time {
	startedAt := t.Rotation.StartedAt
	if startedAt.IsZero() {
		return nil
	}
	names := secrets.ConfigNamesFor(t.Etcd.Name)
	return map[string]time.Time{names.ClientCA: startedAt, names.PeerCA: startedAt}
}

// renewal returns the time until the next renewal of a certificate or the next automatic stage of the CA rotation, plus a minute. The
// renewal or stage is due then. It returns at least a minute, or 0 if nothing is to be renewed.
func (i *issued) renewal(rotation state.Rotation, now time.Time) time.Duration {
	first := secrets.CompletesAt(rotation)
	for _, secret := range i.secrets {
		notBefore, notAfter := timeOf(secret.Labels[secretsmanager.LabelKeyIssuedAtTime]), timeOf(secret.Labels[secretsmanager.LabelKeyValidUntilTime])
		if notAfter.IsZero() {
			continue
		}
		if renewAt := secrets.RenewAt(notBefore, notAfter); first.IsZero() || renewAt.Before(first) {
			first = renewAt
		}
	}
	if first.IsZero() {
		return 0
	}
	return max(first.Sub(now)+time.Minute, time.Minute)
}

// timeOf reads the seconds since 1970 in a label; zero where there are none.
func timeOf(label string) time.Time {
	seconds, err := strconv.ParseInt(label, 10, 64)
	if err != nil {
		return time.Time{} // not set
	}
	return time.Unix(seconds, 0).UTC()
}
