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

// Resolution is the result of Resolve.
type Resolution struct {
	// Store is the resolved store. Nil: it is unknown, see Reason.
	Store *Store
	// Reason is a reason of the condition StoreResolved. With a Store it is StoreResolved, or the reason why the pinned store
	// is kept although Gardener or the spec names another location.
	Reason string
	// Message names the object that needs a change and the remedy, or the resolved store.
	Message string
	// Refused is true if the author of the spec or of the BackupEntry must act. Otherwise Resolve waits for what is missing.
	Refused bool
}

// ResolveInput is the input of Resolve.
type ResolveInput struct {
	// Etcd is in its canonical form. Its spec has a store.
	Etcd *druidv1alpha1.Etcd
	// Gardener are the observed BackupEntries, their Secrets and the Cluster.
	Gardener etcdcluster.Gardener
	// Pinned is the location used until now. Nil: none.
	Pinned *state.Store
	// FallBackOnRefusal makes Resolve return the pinned store, as long as it is usable, if it refuses the spec. Callers set it
	// to find the store that the cluster uses, not the one that the spec requests.
	FallBackOnRefusal bool
	// Path is the field for messages. Nil: the store of an Etcd.
	Path *field.Path
}

// Resolve returns the location of the snapshots of an Etcd, and their credentials:
//
//  1. An explicit secretRef names the credentials. If the spec has provider and container too, nothing else is read.
//  2. Otherwise a BackupEntry provides them, with provider and container if the spec omits these. It is the entry in
//     backupEntryRef, or in the first segment of the prefix, or the only one of the namespace.
//  3. Otherwise the identity of the infrastructure is used, if neither such an entry nor a Cluster exists.
//
// Resolve refuses a location other than the pinned one: the sidecar of a single member restores over local data if the store
// appears newer. A running cluster keeps its store while its BackupEntry has a problem.
func Resolve(in ResolveInput) Resolution {
	resolution := in.resolve()
	if resolution.Store != nil && in.Pinned != nil && !IsLocationOf(*in.Pinned, *resolution.Store) {
		resolution = refused(druidv1alpha1.ReasonStoreChanged, field.Forbidden(in.path(), fmt.Sprintf(
			"snapshots went to %s until now, and would go to %s; change it back, or remove the annotation %s from the ManagedResource to use the other store",
			*in.Pinned, RecordFor(*resolution.Store), druidv1alpha1.ManagedResourceAnnotationStore)))
	}
	if resolution.Store == nil && (!resolution.Refused || in.FallBackOnRefusal) {
		if store := in.pinnedStore(); store != nil {
			return resolution.withPinnedStore(*store)
		}
	}

	return resolution
}

// withPinnedStore is the resolution with the store that was used until now, regardless of the new resolution.
func (r Resolution) withPinnedStore(store Store) Resolution {
	pinned := resolved(store)
	pinned.Message += ", as before: " + r.Message
	if r.Refused {
		pinned.Reason = r.Reason
	}

	return pinned
}

// path is the field for messages.
func (in ResolveInput) path() *field.Path {
	if in.Path != nil {
		return in.Path
	}

	return field.NewPath("spec", "backup", "store")
}

func (in ResolveInput) spec() druidv1alpha1.StoreSpec { return *in.Etcd.Spec.Backup.Store }

func (in ResolveInput) resolve() Resolution {
	spec := in.spec()
	if !NeedsEntry(spec) {
		return in.fromSpec(spec, "")
	}
	if name := NamedEntry(spec, in.Etcd.Namespace); name != "" {
		return in.fromNamed(name)
	}

	return in.fromNamespace()
}

// fromNamespace uses the only BackupEntry of the namespace. It skips source entries, which exist during a control plane
// migration.
func (in ResolveInput) fromNamespace() Resolution {
	var candidates []etcdcluster.BackupEntry
	for _, entry := range in.Gardener.BackupEntries {
		if entry.Namespace == in.Etcd.Namespace && !strings.HasPrefix(entry.Name, sourcePrefix) && !entry.Deleting {
			candidates = append(candidates, entry)
		}
	}
	spec := in.spec()
	switch {
	case len(candidates) > 1:
		return refused(druidv1alpha1.ReasonStoreInvalid, field.Forbidden(in.path(), fmt.Sprintf(
			"the namespace has more than one BackupEntry (%s): name one in %s", entryNames(candidates), in.path().Child("backupEntryRef"))))
	case len(candidates) == 1 && (isOmitted(spec) || in.Gardener.Cluster != nil || matches(candidates[0], spec)):
		return in.fromEntry(candidates[0])
	case len(candidates) == 0 && in.Gardener.Cluster != nil:
		return waiting(druidv1alpha1.ReasonBackupEntryNotFound, fmt.Sprintf("Namespace %s has a Cluster, and no BackupEntry yet", in.Etcd.Namespace))
	default:
		return in.fromSpec(spec, "")
	}
}

func (in ResolveInput) fromNamed(name string) Resolution {
	entry := in.Gardener.Entry(name)
	if entry == nil {
		if spec := in.spec(); !isOmitted(spec) && hasSecretRef(spec) {
			return in.fromSpec(spec, name)
		}

		return waiting(druidv1alpha1.ReasonBackupEntryNotFound, fmt.Sprintf("BackupEntry %s does not exist", name))
	}

	return in.fromEntry(*entry)
}

