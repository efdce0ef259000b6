// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package backupstore

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// Resolution is how the search for the store of an Etcd ended.
type Resolution struct {
	// Store is the store. Nil: it is not known, see Reason.
	Store *Store
	// Reason is one of the reasons of the condition StoreResolved. With a store it is StoreResolved, or why the store is the one that was
	// used until now although Gardener or the spec names another place.
	Reason string
	// Message names the object and what has to happen to it, or says which store it is.
	Message string
	// Refused is true when the author of the spec, or of what the entry says, has to act; else what is missing is waited
	// for.
	Refused bool
}

// Question is what the answer depends on.
type Question struct {
	// Etcd in its canonical form. Its spec names a store.
	Etcd *druidv1alpha1.Etcd
	// Gardener is what was seen of entries, their Secrets and the Cluster.
	Gardener etcdcluster.Gardener
	// Pinned is the place that was used until now. Nil: none.
	Pinned *state.Store
	// Keeps is true where the question is what the cluster has, and not what it is to have: what is refused is not used, and the
	// place that was used until now is, as long as it can be.
	Keeps bool
	// Path is the field that answers are about. Nil: the store of an Etcd.
	Path *field.Path
}

// Resolve finds out where the snapshots of an Etcd lie and with which credentials:
//
//  1. An explicit secretRef has the credentials. With provider and container beside it nothing else is looked at.
//  2. Else a BackupEntry has them, and provider and container where the spec omits them: the entry that backupEntryRef
//     names, or the first segment of the prefix, or the only one of the namespace.
//  3. Else the identity that the infrastructure gives to pods is used, where neither of these nor a Cluster is there.
//
// A place other than the pinned one is refused: the sidecar of a single member restores over local data when the store looks
// newer. A cluster that runs keeps its store while its entry is in trouble.
func Resolve(q Question) Resolution {
	resolution := q.resolve()
	if resolution.Store != nil && q.Pinned != nil && !IsLocationOf(*q.Pinned, *resolution.Store) {
		resolution = refused(druidv1alpha1.ReasonStoreChanged, field.Forbidden(q.path(), fmt.Sprintf(
			"snapshots went to %s until now, and would go to %s; change it back, or remove the annotation %s from the ManagedResource if the other place is meant",
			*q.Pinned, RecordFor(*resolution.Store), druidv1alpha1.ManagedResourceAnnotationStore)))
	}
	if resolution.Store == nil && (!resolution.Refused || q.Keeps) {
		if store := q.keep(); store != nil {
			return resolution.asBefore(*store)
		}
	}

	return resolution
}

// asBefore is the resolution where the store stays the one that was used until now, whatever the new resolution would be.
func (r Resolution) asBefore(store Store) Resolution {
	kept := resolved(store)
	kept.Message += ", as before: " + r.Message
	if r.Refused {
		kept.Reason = r.Reason
	}

	return kept
}

// path is the field that answers are about.
func (q Question) path() *field.Path {
	if q.Path != nil {
		return q.Path
	}

	return field.NewPath("spec", "backup", "store")
}

func (q Question) spec() druidv1alpha1.StoreSpec { return *q.Etcd.Spec.Backup.Store }

func (q Question) resolve() Resolution {
	spec := q.spec()
	if !NeedsEntry(spec) {
		return q.fromSpec(spec, "")
	}
	if name := NamedEntry(spec, q.Etcd.Namespace); name != "" {
		return q.fromNamed(name)
	}

	return q.fromNamespace()
}

