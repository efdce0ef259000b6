// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	operatorv1alpha1 "github.com/gardener/gardener/pkg/apis/operator/v1alpha1"
	"github.com/gardener/gardener/pkg/extensions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
)

// BackupEntryIndex indexes BackupEntries by the namespace in their name.
const BackupEntryIndex = "metadata.name/namespace"

// IndexBackupEntry is the value of a BackupEntry in BackupEntryIndex.
func IndexBackupEntry(object client.Object) []string {
	return []string{backupstore.EntryNamespace(object.GetName())}
}

// readGardener reads what Gardener says about the namespace of the Etcd.
func (r *reader) readGardener(ctx context.Context) {
	for _, read := range []func(context.Context) error{r.readCluster, r.readGarden, r.readBackupEntries} {
		if err := read(ctx); err != nil {
			r.failed(etcdcluster.SectionGardener, err)
		}
	}
}

// ObserveStore reads what Gardener says about the store in the spec of an Etcd, of which nothing but namespace, name and store
// matters.
func (o *Observer) ObserveStore(ctx context.Context, etcd *druidv1alpha1.Etcd) (etcdcluster.Gardener, error) {
	reader := &reader{Observer: o, etcd: etcd}
	if err := reader.readCluster(ctx); err != nil {
		return etcdcluster.Gardener{}, err
	}
	if err := reader.readBackupEntries(ctx); err != nil {
		return etcdcluster.Gardener{}, err
	}

	return reader.observation.Gardener, nil
}

func (r *reader) readCluster(ctx context.Context) error {
	if !r.Gardener {
		return nil
	}
	cluster := &extensionsv1alpha1.Cluster{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: r.etcd.Namespace}, cluster); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.observation.Gardener.Cluster = &etcdcluster.CARotation{}
	shoot, err := extensions.ShootFromCluster(cluster)
	if err != nil {
		return fmt.Errorf("reading the Shoot in Cluster %s: %w", cluster.Name, err)
	}
	if shoot != nil && shoot.Status.Credentials != nil && shoot.Status.Credentials.Rotation != nil {
		r.observation.Gardener.Cluster = rotationFor(shoot.Status.Credentials.Rotation.CertificateAuthorities)
	}

	return nil
}

// readGarden reads the Garden for an Etcd in the namespace garden. A Gardener installation has one Garden.
func (r *reader) readGarden(ctx context.Context) error {
	if !r.Garden || r.etcd.Namespace != v1beta1constants.GardenNamespace {
		return nil
	}
	gardens := &operatorv1alpha1.GardenList{}
	if err := r.Reader.List(ctx, gardens); err != nil {
		return fmt.Errorf("listing Gardens: %w", err)
	}
	if len(gardens.Items) == 0 {
		return nil
	}
	r.observation.Gardener.Garden = &etcdcluster.CARotation{}
	if credentials := gardens.Items[0].Status.Credentials; credentials != nil && credentials.Rotation != nil {
		r.observation.Gardener.Garden = rotationFor(credentials.Rotation.CertificateAuthorities)
	}

	return nil
}

func rotationFor(rotation *gardencorev1beta1.CARotation) *etcdcluster.CARotation {
	if rotation == nil {
		return &etcdcluster.CARotation{}
	}
	fact := &etcdcluster.CARotation{Phase: string(rotation.Phase)}
	if rotation.LastInitiationTime != nil {
		fact.InitiatedAt = rotation.LastInitiationTime.UTC()
	}

	return fact
}

