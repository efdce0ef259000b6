// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import corev1 "k8s.io/api/core/v1"

// StorageProvider names the object store that holds the snapshots, either by the name of an infrastructure or by the name of
// a store. The names of each store are: `aws`, `stackit`, `S3`, `s3`; `azure`, `ABS`, `abs`; `gcp`, `GCS`, `gcs`;
// `openstack`, `Swift`, `swift`. Further stores are: `alicloud`, `OSS`, `oss`; `dell`, `ECS`, `ecs`; `openshift`, `OCS`,
// `ocs`; `Local`, `local`. The API server accepts any other value, and the controller refuses it.
type StorageProvider string

// StoreSpec says in which object store, and where in it, the snapshots lie.
// +kubebuilder:validation:XValidation:rule="!has(self.endpointOverride) || !self.endpointOverride.matches('^([^/]*//)?[^/?#]*@')",fieldPath=".endpointOverride",message="must not have user info: remove what is before the @ of the host, and put credentials into the Secret in secretRef"
type StoreSpec struct {
	// Container is the name of the bucket (S3, GCS, OSS, OCS, ECS) or container (ABS, Swift), or for Local the directory
	// below the host path. Unset together with Provider: taken from the BackupEntry.
	// 3 to 63 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9._-]{1,61}[a-zA-Z0-9]$')",message="must have 3 to 63 characters: letters, digits, dots, dashes and underscores, with a letter or a digit at both ends"
	Container *string `json:"container,omitempty"`
	// EndpointOverride is a URL that replaces the endpoint of the provider and the one in the credentials, without user info. Only the
	// sidecar v0.41 or newer reads it, and only for S3, ABS and GCS. Unset: neither is replaced.
	// At most 2048 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self)",message="endpointOverride must be a URL, for example https://s3.example.com"
	EndpointOverride *string `json:"endpointOverride,omitempty"`
	// Prefix is the path below the container under which the snapshots lie, without a leading or trailing slash. Empty
	// or unset: the operator derives `<namespace>/<name>`. Once snapshots exist, another prefix is refused by the
	// controller. Where gardenlet manages the CRDs it is required.
	// At most 512 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Prefix string `json:"prefix"`
	// Provider names the kind of object store. Unset together with Container: taken from the BackupEntry. An empty
	// string means unset.
	// At most 64 characters.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Provider *StorageProvider `json:"provider,omitempty"`
	// SecretRef is the Secret with the credentials of the store, in the namespace of the Etcd; `namespace` in it is
	// ignored. Unset: the secret of the BackupEntry, and where there is none, the identity that the infrastructure gives
	// to the pods.
	// +optional
	SecretRef *corev1.SecretReference `json:"secretRef,omitempty"`
	// BackupEntryRef names the BackupEntry (extensions.gardener.cloud) from which the credentials, and provider and
	// container where unset, are taken. Unset: the entry is found by the first segment of Prefix, or by the Cluster of the
	// namespace. SecretRef, where set, wins over the secret of the entry.
	// +optional
	BackupEntryRef *BackupEntryReference `json:"backupEntryRef,omitempty"`
}

// BackupEntryReference names a cluster-scoped BackupEntry.
type BackupEntryReference struct {
	// Name of the BackupEntry, for example `shoot--project--name--0a1b2c3d`.
	// 1 to 253 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
