// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package observer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/etcdcluster"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// StoreIndex indexes ManagedResources by the recorded store of an Etcd, and Etcds by the store in their spec. It indexes snapshot Leases by the
// store with their snapshots. See backupstore.IndexKeys.
const StoreIndex = "store"

// indexStores adds StoreIndex to a cache. The observer then reads who else uses the store of an Etcd.
func (o *Observer) indexStores(ctx context.Context, indexer client.FieldIndexer) error {
	for object, index := range map[client.Object]client.IndexerFunc{
		&resourcesv1alpha1.ManagedResource{}: IndexRecordedStore, &coordinationv1.Lease{}: IndexStoreOfLease, &druidv1alpha1.Etcd{}: IndexStoreOfSpec,
	} {
		if err := indexer.IndexField(ctx, object, StoreIndex, index); err != nil {
			return fmt.Errorf("indexing %T by the store: %w", object, err)
		}
	}
	o.Stores = true

	return nil
}

// IndexRecordedStore are the values of a ManagedResource in StoreIndex.
func IndexRecordedStore(object client.Object) []string {
	store, err := state.ParseStore(object.GetAnnotations()[druidv1alpha1.ManagedResourceAnnotationStore])
	if err != nil || store == nil {
		return nil
	}

	return backupstore.IndexKeys(*store)
}

// IndexStoreOfLease are the values of a snapshot Lease in StoreIndex.
func IndexStoreOfLease(object client.Object) []string {
	store := state.ParseStoreText(object.GetAnnotations()[druidv1alpha1.LeaseAnnotationStore])
	if store == nil {
		return nil
	}

	return backupstore.IndexKeys(*store)
}

// IndexStoreOfSpec are the values of an Etcd in StoreIndex. An Etcd whose store depends on a BackupEntry has none: its ManagedResource has.
func IndexStoreOfSpec(object client.Object) []string {
	etcd, is := object.(*druidv1alpha1.Etcd)
	if !is {
		return nil
	}
	store, isKnown := storeInSpec(etcd)
	if !isKnown {
		return nil
	}

	return backupstore.IndexKeys(backupstore.RecordFor(store))
}

// storeInSpec returns the store of an Etcd if it depends on the spec alone.
func storeInSpec(etcd *druidv1alpha1.Etcd) (backupstore.Store, bool) {
	canonical, _ := helper.Canonical(etcd)
	spec := canonical.Spec.Backup.Store
	if spec == nil || spec.Prefix == "" && backupstore.NeedsEntry(*spec) {
		return backupstore.Store{}, false
	}
	store, errs := backupstore.FromSpec(*spec, etcd.Namespace, etcd.Name, field.NewPath("spec"))

	return store, len(errs) == 0
}

// readStoreUsers reads the Etcds and the EtcdCopyBackupsTasks whose stores are near a store.
func (r *reader) readStoreUsers(ctx context.Context, store backupstore.Store) error {
	if !r.Stores {
		return nil
	}
	users, err := r.StoreUsers(ctx, store)
	if err != nil {
		return err
	}
	users = slices.DeleteFunc(users, func(user etcdcluster.StoreUser) bool {
		return !user.IsCopy && user.Namespace == r.etcd.Namespace && user.Name == r.etcd.Name
	})
	if r.Copies {
		copies, err := r.copiesTo(ctx, store)
		if err != nil {
			return err
		}
		users = append(users, copies...)
	}
	if len(users) > 0 {
		r.observation.StoreUsers = users
	}

	return nil
}

// StoreUsers returns the Etcds of all namespaces whose stores may collide with a store, sorted by namespace and name. An Etcd that moves to
// another store may use two. It reads only from the caches, except for the credentials of an Etcd whose endpoint is not recorded.
func (o *Observer) StoreUsers(ctx context.Context, store backupstore.Store) ([]etcdcluster.StoreUser, error) {
	own := backupstore.RecordFor(store)
	keys, err := o.etcdsNear(ctx, own)
	if err != nil {
		return nil, err
	}
	var users []etcdcluster.StoreUser
	for _, key := range keys {
		used, err := o.storesOf(ctx, key, own)
		if err != nil {
			return nil, err
		}
		users = append(users, used...)
	}

	return users, nil
}