// readBackupEntries reads the entries of the namespace and the one that the spec names, and the Secrets in which they keep
// credentials.
func (r *reader) readBackupEntries(ctx context.Context) error {
	if !r.Gardener || !helper.IsStoreConfigured(r.etcd) || !backupstore.NeedsEntry(*r.etcd.Spec.Backup.Store) {
		return nil
	}
	list := &extensionsv1alpha1.BackupEntryList{}
	var options []client.ListOption
	if !r.Unindexed {
		options = append(options, client.MatchingFields{BackupEntryIndex: r.etcd.Namespace})
	}
	if err := r.Reader.List(ctx, list, options...); err != nil {
		return fmt.Errorf("listing BackupEntries: %w", err)
	}
	for i := range list.Items {
		if !slices.Contains(IndexBackupEntry(&list.Items[i]), r.etcd.Namespace) {
			continue
		}
		r.observation.Gardener.BackupEntries = append(r.observation.Gardener.BackupEntries, backupEntryFor(&list.Items[i]))
	}
	if name := backupstore.NamedEntry(*r.etcd.Spec.Backup.Store, r.etcd.Namespace); name != "" && r.observation.Gardener.Entry(name) == nil {
		entry := &extensionsv1alpha1.BackupEntry{}
		switch err := r.Reader.Get(ctx, client.ObjectKey{Name: name}, entry); {
		case err == nil:
			r.observation.Gardener.BackupEntries = append(r.observation.Gardener.BackupEntries, backupEntryFor(entry))
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("reading BackupEntry %s: %w", name, err)
		}
	}
	slices.SortFunc(r.observation.Gardener.BackupEntries, func(a, b etcdcluster.BackupEntry) int { return cmp.Compare(a.Name, b.Name) })

	return r.readStoreSecrets(ctx)
}

func backupEntryFor(entry *extensionsv1alpha1.BackupEntry) etcdcluster.BackupEntry {
	fact := etcdcluster.BackupEntry{
		Name:               entry.Name,
		Namespace:          backupstore.EntryNamespace(entry.Name),
		Deleting:           entry.DeletionTimestamp != nil,
		Type:               entry.Spec.Type,
		BucketName:         entry.Spec.BucketName,
		GenerationObserved: entry.Status.ObservedGeneration == entry.Generation,
	}
	if operation := entry.Status.LastOperation; operation != nil {
		fact.State, fact.Message = string(operation.State), operation.Description
	}
	if lastError := entry.Status.LastError; lastError != nil {
		fact.Message = lastError.Description
	}
	if status := entry.Status.ProviderStatus; status != nil {
		var published struct {
			SecretRef *corev1.SecretReference `json:"secretRef"`
		}
		// Providers put what they like there: what is no reference to a Secret is none.
		if json.Unmarshal(status.Raw, &published) == nil && published.SecretRef != nil && published.SecretRef.Name != "" {
			fact.PublishedSecret = published.SecretRef
		}
	}

	return fact
}

// readStoreSecrets reads the metadata of the Secrets that may hold the credentials, and, if one is missing, whether the
// namespace is terminating.
func (r *reader) readStoreSecrets(ctx context.Context) error {
	missing := false
	for _, name := range r.storeSecretNames() {
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.Reader.Get(ctx, r.key(name), secret)
		if apierrors.IsNotFound(err) {
			missing = true

			continue
		}
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", name, err)
		}
		r.observation.Gardener.StoreSecrets = append(r.observation.Gardener.StoreSecrets, etcdcluster.StoreSecret{
			Name: name, CreatedBy: secret.Annotations[backupstore.AnnotationCreatedBy],
		})
	}
	if !missing {
		return nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: r.etcd.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Namespace %s: %w", r.etcd.Namespace, err)
	}
	r.observation.Gardener.NamespaceTerminating = namespace.DeletionTimestamp != nil

	return nil
}

func (r *reader) storeSecretNames() []string {
	var names []string
	for _, entry := range r.observation.Gardener.BackupEntries {
		names = append(names, backupstore.ConventionalSecretName(entry.Name))
		if entry.PublishedSecret != nil {
			names = append(names, entry.PublishedSecret.Name)
		}
	}
	if store := r.observation.State.Store; store != nil && store.SecretName != "" {
		names = append(names, store.SecretName)
	}
	slices.Sort(names)

	return slices.Compact(names)
}
