// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/conditions"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/plan"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// StoreResync is when a store that is not resolved is resolved again even if no watch reports a change.
const StoreResync = time.Minute

// StoreUserResync is when a store is resolved again that another Etcd or a copy uses. The user may be in another namespace, so that no watch
// reports its end to this Etcd.
const StoreUserResync = 10 * time.Second

// ResolveStore finds the backup store of the generation. The error is why it cannot be used.
func (t *Target) ResolveStore(o etcdcluster.Observation, config Config, now time.Time) error {
	t.StoreRecord, t.StoreUser = nil, nil
	if err := t.findStore(o, config); err != nil || t.Store == nil {
		return err
	}
	t.identifyStore(o, now)
	if err := t.checkStoreUse(o); err != nil {
		return err
	}

	return t.checkCredentials(o)
}

// checkCredentials refuses credentials with white space around a value. A cluster that has started in the store keeps it: the provider may accept
// the value.
func (t *Target) checkCredentials(o etcdcluster.Observation) error {
	credentials := o.StoreCredentials
	if credentials.WhiteSpaceKey == "" || credentials.SecretName != t.Store.SecretName {
		return nil
	}
	err := fmt.Errorf("spec.backup.store.secretRef: the value of key %s in Secret %s begins or ends with white space, which the sidecar sends to the store: remove it, for example the newline at its end",
		credentials.WhiteSpaceKey, credentials.SecretName)
	if !t.hasStarted(o) {
		t.Store = nil

		return t.refuseStore(druidv1alpha1.ReasonStoreInvalid, err)
	}
	t.StoreResolution = &conditions.StoreResolution{Reason: druidv1alpha1.ReasonStoreInvalid, Message: t.StoreResolution.Message + ", as before: " + err.Error()}

	return nil
}

// ResolvedStore returns the location to which ResolveStore resolves the store now, and leaves the target as it is. Empty: there is no store, or
// it cannot be used.
func (t *Target) ResolvedStore(o etcdcluster.Observation, config Config, now time.Time) string {
	resolved := *t
	if err := resolved.ResolveStore(o, config, now); err != nil || resolved.StoreRecord == nil {
		return ""
	}

	return resolved.StoreRecord.String()
}

// findStore sets Store.
func (t *Target) findStore(o etcdcluster.Observation, config Config) error {
	t.Store, t.StoreResolution = nil, &conditions.StoreResolution{}
	if t.Etcd.Spec.Backup.Store == nil {
		return nil
	}
	if message := o.State.StoreError; message != "" {
		return t.refuseStore(druidv1alpha1.ReasonStoreChanged, fmt.Errorf("the annotation %s of ManagedResource %s: %s; correct it, or remove it if the store of the spec has not changed",
			druidv1alpha1.ManagedResourceAnnotationStore, o.ManagedResource.Name, message))
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{
		Etcd: t.Etcd, Gardener: o.Gardener, Pinned: o.State.Store, FallBackOnRefusal: t.Source == LastAccepted,
	})
	t.StoreResolution = &conditions.StoreResolution{Reason: resolution.Reason, Message: resolution.Message}
	switch {
	case resolution.Refused:
		return plan.Refused(druidv1alpha1.ErrorCodeResolveStore, errors.New(resolution.Message))
	case resolution.Store == nil:
		waiting := plan.Waiting(StoreResync, "Waiting for the store: %s", resolution.Message)
		waiting.EventReason = resolution.Reason

		return waiting
	case resolution.Store.Provider != backupstore.ProviderLocal:
		t.Store = resolution.Store

		return nil
	default:
		return t.locateStore(*resolution.Store, o, config)
	}
}

