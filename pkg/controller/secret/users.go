// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"fmt"
	"maps"
	"slices"

	resourcesv1alpha1 "github.com/gardener/gardener/pkg/apis/resources/v1alpha1"
	"github.com/gardener/gardener/pkg/utils/managedresources"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/helper"
	druidv1alpha1 "github.com/gardener/gardener-extension-etcd-druid/pkg/apis/druid/v1alpha1"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/secrets"
	"github.com/gardener/gardener-extension-etcd-druid/pkg/state"
)

// needing reads the Etcds and tasks that need a Secret, from the caches.
func (r *Reconciler) needing(ctx context.Context, secret client.ObjectKey) (secrets.SecretUsers, error) {
	users := secrets.SecretUsers{Disabled: r.Disabled}
	options := []client.ListOption{client.InNamespace(secret.Namespace), client.MatchingFields{NeededIndex: secret.Name}, client.UnsafeDisableDeepCopy}
	resources := &resourcesv1alpha1.ManagedResourceList{}
	if err := r.Client.List(ctx, resources, options...); err != nil {
		return users, fmt.Errorf("listing ManagedResources: %w", err)
	}
	for i := range resources.Items {
		name, _ := helper.EtcdNameOfManagedResource(resources.Items[i].Name)
		etcd := &druidv1alpha1.Etcd{}
		switch err := r.Client.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: name}, etcd); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return users, fmt.Errorf("reading Etcd %s: %w", name, err)
		}
		users.Users = append(users.Users, secrets.SecretUser{Needed: []string{secret.Name}, Protects: protects(etcd)})
	}
	if !r.CopyTasks {
		return users, nil
	}
	tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
	if err := r.Client.List(ctx, tasks, options...); err != nil {
		return users, fmt.Errorf("listing EtcdCopyBackupsTasks: %w", err)
	}
	for i := range tasks.Items {
		users.Users = append(users.Users, secrets.SecretUser{Needed: []string{secret.Name}, Protects: protects(&tasks.Items[i])})
	}

	return users, nil
}

