// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

// readIssued reads the Secrets that the secrets manager keeps for the Etcd. Their labels have all that is needed.
func (r *reader) readIssued(ctx context.Context) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Reader.List(ctx, list, client.InNamespace(r.etcd.Namespace), client.MatchingLabels{
		secretsmanager.LabelKeyManagedBy:       secretsmanager.LabelValueSecretsManager,
		secretsmanager.LabelKeyManagerIdentity: secrets.Identity(r.etcd.Name),
	}); err != nil {
		r.failed(etcdcluster.SectionSecrets, err)

		return
	}
	configs := secrets.ConfigNamesFor(r.etcd.Name)
	for _, item := range list.Items {
		r.observation.Issued = append(r.observation.Issued, etcdcluster.IssuedSecret{
			Name:              item.Name,
			ConfigName:        item.Labels[secretsmanager.LabelKeyName],
			ForApplications:   item.Labels[secretsmanager.LabelKeyName] == configs.Application,
			CreatedAt:         item.CreationTimestamp.Time,
			RotationStartedAt: timeIn(item.Labels[secretsmanager.LabelKeyLastRotationInitiationTime]),
			NotBefore:         timeIn(item.Labels[secretsmanager.LabelKeyIssuedAtTime]),
			NotAfter:          timeIn(item.Labels[secretsmanager.LabelKeyValidUntilTime]),
		})
	}
	slices.SortFunc(r.observation.Issued, func(a, b etcdcluster.IssuedSecret) int { return cmp.Compare(a.Name, b.Name) })
}

// timeIn reads the seconds since 1970 in a label; zero where there are none.
func timeIn(label string) time.Time {
	seconds, err := strconv.ParseInt(label, 10, 64)
	if err != nil {
		return time.Time{} // not set
	}

	return time.Unix(seconds, 0).UTC()
}
