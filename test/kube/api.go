// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// API simulates the API server: UIDs, generations, optimistic locking, preconditions, finalizers, the status subresource,
// and terminating namespaces.
type API struct {
	scheme *runtime.Scheme
	now    func() time.Time

	lock sync.Mutex
	// objects are never modified in place. A copy of the maps is therefore a complete copy.
	objects map[schema.GroupVersionKind]map[client.ObjectKey]client.Object
	version int64
	uids    int
}

func newAPI(scheme *runtime.Scheme, now func() time.Time) *API {
	return &API{scheme: scheme, now: now, objects: map[schema.GroupVersionKind]map[client.ObjectKey]client.Object{}}
}

func (a *API) fork(now func() time.Time) *API {
	a.lock.Lock()
	defer a.lock.Unlock()
	other := newAPI(a.scheme, now)
	other.version, other.uids = a.version, a.uids
	for kind, objects := range a.objects {
		other.objects[kind] = maps.Clone(objects)
	}
	return other
}

func (a *API) kindOf(obj runtime.Object) schema.GroupVersionKind {
	kind, err := apiutil.GVKForObject(obj, a.scheme)
	if err != nil {
		panic(fmt.Sprintf("the scheme does not know %T: %s", obj, err))
	}
	return kind
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
}

// get returns the stored object without a copy. The caller must not modify it.
func (a *API) get(kind schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.find(kind, key)
}

func (a *API) find(kind schema.GroupVersionKind, key client.ObjectKey) (client.Object, error) {
	if obj := a.objects[kind][key]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(resourceOf(kind), key.Name)
}

// list returns the stored objects of a kind without a copy, sorted by namespace and name. The caller must not modify them.
func (a *API) list(kind schema.GroupVersionKind) []client.Object {
	a.lock.Lock()
	defer a.lock.Unlock()
	return slices.SortedFunc(maps.Values(a.objects[kind]), func(x, y client.Object) int {
		return cmp.Or(cmp.Compare(x.GetNamespace(), y.GetNamespace()), cmp.Compare(x.GetName(), y.GetName()))
	})
}

func (a *API) store(kind schema.GroupVersionKind, obj client.Object) {
	a.version++
	obj.SetResourceVersion(strconv.FormatInt(a.version, 10))
	if a.objects[kind] == nil {
		a.objects[kind] = map[client.ObjectKey]client.Object{}
	}
	a.objects[kind][client.ObjectKeyFromObject(obj)] = obj
}

// create stores an object and sets the fields that the API server sets: UID, creation timestamp, generation, and an empty status.
func (a *API) create(obj client.Object, dryRun bool) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	kind, key := a.kindOf(obj), client.ObjectKeyFromObject(obj)
	if namespace, err := a.find(corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: key.Namespace}); err == nil && namespace.GetDeletionTimestamp() != nil {
		return apierrors.NewForbidden(resourceOf(kind), key.Name, fmt.Errorf("namespace %s is being terminated", key.Namespace))
	}
	if a.objects[kind][key] != nil {
		return apierrors.NewAlreadyExists(resourceOf(kind), key.Name)
	}
	if dryRun {
		return nil
	}
	a.uids++
	obj.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", a.uids)))
	obj.SetCreationTimestamp(metav1.NewTime(a.now()))
	obj.SetDeletionTimestamp(nil)
	obj.SetGeneration(1)
	setField(obj, "Status", nil)
	stored := obj.DeepCopyObject().(client.Object)
	a.store(kind, stored)
	obj.SetResourceVersion(stored.GetResourceVersion())
	return nil
}

// fieldOf returns a field of an object, for example Spec. It returns an invalid value if the object has no such field.
func fieldOf(obj client.Object, name string) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName(name)
}

// setField copies a field from another object. If from is nil, setField clears the field.
func setField(obj client.Object, name string, from client.Object) {
	field := fieldOf(obj, name)
	switch {
	case !field.IsValid() || field.Kind() != reflect.Struct:
	case from == nil:
		field.SetZero()
	default:
		field.Set(fieldOf(from.DeepCopyObject().(client.Object), name))
	}
}

// shareStatus sets the status of an object to that of a stored one, if there is one. It does not copy it: nothing modifies a stored object.
func shareStatus(obj, stored client.Object) {
	if status := fieldOf(obj, "Status"); status.IsValid() {
		status.Set(fieldOf(stored, "Status"))
	}
}

// replace updates an object, or only its status. A resource version is a precondition.
func (a *API) replace(obj client.Object, status bool) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	kind, key := a.kindOf(obj), client.ObjectKeyFromObject(obj)
	current, err := a.find(kind, key)
	if err != nil {
		return err
	}
	if version := obj.GetResourceVersion(); version != "" && version != current.GetResourceVersion() {
		return apierrors.NewConflict(resourceOf(kind), key.Name, fmt.Errorf("the object has been modified"))
	}
	next := mergedForUpdate(current, obj, status)
	if next.GetDeletionTimestamp() != nil && len(next.GetFinalizers()) == 0 {
		delete(a.objects[kind], key)
		a.version++
		copyInto(obj, next)
		return nil
	}
	if !equality.Semantic.DeepEqual(current, next) {
		a.store(kind, next)
	}
	copyInto(obj, next)
	return nil
}

// mergedForUpdate returns the current object with those changes that an update can make.
func mergedForUpdate(current, obj client.Object, status bool) client.Object {
	if status {
		next := current.DeepCopyObject().(client.Object)
		setField(next, "Status", obj)
		return next
	}
	next := obj.DeepCopyObject().(client.Object)
	shareStatus(next, current)
	next.SetUID(current.GetUID())
	next.SetResourceVersion(current.GetResourceVersion())
	next.SetCreationTimestamp(current.GetCreationTimestamp())
	next.SetDeletionTimestamp(current.GetDeletionTimestamp())
	next.SetGeneration(current.GetGeneration())
	next.SetManagedFields(nil)
	next.GetObjectKind().SetGroupVersionKind(current.GetObjectKind().GroupVersionKind())
	if spec := fieldOf(next, "Spec"); spec.IsValid() && !equality.Semantic.DeepEqual(spec.Interface(), fieldOf(current, "Spec").Interface()) {
		next.SetGeneration(current.GetGeneration() + 1)
	}
	return next
}

func copyInto(out, in client.Object) {
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(in.DeepCopyObject()).Elem())
}

// remove deletes an object. If the object has finalizers, remove only sets its deletion timestamp.
func (a *API) remove(kind schema.GroupVersionKind, key client.ObjectKey, options client.DeleteOptions) error {
	a.lock.Lock()
	defer a.lock.Unlock()
	current, err := a.find(kind, key)
	if err != nil {
		return err
	}
	if p := options.Preconditions; p != nil && (p.UID != nil && *p.UID != current.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != current.GetResourceVersion()) {
		return apierrors.NewConflict(resourceOf(kind), key.Name, fmt.Errorf("a precondition does not hold"))
	}
	next := current.DeepCopyObject().(client.Object)
	if policy := options.PropagationPolicy; policy != nil && *policy == metav1.DeletePropagationOrphan {
		next.SetFinalizers(append(next.GetFinalizers(), metav1.FinalizerOrphanDependents))
	}
	if len(next.GetFinalizers()) == 0 {
		delete(a.objects[kind], key)
		a.version++
		return nil
	}
	if next.GetDeletionTimestamp() == nil {
		now := metav1.NewTime(a.now())
		next.SetDeletionTimestamp(&now)
		next.SetGeneration(next.GetGeneration() + 1)
		a.store(kind, next)
	}
	return nil
}