// locateStore adds the directory on the node to a Local store. It refuses a directory that the operator's configuration does not list, and
// another directory than the cluster has used until now.
func (t *Target) locateStore(store backupstore.Store, o etcdcluster.Observation, config Config) error {
	used := ""
	if o.State.Store != nil {
		used = o.State.Store.HostPath
	}
	if t.Source == LastAccepted && used != "" {
		store.HostPath = used
		isMounted := used == store.Directory(o.StatefulSet.LocalStore) || !o.StatefulSet.Exists && o.ManagedResource.Exists

		return t.keepDirectory(store, isMounted, config)
	}
	if o.LocalStore.Error != "" {
		err := errors.New(o.LocalStore.Error)
		t.StoreResolution = &conditions.StoreResolution{Reason: druidv1alpha1.ReasonStoreSecretMissing, Message: err.Error()}

		return plan.Failed(druidv1alpha1.ErrorCodeResolveStore, err)
	}
	located, err := config.LocalStoreRoots.Locate(store, o.LocalStore.HostPath)
	switch {
	case err != nil:
		return t.refuseStore(druidv1alpha1.ReasonStoreInvalid, fmt.Errorf("spec.backup.store: %w", err))
	case used != "" && used != located.HostPath:
		return t.refuseStore(druidv1alpha1.ReasonStoreChanged, fmt.Errorf(
			"spec.backup.store: snapshots went to directory %q on the node until now, and would go to directory %q; restore key %s in the Secret of the store, or remove the annotation %s from ManagedResource %s if you want to use the other directory",
			used, located.HostPath, backupstore.KeyHostPath, druidv1alpha1.ManagedResourceAnnotationStore, o.ManagedResource.Name))
	default:
		t.Store = &located

		return nil
	}
}

// keepDirectory lets the last accepted generation use the directory of the cluster. If the operator's configuration does not list it, the
// StatefulSet must mount it already. If the StatefulSet was deleted, the record of the ManagedResource stands for it.
func (t *Target) keepDirectory(store backupstore.Store, isMounted bool, config Config) error {
	_, err := config.LocalStoreRoots.Locate(store, "")
	switch {
	case err == nil:
	case !isMounted:
		return t.refuseStore(druidv1alpha1.ReasonStoreInvalid, fmt.Errorf("spec.backup.store: %w", err))
	default:
		t.StoreResolution = &conditions.StoreResolution{Reason: druidv1alpha1.ReasonStoreInvalid, Message: t.StoreResolution.Message + ", as before: " + err.Error()}
	}
	t.Store = &store

	return nil
}

// identifyStore completes the store with its endpoint and account, and sets StoreRecord. What is unknown now stays as it is recorded.
func (t *Target) identifyStore(o etcdcluster.Observation, now time.Time) {
	store, before := *t.Store, o.State.Store
	var public map[string]string
	if o.StoreCredentials.SecretName == store.SecretName {
		public = o.StoreCredentials.Public
	}
	store.Identity = backupstore.IdentityOf(store, t.Stored.Namespace, public)
	isRecorded := before != nil && backupstore.IsLocationOf(*before, store)
	if isRecorded {
		store.Identity = store.Identity.Or(backupstore.Identity{Endpoint: before.Endpoint, Account: before.Account})
	}
	record := backupstore.RecordFor(store)
	if isRecorded {
		record.ChangedAt, record.VerifiedAt = before.ChangedAt, before.VerifiedAt
		if !record.HasSameIdentity(*before) {
			record.ChangedAt, record.VerifiedAt = now.UTC().Truncate(time.Second), time.Time{}
		}
	}
	use := o.FormerStoreUse(&record)                        // the leader may have changed since the snapshot
	isKnown := use.IsKnown || !helper.ManagesPods(t.Stored) // pods that the operator does not manage are never known
	if lease := o.FullSnapshotLease; record.VerifiedAt.IsZero() && (isRecorded || before == nil) && t.hasWritten(lease, record) &&
		!lease.RenewTime.IsZero() && lease.RenewTime.After(etcdcluster.Later(record.ChangedAt, use.Since)) && isKnown {
		record.VerifiedAt = lease.RenewTime.UTC().Truncate(time.Second)
	}
	t.StoreResolution.Message = strings.Replace(t.StoreResolution.Message, locationOf(*t.Store), record.String(), 1)
	t.Store, t.StoreRecord = &store, &record
}