// etcdsNear returns the names of the Etcds whose record, Leases or spec name a store that may collide with own, sorted.
func (o *Observer) etcdsNear(ctx context.Context, own state.Store) ([]client.ObjectKey, error) {
	var keys []client.ObjectKey
	for _, key := range backupstore.LookupKeys(own) {
		options := []client.ListOption{client.MatchingFields{StoreIndex: key}, client.UnsafeDisableDeepCopy} // only names are read: copies would be large
		resources, leases, etcds := &resourcesv1alpha1.ManagedResourceList{}, &coordinationv1.LeaseList{}, &druidv1alpha1.EtcdList{}
		for _, list := range []client.ObjectList{resources, leases, etcds} {
			if err := o.Reader.List(ctx, list, options...); err != nil {
				return nil, fmt.Errorf("listing %T by the store: %w", list, err)
			}
		}
		for i := range resources.Items {
			if name, isOfEtcd := helper.EtcdNameOfManagedResource(resources.Items[i].Name); isOfEtcd {
				keys = append(keys, client.ObjectKey{Namespace: resources.Items[i].Namespace, Name: name})
			}
		}
		for i := range leases.Items {
			if owner := metav1.GetControllerOf(&leases.Items[i]); owner != nil {
				keys = append(keys, client.ObjectKey{Namespace: leases.Items[i].Namespace, Name: owner.Name})
			}
		}
		for i := range etcds.Items {
			keys = append(keys, client.ObjectKeyFromObject(&etcds.Items[i]))
		}
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})

	return slices.Compact(keys), nil
}

// storesOf returns the stores of an Etcd that overlap with own: the recorded one, or that of the spec without a record. A store that a snapshot
// Lease of the Etcd names counts too. The members have written to it, and pods that were not replaced yet still do.
func (o *Observer) storesOf(ctx context.Context, key client.ObjectKey, own state.Store) ([]etcdcluster.StoreUser, error) {
	etcd := &druidv1alpha1.Etcd{}
	if err := o.Reader.Get(ctx, key, etcd); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	user, isRecorded, err := o.storeOf(ctx, etcd, own)
	if err != nil {
		return nil, err
	}
	users := []etcdcluster.StoreUser{user}
	for _, name := range []string{helper.FullSnapshotLeaseName(etcd), helper.DeltaSnapshotLeaseName(etcd)} {
		written, err := o.storeOfLease(ctx, etcd, name)
		if err != nil {
			return nil, err
		}
		if written == nil {
			continue
		}
		text := written.String()
		i := slices.IndexFunc(users, func(user etcdcluster.StoreUser) bool { return state.IsSameStore(user.Store.String(), text) })
		if i < 0 {
			written.HostPath = users[0].Store.HostPath
			users = append(users, etcdcluster.StoreUser{
				Namespace: user.Namespace, Name: user.Name, UID: user.UID, CreationTime: user.CreationTime, Deleting: user.Deleting, Started: true, Store: *written,
			})

			continue
		}
		found := &users[i]
		found.Started, found.Store.Endpoint, found.Store.Account = true, cmp.Or(found.Store.Endpoint, written.Endpoint), cmp.Or(found.Store.Account, written.Account)
		if !isRecorded && found.Store.VerifiedAt.IsZero() {
			found.Store.VerifiedAt = written.VerifiedAt
		}
	}

	if first := &users[0].Store; isRecorded && backupstore.Overlap(own, *first) && !backupstore.IsIdentified(*first) {
		*first = o.complete(ctx, etcd, *first)
	}

	return slices.DeleteFunc(users, func(user etcdcluster.StoreUser) bool { return !backupstore.Overlap(own, user.Store) }), nil
}

