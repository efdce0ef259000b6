// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file contains the deprecated fields of the manifest, as the first README of the project published them. Each
// field is accepted with a warning on apply, and helper.Canonical maps it to the current field; nothing else reads it.
// A deprecated field and its current field with different values are rejected.

// DeprecatedSpecFields are the deprecated fields of spec.
type DeprecatedSpecFields struct {
	// Store is deprecated in favor of spec.backup.store.
	//
	// Deprecated: use spec.backup.store.
	// +optional
	Store *DeprecatedStoreFields `json:"store,omitempty"`
	// TLSServerSecret is the name of the Secret with the keys `tls.crt`, `tls.key` and `ca.crt` of connections of clients.
	// At most 253 characters.
	//
	// Deprecated: use spec.etcd.clientUrlTls.serverTLSSecretRef and spec.etcd.clientUrlTls.tlsCASecretRef.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSServerSecret *string `json:"tlsServerSecret,omitempty"`
	// TLSClientSecret is the name of the Secret with the keys `tls.crt` and `tls.key` for clients.
	// At most 253 characters.
	//
	// Deprecated: use spec.etcd.clientUrlTls.clientTLSSecretRef.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSClientSecret *string `json:"tlsClientSecret,omitempty"`
}

// DeprecatedStoreFields are the deprecated fields of a StoreSpec.
type DeprecatedStoreFields struct {
	// StorageContainer is deprecated in favor of spec.backup.store.container.
	// At most 63 characters.
	//
	// Deprecated: use spec.backup.store.container.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	StorageContainer *string `json:"storageContainer,omitempty"`
	// StorageProvider is deprecated in favor of spec.backup.store.provider.
	// At most 64 characters.
	//
	// Deprecated: use spec.backup.store.provider.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StorageProvider *StorageProvider `json:"storageProvider,omitempty"`
	// StorePrefix is deprecated in favor of spec.backup.store.prefix.
	// At most 512 characters.
	//
	// Deprecated: use spec.backup.store.prefix.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	StorePrefix *string `json:"storePrefix,omitempty"`
	// StoreSecret is deprecated in favor of spec.backup.store.secretRef.name.
	// At most 253 characters.
	//
	// Deprecated: use spec.backup.store.secretRef.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StoreSecret *string `json:"storeSecret,omitempty"`
}

// DeprecatedEtcdFields are the deprecated fields of spec.etcd.
type DeprecatedEtcdFields struct {
	// DeprecatedQuota is deprecated in favor of spec.etcd.quota.
	//
	// Deprecated: use spec.etcd.quota.
	// +optional
	DeprecatedQuota *resource.Quantity `json:"Quota,omitempty"`
	// ImageRepository is the image of etcd-wrapper without its version.
	// At most 1024 characters.
	//
	// Deprecated: use spec.etcd.image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageRepository *string `json:"imageRepository,omitempty"`
	// ImageVersion is the tag or the digest of the image of etcd-wrapper.
	// At most 1024 characters.
	//
	// Deprecated: use spec.etcd.image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageVersion *string `json:"imageVersion,omitempty"`
	// InitialClusterState has no effect: the operator finds out whether a cluster exists.
	//
	// Deprecated: leave it out.
	// +optional
	InitialClusterState *string `json:"initialClusterState,omitempty"`
	// InitialClusterToken is the token that keeps apart clusters which know the same addresses. Unset: derived from the
	// UID of the Etcd. At most 256 characters.
	//
	// Deprecated: leave it out. Honoured, since there is no other field for it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	InitialClusterToken *string `json:"initialClusterToken,omitempty"`
	// PullPolicy is the image pull policy of both containers. Unset: IfNotPresent.
	//
	// Deprecated: leave it out. Honoured, since there is no other field for it.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy *corev1.PullPolicy `json:"pullPolicy,omitempty"`
	// StorageCapacity is deprecated in favor of spec.storageCapacity.
	//
	// Deprecated: use spec.storageCapacity.
	// +optional
	StorageCapacity *resource.Quantity `json:"storageCapacity,omitempty"`
	// StorageClass is deprecated in favor of spec.storageClass.
	// At most 253 characters.
	//
	// Deprecated: use spec.storageClass.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClass *string `json:"storageClass,omitempty"`
}

// DeprecatedBackupFields are the deprecated fields of spec.backup.
type DeprecatedBackupFields struct {
	// ImageRepository is the image of etcd-backup-restore without its version.
	// At most 1024 characters.
	//
	// Deprecated: use spec.backup.image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageRepository *string `json:"imageRepository,omitempty"`
	// ImageVersion is the tag or the digest of the image of etcd-backup-restore.
	// At most 1024 characters.
	//
	// Deprecated: use spec.backup.image.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageVersion *string `json:"imageVersion,omitempty"`
	// SnapstoreTempDir is the directory, in the data volume, of the sidecar's temporary files. The sidecar deletes it at each start, so
	// it must not be a directory with other data. Unset: /var/etcd/data/temp. At most 512
	// characters.
	//
	// Deprecated: leave it out. Honoured, since there is no other field for it.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	SnapstoreTempDir *string `json:"snapstoreTempDir,omitempty"`
}