// hasStarted is true if the members may have written to the store. It is recorded, or a snapshot Lease names it, or the members run without a
// record. A record with another account of a container with a globally unique name is of the same store.
func (t *Target) hasStarted(o etcdcluster.Observation) bool {
	before, store := o.State.Store, *t.StoreRecord
	switch {
	case t.hasWritten(o.FullSnapshotLease, store) || t.hasWritten(o.DeltaSnapshotLease, store):
		return true
	case before == nil:
		return !o.ManagedResource.Exists && o.StatefulSet.Exists
	default:
		return backupstore.IsLocationOf(*before, *t.Store) && (store.HasSameIdentity(*before) || backupstore.Collide(store, *before))
	}
}

// hasWritten is true if a snapshot Lease of the Etcd names the store.
func (t *Target) hasWritten(lease etcdcluster.Lease, store state.Store) bool {
	return lease.Exists && lease.OwnerUID == t.Stored.UID && lease.Store != "" && state.IsSameStore(lease.Store, store.String())
}

// locationOf is a store without its identity as text.
func locationOf(store backupstore.Store) string {
	store.Identity = backupstore.Identity{}

	return backupstore.RecordFor(store).String()
}

// checkStoreUse refuses a store that another Etcd uses, and waits for an EtcdCopyBackupsTask that writes to it. A cluster that runs in the
// store continues with the last accepted generation, because to stop it would undo nothing.
func (t *Target) checkStoreUse(o etcdcluster.Observation) error {
	hasStarted := t.hasStarted(o)
	t.StoreUser = backupstore.UsedBy(etcdcluster.StoreUser{
		Namespace: t.Stored.Namespace, Name: t.Stored.Name, UID: t.Stored.UID, CreationTime: t.Stored.CreationTimestamp.Time, Started: hasStarted, Store: *t.StoreRecord,
	}, o.StoreUsers)
	if t.StoreUser == nil {
		return nil
	}
	reason, message := t.describeStoreUser()
	t.StoreResolution = &conditions.StoreResolution{Reason: reason, Message: message}
	switch {
	case t.Source == LastAccepted && hasStarted:
		t.StoreResolution.Message += "; the members continue to use it, as before"

		return nil
	case t.StoreUser.IsCopy || t.StoreUser.Deleting:
		t.Store = nil
		waiting := plan.Waiting(StoreUserResync, "Waiting for the store: %s", message)
		waiting.EventReason = reason

		return waiting
	default:
		t.Store = nil

		return t.refuseStore(reason, errors.New(message))
	}
}

// describeStoreUser returns reason and message of the condition StoreResolved. The message names an object only if it is in the namespace of
// the Etcd: the author of the Etcd may not know other namespaces.
func (t *Target) describeStoreUser() (string, string) {
	user, kind := t.StoreUser, "Etcd"
	if t.StoreUser.IsCopy {
		kind = "EtcdCopyBackupsTask"
	}
	name, uses := fmt.Sprintf("an %s of another namespace, which the operator's log names,", kind), "uses a store that overlaps with it"
	if user.Namespace == t.Stored.Namespace {
		name = kind + " " + user.Name
		if user.Store.Prefix != t.StoreRecord.Prefix {
			uses = fmt.Sprintf("uses prefix %q: a prefix must not begin with that of another Etcd", user.Store.Prefix)
		}
	}
	if user.Store.Prefix == t.StoreRecord.Prefix {
		uses = "uses it"
	}
	switch {
	case user.IsCopy:
		return druidv1alpha1.ReasonStoreCopyInProgress, fmt.Sprintf("spec.backup.store: the snapshots would go to %s, and %s copies snapshots to it; the members start when the copy has ended, or when the task is deleted", t.StoreRecord, name)
	case user.Deleting:
		return druidv1alpha1.ReasonStoreInUse, fmt.Sprintf("spec.backup.store: the snapshots would go to %s, and %s is being deleted and %s", t.StoreRecord, name, uses)
	default:
		return druidv1alpha1.ReasonStoreInUse, fmt.Sprintf("spec.backup.store: the snapshots would go to %s, and %s %s; set another container or prefix. If the other Etcd is deleted, its snapshots stay, and this Etcd restores them", t.StoreRecord, name, uses)
	}
}

func (t *Target) refuseStore(reason string, err error) error {
	t.StoreResolution = &conditions.StoreResolution{Reason: reason, Message: err.Error()}

	return plan.Refused(druidv1alpha1.ErrorCodeResolveStore, err)
}