// fromEntry completes the spec from a BackupEntry.
func (in ResolveInput) fromEntry(entry etcdcluster.BackupEntry) Resolution {
	spec := in.spec()
	if err := complete(&spec, entry, in.path()); err != nil {
		return refused(druidv1alpha1.ReasonStoreInvalid, err)
	}
	if !hasSecretRef(spec) {
		secretName, refusal := in.secretOf(entry)
		if secretName == "" {
			return refusal
		}
		spec.SecretRef = &corev1.SecretReference{Name: secretName}
	}

	return in.fromSpec(spec, entry.Name)
}

// complete sets the fields that the spec omits. It returns an error if the BackupEntry contradicts the spec.
func complete(spec *druidv1alpha1.StoreSpec, entry etcdcluster.BackupEntry, path *field.Path) *field.Error {
	provider, known := Canonical(druidv1alpha1.StorageProvider(entry.Type))
	if !known {
		return field.Invalid(path.Child("provider"), entry.Type, fmt.Sprintf("is the type of BackupEntry %s, and not the type of an object store", entry.Name))
	}
	if specified := ptr.Deref(spec.Provider, ""); specified == "" {
		spec.Provider = new(druidv1alpha1.StorageProvider(provider))
	} else if canonical, known := Canonical(specified); known && canonical != provider {
		return field.Invalid(path.Child("provider"), specified, fmt.Sprintf("BackupEntry %s is of type %s: omit provider and container, or name the Secret of the other store in %s", entry.Name, entry.Type, path.Child("secretRef")))
	}
	if specified := ptr.Deref(spec.Container, ""); specified == "" {
		spec.Container = new(entry.BucketName)
	} else if specified != entry.BucketName {
		return field.Invalid(path.Child("container"), specified, fmt.Sprintf("BackupEntry %s is in bucket %s: omit provider and container, or name the Secret of the other store in %s", entry.Name, entry.BucketName, path.Child("secretRef")))
	}

	return nil
}

// secretOf returns the Secret of a BackupEntry, or a Resolution with the reason why it cannot be used. An annotation of the
// Secret must name the entry. Otherwise a user with write access to the status of entries could use other Secrets of the
// namespace.
func (in ResolveInput) secretOf(entry etcdcluster.BackupEntry) (string, Resolution) {
	namespace, name := entry.Namespace, ConventionalSecretName(entry.Name)
	if published := entry.PublishedSecret; published != nil {
		name = published.Name
		if namespace = published.Namespace; namespace == "" {
			namespace = in.Etcd.Namespace
		}
	}
	if namespace != in.Etcd.Namespace {
		return "", refused(druidv1alpha1.ReasonStoreInvalid, field.Forbidden(in.path(), fmt.Sprintf(
			"the credentials of BackupEntry %s are in namespace %s, but pods can use only Secrets of their own namespace: name a Secret of namespace %s in %s", entry.Name, namespace, in.Etcd.Namespace, in.path().Child("secretRef"))))
	}
	if refusal, ready := ready(entry); !ready {
		return "", refusal
	}
	secret := in.Gardener.StoreSecret(name)
	switch {
	case secret == nil && in.Gardener.NamespaceTerminating:
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

// fromSpec resolves a complete spec. entry provides the default of the prefix. Empty: the name of the Etcd does.
func (in ResolveInput) fromSpec(spec druidv1alpha1.StoreSpec, entry string) Resolution {
	if spec.Prefix == "" && entry != "" {
		spec.Prefix = strings.TrimPrefix(entry, sourcePrefix) + "/" + in.Etcd.Name
	}
	store, errs := FromSpec(spec, in.Etcd.Namespace, in.Etcd.Name, in.path())
	if len(errs) == 0 {
		return resolved(store)
	}
	resolution := refused(druidv1alpha1.ReasonStoreInvalid, errs.ToAggregate())
	if in.FallBackOnRefusal && in.Pinned != nil && IsLocationOf(*in.Pinned, store) {
		return resolution.withPinnedStore(store)
	}

	return resolution
}

// pinnedStore returns the pinned store if it can still be used: its Secret exists and was created for a BackupEntry. Nil: it
// cannot.
func (in ResolveInput) pinnedStore() *Store {
	if in.Pinned == nil || in.Pinned.SecretName == "" {
		return nil
	}
	if secret := in.Gardener.StoreSecret(in.Pinned.SecretName); secret == nil || secret.CreatedBy == "" {
		return nil
	}
	spec := in.spec()

	return &Store{
		Provider: Provider(in.Pinned.Provider), Container: in.Pinned.Container, Prefix: in.Pinned.Prefix, SecretName: in.Pinned.SecretName,
		EndpointOverride: ptr.Deref(spec.EndpointOverride, ""),
	}
}

func hasSecretRef(spec druidv1alpha1.StoreSpec) bool {
	return spec.SecretRef != nil && spec.SecretRef.Name != ""
}

// matches is true if a BackupEntry is for the store that the spec describes.
func matches(entry etcdcluster.BackupEntry, spec druidv1alpha1.StoreSpec) bool {
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