// fromNamespace uses the only entry of the namespace. Entries of a control plane that moves are sources to copy from, and
// not the store.
func (q Question) fromNamespace() Resolution {
	var candidates []etcdcluster.BackupEntry
	for _, entry := range q.Gardener.BackupEntries {
		if entry.Namespace == q.Etcd.Namespace && !strings.HasPrefix(entry.Name, sourcePrefix) && !entry.Deleting {
			candidates = append(candidates, entry)
		}
	}
	spec := q.spec()
	switch {
	case len(candidates) > 1:
		return refused(druidv1alpha1.ReasonStoreInvalid, field.Forbidden(q.path(), fmt.Sprintf(
			"the namespace has more than one BackupEntry (%s): name one in %s", entryNames(candidates), q.path().Child("backupEntryRef"))))
	case len(candidates) == 1 && (isOmitted(spec) || q.Gardener.Cluster != nil || tells(candidates[0], spec)):
		return q.fromEntry(candidates[0])
	case len(candidates) == 0 && q.Gardener.Cluster != nil:
		return waiting(druidv1alpha1.ReasonBackupEntryNotFound, fmt.Sprintf("Namespace %s has a Cluster, and no BackupEntry yet", q.Etcd.Namespace))
	default:
		return q.fromSpec(spec, "")
	}
}

func (q Question) fromNamed(name string) Resolution {
	entry := q.Gardener.Entry(name)
	if entry == nil {
		if spec := q.spec(); !isOmitted(spec) && hasSecretRef(spec) {
			return q.fromSpec(spec, name)
		}

		return waiting(druidv1alpha1.ReasonBackupEntryNotFound, fmt.Sprintf("BackupEntry %s does not exist", name))
	}

	return q.fromEntry(*entry)
}

// fromEntry completes the spec by an entry.
func (q Question) fromEntry(entry etcdcluster.BackupEntry) Resolution {
	spec := q.spec()
	if err := complete(&spec, entry, q.path()); err != nil {
		return refused(druidv1alpha1.ReasonStoreInvalid, err)
	}
	if !hasSecretRef(spec) {
		secretName, answer := q.secretOf(entry)
		if secretName == "" {
			return answer
		}
		spec.SecretRef = &corev1.SecretReference{Name: secretName}
	}

	return q.fromSpec(spec, entry.Name)
}

// complete fills in what the spec omits, and refuses what contradicts it.
func complete(spec *druidv1alpha1.StoreSpec, entry etcdcluster.BackupEntry, path *field.Path) *field.Error {
	provider, known := Canonical(druidv1alpha1.StorageProvider(entry.Type))
	if !known {
		return field.Invalid(path.Child("provider"), entry.Type, fmt.Sprintf("is the type of BackupEntry %s, and no object store that snapshots can lie in", entry.Name))
	}
	if given := ptr.Deref(spec.Provider, ""); given == "" {
		spec.Provider = new(druidv1alpha1.StorageProvider(provider))
	} else if canonical, known := Canonical(given); known && canonical != provider {
		return field.Invalid(path.Child("provider"), given, fmt.Sprintf("BackupEntry %s is of type %s: omit provider and container, or name the Secret of the other store in %s", entry.Name, entry.Type, path.Child("secretRef")))
	}
	if given := ptr.Deref(spec.Container, ""); given == "" {
		spec.Container = new(entry.BucketName)
	} else if given != entry.BucketName {
		return field.Invalid(path.Child("container"), given, fmt.Sprintf("BackupEntry %s is in bucket %s: omit provider and container, or name the Secret of the other store in %s", entry.Name, entry.BucketName, path.Child("secretRef")))
	}

	return nil
}

// secretOf returns the Secret of an entry, or why there is none to be used. The Secret has to say that it was made for the
// entry: otherwise whoever writes the status of entries could hand out other Secrets of the namespace.
func (q Question) secretOf(entry etcdcluster.BackupEntry) (string, Resolution) {
	namespace, name := entry.Namespace, ConventionalSecretName(entry.Name)
	if published := entry.PublishedSecret; published != nil {
		name = published.Name
		if namespace = published.Namespace; namespace == "" {
			namespace = q.Etcd.Namespace
		}
	}
	if namespace != q.Etcd.Namespace {
		return "", refused(druidv1alpha1.ReasonStoreInvalid, field.Forbidden(q.path(), fmt.Sprintf(
			"the credentials of BackupEntry %s lie in namespace %s, and pods can use those of their own namespace only: name a Secret of namespace %s in %s", entry.Name, namespace, q.Etcd.Namespace, q.path().Child("secretRef"))))
	}
	if answer, ready := ready(entry); !ready {
		return "", answer
	}
	secret := q.Gardener.StoreSecret(name)
	switch {
	case secret == nil && q.Gardener.NamespaceTerminating:
		return "", waiting(druidv1alpha1.ReasonStoreSecretMissing, fmt.Sprintf("Secret %s of BackupEntry %s does not exist, and is not made while namespace %s is being deleted", name, entry.Name, namespace))
	case secret == nil:
		return "", waiting(druidv1alpha1.ReasonStoreSecretMissing, fmt.Sprintf("Secret %s of BackupEntry %s does not exist", name, entry.Name))
	case secret.CreatedBy != entry.Name:
		return "", waiting(druidv1alpha1.ReasonStoreSecretMissing, fmt.Sprintf("Secret %s was not made for BackupEntry %s: its annotation %s says %q", name, entry.Name, AnnotationCreatedBy, secret.CreatedBy))
	default:
		return name, Resolution{}
	}
}

