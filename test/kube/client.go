// SPDX-FileCopyrightText: SAP SE or an SAP affiliate company and Gardener contributors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Client is a client of the simulated API server of a Cluster. It panics on calls that it does not support.
type Client struct {
	client.Client // nil: unsupported methods panic

	cluster *Cluster
	// onWrite is called before and after each write. Nil: it is not called.
	onWrite func(Write)
	lock    *sync.Mutex
}

// Write is a write as the API server receives it.
type Write struct {
	// What is the verb and the object.
	What string
	// Done is false before the write and true after it.
	Done bool
	// Err is the result of the write.
	Err error
}

// Client returns a client that calls onWrite before and after each write. If onWrite is nil, the client calls nothing.
func (k *Cluster) Client(onWrite func(Write)) *Client {
	return &Client{cluster: k, onWrite: onWrite, lock: &sync.Mutex{}}
}

func (c *Client) write(verb string, obj client.Object, do func() error) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	return report(c.onWrite, fmt.Sprintf("%s %s %s", verb, c.cluster.api.kindOf(obj).Kind, obj.GetName()), do)
}

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.cluster.api.scheme }

// GroupVersionKindFor implements client.Client.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.cluster.api.scheme)
}

// Get implements client.Client.
func (c *Client) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	found, err := c.cluster.api.get(c.cluster.api.kindOf(obj), key)
	if err != nil {
		return err
	}
	copyFound(found, obj)
	return nil
}

// copyFound copies an object into the object of the caller. It copies only the metadata if the caller requests metadata.
func copyFound(found, obj client.Object) {
	if metadata, ok := obj.(*metav1.PartialObjectMetadata); ok {
		fieldOf(found.DeepCopyObject().(client.Object), "ObjectMeta").Addr().Interface().(*metav1.ObjectMeta).DeepCopyInto(&metadata.ObjectMeta)
		return
	}
	copyInto(obj, found)
}

// List implements client.Client.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	if _, isEvents := list.(*corev1.EventList); isEvents {
		return nil // the cluster has no events
	}
	if options.FieldSelector != nil && !options.FieldSelector.Empty() {
		panic(fmt.Sprintf("listing %T with a field selector is not supported", list))
	}
	kind := c.cluster.api.kindOf(list)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	partial, isPartial := list.(*metav1.PartialObjectMetadataList)
	var items []runtime.Object
	for _, obj := range c.cluster.api.list(kind) {
		isIn := options.Namespace == "" || options.Namespace == obj.GetNamespace()
		if !isIn || options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		if isPartial {
			item := metav1.PartialObjectMetadata{}
			item.SetGroupVersionKind(kind)
			copyFound(obj, &item)
			partial.Items = append(partial.Items, item)
		} else {
			items = append(items, obj.DeepCopyObject())
		}
	}
	if isPartial {
		return nil
	}
	return meta.SetList(list, items)
}

// Create implements client.Client.
func (c *Client) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := client.CreateOptions{}
	options.ApplyOptions(opts)
	if slices.Contains(options.DryRun, metav1.DryRunAll) {
		return c.cluster.api.create(obj, true)
	}
	return c.write("create", obj, func() error { return c.cluster.api.create(obj, false) })
}

// Update implements client.Client.
func (c *Client) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return c.write("update", obj, func() error { return c.cluster.api.replace(obj, false) })
}

// Patch implements client.Client, for merge patches.
func (c *Client) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := client.PatchOptions{}
	options.ApplyOptions(opts)
	if slices.Contains(options.DryRun, metav1.DryRunAll) {
		patched, err := c.cluster.patched(obj, patch)
		if err == nil {
			copyFound(patched, obj)
		}
		return err
	}
	return c.write("patch", obj, func() error { return c.cluster.patch(obj, patch, false) })
}

// Delete implements client.Client.
func (c *Client) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := client.DeleteOptions{}
	options.ApplyOptions(opts)
	kind, key := c.cluster.api.kindOf(obj), client.ObjectKeyFromObject(obj)
	return c.write("delete", obj, func() error {
		if c.onWrite != nil {
			c.cluster.checkDelete(kind.Kind, key, options)
		}
		return c.cluster.api.remove(kind, key, options)
	})
}

// Status implements client.Client.
func (c *Client) Status() client.SubResourceWriter { return subResource{Client: c, name: "status"} }

// SubResource implements client.Client.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return subResource{Client: c, name: name}
}

type subResource struct {
	client.SubResourceClient // nil

	*Client
	name string
}

// Get implements client.SubResourceClient.
func (subResource) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	panic("reading subresources is not supported")
}

// Create implements client.SubResourceClient, for evictions.
func (s subResource) Create(_ context.Context, obj, sub client.Object, _ ...client.SubResourceCreateOption) error {
	eviction, ok := sub.(*policyv1.Eviction)
	if s.name != "eviction" || !ok {
		panic("eviction is the only subresource that can be created")
	}
	return s.write("evict", obj, func() error { return s.cluster.evict(client.ObjectKeyFromObject(obj), eviction) })
}

// Update implements client.SubResourceClient.
func (s subResource) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.write("update status of", obj, func() error { return s.cluster.api.replace(obj, true) })
}

// Patch implements client.SubResourceClient.
func (s subResource) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.write("patch status of", obj, func() error { return s.cluster.patch(obj, patch, true) })
}

// Apply implements client.SubResourceClient.
func (subResource) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	panic("server-side apply is not supported")
}

// patch applies a merge patch (RFC 7386).
func (k *Cluster) patch(obj client.Object, patch client.Patch, status bool) error {
	next, err := k.patched(obj, patch)
	if err != nil {
		return err
	}
	if err := k.api.replace(next, status); err != nil {
		return err
	}
	copyFound(next, obj)
	return nil
}

// patched returns the stored object with a merge patch applied.
func (k *Cluster) patched(obj client.Object, patch client.Patch) (client.Object, error) {
	if patch.Type() != types.MergePatchType {
		panic(fmt.Sprintf("a patch of type %s is not supported", patch.Type()))
	}
	data, err := patch.Data(obj)
	if err != nil {
		return nil, err
	}
	kind := k.api.kindOf(obj)
	current, err := k.api.get(kind, client.ObjectKeyFromObject(obj))
	if err != nil {
		return nil, err
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return nil, err
	}
	var changes map[string]any
	if err := json.Unmarshal(data, &changes); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(mergePatch(before, changes))
	if err != nil {
		return nil, err
	}
	next := reflect.New(reflect.TypeOf(current).Elem()).Interface().(client.Object)
	if err := json.Unmarshal(encoded, next); err != nil {
		return nil, err
	}
	if next.GetUID() != current.GetUID() || next.GetResourceVersion() != current.GetResourceVersion() {
		return nil, apierrors.NewConflict(resourceOf(kind), current.GetName(), fmt.Errorf("a precondition does not hold"))
	}
	return next, k.admit(current, next)
}

func mergePatch(target any, changes map[string]any) map[string]any {
	merged, ok := target.(map[string]any)
	if !ok {
		merged = map[string]any{}
	}
	for key, change := range changes {
		switch change := change.(type) {
		case nil:
			delete(merged, key)
		case map[string]any:
			merged[key] = mergePatch(merged[key], change)
		default:
			merged[key] = change
		}
	}
	return merged
}