// storeOfLease returns the store that a snapshot Lease of an Etcd names. Its VerifiedAt is set if the Lease records a full snapshot. Nil: the Etcd
// has no such Lease, or it names no store.
func (o *Observer) storeOfLease(ctx context.Context, etcd *druidv1alpha1.Etcd, name string) (*state.Store, error) {
	lease := &coordinationv1.Lease{}
	if err := o.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: name}, lease); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Lease %s: %w", name, err)
		}

		return nil, nil
	}
	store := state.ParseStoreText(lease.Annotations[druidv1alpha1.LeaseAnnotationStore])
	if store == nil || !metav1.IsControlledBy(lease, etcd) {
		return nil, nil
	}
	if lease.Spec.RenewTime != nil && name == helper.FullSnapshotLeaseName(etcd) {
		store.VerifiedAt = lease.Spec.RenewTime.UTC().Truncate(time.Second)
	}

	return store, nil
}

// storeOf returns the Etcd with its recorded store, or with that of its spec. True: it is recorded. The store is zero if it is not known, or if it
// does not overlap with own.
func (o *Observer) storeOf(ctx context.Context, etcd *druidv1alpha1.Etcd, own state.Store) (etcdcluster.StoreUser, bool, error) {
	user := etcdcluster.StoreUser{
		Namespace: etcd.Namespace, Name: etcd.Name, UID: etcd.UID, CreationTime: etcd.CreationTimestamp.Time, Deleting: etcd.DeletionTimestamp != nil,
	}
	resource := &resourcesv1alpha1.ManagedResource{}
	err := o.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.ManagedResourceName(etcd)}, resource)
	if client.IgnoreNotFound(err) != nil {
		return user, false, fmt.Errorf("reading ManagedResource %s: %w", helper.ManagedResourceName(etcd), err)
	}
	if record, parseErr := state.ParseStore(resource.Annotations[druidv1alpha1.ManagedResourceAnnotationStore]); parseErr == nil && record != nil {
		user.Started, user.Store = true, *record

		return user, true, nil
	}
	store, isKnown := storeInSpec(etcd)
	if !isKnown || !backupstore.Overlap(own, backupstore.RecordFor(store)) {
		return user, false, nil
	}
	user.Store = o.identify(ctx, etcd.Namespace, store)
	if resource.Name == "" { // etcd-druid may run the members, or they are being deleted
		statefulSet := &appsv1.StatefulSet{}
		err := o.Reader.Get(ctx, client.ObjectKey{Namespace: etcd.Namespace, Name: helper.StatefulSetName(etcd)}, statefulSet)
		if client.IgnoreNotFound(err) != nil {
			return user, false, fmt.Errorf("reading StatefulSet %s: %w", helper.StatefulSetName(etcd), err)
		}
		user.Started = err == nil || user.Deleting
	}

	return user, false, nil
}

// identify returns the record of a store with what its Secret says. What cannot be read is unknown.
func (o *Observer) identify(ctx context.Context, namespace string, store backupstore.Store) state.Store {
	store.Identity = backupstore.IdentityOf(store, namespace, o.storeCredentials(ctx, namespace, store).Public)
	if hostPath, err := o.HostPath(ctx, namespace, store); err == nil {
		store, _ = o.LocalStoreRoots.Locate(store, hostPath) // a directory that is not allowed is unknown
	}

	return backupstore.RecordFor(store)
}

// complete adds to a record what identifies the store, and was not known. A suspended Etcd keeps such a record. The Secret that it names
// counts, or that of the spec, if the spec still names the store.
func (o *Observer) complete(ctx context.Context, etcd *druidv1alpha1.Etcd, record state.Store) state.Store {
	canonical, _ := helper.Canonical(etcd)
	spec := canonical.Spec.Backup.Store
	if spec == nil {
		return record
	}
	store, isKnown := storeInSpec(etcd)
	if isKnown && !backupstore.IsLocationOf(record, store) {
		return record
	}
	if !isKnown { // it depends on a BackupEntry
		store = backupstore.Store{
			Provider: backupstore.Provider(record.Provider), Container: record.Container, Prefix: record.Prefix, EndpointOverride: ptr.Deref(spec.EndpointOverride, ""),
		}
	}
	if record.SecretName != "" {
		store.SecretName = record.SecretName
	}
	if store.SecretName == "" && !isKnown {
		return record // the record does not say which Secret was used
	}
	found := o.identify(ctx, etcd.Namespace, store)
	record.Endpoint, record.Account, record.HostPath = cmp.Or(record.Endpoint, found.Endpoint), cmp.Or(record.Account, found.Account), cmp.Or(record.HostPath, found.HostPath)
	record.SecretName = store.SecretName

	return record
}