func ready(entry etcdcluster.BackupEntry) (Resolution, bool) {
	switch {
	case entry.Deleting:
		return waiting(druidv1alpha1.ReasonBackupEntryNotReady, fmt.Sprintf("BackupEntry %s is being deleted", entry.Name)), false
	case !entry.GenerationObserved || entry.State == "":
		return waiting(druidv1alpha1.ReasonBackupEntryNotReady, fmt.Sprintf("BackupEntry %s was not reconciled in its newest generation yet", entry.Name)), false
	case entry.State != "Succeeded":
		return waiting(druidv1alpha1.ReasonBackupEntryNotReady, fmt.Sprintf("BackupEntry %s is in state %s: %s", entry.Name, entry.State, entry.Message)), false
	default:
		return Resolution{}, true
	}
}

// fromSpec takes a complete spec. entry, where there is one, gives the prefix its default.
func (q Question) fromSpec(spec druidv1alpha1.StoreSpec, entry string) Resolution {
	if spec.Prefix == "" && entry != "" {
		spec.Prefix = strings.TrimPrefix(entry, sourcePrefix) + "/" + q.Etcd.Name
	}
	store, errs := FromSpec(spec, q.Etcd.Namespace, q.Etcd.Name, q.path())
	if len(errs) == 0 {
		return resolved(store)
	}
	resolution := refused(druidv1alpha1.ReasonStoreInvalid, errs.ToAggregate())
	if q.Keeps && q.Pinned != nil && IsLocationOf(*q.Pinned, store) {
		return resolution.asBefore(store)
	}

	return resolution
}

// keep returns the pinned store while it can still be used: its Secret exists and was made for an entry. Nil: there is none.
func (q Question) keep() *Store {
	if q.Pinned == nil || q.Pinned.SecretName == "" {
		return nil
	}
	if secret := q.Gardener.StoreSecret(q.Pinned.SecretName); secret == nil || secret.CreatedBy == "" {
		return nil
	}
	spec := q.spec()

	return &Store{
		Provider: Provider(q.Pinned.Provider), Container: q.Pinned.Container, Prefix: q.Pinned.Prefix, SecretName: q.Pinned.SecretName,
		EndpointOverride: ptr.Deref(spec.EndpointOverride, ""),
	}
}

func hasSecretRef(spec druidv1alpha1.StoreSpec) bool {
	return spec.SecretRef != nil && spec.SecretRef.Name != ""
}

// tells is true when an entry is about the store that the spec describes.
func tells(entry etcdcluster.BackupEntry, spec druidv1alpha1.StoreSpec) bool {
	return complete(&spec, entry, nil) == nil
}

func entryNames(entries []etcdcluster.BackupEntry) string {
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name)
	}

	return strings.Join(names, ", ")
}

func resolved(store Store) Resolution {
	message := "Snapshots go to " + RecordFor(store).String()
	if store.SecretName != "" {
		message += " with the credentials in Secret " + store.SecretName
	}

	return Resolution{Store: &store, Reason: druidv1alpha1.ReasonStoreResolved, Message: message}
}

func waiting(reason, message string) Resolution { return Resolution{Reason: reason, Message: message} }

func refused(reason string, err error) Resolution {
	return Resolution{Reason: reason, Message: err.Error(), Refused: true}
}
