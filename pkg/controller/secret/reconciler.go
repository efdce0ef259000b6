// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"fmt"
	"slices"
	"time"

	secretsmanager "github.com/gardener/gardener/pkg/utils/secrets/manager"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/backupstore"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
)

// usePeriod is the time between two checks of a Secret that only pods and their manifests use, or that is being deleted. The
// controller watches neither what pods mount nor the deletion of namespaces.
const usePeriod = 10 * time.Second

// conflictPeriod is the time after which a Secret is reconciled again that has changed since the cache recorded it. A change of its
// data is no event.
const conflictPeriod = time.Second

// Reconciler adds the finalizer to Secrets that are used, and removes it from all others.
type Reconciler struct {
	// Client reads from the caches and writes to the API server.
	Client client.Client
	// Secrets reads the metadata of Secrets from the cache of the watch. The Client of the operator reads all of Secrets from the
	// API server. Only Reconcile and the watches need it.
	Secrets client.Reader
	// Reader reads from the API server.
	Reader client.Reader
	// CopyTasks is true if EtcdCopyBackupsTasks are users of Secrets. Their CustomResourceDefinition must then exist.
	CopyTasks bool
	// Disabled is true if the operator protects no Secrets. It then removes its finalizers.
	Disabled bool
}

// Reconcile reconciles the finalizer of one Secret. The Etcds and tasks that need the Secret are enough to add and to keep the
// finalizer. Before Reconcile removes it, it reads all users in the namespace: first from the caches, and then from the API server. An
// old cache could miss a new user.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	secret := newSecret()
	if err := r.Secrets.Get(ctx, req.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	facts := factsOf(secret)
	if !facts.HasFinalizer && (facts.Deleting || facts.Managed || r.Disabled) {
		return reconcile.Result{}, nil
	}
	for _, read := range []func() (secrets.SecretUsers, error){
		func() (secrets.SecretUsers, error) { return r.needing(ctx, req.NamespacedName) },
		func() (secrets.SecretUsers, error) { return r.usersIn(ctx, r.Client, req.Namespace, "") },
		func() (secrets.SecretUsers, error) { return r.usersIn(ctx, r.Reader, req.Namespace, "") },
	} {
		users, err := read()
		if err != nil {
			return reconcile.Result{}, err
		}
		action := secrets.DecideFinalizer(facts, users)
		if action == secrets.AddFinalizer || facts.Deleting {
			if users.Terminating, err = isTerminating(ctx, r.Reader, req.Namespace); err != nil {
				return reconcile.Result{}, err
			}
			action = secrets.DecideFinalizer(facts, users)
		}
		switch action {
		case secrets.LeaveFinalizer:
			return reconcile.Result{}, nil
		case secrets.KeepFinalizer:
			return reconcile.Result{RequeueAfter: usePeriod}, nil
		case secrets.AddFinalizer:
			return resultOf(r.protect(ctx, secret))
		case secrets.RemoveFinalizer:
		}
	}

	return resultOf(r.release(ctx, secret))
}

// resultOf is the result of a write. The cache may lag behind: a conflict is no failure, and the Secret is read again.
func resultOf(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictPeriod}, nil
	}

	return reconcile.Result{}, err
}

// ReleaseFor removes the finalizer from the Secrets of a namespace that have no user except the Etcd, which is about to
// disappear. If the namespace is being deleted, ReleaseFor removes the finalizer from all of them.
func (r *Reconciler) ReleaseFor(ctx context.Context, etcd *druidv1alpha1.Etcd) error {
	list, err := r.protected(ctx, etcd.Namespace)
	if err != nil || len(list) == 0 {
		return err
	}
	users, err := r.usersIn(ctx, r.Reader, etcd.Namespace, etcd.Name)
	if err != nil {
		return err
	}
	if users.Terminating, err = isTerminating(ctx, r.Reader, etcd.Namespace); err != nil {
		return err
	}
	for i := range list {
		if secrets.DecideFinalizer(factsOf(&list[i]), users) != secrets.RemoveFinalizer {
			continue
		}
		if err := r.release(ctx, &list[i]); err != nil {
			return err
		}
	}

	return nil
}

