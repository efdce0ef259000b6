// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/component/copybackups"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/controller/calls"
)

var (
	sourcePath = field.NewPath("spec", "sourceStore")
	targetPath = field.NewPath("spec", "targetStore")
)

// terminal returns an error that only a change of the spec resolves.
func terminal(format string, args ...any) error {
	return reconcile.TerminalError(fmt.Errorf(format, args...))
}

// values resolves both stores of a task. The error states what is missing or invalid.
func (r *Reconciler) values(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask) (copybackups.Values, error) {
	values := copybackups.Values{Task: task, Image: r.Images.BackupRestore, InitImage: r.Images.Init}
	for _, side := range []struct {
		spec  druidv1alpha1.StoreSpec
		path  *field.Path
		store *backupstore.Store
	}{
		{task.Spec.SourceStore, sourcePath, &values.Source},
		{task.Spec.TargetStore, targetPath, &values.Target},
	} {
		if side.spec.Prefix == "" {
			// The default prefix is derived from the name of the Etcd, which a task does not have.
			return values, terminal("%s: set the prefix of the Etcd's snapshots", side.path.Child("prefix"))
		}
		store, err := r.resolve(ctx, task, side.spec, side.path)
		if err != nil {
			return values, err
		}
		*side.store = store
	}
	if errs := (backupstore.Copy{Source: values.Source, Target: values.Target}).Validate(sourcePath, targetPath); len(errs) > 0 {
		return values, reconcile.TerminalError(errs.ToAggregate())
	}
	return values, nil
}

// resolve resolves one store in the same way as the store of an Etcd, but without a pinned store.
func (r *Reconciler) resolve(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, spec druidv1alpha1.StoreSpec, path *field.Path) (backupstore.Store, error) {
	etcd := &druidv1alpha1.Etcd{}
	etcd.Namespace, etcd.Name, etcd.Spec.Backup.Store = task.Namespace, task.Name, &spec
	gardener, err := r.Observer.ObserveStore(ctx, etcd)
	if err != nil {
		return backupstore.Store{}, fmt.Errorf("finding the store of %s: %w", path, err)
	}
	resolution := backupstore.Resolve(backupstore.ResolveInput{Etcd: etcd, Gardener: gardener, Path: path})
	switch {
	case resolution.Refused:
		return backupstore.Store{}, terminal("%s", resolution.Message)
	case resolution.Store == nil:
		return backupstore.Store{}, &waitingError{fmt.Sprintf("Waiting for the store of %s: %s", path, resolution.Message)}
	}
	return r.checkSecret(ctx, task.Namespace, *resolution.Store, path)
}

// checkSecret waits for the Secret of a store, and reads the directory of a Local store from it.
func (r *Reconciler) checkSecret(ctx context.Context, namespace string, store backupstore.Store, path *field.Path) (backupstore.Store, error) {
	if store.SecretName == "" {
		store.Identity = backupstore.IdentityOf(store, namespace, nil)
		return r.locate(store, "", path)
	}
	secret := &corev1.Secret{}
	switch err := r.Reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: store.SecretName}, secret); {
	case apierrors.IsNotFound(err):
		return store, &waitingError{fmt.Sprintf("Waiting for Secret %s, which %s needs, to exist", store.SecretName, path)}
	case err != nil:
		return store, fmt.Errorf("reading Secret %s: %w", store.SecretName, err)
	}
	if key := store.UsedKey(backupstore.KeysWithWhiteSpace(secret.Data)); key != "" {
		return store, &waitingError{fmt.Sprintf("Waiting for Secret %s, which %s needs: the value of key %s begins or ends with white space, remove it", store.SecretName, path, key)}
	}
	store.Identity = backupstore.IdentityOf(store, namespace, backupstore.PublicValues(secret.Data))
	return r.locate(store, string(secret.Data[backupstore.KeyHostPath]), path)
}

// reserveTarget rejects a target to which the members of an Etcd write, and reserves it otherwise. The check is repeated under the reservation: an
// Etcd may have begun to write after the first check. An Etcd whose members have not started waits for the Job, or for the task if it is of the
// same namespace.
func (r *Reconciler) reserveTarget(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, target backupstore.Store) error {
	if err := r.checkTarget(ctx, task, target); err != nil {
		return err
	}
	if !r.Stores.Reserve(storeUser(client.ObjectKeyFromObject(task)), backupstore.RecordFor(target)) {
		return &waitingError{fmt.Sprintf("Waiting for the store of %s: another object has just begun to use it", targetPath)}
	}
	return r.checkTarget(ctx, task, target)
}

// checkTarget rejects a target to which the members of an Etcd write. A single member would restore from a copied snapshot that seems newer
// than its data.
func (r *Reconciler) checkTarget(ctx context.Context, task *druidv1alpha1.EtcdCopyBackupsTask, target backupstore.Store) error {
	users, err := r.Observer.StoreUsers(ctx, target)
	if err != nil {
		return fmt.Errorf("finding the Etcds that use the store of %s: %w", targetPath, err)
	}
	record := backupstore.RecordFor(target)
	if user := backupstore.UsedByEtcd(task.Namespace, record, users); user != nil {
		logf.FromContext(ctx).Info("Target in use", "store", record.String(), "userNamespace", user.Namespace, "userName", user.Name)
		name := "an Etcd of another namespace, which the operator's log names,"
		if user.Namespace == task.Namespace {
			name = "Etcd " + user.Name
		}
		if user.Deleting {
			return &waitingError{fmt.Sprintf("Waiting for the deletion of %s that uses %s", strings.TrimSuffix(name, ","), record)}
		}
		return terminal("%s: %s uses %s; copy to another container or prefix, or delete that Etcd and create the task again", targetPath, name, record)
	}
	return nil
}

func storeUser(task client.ObjectKey) calls.StoreUser {
	return calls.StoreUser{Key: task, IsCopy: true}
}

// locate adds the directory on the node to a Local store. It rejects a directory that the operator's configuration does not
// list.
func (r *Reconciler) locate(store backupstore.Store, hostPath string, path *field.Path) (backupstore.Store, error) {
	located, err := r.LocalStoreRoots.Locate(store, hostPath)
	if err != nil {
		return store, terminal("%s: %s", path, err)
	}
	return located, nil
}