// copiesTo returns the EtcdCopyBackupsTasks of all namespaces that have not ended and whose target is near a store.
func (r *reader) copiesTo(ctx context.Context, store backupstore.Store) ([]etcdcluster.StoreUser, error) {
	tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
	if err := r.Reader.List(ctx, tasks); err != nil {
		return nil, fmt.Errorf("listing EtcdCopyBackupsTasks: %w", err)
	}
	var users []etcdcluster.StoreUser
	own := backupstore.RecordFor(store)
	for i := range tasks.Items {
		task := &tasks.Items[i]
		if !helper.IsCopying(task) || !mayCopyTo(task.Spec.TargetStore, own) {
			continue
		}
		target, err := r.targetOf(ctx, task)
		if err != nil {
			return nil, err
		}
		if target == nil || !backupstore.Overlap(*target, own) {
			continue
		}
		hasStarted, err := r.hasCopyStarted(ctx, task)
		if err != nil {
			return nil, err
		}
		users = append(users, etcdcluster.StoreUser{
			Namespace: task.Namespace, Name: task.Name, UID: task.UID, CreationTime: task.CreationTimestamp.Time, Deleting: task.DeletionTimestamp != nil,
			IsCopy: true, Started: hasStarted, Store: *target,
		})
	}

	return users, nil
}

// hasCopyStarted is true if the Job of a task exists, or a pod that has not ended. Pods can outlive their Job if a user deletes it. It reads only
// from the caches: tasks of all namespaces may name one store.
func (r *reader) hasCopyStarted(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (bool, error) {
	name := helper.CopyBackupsJobName(task)
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: name}, &batchv1.Job{})
	if err == nil {
		return true, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Job %s: %w", name, err)
	}
	pods := &corev1.PodList{}
	if err := r.Reader.List(ctx, pods, client.InNamespace(task.Namespace), client.MatchingLabels{
		druidv1alpha1.LabelComponentKey: druidv1alpha1.ComponentNameCopyBackupsJob, druidv1alpha1.LabelPartOfKey: task.Name,
	}); err != nil {
		return false, fmt.Errorf("listing the pods of Job %s: %w", name, err)
	}

	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
	}), nil
}

// mayCopyTo is false if the target of a task is certainly another store than own: what depends on a BackupEntry is unknown. The operator rejects a
// task without a prefix.
func mayCopyTo(target druidv1alpha1.StoreSpec, own state.Store) bool {
	known := state.Store{Provider: own.Provider, Container: cmp.Or(ptr.Deref(target.Container, ""), own.Container), Prefix: target.Prefix}
	if provider := ptr.Deref(target.Provider, ""); provider != "" {
		canonical, _ := backupstore.Canonical(provider)
		known.Provider = string(canonical)
	}

	return target.Prefix != "" && backupstore.Overlap(own, known)
}

// targetOf returns the store to which a task copies. Nil: it is not resolved, so that the task does not copy either.
func (r *reader) targetOf(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (*state.Store, error) {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Namespace, etcd.Name, etcd.Spec.Backup.Store = task.Namespace, task.Name, &task.Spec.TargetStore
	gardener, err := r.ObserveStore(ctx, etcd)
	if err != nil {
		return nil, fmt.Errorf("finding the target of EtcdCopyBackupsTask %s: %w", task.Name, err)
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{Etcd: etcd, Gardener: gardener})
	if resolution.Store == nil {
		return nil, nil
	}

	return new(r.identify(ctx, task.Namespace, *resolution.Store)), nil
}