// ReleaseAll removes the finalizer from all Secrets of the namespaces, although they are used, and returns their number. Without
// namespaces, it does so in all of them. It leaves the Secrets alone that only etcd-druid uses. No operator may run meanwhile: it would
// add the finalizer again.
func (r *Reconciler) ReleaseAll(ctx context.Context, namespaces ...string) (int, error) {
	disabled := &Reconciler{Client: r.Client, Reader: r.Reader, CopyTasks: r.CopyTasks, Disabled: true}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var list []metav1.PartialObjectMetadata
	for _, namespace := range namespaces {
		protected, err := disabled.protected(ctx, namespace)
		if err != nil {
			return 0, err
		}
		list = append(list, protected...)
	}
	users, released := map[string]secrets.SecretUsers{}, 0
	for i := range list {
		namespace := list[i].Namespace
		if _, isRead := users[namespace]; !isRead {
			var err error
			if users[namespace], err = disabled.usersIn(ctx, r.Reader, namespace, ""); err != nil {
				return released, err
			}
		}
		if secrets.DecideFinalizer(factsOf(&list[i]), users[namespace]) != secrets.RemoveFinalizer {
			continue
		}
		if err := disabled.release(ctx, &list[i]); err != nil {
			return released, err
		}
		released++
	}

	return released, nil
}

// protected are the Secrets of a namespace with the finalizer, as the API server has them.
func (r *Reconciler) protected(ctx context.Context, namespace string) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := r.Reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Secrets: %w", err)
	}

	return slices.DeleteFunc(list.Items, func(secret metav1.PartialObjectMetadata) bool {
		return !controllerutil.ContainsFinalizer(&secret, druidv1alpha1.EtcdFinalizerName)
	}), nil
}

// protect adds the finalizer. A Secret that is being deleted gets none: the API server rejects it.
func (r *Reconciler) protect(ctx context.Context, secret *metav1.PartialObjectMetadata) error {
	before := secret.DeepCopy()
	controllerutil.AddFinalizer(secret, druidv1alpha1.EtcdFinalizerName)
	err := r.patch(ctx, before, secret)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		if live := newSecret(); r.Reader.Get(ctx, client.ObjectKeyFromObject(secret), live) == nil && live.DeletionTimestamp != nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("protecting Secret %s with the finalizer %s: %w", secret.Name, druidv1alpha1.EtcdFinalizerName, err)
	}
	logf.FromContext(ctx).Info("Secret is protected from deletion while it is used", "secret", client.ObjectKeyFromObject(secret))

	return nil
}

// release removes the finalizer.
func (r *Reconciler) release(ctx context.Context, secret *metav1.PartialObjectMetadata) error {
	before := secret.DeepCopy()
	controllerutil.RemoveFinalizer(secret, druidv1alpha1.EtcdFinalizerName)
	if err := r.patch(ctx, before, secret); err != nil {
		return fmt.Errorf("releasing Secret %s from the finalizer %s: %w", secret.Name, druidv1alpha1.EtcdFinalizerName, err)
	}
	logf.FromContext(ctx).Info("Secret is not used any more, and may be deleted", "secret", client.ObjectKeyFromObject(secret))

	return nil
}

// patch writes the finalizers of a Secret, unless it has changed since it was read.
func (r *Reconciler) patch(ctx context.Context, before, secret *metav1.PartialObjectMetadata) error {
	return client.IgnoreNotFound(r.Client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

// factsOf are the facts about a Secret.
func factsOf(secret *metav1.PartialObjectMetadata) secrets.ProtectedSecret {
	return secrets.ProtectedSecret{
		Name:         secret.Name,
		HasFinalizer: controllerutil.ContainsFinalizer(secret, druidv1alpha1.EtcdFinalizerName),
		Deleting:     secret.DeletionTimestamp != nil,
		Managed:      isManaged(secret),
	}
}

// isManaged is true if a secrets manager or a BackupEntry owns a Secret.
func isManaged(secret client.Object) bool {
	return secret.GetLabels()[secretsmanager.LabelKeyManagedBy] == secretsmanager.LabelValueSecretsManager ||
		secret.GetAnnotations()[backupstore.AnnotationCreatedBy] != ""
}

// newSecret is an empty Secret of which only the metadata is read.
func newSecret() *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))

	return secret
}