// usersIn reads the users of Secrets in a namespace. The Etcd with the name released counts as a user that needs no Secret any
// more. Empty: there is no such Etcd.
func (r *Reconciler) usersIn(ctx context.Context, reader client.Reader, namespace, released string) (secrets.SecretUsers, error) {
	mounted, err := mountedIn(ctx, reader, namespace)
	if err != nil {
		return secrets.SecretUsers{}, err
	}
	users := secrets.SecretUsers{Disabled: r.Disabled}
	if users.Users, err = etcdUsers(ctx, reader, namespace, mounted, released); err != nil {
		return users, err
	}
	if r.CopyTasks {
		tasks, err := copyUsers(ctx, reader, namespace)
		if err != nil {
			return users, err
		}
		users.Users = append(users.Users, tasks...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(mounted), owner.compare) {
		users.Users = append(users.Users, secrets.SecretUser{Mounted: mounted[key].secrets})
	}

	return users, nil
}

// etcdUsers are the Etcds of a namespace. They take what their objects mount out of mounted.
func etcdUsers(ctx context.Context, reader client.Reader, namespace string, mounted map[owner]mounts, released string) ([]secrets.SecretUser, error) {
	etcds, resources := &druidv1alpha1.EtcdList{}, &resourcesv1alpha1.ManagedResourceList{}
	if err := reader.List(ctx, etcds, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Etcds: %w", err)
	}
	if err := reader.List(ctx, resources, client.InNamespace(namespace), client.MatchingLabels{managedresources.LabelKeyOrigin: druidv1alpha1.ManagedResourceOrigin}); err != nil {
		return nil, fmt.Errorf("listing ManagedResources: %w", err)
	}
	managed := map[string]*resourcesv1alpha1.ManagedResource{}
	for i := range resources.Items {
		managed[resources.Items[i].Name] = &resources.Items[i]
	}
	var users []secrets.SecretUser
	for i := range etcds.Items {
		etcd := &etcds.Items[i]
		key := owner{name: etcd.Name}
		if etcd.Name == released {
			users = append(users, secrets.SecretUser{})

			continue
		}
		owned := mounted[key]
		delete(mounted, key)
		user, isKnown := secrets.SecretUser{Mounted: owned.secrets, Protects: protects(etcd)}, true
		if resource := managed[helper.ManagedResourceName(etcd)]; resource != nil {
			user.Needed, isKnown = acceptedSecrets(resource)
		} else {
			user.EtcdDruid = etcd.DeletionTimestamp == nil && owned.hasStatefulSet
		}
		if user.EtcdDruid || !isKnown {
			user.Mounted = append(user.Mounted, referencedBy(etcd)...)
		}
		users = append(users, user)
	}

	return users, nil
}

// copyUsers are the running copies of a namespace.
func copyUsers(ctx context.Context, reader client.Reader, namespace string) ([]secrets.SecretUser, error) {
	tasks := &druidv1alpha1.EtcdCopyBackupsTaskList{}
	if err := reader.List(ctx, tasks, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing EtcdCopyBackupsTasks: %w", err)
	}
	var users []secrets.SecretUser
	for i := range tasks.Items {
		if task := &tasks.Items[i]; protects(task) {
			users = append(users, secrets.SecretUser{Needed: NeededBy(task), Protects: true})
		}
	}

	return users, nil
}

// protects is true if the operator reconciles an Etcd or a task, and it is not being deleted.
func protects(user client.Object) bool {
	return user.GetDeletionTimestamp() == nil && controllerutil.ContainsFinalizer(user, druidv1alpha1.EtcdFinalizerName)
}

// acceptedSecrets are the Secrets that the last accepted generation of an Etcd needs. False: its ManagedResource does not say which.
func acceptedSecrets(resource *resourcesv1alpha1.ManagedResource) ([]string, bool) {
	recorded, err := state.Decode(resource.Annotations)
	if err != nil {
		return nil, false
	}

	return secrets.NeededBy(recorded)
}

// referencedBy are the names of the Secrets in a spec. If fields contradict each other, the names of the current fields are used.
func referencedBy(etcd *druidv1alpha1.Etcd) []string {
	canonical, errs := helper.Canonical(etcd)
	if len(errs) > 0 || canonical == nil {
		canonical = etcd
	}

	return helper.ReferencedSecrets(canonical)
}

// owner is an Etcd or a task with objects that mount Secrets.
type owner struct {
	name   string
	isCopy bool
}

func ownerOf(obj client.Object) owner {
	labels := obj.GetLabels()

	return owner{name: labels[druidv1alpha1.LabelPartOfKey], isCopy: labels[druidv1alpha1.LabelComponentKey] == druidv1alpha1.ComponentNameCopyBackupsJob}
}

func (o owner) compare(other owner) int {
	switch {
	case o == other:
		return 0
	case o.name < other.name || o.name == other.name && !o.isCopy:
		return -1
	}

	return 1
}

// mounts is what the objects of one owner mount.
type mounts struct {
	secrets        []string
	hasStatefulSet bool
}

// mountedIn returns what the StatefulSets, Jobs and pods of a namespace mount.
func mountedIn(ctx context.Context, reader client.Reader, namespace string) (map[owner]mounts, error) {
	ours := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{druidv1alpha1.LabelManagedByKey: druidv1alpha1.LabelManagedByValue}}
	sets, jobs, pods := &appsv1.StatefulSetList{}, &batchv1.JobList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{sets, jobs, pods} {
		if err := reader.List(ctx, list, ours...); err != nil {
			return nil, fmt.Errorf("listing what mounts Secrets: %w", err)
		}
	}
	mounted := map[owner]mounts{}
	add := func(obj client.Object, spec corev1.PodSpec) mounts {
		key := ownerOf(obj)
		known := mounted[key]
		known.secrets = append(known.secrets, secretsIn(spec)...)
		mounted[key] = known

		return known
	}
	for i := range sets.Items {
		known := add(&sets.Items[i], sets.Items[i].Spec.Template.Spec)
		known.hasStatefulSet = true
		mounted[ownerOf(&sets.Items[i])] = known
	}
	for i := range jobs.Items {
		if !isFinished(&jobs.Items[i]) {
			add(&jobs.Items[i], jobs.Items[i].Spec.Template.Spec)
		}
	}
	for i := range pods.Items {
		if phase := pods.Items[i].Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed {
			add(&pods.Items[i], pods.Items[i].Spec)
		}
	}

	return mounted, nil
}

// isFinished is true if a Job starts no pod any more.
func isFinished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(condition batchv1.JobCondition) bool {
		return (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue
	})
}

// secretsIn are the Secrets that a pod mounts or reads into its environment.
func secretsIn(spec corev1.PodSpec) []string {
	var names []string
	for _, volume := range spec.Volumes {
		if volume.Secret != nil {
			names = append(names, volume.Secret.SecretName)
		}
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				if source.Secret != nil {
					names = append(names, source.Secret.Name)
				}
			}
		}
	}
	for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, variable := range container.Env {
			if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
				names = append(names, variable.ValueFrom.SecretKeyRef.Name)
			}
		}
	}

	return names
}

// isTerminating is true if the namespace is being deleted or does not exist.
func isTerminating(ctx context.Context, reader client.Reader, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		if apierrors.IsNotFound(err) {
			return true, nil
		}

		return false, fmt.Errorf("reading Namespace %s: %w", name, err)
	}

	return namespace.DeletionTimestamp != nil, nil
}
