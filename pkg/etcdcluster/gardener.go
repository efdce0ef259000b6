// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package etcdcluster

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Gardener are the objects of Gardener about the namespace of an Etcd. The zero value: none, as outside of Gardener.
type Gardener struct {
	// Cluster is the Cluster of the namespace. Nil: there is none, so that no shoot's control plane lives here.
	Cluster *CARotation
	// Garden is the Garden, for the namespace garden alone. Nil: there is none.
	Garden *CARotation
	// BackupEntries are the entries of the namespace and those that the spec names, sorted by name.
	BackupEntries []BackupEntry
	// StoreSecrets are the Secrets of the namespace in which entries keep credentials, sorted by name. Others are not among
	// them, nor are those that do not exist.
	StoreSecrets []StoreSecret
	// NamespaceTerminating is true while the namespace is being deleted. It is observed only if a Secret of an entry is missing.
	NamespaceTerminating bool
}

// CARotation is the rotation of CAs of a shoot or garden.
type CARotation struct {
	// Phase of the rotation. Empty: there never was one.
	Phase string
	// InitiatedAt is when it last began. Zero: never.
	InitiatedAt time.Time
}

// BackupEntry is an observed BackupEntry.
type BackupEntry struct {
	// Name of the entry.
	Name string
	// Namespace is the namespace in the name of the entry, in which Gardener keeps the credentials.
	Namespace string
	// Deleting is true while it is being deleted.
	Deleting bool
	// Type is the provider, BucketName the bucket or container.
	Type, BucketName string
	// GenerationObserved is true when its controller has seen the newest spec.
	GenerationObserved bool
	// State of its last operation, for example Succeeded. Empty: there was none.
	State string
	// Message of its last error, else of its last operation.
	Message string
	// PublishedSecret is the Secret with the credentials that its status names. Nil: it names none.
	PublishedSecret *corev1.SecretReference
}

// StoreSecret is what was seen of a Secret with the credentials of a store, by its metadata alone.
type StoreSecret struct {
	// Name of the Secret.
	Name string
	// CreatedBy is the BackupEntry that it was made for, by its annotation. Empty: none.
	CreatedBy string
}

// Entry returns the entry of that name; nil when it was not seen.
func (g Gardener) Entry(name string) *BackupEntry {
	for i := range g.BackupEntries {
		if g.BackupEntries[i].Name == name {
			return &g.BackupEntries[i]
		}
	}

	return nil
}

// StoreSecret returns the Secret of that name; nil when it does not exist.
func (g Gardener) StoreSecret(name string) *StoreSecret {
	for i := range g.StoreSecrets {
		if g.StoreSecrets[i].Name == name {
			return &g.StoreSecrets[i]
		}
	}

	return nil
}

// IssuedSecret is what was seen of a Secret that Gardener's secrets manager keeps for an Etcd, by its metadata alone.
type IssuedSecret struct {
	// Name of the Secret.
	Name string
	// ConfigName is the name of the config that it was generated from.
	ConfigName string
	// ForApplications is true for the client certificate of applications, which the connection Secret contains.
	ForApplications bool
	// CreatedAt is when it was created.
	CreatedAt time.Time
	// RotationStartedAt is when the rotation began that it was generated for. Zero: it is the first.
	RotationStartedAt time.Time
	// NotBefore and NotAfter are the times between which its certificate is valid. Zero: it holds none, or a bundle.
	NotBefore, NotAfter time.Time
}

// ApplicationSecret returns the newest Secret with the client certificate of applications. Nil: the operator has issued none.
func (o Observation) ApplicationSecret() *IssuedSecret {
	var newest *IssuedSecret
	for i := range o.Issued {
		if secret := &o.Issued[i]; secret.ForApplications && (newest == nil || secret.CreatedAt.After(newest.CreatedAt)) {
			newest = secret
		}
	}

	return newest
}

// LocalStore is what the Secret of a store with the provider Local says.
type LocalStore struct {
	// HostPath is the directory on the node. Empty: there is no Secret, or it names none.
	HostPath string
	// Error is why the Secret could not be read. Empty: it was.
	Error string
}
